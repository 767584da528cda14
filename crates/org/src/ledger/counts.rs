//! Does what operators signed count now? By the set in force, its head, and what was taken back; nobody's dates.

use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::head::Revocations;
use identity::id::Digest;
use identity::signers::SignerSet;
use identity::time::{Seconds, Timestamp};

use crate::invite::Invite;
use crate::invite::admission::Claim;
use crate::invite::approve::{Decision, Verdict, Waiver};
use crate::ledger::ground::Ground;
use crate::suspend::Suspension;

/// What operators sign beside heads.
pub trait Object: Payload {
    /// How many keys of the set must have signed.
    fn needs(&self, set: &SignerSet) -> usize;
    /// From then on it is over.
    fn until(&self) -> Option<Timestamp>;
    fn is_revoked(&self, revoked: &Revocations) -> bool;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCounted {
    #[error("no head is in force here")]
    NoHead,
    #[error("{found} of the {needed} signers that it needs have signed, of those in force")]
    NotSigned { found: usize, needed: usize },
    #[error("it was over at {until}")]
    Over { until: Timestamp },
    #[error("it does not say until when it counts")]
    NoEnd,
    #[error("it was revoked")]
    Revoked,
    #[error(transparent)]
    Unreadable(#[from] BadEnvelope),
}

pub fn counts<T: Object>(envelope: &Envelope, ground: &Ground) -> Result<T, NotCounted> {
    counts_within(envelope, ground, Seconds(0))
}

/// The same for what may have been over for a while when the head was made.
pub(crate) fn counts_within<T: Object>(envelope: &Envelope, ground: &Ground, late: Seconds) -> Result<T, NotCounted> {
    let object: T = envelope.peek(Some(ground.org))?;
    let head = ground.head().ok_or(NotCounted::NoHead)?;
    signed_by(envelope, ground, object.needs(&ground.set))?;
    // What was taken back ends more than what ran out.
    if object.is_revoked(&ground.revoked) {
        return Err(NotCounted::Revoked);
    }
    let until = object.until().ok_or(NotCounted::NoEnd)?;
    if head.issued_at >= until + late { Err(NotCounted::Over { until }) } else { Ok(object) }
}

/// Have as many keys of the set in force signed, and one at least?
pub(crate) fn signed_by(envelope: &Envelope, ground: &Ground, needed: usize) -> Result<(), NotCounted> {
    let found = signers_of(envelope, ground);
    if found >= needed.max(1) { Ok(()) } else { Err(NotCounted::NotSigned { found, needed }) }
}

/// How many keys of the set in force have signed.
pub(crate) fn signers_of(envelope: &Envelope, ground: &Ground) -> usize {
    envelope.signers_among(&ground.set.quorum.keys()).len()
}

/// The claim to which one signer of the set in force says no; that outranks every yes.
pub(crate) fn says_no(envelope: &Envelope, ground: &Ground) -> Option<Digest> {
    let decision: Decision = counts(envelope, ground).ok()?;
    (decision.verdict == Verdict::Deny).then_some(decision.about)
}

impl Object for Invite {
    fn needs(&self, set: &SignerSet) -> usize {
        set.quorum.threshold()
    }
    fn until(&self) -> Option<Timestamp> {
        Some(self.expires_at)
    }
    fn is_revoked(&self, revoked: &Revocations) -> bool {
        revoked.invite_is_revoked(self.id)
    }
}

impl Object for Waiver {
    fn needs(&self, set: &SignerSet) -> usize {
        set.quorum.threshold()
    }
    fn until(&self) -> Option<Timestamp> {
        Some(self.until)
    }
    fn is_revoked(&self, _: &Revocations) -> bool {
        false
    }
}

/// One signer's word; how many must say yes is the invite's to say.
impl Object for Decision {
    fn needs(&self, _: &SignerSet) -> usize {
        1
    }
    fn until(&self) -> Option<Timestamp> {
        self.until
    }
    fn is_revoked(&self, _: &Revocations) -> bool {
        false
    }
}

/// A claim that the signers themselves let in.
impl Object for Claim {
    fn needs(&self, set: &SignerSet) -> usize {
        set.quorum.threshold()
    }
    fn until(&self) -> Option<Timestamp> {
        self.until
    }
    fn is_revoked(&self, revoked: &Revocations) -> bool {
        revoked.node_keys.contains(&self.node_key.digest())
    }
}

impl Object for Suspension {
    fn needs(&self, _: &SignerSet) -> usize {
        1
    }
    fn until(&self) -> Option<Timestamp> {
        Some(self.until)
    }
    fn is_revoked(&self, _: &Revocations) -> bool {
        false
    }
}
