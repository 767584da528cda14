//! The words of joining, returning and renewing.

use identity::certificate::binding::Binding;
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::principal::Principal;
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

/// The gateway's challenge: good once, on this connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Challenge {
    pub challenge: Bytes,
    /// What the binding's end must be.
    pub not_after: Timestamp,
}

/// A certificate request with the node key's word for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SvidRequest {
    /// PKCS#10; only its public key is used.
    pub request: Bytes,
    pub binding: Binding,
    /// Counts this node's SVIDs.
    pub counter: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrollRequest {
    /// Signed by the invite's key and the node key.
    pub claim: Envelope,
    pub nonce: Bytes,
    pub svid: SvidRequest,
    /// Signatures over the transcript. The invite's key signs where it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_invite: Option<Bytes>,
    pub by_node: Bytes,
    /// What the machine tells of itself to whoever must approve it: `Facts`, signed by the node key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Envelope>,
    /// How long the gateway may wait for that person before it answers.
    #[serde(default = "at_once", skip_serializing_if = "is_at_once")]
    pub wait: Seconds,
}

/// At most so long a gateway keeps a joiner waiting for a person: a stranger's connection lasts no longer than a minute.
pub const LONGEST_APPROVAL_WAIT: Seconds = Seconds(45);

const fn at_once() -> Seconds {
    Seconds(0)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
const fn is_at_once(wait: &Seconds) -> bool {
    wait.0 == 0
}

/// For a node whose SVID expired: by admission and node key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReturnRequest {
    pub admission: Digest,
    pub nonce: Bytes,
    pub svid: SvidRequest,
    pub by_node: Bytes,
    /// The highest word of this gateway's ledger that the node was given.
    pub tip: Option<Envelope>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    pub principal: Principal,
    pub svid: SvidRequest,
}

/// What a node gets in all three cases.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issued {
    pub admission: Envelope,
    /// Leaf and issuing certificate, DER.
    pub svid: Vec<Bytes>,
    /// The gateway's word about its ledger, to be shown again later.
    pub tip: Envelope,
}
