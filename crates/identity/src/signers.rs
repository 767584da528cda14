//! The signer set, k of n, and the chain of sets that leads from the founding to now.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::envelope::{BadEnvelope, Envelope, Payload};
use crate::id::{Digest, OrgId};
use crate::key::PublicKey;
use crate::principal::SignerName;

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
    /// The digest of the object that brought it: the founding record's for version 1.
    pub id: Digest,
    pub quorum: Quorum,
}

/// The signed object that replaces a set by its successor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Succession {
    pub version: u64,
    pub previous: Digest,
    pub quorum: Quorum,
}

impl Payload for Succession {
    const KIND: &'static str = "signers";
    const SCHEMA: u32 = 1;
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
}

impl SignerSet {
    pub fn as_ref(&self) -> SignersRef {
        SignersRef { version: self.version, id: self.id }
    }

    pub fn open<T: Payload>(&self, envelope: &Envelope) -> Result<T, BadEnvelope> {
        self.quorum.open(self.org, envelope)
    }

    /// One step: the successor, if this set's threshold signed it.
    pub fn succeed(&self, envelope: &Envelope) -> Result<Self, BrokenChain> {
        let following = self.version.saturating_add(1);
        let not_signed = |why| BrokenChain::NotSigned { version: following, by: self.version, why };
        let next: Succession = self.open(envelope).map_err(not_signed)?;
        if self.version.checked_add(1) != Some(next.version) || next.previous != self.id {
            return Err(BrokenChain::NotASuccessor { known: self.version, found: next.version });
        }
        Ok(Self { org: self.org, version: next.version, id: envelope.digest(), quorum: next.quorum })
    }

    /// Walks from this set as far as `chain` leads; the chain must pass through `floor`.
    pub fn walk(&self, chain: &[Envelope], floor: SignersRef) -> Result<Self, BrokenChain> {
        let mut at = self.clone();
        let mut passed = at.as_ref() == floor || at.version > floor.version;
        if at.version == floor.version && at.id != floor.id {
            return Err(BrokenChain::Forked { version: at.version });
        }
        for envelope in chain {
            at = at.succeed(envelope)?;
            if at.version == floor.version {
                if at.id != floor.id {
                    return Err(BrokenChain::Forked { version: at.version });
                }
                passed = true;
            }
        }
        if passed { Ok(at) } else { Err(BrokenChain::EndsTooEarly { reached: at.version, floor: floor.version }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{EdKey, Sign as _};

    const ORG: OrgId = OrgId([7; 32]);

    fn key(n: u8) -> EdKey {
        EdKey::from_seed(&[n; 32])
    }
    fn quorum(threshold: usize, of: &[u8]) -> Quorum {
        let signer = |n: &u8| Signer { name: format!("s{n}").parse().unwrap(), key: key(*n).public() };
        Quorum::new(threshold, of.iter().map(signer).collect()).unwrap()
    }
    fn first() -> SignerSet {
        SignerSet { org: ORG, version: 1, id: Digest([1; 32]), quorum: quorum(2, &[1, 2, 3]) }
    }
    fn successor(of: &SignerSet, quorum: Quorum, by: &[u8]) -> Envelope {
        let body = Succession { version: of.version + 1, previous: of.id, quorum };
        let mut envelope = Envelope::seal(Some(ORG), &body).unwrap();
        for n in by {
            envelope.sign(&key(*n)).unwrap();
        }
        envelope
    }

    #[test]
    fn a_node_that_was_away_walks_the_chain_home() {
        let second = successor(&first(), quorum(1, &[4]), &[1, 2]);
        let at_two = first().succeed(&second).unwrap();
        let third = successor(&at_two, quorum(2, &[5, 6]), &[4]);
        let home = first().walk(&[second, third], first().as_ref()).unwrap();
        assert_eq!((home.version, home.quorum), (3, quorum(2, &[5, 6])));
    }

    #[test]
    fn a_successor_needs_the_threshold_of_the_current_set() {
        for by in [&[1][..], &[4, 5], &[]] {
            let lone = successor(&first(), quorum(1, &[4]), by);
            assert!(matches!(first().succeed(&lone), Err(BrokenChain::NotSigned { version: 2, .. })), "{by:?}");
        }
    }

    #[test]
    fn a_chain_of_another_history_is_refused() {
        let ours = first().succeed(&successor(&first(), quorum(1, &[4]), &[1, 2])).unwrap();
        let theirs = successor(&first(), quorum(1, &[9]), &[2, 3]);
        assert_eq!(first().walk(&[theirs], ours.as_ref()), Err(BrokenChain::Forked { version: 2 }));
        assert_eq!(first().walk(&[], ours.as_ref()), Err(BrokenChain::EndsTooEarly { reached: 1, floor: 2 }));
    }

    #[test]
    fn a_step_cannot_be_skipped_or_repeated() {
        let second = successor(&first(), quorum(2, &[1, 2, 3]), &[1, 2]);
        let at_two = first().succeed(&second).unwrap();
        assert!(matches!(at_two.succeed(&second), Err(BrokenChain::NotASuccessor { known: 2, found: 2 })));
    }

    #[test]
    fn a_quorum_can_always_be_met_and_never_by_nobody() {
        let ann = Signer { name: "ann".parse().unwrap(), key: key(1).public() };
        assert!(Quorum::new(0, vec![ann.clone()]).is_err());
        assert!(Quorum::new(2, vec![ann.clone()]).is_err());
        assert!(Quorum::new(1, vec![]).is_err());
        assert!(Quorum::new(2, vec![ann.clone(), Signer { name: "ben".parse().unwrap(), key: ann.key }]).is_err());
        assert!(serde_json::from_str::<Quorum>(r#"{"threshold":0,"signers":[]}"#).is_err());
    }
}
