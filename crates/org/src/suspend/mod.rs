//! Suspension (quarantine): one signer alone may stop a node for a day, each signer once.

pub mod suspended;

use identity::envelope::Payload;
use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

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
