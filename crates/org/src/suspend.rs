//! Suspension: one signer alone may stop a node for a day, each signer once.

use identity::envelope::{Envelope, Payload};
use identity::id::Digest;
use identity::principal::{Author, NodeName};
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

use crate::entry::SignedEntry;
use crate::state::{State, SuspensionRecord, Void};

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

impl State {
    pub(crate) fn suspend(&mut self, signed: &SignedEntry, envelope: &Envelope, name: &NodeName) -> Result<(), Void> {
        let Author::Signer(by) = &signed.entry.author else {
            return Err(Void::BeyondPower);
        };
        // By the very signer whose chain it stands in.
        let opened = envelope.open_signed_by(Some(self.org), &[signed.entry.key]);
        let suspension: Suspension = opened.map_err(|why| Void::BadObject(why.to_string()))?;
        if suspension.until <= suspension.at || suspension.until.since(suspension.at) > LONGEST {
            return Err(Void::BadObject(format!("one signer suspends for at most {LONGEST}")));
        }
        if !is_plain(&suspension.reason) {
            return Err(Void::BadObject(format!("a reason is at most {REASON} characters of plain text")));
        }
        let known = self.members.get(&suspension.node_key).filter(|member| member.is_known_to(signed.past()));
        if known.is_none_or(|_| suspension.name != *name) {
            return Err(Void::Unknown(format!("node key {}", suspension.node_key)));
        }
        let records = self.suspensions.entry(suspension.node_key).or_default();
        if records.iter().any(|earlier| earlier.by == *by && signed.past().holds(&earlier.entry)) {
            return Err(Void::Repeats);
        }
        records.push(SuspensionRecord {
            by: by.clone(),
            at: suspension.at,
            until: suspension.until,
            reason: suspension.reason,
            envelope: envelope.kept(&[signed.entry.key].into()),
            entry: signed.cut(),
            entry_digest: signed.digest,
            height: signed.height(),
        });
        records.sort_by_key(|record| (record.height, record.entry_digest));
        Ok(())
    }

    /// Every suspension of this node key, the first in history first.
    pub fn suspensions_of(&self, node_key: Digest) -> &[SuspensionRecord] {
        self.suspensions.get(&node_key).map_or(&[], Vec::as_slice)
    }

    /// By the signers' own dates, for looking back. What counts now is asked of `Suspensions`, by one's own first sight.
    pub fn is_suspended(&self, node_key: Digest, now: Timestamp) -> Option<&SuspensionRecord> {
        let records = self.suspensions.get(&node_key).into_iter().flatten();
        let in_force = records.filter(|record| record.at <= now + Seconds::MINUTE && now < record.until);
        in_force.max_by_key(|record| record.until)
    }
}
