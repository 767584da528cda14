//! What a node says of itself, signed by its node key: what it has taken in, and how its trials went.

use identity::envelope::Payload;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest reason in a report.
pub const REASON: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub node: NodeName,
    pub node_key: PublicKey,
    pub at: Timestamp,
    /// The head that is on its disk: what that head revokes, this node refuses.
    pub head: Mark,
    /// The highest schema of manifests that this node reads.
    pub schema: u32,
    /// What the node is, of all that was offered.
    pub applied: Applied,
    /// Why the last offer of a gateway was not believed, if so.
    pub refused: Option<Refused>,
    /// Version of the agent.
    pub agent: String,
}

impl Payload for Report {
    const KIND: &'static str = "report";
    const SCHEMA: u32 = 1;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    pub version: u64,
    pub digest: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Applied {
    /// No manifest yet.
    Nothing,
    Settled {
        manifest: Digest,
    },
    OnTrial {
        manifest: Digest,
        previous: Option<Digest>,
        deadline: Timestamp,
        /// What is waited for, in words.
        waits: Vec<String>,
    },
    /// The node is what it was before.
    RolledBack {
        manifest: Digest,
        to: Option<Digest>,
        at: Timestamp,
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    pub at: Timestamp,
    pub why: String,
}

impl Report {
    /// Bounded and plain, also if the node is hostile: people read it.
    pub fn is_plain(&self) -> bool {
        let plain = |text: &str| text.chars().count() <= REASON && !text.chars().any(steers);
        let applied = match &self.applied {
            Applied::Nothing | Applied::Settled { .. } => true,
            Applied::OnTrial { waits, .. } => waits.len() <= 32 && waits.iter().all(|wait| plain(wait)),
            Applied::RolledBack { why, .. } => plain(why),
        };
        applied && plain(&self.agent) && self.refused.as_ref().is_none_or(|refused| plain(&refused.why))
    }
}

/// Makes words fit into a report.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if steers(c) { ' ' } else { c }).take(REASON).collect()
}

/// Moves a cursor, or turns the direction of writing.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
