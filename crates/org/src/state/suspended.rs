//! Suspensions that the ledger has, for looking back.

use std::collections::BTreeSet;

use identity::id::Digest;
use identity::time::{Seconds, Timestamp};

use crate::state::{State, SuspensionRecord};

impl State {
    /// Every suspension of this node key, the first in history first.
    pub fn suspensions_of(&self, node_key: Digest) -> &[SuspensionRecord] {
        self.suspensions.get(&node_key).map_or(&[], Vec::as_slice)
    }

    /// By the signers' own dates, for looking back. What counts now is asked of `Suspensions`, by one's own first sight.
    pub fn is_suspended(&self, node_key: Digest, now: Timestamp) -> Option<&SuspensionRecord> {
        // A signer's first word alone: it cannot be repeated.
        let mut signers = BTreeSet::new();
        let records = self.suspensions.get(&node_key).into_iter().flatten();
        let records = records.filter(|record| signers.insert(&record.by));
        let in_force = records.filter(|record| record.at <= now + Seconds::MINUTE && now < record.until);
        in_force.max_by_key(|record| record.until)
    }
}
