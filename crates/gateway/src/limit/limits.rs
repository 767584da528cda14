//! How much trouble one asker may make (rate limit): failed and unfinished attempts are counted, successes are not.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ground::clock;
use ground::quota::{Quota, network};
use identity::key::PublicKey;
use identity::time::{Seconds, Timestamp};
use org::refusal::Refusal;

/// How much one asker may have, and all together.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections in all; the system may allow fewer.
    pub connections: usize,
    /// Connections of strangers at one address: enough for a thousand machines that join at once from behind it.
    pub connections_per_address: usize,
    /// Attempts per asker that may be open at once.
    pub unfinished: u32,
    /// Failures per asker and minute.
    pub failed: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { connections: 20_000, connections_per_address: 2_000, unfinished: 4_096, failed: 60 }
    }
}

const WINDOW: Seconds = Seconds::MINUTE;
/// Askers that are remembered; beyond it, those whose window is over are forgotten.
const MAX_ASKERS: usize = 65_536;

#[derive(Debug, Default)]
pub struct Limits {
    bounds: Bounds,
    tallies: Mutex<HashMap<LimitKey, Tally>>,
}

/// Against whom it counts. A member has an account of its own: a stranger at its address cannot shut it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitKey {
    Stranger(IpAddr),
    Member(PublicKey),
}

impl LimitKey {
    pub fn at(source: IpAddr) -> Self {
        Self::Stranger(network(source))
    }
}

/// Of so many places in all, so many for one address; never more than a quarter.
pub(crate) fn quota_per_address(places: usize, per_address: usize) -> Arc<Quota<IpAddr>> {
    Arc::new(Quota::of_each(per_address.min(places / 4).max(1)))
}

#[derive(Debug, Clone, Copy)]
struct Tally {
    window: Timestamp,
    failed: u32,
    unfinished: u32,
}

/// An attempt that was begun. It counts against its address until it ends; if nobody says how, it has failed.
#[derive(Debug)]
pub struct AttemptGuard {
    limits: Arc<Limits>,
    asker: LimitKey,
    failed: bool,
}

impl Limits {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, tallies: Mutex::default() }
    }

    pub fn attempt(self: &Arc<Self>, asker: LimitKey, now: Timestamp) -> Result<AttemptGuard, Refusal> {
        self.with(asker, now, |tally| {
            if tally.failed >= self.bounds.failed || tally.unfinished >= self.bounds.unfinished {
                return Err(Refusal::TooManyAttempts { retry_after: WINDOW });
            }
            tally.unfinished += 1;
            Ok(())
        })?;
        Ok(AttemptGuard { limits: Arc::clone(self), asker, failed: true })
    }

    fn with<T>(&self, asker: LimitKey, now: Timestamp, act: impl FnOnce(&mut Tally) -> T) -> T {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        if tallies.len() >= MAX_ASKERS {
            tallies.retain(|_, tally| !tally.is_over(now) || tally.unfinished > 0);
        }
        let fresh = Tally { window: now, failed: 0, unfinished: 0 };
        let tally = tallies.entry(asker).or_insert(fresh);
        if tally.is_over(now) {
            (tally.window, tally.failed) = (now, 0);
        }
        act(tally)
    }
}

impl Tally {
    /// Also if the clock was put back.
    fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.window) > WINDOW || self.window.since(now) > WINDOW
    }
}

impl AttemptGuard {
    /// Still open, but no failure whatever comes of it: the asker waits, and may go away meanwhile.
    pub const fn excuse(&mut self) {
        self.failed = false;
    }

    /// It came to a good end, or to one that was not the asker's fault.
    pub fn forgive(mut self) {
        self.failed = false;
    }
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        let failed = u32::from(self.failed);
        self.limits.with(self.asker, clock::now(), |tally| {
            tally.unfinished = tally.unfinished.saturating_sub(1);
            tally.failed = tally.failed.saturating_add(failed);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> LimitKey {
        LimitKey::at(address.parse().unwrap())
    }

    #[test]
    fn an_address_takes_its_share_and_no_more() {
        let quota = quota_per_address(20_000, 2_000);
        let enter = |address: &str| quota.take(&network(address.parse().unwrap()));
        let mut inside: Vec<_> = (0..2_000).map(|_| enter("2001:db8::1").unwrap()).collect();
        assert!(enter("2001:db8::2").is_none(), "a /64 is one address");
        assert!(enter("192.0.2.1").is_some());
        inside.pop();
        inside.push(enter("2001:db8::2").unwrap());
        assert!(enter("2001:db8::1").is_none());
        drop(inside);
        assert!(quota.is_empty(), "who has left is forgotten");
        let few = quota_per_address(8, 100);
        let inside: Vec<_> = (0..2).map(|_| few.take(&network([192, 0, 2, 1].into())).unwrap()).collect();
        assert!(few.take(&network([192, 0, 2, 1].into())).is_none(), "a quarter of all places");
        drop(inside);
    }

    #[test]
    fn failures_close_the_door_for_a_while_and_successes_do_not() {
        let (limits, now) = (Arc::new(Limits::default()), clock::now());
        let here = at("192.0.2.1");
        for _ in 0..1000 {
            limits.attempt(here, now).unwrap().forgive();
        }
        for _ in 0..limits.bounds.failed {
            drop(limits.attempt(here, now).unwrap());
        }
        assert!(matches!(limits.attempt(here, now), Err(Refusal::TooManyAttempts { .. })));
        assert!(limits.attempt(at("192.0.2.2"), now).is_ok());
        assert!(limits.attempt(LimitKey::Member(PublicKey::Ed25519([1; 32])), now).is_ok(), "a member at that address");
        assert!(limits.attempt(here, now + WINDOW + Seconds(1)).is_ok());
        assert!(limits.attempt(here, now - Seconds::HOUR).is_ok(), "the clock was put back");
    }

    #[test]
    fn unfinished_attempts_count_until_they_end() {
        let (limits, now) = (Arc::new(Limits::default()), clock::now());
        let here = at("2001:db8::1");
        let mut open: Vec<_> = (0..limits.bounds.unfinished).map(|_| limits.attempt(here, now).unwrap()).collect();
        let neighbour = at("2001:db8::ffff:1");
        assert!(limits.attempt(neighbour, now).is_err(), "a /64 is one address");
        open.pop().unwrap().forgive();
        assert!(limits.attempt(here, now).is_ok());
    }
}
