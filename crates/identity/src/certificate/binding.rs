//! The binding (proof of possession): the node key's own word, inside every SVID, that this SVID key may speak on this
//! node.
//!
//! It is why a stolen issuing key cannot speak for an existing member: the thief lacks the node key.

use serde::{Deserialize, Serialize};

use crate::id::{Digest, KeyId, OrgId};
use crate::key::{BadKey, BadSignature, PublicKey, Sign};
use crate::principal::{NodeName, Principal};
use crate::text::Bytes;
use crate::time::Timestamp;

/// The extension's object identifier. The arc 2.25 takes numbers that nobody has to register.
pub const OID: &[u64] = &[2, 25, 7_254_907_135_886_101_403];

/// What the node key vouches for.
#[derive(Debug, Clone, Copy)]
pub struct BindingTerms<'a> {
    pub org: OrgId,
    pub principal: &'a Principal,
    pub node: &'a NodeName,
    pub svid_key: KeyId,
    pub not_after: Timestamp,
}

/// What travels in the certificate; the rest of the terms is read from the certificate itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    pub node: NodeName,
    pub node_key: PublicKey,
    pub not_after: Timestamp,
    signature: Bytes,
}

impl BindingTerms<'_> {
    pub fn sign(&self, node_key: &dyn Sign) -> Result<Binding, BadKey> {
        Ok(Binding {
            node: self.node.clone(),
            node_key: node_key.public(),
            not_after: self.not_after,
            signature: Bytes(node_key.sign(&self.message())?),
        })
    }

    fn message(&self) -> Vec<u8> {
        let mut out = b"freehold binding v1\0".to_vec();
        out.extend_from_slice(&self.org.0);
        for text in [self.principal.to_string(), self.node.to_string()] {
            out.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(&self.svid_key.0);
        out.extend_from_slice(&self.not_after.unix().to_be_bytes());
        out
    }
}

impl Binding {
    pub fn check(&self, org: OrgId, principal: &Principal, svid_key: KeyId) -> Result<(), BadSignature> {
        let terms = BindingTerms { org, principal, node: &self.node, svid_key, not_after: self.not_after };
        // A node's own SVID is bound to itself; a TLS key is P-256, so that a TPM can hold it.
        if principal.node_name().is_some_and(|name| name != self.node) || !matches!(self.node_key, PublicKey::P256(_)) {
            return Err(BadSignature);
        }
        self.node_key.verify(&terms.message(), &self.signature.0)
    }

    /// As the transcript covers it.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_der())
    }

    /// The extension's value: JSON inside a DER UTF8String.
    pub fn to_der(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        let mut out = vec![0x0c];
        if let Ok(short @ ..0x80) = u8::try_from(json.len()) {
            out.push(short);
        } else {
            out.push(0x82);
            out.extend_from_slice(&u16::try_from(json.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
        out.extend_from_slice(&json);
        out
    }

    pub fn from_der(der: &[u8]) -> Option<Self> {
        let json = match der {
            [0x0c, 0x82, high, low, rest @ ..]
                if rest.len() == usize::from(u16::from_be_bytes([*high, *low])) && rest.len() >= 0x80 =>
            {
                rest
            }
            [0x0c, short @ ..0x80, rest @ ..] if rest.len() == usize::from(*short) => rest,
            _ => return None,
        };
        serde_json::from_slice(json).ok()
    }
}
