//! How many programs of this machine are connected at once: so many in all, and no principal has all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use identity::principal::Principal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many are never one's alone; where there are few, a quarter.
const LEFT: usize = 64;

#[derive(Debug)]
pub struct Places {
    all: Arc<Semaphore>,
    of_one: usize,
    by: Arc<Mutex<HashMap<Principal, usize>>>,
}

/// A program that is connected; nobody knows yet for whom it asks.
pub type Place = OwnedSemaphorePermit;

/// One of a principal's, given back when dropped.
#[derive(Debug)]
pub struct Part {
    who: Principal,
    by: Arc<Mutex<HashMap<Principal, usize>>>,
}

impl Places {
    pub fn new(most: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(most)), of_one: most - LEFT.min(most / 4), by: Arc::default() }
    }

    pub fn enter(&self) -> Option<Place> {
        Arc::clone(&self.all).try_acquire_owned().ok()
    }

    pub fn of(&self, who: &Principal) -> Option<Part> {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by.entry(who.clone()).or_default();
        if *count >= self.of_one {
            return None;
        }
        *count += 1;
        drop(by);
        Some(Part { who: who.clone(), by: Arc::clone(&self.by) })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by.get_mut(&self.who) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                by.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leaves_some_to_others_and_gives_back_what_it_had() {
        let (places, user) = (Places::new(8), |name: &str| format!("spiffe://harbor/user/{name}").parse().unwrap());
        let anns: Vec<Part> = (0..6).map(|_| places.of(&user("ann")).unwrap()).collect();
        assert!(places.of(&user("ann")).is_none());
        let bobs = (places.of(&user("bob")).unwrap(), places.of(&user("bob")).unwrap());
        drop(anns);
        assert!(places.of(&user("ann")).is_some());
        drop(bobs);
        assert!(places.by.lock().unwrap().is_empty());
    }

    #[test]
    fn where_there_are_few_one_has_at_least_one() {
        assert_eq!(Places::new(16_384).of_one, 16_320);
        assert!(Places::new(1).of(&"spiffe://harbor/user/ann".parse().unwrap()).is_some());
        let places = Places::new(2);
        let all: Vec<Place> = std::iter::from_fn(|| places.enter()).collect();
        assert_eq!(all.len(), 2);
    }
}
