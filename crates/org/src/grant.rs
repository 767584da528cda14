//! An admission as its gateway makes it: of parts that were checked, so that the maker need not check it again.

use identity::envelope::{BadEnvelope, Envelope};
use identity::id::OrgId;
use identity::key::{PublicKey, Sign};
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::admission::{Admission, Admitted, BadAdmission, Claim, ClaimAuthority};
use crate::invite::Invite;
use crate::state::InviteRecord;

/// A claim that its invite's key and its node key have signed. Built only by checking both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenClaim {
    envelope: Envelope,
    claim: Claim,
    invite_key: PublicKey,
}

impl ProvenClaim {
    pub fn check(envelope: Envelope, org: OrgId, invite_key: PublicKey) -> Result<Self, BadEnvelope> {
        let named: Claim = envelope.peek(Some(org))?;
        let claim = envelope.open_signed_by(Some(org), &[invite_key, named.node_key])?;
        Ok(Self { envelope, claim, invite_key })
    }

    pub const fn claim(&self) -> &Claim {
        &self.claim
    }
}

/// An invite as a state knows it, which checked it when it came. Built only from the state's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownInvite {
    envelope: Envelope,
    invite: Invite,
}

impl From<&InviteRecord> for KnownInvite {
    fn from(record: &InviteRecord) -> Self {
        Self { envelope: record.envelope.clone(), invite: record.invite.clone() }
    }
}

impl KnownInvite {
    /// Whoever holds the invite's secret signs with this.
    pub const fn key(&self) -> PublicKey {
        self.invite.key
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
        let ProvenClaim { envelope: signed_claim, claim, invite_key } = proven;
        let KnownInvite { envelope: invite_envelope, invite } = known;
        if !matches!(claim.node_key, PublicKey::P256(_)) {
            return Err(BadAdmission::NotANodeKey);
        }
        let fits = claim.authority == ClaimAuthority::Invite(invite.id) && invite_key == invite.key;
        if !fits || invite.check_claim(&claim).is_err() || invite.check_time(at).is_err() {
            return Err(BadAdmission::BeyondInvite);
        }
        let invite = Some((invite_envelope.digest(), invite));
        let body = Admission { claim: signed_claim, invite: Some(invite_envelope), gateway: gateway.clone(), at };
        let envelope = Envelope::seal(Some(org), &body)?.signed(voice)?;
        let admitted = Admitted { digest: envelope.digest(), claim, invite, gateway: gateway.clone(), at };
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
