//! How much trouble one asker may make: failed and unfinished attempts are counted, successes are not.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use identity::key::PublicKey;
use identity::time::{Seconds, Timestamp};
use org::refusal::Refusal;

/// Attempts per asker that may be open at once, and failures per window.
const MAX_UNFINISHED: u32 = 4_096;
const MAX_FAILED: u32 = 60;
const WINDOW: Seconds = Seconds::MINUTE;
/// Askers that are remembered; beyond it, those whose window is over are forgotten.
const MAX_ASKERS: usize = 65_536;

#[derive(Debug, Default)]
pub struct Limits {
    tallies: Mutex<HashMap<Asker, Tally>>,
}

/// Against whom attempts are counted. A member has its own account: a stranger who shares its address cannot keep it
/// from renewing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asker {
    Stranger(IpAddr),
    Member(PublicKey),
}

impl Asker {
    /// Whoever has one IPv6 address has the whole /64.
    pub fn stranger(source: IpAddr) -> Self {
        Self::Stranger(match source.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct Tally {
    window: Timestamp,
    failed: u32,
    unfinished: u32,
}

impl Limits {
    /// Opens an attempt. It counts until it is closed.
    pub fn open(&self, asker: Asker, now: Timestamp) -> Result<(), Refusal> {
        self.with(asker, now, |tally| {
            if tally.failed >= MAX_FAILED || tally.unfinished >= MAX_UNFINISHED {
                return Err(Refusal::TooManyAttempts { retry_after: WINDOW });
            }
            tally.unfinished += 1;
            Ok(())
        })
    }

    /// Closes an attempt that came to a good end.
    pub fn succeed(&self, asker: Asker, now: Timestamp) {
        self.with(asker, now, |tally| tally.unfinished = tally.unfinished.saturating_sub(1));
    }

    /// Closes an attempt that failed or was given up.
    pub fn fail(&self, asker: Asker, now: Timestamp) {
        self.with(asker, now, |tally| {
            tally.unfinished = tally.unfinished.saturating_sub(1);
            tally.failed = tally.failed.saturating_add(1);
        });
    }

    fn with<T>(&self, asker: Asker, now: Timestamp, act: impl FnOnce(&mut Tally) -> T) -> T {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        if tallies.len() >= MAX_ASKERS {
            tallies.retain(|_, tally| now.since(tally.window) <= WINDOW || tally.unfinished > 0);
        }
        let tally = tallies.entry(asker).or_insert(Tally { window: now, failed: 0, unfinished: 0 });
        if now.since(tally.window) > WINDOW {
            *tally = Tally { window: now, failed: 0, unfinished: tally.unfinished };
        }
        act(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Asker {
        Asker::stranger(address.parse().unwrap())
    }

    const NOW: Timestamp = Timestamp::from_unix(1_000_000);

    #[test]
    fn failures_close_the_door_for_a_while_and_successes_do_not() {
        let limits = Limits::default();
        let here = at("192.0.2.1");
        for _ in 0..1000 {
            limits.open(here, NOW).unwrap();
            limits.succeed(here, NOW);
        }
        for _ in 0..MAX_FAILED {
            limits.open(here, NOW).unwrap();
            limits.fail(here, NOW);
        }
        assert!(matches!(limits.open(here, NOW), Err(Refusal::TooManyAttempts { .. })));
        assert!(limits.open(at("192.0.2.2"), NOW).is_ok());
        let member = Asker::Member(PublicKey::Ed25519([1; 32]));
        assert!(limits.open(member, NOW).is_ok(), "a member at the same address");
        assert!(limits.open(here, NOW + WINDOW + Seconds(1)).is_ok());
    }

    #[test]
    fn unfinished_attempts_count_until_they_end() {
        let limits = Limits::default();
        let here = at("2001:db8::1");
        for _ in 0..MAX_UNFINISHED {
            limits.open(here, NOW).unwrap();
        }
        let neighbour = at("2001:db8::ffff:1");
        assert!(limits.open(neighbour, NOW).is_err(), "a /64 is one address");
        limits.succeed(here, NOW);
        assert!(limits.open(here, NOW).is_ok());
    }
}
