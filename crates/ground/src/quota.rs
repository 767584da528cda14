//! How much of something one may hold, and all together: a quota, whose permits give back what they took.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub struct Quota<K> {
    of_all: usize,
    of_one: usize,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    all: usize,
    by: HashMap<K, usize>,
}

/// One of so many; given back when dropped.
#[derive(Debug)]
pub struct QuotaPermit<K: Eq + Hash> {
    quota: Arc<Quota<K>>,
    key: K,
}

impl<K: Eq + Hash> Quota<K> {
    pub fn new(of_all: usize, of_one: usize) -> Self {
        Self { of_all, of_one, taken: Mutex::new(Taken { all: 0, by: HashMap::new() }) }
    }

    /// Bounded for each one alone.
    pub fn of_each(of_one: usize) -> Self {
        Self::new(usize::MAX, of_one)
    }

    /// Nothing if all are taken, or this one has as many as one may have.
    pub fn take(self: &Arc<Self>, key: &K) -> Option<QuotaPermit<K>>
    where
        K: Clone,
    {
        let mut taken = self.lock();
        let own = taken.by.get(key).copied().unwrap_or_default();
        if taken.all >= self.of_all || own >= self.of_one {
            return None;
        }
        taken.all += 1;
        *taken.by.entry(key.clone()).or_default() += 1;
        drop(taken);
        Some(QuotaPermit { quota: Arc::clone(self), key: key.clone() })
    }

    pub fn is_full(&self) -> bool {
        self.lock().all >= self.of_all
    }

    /// Nobody has any, and nobody is remembered.
    pub fn is_empty(&self) -> bool {
        let taken = self.lock();
        taken.all == 0 && taken.by.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for QuotaPermit<K> {
    fn drop(&mut self) {
        let mut taken = self.quota.lock();
        taken.all = taken.all.saturating_sub(1);
        match taken.by.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = taken.by.remove(&self.key),
        }
    }
}

/// Whom an address stands for in a quota: whoever has one address of IPv6 has the whole /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leaves_some_to_others_and_all_leave_nothing_behind() {
        let quota = Arc::new(Quota::new(3, 2));
        let ann = [quota.take(&"ann").unwrap(), quota.take(&"ann").unwrap()];
        assert!(quota.take(&"ann").is_none() && !quota.is_full());
        let bob = quota.take(&"bob").unwrap();
        assert!(quota.is_full() && quota.take(&"eve").is_none());
        drop(ann);
        assert!(quota.take(&"ann").is_some() && quota.take(&"eve").is_some());
        drop(bob);
        assert!(quota.is_empty());
    }

    #[test]
    fn each_one_alone_may_be_bounded() {
        let quota = Arc::new(Quota::of_each(1));
        let all: Vec<_> = (0..1_000).map(|n| quota.take(&n).unwrap()).collect();
        assert!(quota.take(&7).is_none() && !quota.is_full());
        drop(all);
        assert!(quota.is_empty());
    }

    #[test]
    fn a_whole_network_of_the_newer_addresses_is_one() {
        let [a, b] = ["2001:db8::1", "2001:db8::2"].map(|text| network(text.parse().unwrap()));
        assert_eq!(a, b);
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), IpAddr::from([10, 0, 0, 1]));
    }
}
