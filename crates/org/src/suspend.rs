//! Suspension: one signer alone may stop a node for a day, each signer once.

use std::collections::BTreeSet;

use identity::envelope::Payload;
use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

use crate::state::{State, SuspensionRecord};

/// The longest that one signer's word stands alone.
pub const LONGEST: Seconds = Seconds::DAY;
/// The longest reason: everybody who lists nodes gets it.
const REASON: usize = 200;

/// May this be written down as a reason, and shown to people?
pub fn is_plain(reason: &str) -> bool {
    reason.chars().count() <= REASON && !reason.chars().any(char::is_control)
}

/// Signed by one signer. It stands beside the head, and that signer cannot repeat it: who needs longer needs the
/// threshold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspension {
    /// Digest of the node key.
    pub node_key: Digest,
    pub name: NodeName,
    pub at: Timestamp,
    pub until: Timestamp,
    /// For people.
    pub reason: String,
}

impl Payload for Suspension {
    const KIND: &'static str = "suspension";
    const SCHEMA: u32 = 1;
}

/// Short enough, and plain.
pub(crate) fn is_sound(suspension: &Suspension) -> bool {
    suspension.at < suspension.until && suspension.until.since(suspension.at) <= LONGEST && is_plain(&suspension.reason)
}

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
