//! What a caller knows of an org for certain: founding record, signer chain, head. It only grows.

use identity::envelope::Envelope;
use identity::head::{BadHead, SignedHead};
use identity::id::{Digest, OrgId};
use identity::signers::{BrokenChain, SignerSet, Word};
use identity::time::Timestamp;
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
    /// Recoveries that would replace `signers`, and since when they are known here.
    pub sighted: Vec<Sighted>,
}

/// A recovery, and when it was first seen here: its delay counts from then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sighted {
    pub recovery: Envelope,
    pub since: Timestamp,
}

/// As it is kept on disk; checked again whenever it is read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFile {
    pub schema: u32,
    pub founding: Envelope,
    pub signers: Vec<Envelope>,
    pub head: Envelope,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sighted: Vec<Sighted>,
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
    #[error("the recovery keys have replaced the signers; this machine was told just now, and follows at {until}")]
    RecoveryWaits { until: Timestamp, recovery: Box<Envelope> },
}

/// More than this many at once is not somebody who lost keys.
const MAX_SIGHTED: usize = 4;

impl Known {
    /// Takes a chain that was walked before, or that is this machine's own.
    pub fn new(founding: Founding, chain: Vec<Envelope>, head_envelope: Envelope) -> Result<Self, BadKnowledge> {
        let first = founding.first_signers();
        let waited = |_| true;
        let signers = first.walk(&chain, first.as_ref(), (&founding.record.recovery, waited))?;
        let head = SignedHead::open(&signers, &head_envelope)?;
        Ok(Self { founding, chain, signers, head, head_envelope, sighted: Vec::new() })
    }

    pub const fn org(&self) -> OrgId {
        self.founding.id
    }

    /// Every signer set from the first to the one in force.
    pub fn signer_sets(&self) -> Vec<SignerSet> {
        let mut sets = vec![self.founding.first_signers()];
        for envelope in &self.chain {
            let next = sets.last().and_then(|set| set.succeed(envelope, &self.founding.record.recovery).ok());
            sets.extend(next.map(|(set, _)| set));
        }
        sets
    }

    /// Goes forward: later signer sets, then a later head. What does not follow is refused and changes nothing.
    pub fn advance(&self, more: &[Envelope], head: Option<&Envelope>, now: Timestamp) -> Result<Self, BadKnowledge> {
        let waited = |id: Digest| self.due(id).is_some_and(|due| now >= due);
        let walked = self.signers.walk(more, self.signers.as_ref(), (&self.founding.record.recovery, waited));
        let signers = walked.map_err(|why| self.explain(why, more, now))?;
        let head_envelope = head.unwrap_or(&self.head_envelope).clone();
        let opened = if signers.version == self.signers.version && head.is_none() {
            self.head.clone()
        } else {
            SignedHead::open(&signers, &head_envelope)?
        };
        opened.may_follow(&self.head)?;
        let chain = self.chain.iter().chain(more).cloned().collect();
        // A set that signed its own successor, or was replaced, is no longer one to recover.
        let sighted = if signers.version == self.signers.version { self.sighted.clone() } else { Vec::new() };
        Ok(Self { founding: self.founding.clone(), chain, signers, head: opened, head_envelope, sighted })
    }

    /// A recovery among `more` that has to wait is named together with the moment.
    fn explain(&self, why: BrokenChain, more: &[Envelope], now: Timestamp) -> BadKnowledge {
        let recovery = more.iter().find(|envelope| self.is_recovery(envelope));
        match (why, recovery) {
            (BrokenChain::RecoveryWaits { .. }, Some(recovery)) => {
                let until = self.due(recovery.digest()).unwrap_or(now + self.founding.record.recovery_delay);
                BadKnowledge::RecoveryWaits { until, recovery: Box::new(recovery.clone()) }
            }
            (why, _) => why.into(),
        }
    }

    /// Signed by enough recovery keys, to replace the very set in force.
    fn is_recovery(&self, envelope: &Envelope) -> bool {
        let next = self.signers.succeed(envelope, &self.founding.record.recovery);
        matches!(next, Ok((_, Word::Recovery)))
    }

    /// When a recovery that was seen here takes effect.
    fn due(&self, id: Digest) -> Option<Timestamp> {
        let seen = self.sighted.iter().find(|sighted| sighted.recovery.digest() == id)?;
        Some(seen.since + self.founding.record.recovery_delay)
    }

    /// Remembers a recovery from its first sight on. Nothing if it says nothing new.
    #[must_use]
    pub fn notice(&self, recovery: &Envelope, now: Timestamp) -> Option<Self> {
        let known = self.sighted.iter().any(|sighted| sighted.recovery.digest() == recovery.digest());
        if known || self.sighted.len() >= MAX_SIGHTED || !self.is_recovery(recovery) {
            return None;
        }
        let mut newer = self.clone();
        newer.sighted.push(Sighted { recovery: recovery.clone(), since: now });
        Some(newer)
    }

    /// The recoveries that threaten the set in force, and when each takes effect here.
    pub fn alarms(&self) -> Vec<(SignerSet, Timestamp)> {
        let sighted = self.sighted.iter().filter_map(|sighted| {
            let (set, _) = self.signers.succeed(&sighted.recovery, &self.founding.record.recovery).ok()?;
            Some((set, self.due(sighted.recovery.digest())?))
        });
        sighted.collect()
    }

    pub fn to_file(&self) -> KnownFile {
        KnownFile {
            schema: 1,
            founding: self.founding.envelope.clone(),
            signers: self.chain.clone(),
            head: self.head_envelope.clone(),
            sighted: self.sighted.clone(),
        }
    }

    pub fn from_file(file: KnownFile) -> Result<Self, BadKnowledge> {
        if file.schema != 1 {
            return Err(BadKnowledge::Newer);
        }
        let known = Self::new(Founding::open(file.founding)?, file.signers, file.head)?;
        Ok(Self { sighted: file.sighted, ..known })
    }
}
