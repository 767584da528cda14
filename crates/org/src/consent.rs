//! An operator's word that a manifest stays, for nodes whose policy wants one.

use identity::envelope::{Envelope, Payload};
use identity::id::Digest;
use identity::principal::{Author, NodeName};
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::entry::SignedEntry;
use crate::state::{State, Void};

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
    pub(crate) fn consent(&mut self, signed: &SignedEntry, envelope: &Envelope, name: &NodeName) -> Result<(), Void> {
        let Author::Signer(_) = &signed.entry.author else {
            return Err(Void::BeyondPower);
        };
        // By the very signer whose chain it stands in.
        let opened = envelope.open_signed_by(Some(self.org), &[signed.entry.key]);
        let consent: Consent = opened.map_err(|why| Void::BadObject(why.to_string()))?;
        let known = self.members.get(&consent.node_key).filter(|member| member.is_known_to(signed.past()));
        if known.is_none_or(|_| consent.name != *name) {
            return Err(Void::Unknown(format!("node key {}", consent.node_key)));
        }
        let kept = envelope.kept(&[signed.entry.key].into());
        let given = self.consents.entry(consent.node_key).or_default();
        given.entry(consent.manifest).and_modify(|known| known.merge(&kept)).or_insert(kept);
        Ok(())
    }

    /// The word that lets this manifest stay on this node, if it was given.
    pub fn consent_to(&self, node_key: Digest, manifest: Digest) -> Option<&Envelope> {
        self.consents.get(&node_key)?.get(&manifest)
    }
}
