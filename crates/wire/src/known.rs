//! What a caller knows of an org for certain: founding record, signer chain, head. It only grows.

use std::cmp::Ordering;

use identity::bundle::{Domain, Endpoint, Roots};
use identity::envelope::Envelope;
use identity::head::{BadHead, SignedHead};
use identity::id::{Digest, OrgId};
use identity::signers::{BrokenChain, Quorum, Recovery, SignerSet, Word};
use identity::time::Timestamp;
use org::founding::{BadFounding, Founding};
use org::ledger::step::Sights;
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

/// The form of the file. Up to 1 is older than the first release: heads had other fields.
const SCHEMA: u32 = 2;

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
    #[error(
        "it was written before the first release of freehold, and is not read any more. Nothing was changed; found the org \
         anew, and let the machines join it"
    )]
    Older,
    #[error("the recovery keys have replaced the signers; this machine was told just now, and follows at {until}")]
    RecoveryWaits {
        until: Timestamp,
        /// The steps from the set that is known here up to the recovery, which is the last.
        steps: Vec<Envelope>,
    },
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

    /// The time to judge by: what enough operators signed is in the past, whatever a clock says. Only a head moves this
    /// floor, also back.
    pub fn now(&self, clock: Timestamp) -> Timestamp {
        clock.max(self.head.head.issued_at)
    }

    /// The endpoint roots of whoever keeps none: the founders', as long as the head trusts version 1. After that none, and
    /// which are trusted now is read where it is signed (`trust::refresh`).
    pub fn first_endpoint_roots(&self) -> Roots<Endpoint> {
        let mut lines = self.head.head.trust.iter().filter(|line| line.domain == Domain::Endpoint).peekable();
        let trusted = lines.peek().is_none() || lines.any(|line| line.version == 1 && line.state.is_trusted());
        let founders = self.founding.record.endpoint_root.0.clone();
        Roots::from_certificates(trusted.then(|| founders.into()).into_iter().collect())
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

    /// The steps that were followed here, as a ledger that begins here keeps them: whoever followed them has waited.
    pub fn followed(&self) -> Sights {
        self.chain.iter().map(|step| (step.digest(), Timestamp::from_unix(0))).collect()
    }

    /// Goes forward: later signer sets, then a later head. What does not follow is refused and changes nothing.
    pub fn advance(&self, more: &[Envelope], head: Option<&Envelope>, now: Timestamp) -> Result<Self, BadKnowledge> {
        let next = self.walk_on(more, head, now)?;
        next.head.may_follow(&self.head)?;
        Ok(next)
    }

    /// For operators alone, who make the two meet: a later head that does not know of the one here,
    /// since both were published at once.
    pub fn meet(&self, more: &[Envelope], head: &Envelope, now: Timestamp) -> Result<Self, BadKnowledge> {
        let next = self.walk_on(more, Some(head), now)?;
        let (found, known) = (&next.head.head, &self.head.head);
        if found.version <= known.version {
            return Err(BadHead::Regression { found: found.version, known: known.version }.into());
        }
        Ok(next)
    }

    fn walk_on(&self, more: &[Envelope], head: Option<&Envelope>, now: Timestamp) -> Result<Self, BadKnowledge> {
        let waited = |id: Digest| self.due(id).is_some_and(|due| now >= due);
        let walked = self.signers.walk(more, self.signers.as_ref(), (&self.founding.record.recovery, waited));
        let signers = walked.map_err(|why| self.explain(why, more, now))?;
        let head_envelope = head.unwrap_or(&self.head_envelope).clone();
        let opened = if signers.version == self.signers.version && head.is_none() {
            self.head.clone()
        } else {
            SignedHead::open(&signers, &head_envelope)?
        };
        let chain = self.chain.iter().chain(more).cloned().collect();
        // A set that signed its own successor, or was replaced, is no longer one to recover.
        let sighted = if signers.version == self.signers.version { self.sighted.clone() } else { Vec::new() };
        Ok(Self { founding: self.founding.clone(), chain, signers, head: opened, head_envelope, sighted })
    }

    /// A recovery among `more` that has to wait is named together with the moment, and with the steps that led to it.
    fn explain(&self, why: BrokenChain, more: &[Envelope], now: Timestamp) -> BadKnowledge {
        let BrokenChain::RecoveryWaits { version } = why else {
            return why.into();
        };
        let count = usize::try_from(version.saturating_sub(self.signers.version)).unwrap_or(usize::MAX);
        let steps: Vec<Envelope> = more.iter().take(count).cloned().collect();
        let due = steps.last().and_then(|recovery| self.due(recovery.digest()));
        BadKnowledge::RecoveryWaits { until: due.unwrap_or(now + self.founding.record.recovery_delay), steps }
    }

    /// Signed by enough recovery keys, to replace the very set in force.
    fn is_recovery(&self, envelope: &Envelope) -> bool {
        replaces(&self.signers, envelope, &self.founding.record.recovery)
    }

    /// When a recovery that was seen here takes effect.
    fn due(&self, id: Digest) -> Option<Timestamp> {
        let seen = self.sighted.iter().find(|sighted| sighted.recovery.digest() == id)?;
        Some(seen.since + self.founding.record.recovery_delay)
    }

    /// Remembers a recovery from its first sight on. Nothing if it says nothing new.
    #[must_use]
    pub fn notice(&self, recovery: &Envelope, now: Timestamp) -> Option<Self> {
        if self.is_recovery(recovery) { self.keep_in_sight(recovery, now) } else { None }
    }

    /// Remembers the recovery that kept this machine from following. It may replace a set that is not known here yet;
    /// then the steps that lead to that set must hold.
    #[must_use]
    pub fn heed(&self, why: &BadKnowledge, now: Timestamp) -> Option<Self> {
        let BadKnowledge::RecoveryWaits { steps, .. } = why else {
            return None;
        };
        let (recovery, before) = steps.split_last()?;
        let quorum = &self.founding.record.recovery;
        let waited = |id: Digest| self.due(id).is_some_and(|due| now >= due);
        let at = self.signers.walk(before, self.signers.as_ref(), (quorum, waited)).ok()?;
        if replaces(&at, recovery, quorum) { self.keep_in_sight(recovery, now) } else { None }
    }

    fn keep_in_sight(&self, recovery: &Envelope, now: Timestamp) -> Option<Self> {
        let known = self.sighted.iter().any(|sighted| sighted.recovery.digest() == recovery.digest());
        if known || self.sighted.len() >= MAX_SIGHTED {
            return None;
        }
        let mut newer = self.clone();
        // A clock that was never set counts from the last moment that the operators signed.
        let since = now.max(self.head.head.issued_at);
        newer.sighted.push(Sighted { recovery: recovery.clone(), since });
        Some(newer)
    }

    /// With what another copy of this knowledge has seen: whoever reads two gateways forgets neither's.
    #[must_use]
    pub fn with_sightings_of(mut self, other: &Self) -> Self {
        if other.signers.id != self.signers.id {
            return self;
        }
        for theirs in &other.sighted {
            let room = self.sighted.len() < MAX_SIGHTED;
            match self.sighted.iter_mut().find(|own| own.recovery.digest() == theirs.recovery.digest()) {
                Some(own) => own.since = own.since.min(theirs.since),
                None if room => self.sighted.push(theirs.clone()),
                None => {}
            }
        }
        self
    }

    /// The recoveries that threaten the set in force or one that follows it, and when each takes effect here.
    pub fn alarms(&self) -> Vec<(SignerSet, Timestamp)> {
        let org = self.org();
        let sighted = self.sighted.iter().filter_map(|sighted| {
            let next: Recovery = self.founding.record.recovery.open(org, &sighted.recovery).ok()?;
            Some((SignerSet::later(org, next.version, next.quorum), self.due(sighted.recovery.digest())?))
        });
        sighted.collect()
    }

    pub fn to_file(&self) -> KnownFile {
        KnownFile {
            schema: SCHEMA,
            founding: self.founding.envelope.clone(),
            signers: self.chain.clone(),
            head: self.head_envelope.clone(),
            sighted: self.sighted.clone(),
        }
    }

    pub fn from_file(file: KnownFile) -> Result<Self, BadKnowledge> {
        match file.schema.cmp(&SCHEMA) {
            Ordering::Less => return Err(BadKnowledge::Older),
            Ordering::Greater => return Err(BadKnowledge::Newer),
            Ordering::Equal => {}
        }
        let known = Self::new(Founding::open(file.founding)?, file.signers, file.head)?;
        Ok(Self { sighted: file.sighted, ..known })
    }
}

fn replaces(set: &SignerSet, envelope: &Envelope, recovery: &Quorum) -> bool {
    matches!(set.succeed(envelope, recovery), Ok((_, Word::Recovery)))
}

#[cfg(test)]
mod tests;
