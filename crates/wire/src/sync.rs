//! The words of checking in, of leaving, of recovering, and of showing a gateway what it lacks.

use identity::envelope::Envelope;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckIn {
    /// What the node has.
    pub signers: u64,
    pub head: u64,
    /// The highest word of this gateway's ledger that the node was given.
    pub tip: Option<Envelope>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckedIn {
    /// The signer sets that follow the one that the node has.
    pub signers: Vec<Envelope>,
    /// The head, if it is newer.
    pub head: Option<Envelope>,
    pub tip: Envelope,
    /// Recoveries that wait: whoever sees one counts from then, and shouts.
    pub recoveries: Vec<Envelope>,
}

/// What a caller knows better than the gateway that it met.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowRequest {
    pub head: Envelope,
    pub tip: Option<Envelope>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoverRequest {
    pub recovery: Envelope,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryBegun {
    /// When it takes effect at this gateway.
    pub due_at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaveRequest {
    /// Signed by the node key.
    pub leave: Envelope,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {}

/// Documents that anybody may read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Documents {
    pub documents: Vec<Envelope>,
}
