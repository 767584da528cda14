//! A write-behind buffer of what is only observed: members seen, attempts refused. Never authority, so nobody waits until it
//! is written: it goes with the next commit, and one comes within a second, or within five while many come at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::time::Timestamp;
use ledger::error::LedgerError;
use ledger::store::{Ledger, MAX_OBSERVATIONS};

#[derive(Debug, Default)]
pub struct ObservationBuffer(Mutex<Waiting>);

/// More than this came in one wait.
const RUSH: usize = 64;

/// Do many come at once? Whoever is told something new answers: to write that down now would take time from those who have not
/// been told yet.
pub(crate) const fn rush(before: usize, now: usize) -> bool {
    now > before.saturating_add(RUSH)
}

#[derive(Debug, Default)]
struct Waiting {
    seen: BTreeMap<Digest, Timestamp>,
    refused: Vec<(Timestamp, String, String)>,
    reports: BTreeMap<Digest, (Timestamp, u64, Envelope)>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.seen.is_empty() && self.refused.is_empty() && self.reports.is_empty()
    }
}

impl ObservationBuffer {
    /// How many machines something waits of, each counted once for having been seen and once for its words.
    pub fn len(&self) -> usize {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.seen.len() + waiting.reports.len()
    }

    /// True if it is the first that waits.
    pub fn seen(&self, node_key: Digest, at: Timestamp) -> bool {
        self.add(|waiting| {
            waiting.seen.insert(node_key, at);
        })
    }

    /// What a node says of itself: when it came, the head that it has, its words. True if it is the first that waits.
    pub fn reported(&self, node_key: Digest, received_at: Timestamp, head: u64, report: Envelope) -> bool {
        self.add(|waiting| {
            waiting.reports.insert(node_key, (received_at, head, report));
        })
    }

    /// True if it is the first that waits.
    pub fn refused(&self, at: Timestamp, source: String, what: &str) -> bool {
        self.add(|waiting| {
            // No more than are kept.
            if waiting.refused.len() < MAX_OBSERVATIONS {
                // A stranger's words may be in it.
                waiting.refused.push((at, source, what.chars().take(200).collect()));
            }
        })
    }

    fn add(&self, act: impl FnOnce(&mut Waiting)) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = waiting.is_empty();
        act(&mut waiting);
        was_empty
    }

    /// Writes what waits, within the transaction that is open. True if nodes said something of themselves.
    pub fn write(&self, ledger: &Ledger) -> Result<bool, LedgerError> {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for (node_key, at) in &waiting.seen {
            ledger.log_seen(*node_key, *at)?;
        }
        for (node_key, (at, head, report)) in &waiting.reports {
            ledger.put_report(*node_key, *at, *head, report)?;
        }
        if !waiting.refused.is_empty() {
            ledger.observe(&waiting.refused)?;
        }
        Ok(!waiting.reports.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_written_when_few_came_since_or_when_another_commit_took_it_along() {
        assert!(rush(0, 10_000) && rush(5_000, 10_000));
        assert!(!rush(0, RUSH) && !rush(9_990, 10_000) && !rush(10_000, 12));
    }
}
