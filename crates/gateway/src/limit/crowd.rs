//! How many connections one address may hold open as a stranger, so that none can take every place.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limit::limits::Asker;

#[derive(Debug)]
pub struct Crowd {
    share: usize,
    present: Mutex<HashMap<Asker, usize>>,
}

/// A stranger's place; free again when dropped.
#[derive(Debug)]
pub struct Ticket {
    crowd: Arc<Crowd>,
    asker: Asker,
}

impl Crowd {
    /// Of so many places in all, so many for one address; never more than a quarter.
    pub fn new(places: usize, per_address: usize) -> Self {
        Self { share: per_address.min(places / 4).max(1), present: Mutex::default() }
    }

    /// Nothing if the address holds its share already.
    pub fn enter(self: &Arc<Self>, source: IpAddr) -> Option<Ticket> {
        let asker = Asker::at(source);
        let mut present = self.lock();
        let count = present.entry(asker).or_default();
        if *count >= self.share {
            return None;
        }
        *count += 1;
        Some(Ticket { crowd: Arc::clone(self), asker })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Asker, usize>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut present = self.crowd.lock();
        match present.get_mut(&self.asker) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(present.remove(&self.asker)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_takes_its_share_and_no_more() {
        let crowd = Arc::new(Crowd::new(20_000, 2_000));
        let enter = |address: &str| crowd.enter(address.parse().unwrap());
        let mut inside: Vec<_> = (0..2_000).map(|_| enter("2001:db8::1").unwrap()).collect();
        assert!(enter("2001:db8::2").is_none(), "a /64 is one address");
        assert!(enter("192.0.2.1").is_some());
        inside.pop();
        inside.push(enter("2001:db8::2").unwrap());
        assert!(enter("2001:db8::1").is_none());
        drop(inside);
        assert!(crowd.lock().is_empty(), "who has left is forgotten");
    }
}
