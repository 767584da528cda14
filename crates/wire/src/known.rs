//! What a caller knows of an org for certain: founding record, signer chain, head. It only grows.

use identity::envelope::Envelope;
use identity::head::{BadHead, SignedHead};
use identity::id::OrgId;
use identity::signers::{BrokenChain, SignerSet};
use org::founding::{BadFounding, Founding};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone)]
pub struct Known {
    pub founding: Founding,
    /// The successions from set 1 to `signers`.
    pub chain: Vec<Envelope>,
    pub signers: SignerSet,
    pub head: SignedHead,
    pub head_envelope: Envelope,
}

/// As it is kept on disk; checked again whenever it is read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFile {
    pub schema: u32,
    pub founding: Envelope,
    pub signers: Vec<Envelope>,
    pub head: Envelope,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKnowledge {
    #[error(transparent)]
    Founding(#[from] BadFounding),
    #[error(transparent)]
    Signers(#[from] BrokenChain),
    #[error(transparent)]
    Head(#[from] BadHead),
    #[error("what is known of the org was written by a newer freehold: upgrade it on this machine")]
    Newer,
}

impl Known {
    pub fn new(founding: Founding, chain: Vec<Envelope>, head_envelope: Envelope) -> Result<Self, BadKnowledge> {
        let first = founding.first_signers();
        let signers = first.walk(&chain, first.as_ref())?;
        let head = SignedHead::open(&signers, &head_envelope)?;
        Ok(Self { founding, chain, signers, head, head_envelope })
    }

    pub const fn org(&self) -> OrgId {
        self.founding.id
    }

    /// Every signer set from the first to the one in force.
    pub fn signer_sets(&self) -> Vec<SignerSet> {
        let mut sets = vec![self.founding.first_signers()];
        for envelope in &self.chain {
            let next = sets.last().and_then(|set| set.succeed(envelope).ok());
            sets.extend(next);
        }
        sets
    }

    /// Goes forward: later signer sets, then a later head. What does not follow is refused and changes nothing.
    pub fn advance(&self, more: &[Envelope], head: Option<&Envelope>) -> Result<Self, BadKnowledge> {
        let signers = self.signers.walk(more, self.signers.as_ref())?;
        let head_envelope = head.unwrap_or(&self.head_envelope).clone();
        let opened = if signers.version == self.signers.version && head.is_none() {
            self.head.clone()
        } else {
            SignedHead::open(&signers, &head_envelope)?
        };
        opened.may_follow(&self.head)?;
        let chain = self.chain.iter().chain(more).cloned().collect();
        Ok(Self { founding: self.founding.clone(), chain, signers, head: opened, head_envelope })
    }

    pub fn to_file(&self) -> KnownFile {
        KnownFile {
            schema: 1,
            founding: self.founding.envelope.clone(),
            signers: self.chain.clone(),
            head: self.head_envelope.clone(),
        }
    }

    pub fn from_file(file: KnownFile) -> Result<Self, BadKnowledge> {
        if file.schema != 1 {
            return Err(BadKnowledge::Newer);
        }
        Self::new(Founding::open(file.founding)?, file.signers, file.head)
    }
}
