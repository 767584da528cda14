//! A rate limit for handshakes of one address: where they fail, it has one at a time, and no faster than the pace.
//!
//! To be sent away costs a fraction of what a stranger spends on a handshake.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ground::quota::network;

/// Of one address: machines behind one address, or one that has just come back, want many at once.
pub(crate) const OF_ONE_ADDRESS: usize = 256;
/// So many handshakes may fail from one address within the time; then it has one at a time, and no more of them than the pace
/// says, until it has been calm so long.
pub(crate) const FAILURES: u32 = 16;
pub(crate) const CALM: Duration = Duration::from_secs(10);
pub(crate) const PACE: Duration = Duration::from_millis(100);
/// Addresses that are remembered: a flood from more of them forgets those that do nothing.
const ADDRESSES: usize = 16_384;

#[derive(Debug, Default)]
pub(crate) struct AddressLimits(HashMap<IpAddr, Address>);

#[derive(Debug, Default)]
struct Address {
    at_once: usize,
    failures: u32,
    failed: Option<Instant>,
    /// When it was last let try although it is suspect.
    tried: Option<Instant>,
}

impl AddressLimits {
    /// May whoever comes from there begin a handshake? Then it is counted until `end`.
    pub(crate) fn begin(&mut self, from: IpAddr, now: Instant) -> bool {
        if self.0.len() >= ADDRESSES {
            self.0.retain(|_, known| known.at_once > 0 || known.is_suspect(now));
            if self.0.len() >= ADDRESSES {
                self.0.retain(|_, known| known.at_once > 0);
            }
        }
        let known = self.0.entry(network(from)).or_default();
        if known.failed.is_some_and(|at| now.duration_since(at) >= CALM) {
            (known.failures, known.failed, known.tried) = (0, None, None);
        }
        if !known.may_try(now) {
            return false;
        }
        known.tried = known.is_suspect(now).then_some(now);
        known.at_once += 1;
        true
    }

    /// Nothing is counted.
    pub(crate) fn would_refuse(&self, from: IpAddr, now: Instant) -> bool {
        self.0.get(&network(from)).is_some_and(|known| !known.may_try(now))
    }

    pub(crate) fn end(&mut self, from: IpAddr, is_peer: bool) {
        let address = network(from);
        if let Some(known) = self.0.get_mut(&address) {
            known.at_once = known.at_once.saturating_sub(1);
            if !is_peer {
                known.failures = known.failures.saturating_add(1);
                known.failed = Some(Instant::now());
            } else if known.at_once == 0 {
                self.0.remove(&address);
            } else {
                // A member is there: what a busy one breaks off, since another way was faster, is no flood.
                (known.failures, known.failed, known.tried) = (0, None, None);
            }
        }
    }
}

impl Address {
    fn is_suspect(&self, now: Instant) -> bool {
        self.failures >= FAILURES && self.failed.is_some_and(|at| now.duration_since(at) < CALM)
    }

    fn may_try(&self, now: Instant) -> bool {
        if self.is_suspect(now) {
            self.at_once == 0 && self.tried.is_none_or(|at| now.duration_since(at) >= PACE)
        } else {
            self.at_once < OF_ONE_ADDRESS
        }
    }
}
