//! An admission as its gateway makes it: of parts that were checked, so that the maker need not check it again.

use identity::envelope::{BadEnvelope, Envelope};
use identity::id::{InviteId, OrgId};
use identity::key::{PublicKey, Sign};
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::admission::{Admission, Admitted, BadAdmission, Claim};
use crate::enroll::Verdict;
use crate::invite::{Approval, Invite};

/// A claim that its invite's key and its node key have signed, and the key that it takes the place of, if any. Built
/// only by checking them all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenClaim {
    envelope: Envelope,
    claim: Claim,
    invite: InviteId,
}

impl ProvenClaim {
    pub fn check(envelope: Envelope, org: OrgId, known: &KnownInvite) -> Result<Self, BadEnvelope> {
        let named: Claim = envelope.peek(Some(org))?;
        let claim = envelope.open_signed_by(Some(org), &named.keys(&known.invite))?;
        Ok(Self { envelope, claim, invite: known.invite.id })
    }

    pub const fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    pub const fn claim(&self) -> &Claim {
        &self.claim
    }
}

/// An invite as a state knows it, which checked it when it came, with the approval that the state found for a claim
/// under it. Built only from a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownInvite {
    envelope: Envelope,
    invite: Invite,
    approval: Option<Envelope>,
}

impl From<&Verdict<'_>> for KnownInvite {
    fn from(verdict: &Verdict<'_>) -> Self {
        let record = verdict.invite();
        let approval = verdict.approval().cloned();
        Self { envelope: record.envelope.clone(), invite: record.invite.clone(), approval }
    }
}

impl KnownInvite {
    /// Whoever holds the invite's secret signs with this.
    pub const fn key(&self) -> Option<PublicKey> {
        self.invite.second_key()
    }

    pub const fn invite(&self) -> &Invite {
        &self.invite
    }
}

/// An admission that was sealed here, of parts that were checked here: its maker need not check it again. Built only
/// by `seal`; everybody else checks the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    envelope: Envelope,
    voice: PublicKey,
    admitted: Admitted,
}

impl Granted {
    /// Seals what `Admission::check` will accept.
    pub fn seal(
        org: OrgId,
        proven: ProvenClaim,
        known: KnownInvite,
        (gateway, voice): (&NodeName, &dyn Sign),
        at: Timestamp,
    ) -> Result<Self, BadAdmission> {
        let ProvenClaim { envelope: signed_claim, claim, invite: under } = proven;
        let KnownInvite { envelope: invite_envelope, invite, approval } = known;
        if !matches!(claim.node_key, PublicKey::P256(_)) {
            return Err(BadAdmission::NotANodeKey);
        }
        if under != invite.id {
            return Err(BadAdmission::BeyondInvite);
        }
        invite.check_covers(&claim, at)?;
        if invite.approval == Approval::Human && approval.is_none() {
            return Err(BadAdmission::NotApproved);
        }
        let approval = approval.filter(|_| invite.approval == Approval::Human);
        let invite = Some((invite_envelope.digest(), invite));
        let (gateway, invite_envelope) = (gateway.clone(), Some(invite_envelope));
        let claimed = signed_claim.digest();
        let body = Admission { claim: signed_claim, invite: invite_envelope, approval, gateway: gateway.clone(), at };
        let envelope = Envelope::seal(Some(org), &body)?.signed(voice)?;
        let admitted = Admitted { digest: envelope.digest(), claim, claimed, invite, gateway, at };
        Ok(Self { envelope, voice: voice.public(), admitted })
    }

    pub const fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    pub const fn node_key(&self) -> PublicKey {
        self.admitted.claim.node_key
    }

    /// What `Admission::check` would find in these bytes, if they are the ones that were sealed by this voice.
    pub(crate) fn admitted(&self, envelope: &Envelope, voice: PublicKey) -> Option<Admitted> {
        (self.envelope == *envelope && self.voice == voice).then(|| self.admitted.clone())
    }
}
