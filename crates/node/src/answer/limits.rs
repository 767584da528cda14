//! How much trouble one address may make: failed and unfinished attempts are counted, successes are not.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use identity::time::{Seconds, Timestamp};
use org::refusal::Refusal;

/// Attempts per address that may be open at once, and failures per window.
const MAX_UNFINISHED: u32 = 4_096;
const MAX_FAILED: u32 = 60;
const WINDOW: Seconds = Seconds::MINUTE;
/// Addresses that are remembered; beyond it, those whose window is over are forgotten.
const MAX_ADDRESSES: usize = 65_536;

#[derive(Debug, Default)]
pub struct Limits {
    by_address: Mutex<HashMap<IpAddr, Tally>>,
}

#[derive(Debug, Clone, Copy)]
struct Tally {
    window: Timestamp,
    failed: u32,
    unfinished: u32,
}

impl Limits {
    /// Opens an attempt. It counts until it is closed.
    pub fn open(&self, source: IpAddr, now: Timestamp) -> Result<(), Refusal> {
        self.with(source, now, |tally| {
            if tally.failed >= MAX_FAILED || tally.unfinished >= MAX_UNFINISHED {
                return Err(Refusal::TooManyAttempts { retry_after: WINDOW });
            }
            tally.unfinished += 1;
            Ok(())
        })
    }

    /// Closes an attempt that came to a good end.
    pub fn succeed(&self, source: IpAddr, now: Timestamp) {
        self.with(source, now, |tally| tally.unfinished = tally.unfinished.saturating_sub(1));
    }

    /// Closes an attempt that failed or was given up.
    pub fn fail(&self, source: IpAddr, now: Timestamp) {
        self.with(source, now, |tally| {
            tally.unfinished = tally.unfinished.saturating_sub(1);
            tally.failed = tally.failed.saturating_add(1);
        });
    }

    fn with<T>(&self, source: IpAddr, now: Timestamp, act: impl FnOnce(&mut Tally) -> T) -> T {
        let mut tallies = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if tallies.len() >= MAX_ADDRESSES {
            tallies.retain(|_, tally| now.since(tally.window) <= WINDOW || tally.unfinished > 0);
        }
        let tally = tallies.entry(network_of(source)).or_insert(Tally { window: now, failed: 0, unfinished: 0 });
        if now.since(tally.window) > WINDOW {
            *tally = Tally { window: now, failed: 0, unfinished: tally.unfinished };
        }
        act(tally)
    }
}

/// Whoever has one IPv6 address has the whole /64.
fn network_of(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_unix(1_000_000);

    #[test]
    fn failures_close_the_door_for_a_while_and_successes_do_not() {
        let limits = Limits::default();
        let here: IpAddr = "192.0.2.1".parse().unwrap();
        for _ in 0..1000 {
            limits.open(here, NOW).unwrap();
            limits.succeed(here, NOW);
        }
        for _ in 0..MAX_FAILED {
            limits.open(here, NOW).unwrap();
            limits.fail(here, NOW);
        }
        assert!(matches!(limits.open(here, NOW), Err(Refusal::TooManyAttempts { .. })));
        assert!(limits.open("192.0.2.2".parse().unwrap(), NOW).is_ok());
        assert!(limits.open(here, NOW + WINDOW + Seconds(1)).is_ok());
    }

    #[test]
    fn unfinished_attempts_count_until_they_end() {
        let limits = Limits::default();
        let here: IpAddr = "2001:db8::1".parse().unwrap();
        for _ in 0..MAX_UNFINISHED {
            limits.open(here, NOW).unwrap();
        }
        let neighbour: IpAddr = "2001:db8::ffff:1".parse().unwrap();
        assert!(limits.open(neighbour, NOW).is_err(), "a /64 is one address");
        limits.succeed(here, NOW);
        assert!(limits.open(here, NOW).is_ok());
    }
}
