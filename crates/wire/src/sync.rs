//! The words of checking in and of the long poll for news, of leaving, of recovering, and of showing what a gateway lacks.

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::members::Listing;
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
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

/// What a node has, and how long it is willing to wait for something else.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncRequest {
    pub signers: u64,
    pub head: u64,
    /// Of that head: others may stand at its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The mark of the heads beside it that it was told of here, or else of those that it keeps; nothing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rivals: Option<Digest>,
    /// The head for which this node knows how it is listed; 0 if for none.
    pub listed: u64,
    /// Manifests that are on its disk.
    pub have: Vec<Digest>,
    /// A manifest for which it waits for an operator's word.
    pub waits_for: Option<Digest>,
    /// Recoveries that it knows of.
    pub sighted: Vec<Digest>,
    /// The mark of the suspensions that it was told of here, or else of those that it has; nothing if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Digest>,
    pub tip: Option<Envelope>,
    pub wait: Seconds,
    /// What it says of itself, if that changed.
    pub report: Option<Envelope>,
}

/// At most so long a gateway keeps a node waiting.
pub const LONGEST_WAIT: Seconds = Seconds(110);

/// Gateways put into it what they have written before, for all nodes at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "E: Deserialize<'de>, M: Deserialize<'de>"))]
pub struct SyncAnswer<E = Envelope, M = Bytes> {
    pub signers: Vec<E>,
    /// The head, if it is newer.
    pub head: Option<E>,
    /// All heads beside the head in force that take away what it does not, if the node was told of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rivals: Option<Vec<E>>,
    /// How the node stands in the map of the newest head, if it does not know.
    pub listing: Option<Listing>,
    /// The manifest that the listing names, if the node does not have it.
    pub manifest: Option<M>,
    /// An operator's word that the manifest stays.
    pub consent: Option<E>,
    pub tip: E,
    pub recoveries: Vec<E>,
    /// All suspensions that are known here, if the node has others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspensions: Option<Vec<E>>,
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
