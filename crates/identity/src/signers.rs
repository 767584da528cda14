//! The signer set, k of n (a threshold), and the chain of sets that leads from the founding to now.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::envelope::{BadEnvelope, Envelope, Payload};
use crate::id::{Digest, Hasher, OrgId};
use crate::key::PublicKey;
use crate::principal::SignerName;
use crate::time::Timestamp;

/// One operator's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signer {
    pub name: SignerName,
    pub key: PublicKey,
}

/// Keys and how many of them must agree. Built only through `new`, so it can always be met and never by nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, try_from = "RawQuorum")]
pub struct Quorum {
    threshold: usize,
    signers: Vec<Signer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQuorum {
    threshold: usize,
    signers: Vec<Signer>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadQuorum {
    #[error("{threshold} of {signers} cannot be met")]
    CannotBeMet { threshold: usize, signers: usize },
    #[error("the key of `{0}` or its name is listed twice")]
    Twice(SignerName),
    #[error("the key of `{0}` is not an Ed25519 key")]
    NotEd25519(SignerName),
}

impl TryFrom<RawQuorum> for Quorum {
    type Error = BadQuorum;
    fn try_from(raw: RawQuorum) -> Result<Self, BadQuorum> {
        Self::new(raw.threshold, raw.signers)
    }
}

impl Quorum {
    pub fn new(threshold: usize, signers: Vec<Signer>) -> Result<Self, BadQuorum> {
        if threshold == 0 || threshold > signers.len() || signers.len() > 32 {
            return Err(BadQuorum::CannotBeMet { threshold, signers: signers.len() });
        }
        let (mut keys, mut names) = (BTreeSet::new(), BTreeSet::new());
        for signer in &signers {
            if !keys.insert(signer.key) || !names.insert(&signer.name) {
                return Err(BadQuorum::Twice(signer.name.clone()));
            }
            if !matches!(signer.key, PublicKey::Ed25519(_)) {
                return Err(BadQuorum::NotEd25519(signer.name.clone()));
            }
        }
        Ok(Self { threshold, signers })
    }

    pub const fn threshold(&self) -> usize {
        self.threshold
    }

    pub fn signers(&self) -> &[Signer] {
        &self.signers
    }

    pub fn key_of(&self, name: &SignerName) -> Option<PublicKey> {
        self.signers.iter().find(|signer| signer.name == *name).map(|signer| signer.key)
    }

    pub fn keys(&self) -> BTreeSet<PublicKey> {
        self.signers.iter().map(|signer| signer.key).collect()
    }

    pub fn open<T: Payload>(&self, org: OrgId, envelope: &Envelope) -> Result<T, BadEnvelope> {
        envelope.open_with_threshold(Some(org), &self.keys(), self.threshold)
    }
}

/// A signer set in force: version 1 stands in the founding record, each later one is signed by its predecessor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignerSet {
    pub org: OrgId,
    pub version: u64,
    /// Of version 1 the founding record's digest; of a later one a digest over org, version, keys and threshold, so that
    /// several successions may lead to one set.
    pub id: Digest,
    pub quorum: Quorum,
}

/// The signed object that replaces a set by its successor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Succession {
    pub version: u64,
    /// The set that it follows, by its id.
    pub previous: Digest,
    /// Rivals of that set, whose thresholds signed it, too: it follows them all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Digest>,
    pub quorum: Quorum,
    /// The head that stands in until the new set has signed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Digest>,
}

impl Payload for Succession {
    const KIND: &'static str = "signers";
    const SCHEMA: u32 = 1;
}

/// The signed object by which the recovery set replaces a signer set that was lost. Whoever meets it waits first, and
/// shouts; a successor that the set itself signs meanwhile wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    pub version: u64,
    pub previous: Digest,
    pub quorum: Quorum,
    /// The head that stands in until the new set has signed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Digest>,
    /// It ends a freeze: the set that follows two rivals, or the one of them that stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settles: bool,
    pub at: Timestamp,
}

impl Payload for Recovery {
    const KIND: &'static str = "recovery";
    const SCHEMA: u32 = 1;
}

/// On whose word a set followed its predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    Signers,
    Recovery,
}

/// Names one point of the chain: what an invite's code pins and a node persists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignersRef {
    pub version: u64,
    pub id: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokenChain {
    #[error("signer set {version} is not signed by the threshold of set {by}")]
    NotSigned {
        version: u64,
        by: u64,
        #[source]
        why: BadEnvelope,
    },
    #[error("signer set {found} follows set {known}, but is not its successor")]
    NotASuccessor { known: u64, found: u64 },
    #[error("the chain of signer sets ends at version {reached}, but version {floor} is known to exist")]
    EndsTooEarly { reached: u64, floor: u64 },
    #[error("signer set {version} is not the one that is known: two histories")]
    Forked { version: u64 },
    #[error("more steps to other signers were offered than any org would make")]
    TooMany,
}

impl SignerSet {
    pub fn as_ref(&self) -> SignersRef {
        SignersRef { version: self.version, id: self.id }
    }

    pub fn open<T: Payload>(&self, envelope: &Envelope) -> Result<T, BadEnvelope> {
        self.quorum.open(self.org, envelope)
    }

    /// A later set than the first.
    pub fn later(org: OrgId, version: u64, quorum: Quorum) -> Self {
        Self { org, version, id: id_of(org, version, &quorum), quorum }
    }
}

/// In whatever order the keys were listed.
fn id_of(org: OrgId, version: u64, quorum: &Quorum) -> Digest {
    let mut signers: Vec<(String, &str)> =
        quorum.signers.iter().map(|signer| (signer.key.to_string(), signer.name.as_str())).collect();
    signers.sort_unstable();
    let mut hasher = Hasher::new();
    hasher.add(b"freehold signer set v1\0");
    hasher.add(&org.0);
    hasher.add(&version.to_be_bytes());
    hasher.add(&u64::try_from(quorum.threshold).unwrap_or(u64::MAX).to_be_bytes());
    for (key, name) in signers {
        // Neither contains a line break.
        hasher.add(format!("{key} {name}\n").as_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{EdKey, Sign as _};

    #[test]
    fn a_quorum_can_always_be_met_and_never_by_nobody() {
        let ann = Signer { name: "ann".parse().unwrap(), key: EdKey::from_seed(&[1; 32]).public() };
        assert!(Quorum::new(0, vec![ann.clone()]).is_err());
        assert!(Quorum::new(2, vec![ann.clone()]).is_err());
        assert!(Quorum::new(1, vec![]).is_err());
        assert!(Quorum::new(2, vec![ann.clone(), Signer { name: "ben".parse().unwrap(), key: ann.key }]).is_err());
        assert!(serde_json::from_str::<Quorum>(r#"{"threshold":0,"signers":[]}"#).is_err());
    }
}
