//! How many programs of this machine are connected at once: so many in all, and a quota for each principal.

use std::sync::Arc;

use ground::quota::{Quota, QuotaPermit};
use identity::principal::Principal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many are never one's alone; where there are few, a quarter.
const LEFT: usize = 64;

#[derive(Debug)]
pub(crate) struct ProgramLimits {
    all: Arc<Semaphore>,
    by_principal: Arc<Quota<Principal>>,
}

/// A program that is connected; nobody knows yet for whom it asks.
pub(crate) type ProgramPermit = OwnedSemaphorePermit;

/// One of a principal's, given back when dropped.
pub(crate) type PrincipalPermit = QuotaPermit<Principal>;

impl ProgramLimits {
    pub(crate) fn new(most: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(most)), by_principal: Arc::new(Quota::of_each(of_one(most))) }
    }

    pub(crate) fn enter(&self) -> Option<ProgramPermit> {
        Arc::clone(&self.all).try_acquire_owned().ok()
    }

    pub(crate) fn of(&self, who: &Principal) -> Option<PrincipalPermit> {
        self.by_principal.take(who)
    }
}

fn of_one(most: usize) -> usize {
    most - LEFT.min(most / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leaves_some_to_others_and_gives_back_what_it_had() {
        let (limits, user) =
            (ProgramLimits::new(8), |name: &str| format!("spiffe://harbor/user/{name}").parse().unwrap());
        let anns: Vec<PrincipalPermit> = (0..6).map(|_| limits.of(&user("ann")).unwrap()).collect();
        assert!(limits.of(&user("ann")).is_none());
        let bobs = (limits.of(&user("bob")).unwrap(), limits.of(&user("bob")).unwrap());
        drop(anns);
        assert!(limits.of(&user("ann")).is_some());
        drop(bobs);
        assert!(limits.by_principal.is_empty());
    }

    #[test]
    fn where_there_are_few_one_has_at_least_one() {
        assert_eq!(of_one(16_384), 16_320);
        assert!(ProgramLimits::new(1).of(&"spiffe://harbor/user/ann".parse().unwrap()).is_some());
        let limits = ProgramLimits::new(2);
        let all: Vec<ProgramPermit> = std::iter::from_fn(|| limits.enter()).collect();
        assert_eq!(all.len(), 2);
    }
}
