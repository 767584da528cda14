//! Consent (a readiness gate): an operator's word that a manifest stays, for nodes whose policy wants one.

use identity::envelope::Payload;
use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Signed by one signer: it broadens nothing, it only lets stay what the threshold has signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consent {
    /// Digest of the node key.
    pub node_key: Digest,
    pub name: NodeName,
    pub manifest: Digest,
    pub at: Timestamp,
}

impl Payload for Consent {
    const KIND: &'static str = "consent";
    const SCHEMA: u32 = 1;
}
