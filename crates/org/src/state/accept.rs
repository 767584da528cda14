//! What a gateway asks of something that operators hand in, before it writes it down: does it have its effect?

use identity::bundle::BundleBody;
use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::head::{Cause, Head, TrustState, Turn};
use identity::id::Digest;
use identity::principal::{NodeName, SignerName};
use identity::signers::{Recovery, SignerSet, Succession};
use identity::time::Timestamp;

use crate::invite::Invite;
use crate::invite::approve::{Decision, Waiver};
use crate::ledger::counts::{NotCounted, counts, signed_by};
use crate::ledger::signers::Stance;
use crate::release::{BadRelease, Release};
use crate::state::State;
use crate::state::consent::Consent;
use crate::suspend::{self, Suspension};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    #[error(transparent)]
    NotCounted(#[from] NotCounted),
    #[error("the signers in force have not signed this head, or it does not follow theirs")]
    Head,
    #[error("the head does not do what it says that it is for")]
    OtherCause,
    #[error("two signer sets claim one place, or would: nothing is taken until that is settled")]
    Frozen,
    #[error("it does not follow the signers in force")]
    NotASuccessor,
    #[error("no machine here has this key under the name `{0}`")]
    Nobody(NodeName),
    #[error("that signer suspended it before: it cannot be repeated, and who needs longer needs the threshold")]
    Repeats,
    #[error("one signer suspends for at most {}, and says why in plain words", suspend::LONGEST)]
    Unsound,
    #[error("it waives for too long")]
    TooLong,
    #[error(transparent)]
    Release(#[from] BadRelease),
    #[error("nobody hands in something of the kind `{0}`")]
    Strange(String),
}

/// Why a recovery does not begin here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRecovered {
    #[error("the recovery keys have not signed it")]
    NotSigned(#[source] BadEnvelope),
    #[error("two signer sets claim one place here: it must settle that")]
    Frozen,
    #[error("signer set {found} does not follow set {known}, which is in force here")]
    NotASuccessor { known: u64, found: u64 },
    #[error("the signer's name `{0}` belongs to another key: choose another")]
    NameTaken(SignerName),
}

impl State {
    /// Would this recovery follow the signers in force here, or end a freeze, once it is taken?
    pub fn check_recovery(&self, recovery: &Envelope, now: Timestamp) -> Result<(), NotRecovered> {
        let body: Recovery = self.replica.basis.recovery.open(self.org, recovery).map_err(NotRecovered::NotSigned)?;
        match self.replica.stance_if_seen(recovery, now).map_err(NotRecovered::NotSigned)? {
            Stance::Taken | Stance::Waits { .. } => {}
            Stance::NotTaken if self.is_frozen() => return Err(NotRecovered::Frozen),
            Stance::NotTaken => {
                return Err(NotRecovered::NotASuccessor { known: self.signer_set().version, found: body.version });
            }
        }
        let set = SignerSet::later(self.org, body.version, body.quorum);
        self.name_taken(&set).map_or(Ok(()), |name| Err(NotRecovered::NameTaken(name.clone())))
    }

    /// Did an object that was taken have its effect? Whether a suspension was the signer's first while these signers are in
    /// force, whoever keeps `Suspensions` knows.
    pub fn check_taken(&self, object: &Envelope) -> Result<(), NotAccepted> {
        let digest = object.digest();
        match object.kind() {
            Head::KIND if self.judged.ground.reached.contains(&digest) => {
                let head: Head = object.peek(Some(self.org)).map_err(NotCounted::from)?;
                if does_it(&head) { Ok(()) } else { Err(NotAccepted::OtherCause) }
            }
            Head::KIND => Err(NotAccepted::Head),
            Succession::KIND | Suspension::KIND if self.is_frozen() => Err(NotAccepted::Frozen),
            Succession::KIND | Recovery::KIND => match self.judged.signers.stance_of(digest) {
                Stance::Taken | Stance::Waits { .. } => Ok(()),
                Stance::NotTaken => Err(NotAccepted::NotASuccessor),
            },
            Invite::KIND => Ok(counts::<Invite>(object, &self.judged.ground).map(drop)?),
            Waiver::KIND => {
                let waiver: Waiver = counts(object, &self.judged.ground)?;
                let short = waiver.until.since(waiver.from) <= Waiver::LONGEST;
                if short { Ok(()) } else { Err(NotAccepted::TooLong) }
            }
            Suspension::KIND => self.check_suspension(object),
            Consent::KIND => {
                let consent: Consent = self.check_signed(object, 1)?;
                self.check_known(consent.node_key, &consent.name)
            }
            Decision::KIND => Ok(counts::<Decision>(object, &self.judged.ground).map(drop)?),
            BundleBody::KIND => Ok(self.check_signed::<BundleBody>(object, self.threshold()).map(drop)?),
            Release::KIND => Ok(self.check_signed::<Release>(object, self.threshold())?.check()?),
            other => Err(NotAccepted::Strange(other.to_owned())),
        }
    }

    fn threshold(&self) -> usize {
        self.judged.ground.set.quorum.threshold()
    }

    /// For what has no end: a head names it, or it is asked for while it is needed.
    fn check_signed<T: Payload>(&self, object: &Envelope, needed: usize) -> Result<T, NotCounted> {
        signed_by(object, &self.judged.ground, needed)?;
        Ok(object.peek(Some(self.org))?)
    }

    fn check_known(&self, key: Digest, name: &NodeName) -> Result<(), NotAccepted> {
        let known = self.members.get(&key).is_some_and(|member| member.claim().name == *name);
        if known { Ok(()) } else { Err(NotAccepted::Nobody(name.clone())) }
    }

    fn check_suspension(&self, object: &Envelope) -> Result<(), NotAccepted> {
        let suspension: Suspension = counts(object, &self.judged.ground)?;
        if !suspend::is_sound(&suspension) {
            return Err(NotAccepted::Unsound);
        }
        self.check_known(suspension.node_key, &suspension.name)
    }
}

/// Does a head do what it says that it is for? What else it does, whoever signs it sees.
fn does_it(head: &Head) -> bool {
    let trust = |turn: &Turn, state: TrustState| {
        head.trust.iter().any(|line| (line.domain, line.version, line.state) == (turn.domain, turn.version, state))
    };
    match &head.cause {
        Cause::Founding | Cause::Refresh | Cause::SignersInstall | Cause::NodeList { .. } => true,
        Cause::MandateChange { gateway } | Cause::GatewayAdd { gateway } | Cause::GatewayReopen { gateway } => {
            head.mandate_of(gateway).is_some()
        }
        Cause::GatewayMove { gateway } => head.first_gateway() == Some(gateway),
        Cause::GatewayRemove { gateway } => head.mandate_of(gateway).is_none(),
        Cause::NodeRevoke { node_key, .. } => head.revocations.node_keys.contains(node_key),
        Cause::InviteRevoke { invite } => head.revocations.invite_is_revoked(*invite),
        Cause::FleetPublish => head.members.is_some() && head.reverts.is_none(),
        Cause::FleetRollback { to } => head.members.is_some() && head.reverts == Some(*to),
        Cause::PrincipalRevoke { principal } => head.revocations.principals.contains(principal),
        Cause::ReleasePublish { .. } => head.release.is_some(),
        Cause::TrustPublish(turn) => trust(turn, TrustState::Staged),
        Cause::TrustActivate(turn) | Cause::TrustRollback(turn) => trust(turn, TrustState::Active),
        Cause::TrustRetire(turn) => trust(turn, TrustState::Retired),
    }
}
