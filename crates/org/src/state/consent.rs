//! An operator's word that a manifest stays, for nodes whose policy wants one.

use identity::envelope::{Envelope, Payload};
use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::state::State;

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

impl State {
    /// The word that lets this manifest stay on this node, if it was given.
    pub fn consent_to(&self, node_key: Digest, manifest: Digest) -> Option<&Envelope> {
        self.consents.get(&node_key)?.get(&manifest)
    }
}
