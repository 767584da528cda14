//! An admission as it is shown: what the machine claimed, and what let it in. That it hangs together is checked here,
//! once; whether it counts is the judge's to say.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use identity::envelope::{BadEnvelope, Envelope};
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;

use crate::invite::Invite;
use crate::invite::admission::{Claim, ClaimAuthority};
use crate::ledger::entry::{Action, SignedEntry};
use crate::ledger::ground::Ground;

/// Built only by reading: its parts fit each other, and, unless a leaf names it, the claim is signed by
/// whoever must have signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Of the admission.
    pub digest: Digest,
    pub voice: PublicKey,
    pub claim: Claim,
    /// Digest of the claim's envelope.
    pub claimed: Digest,
    pub signed_claim: Envelope,
    pub invite: Option<(Envelope, Invite)>,
    pub approval: Option<Envelope>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEvidence {
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error("the node key is not P-256")]
    NotANodeKey,
    #[error("the invite's kind and key do not fit each other")]
    BadInvite,
    #[error("it names no authority that fits its claim")]
    NoAuthority,
    #[error("it is no admission")]
    NotAnAdmission,
}

/// The parts of an admission, unread.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    pub digest: Digest,
    pub voice: PublicKey,
    pub claim: &'a Envelope,
    pub invite: Option<&'a Envelope>,
    pub approval: Option<&'a Envelope>,
}

/// An admission in a chain. One that a leaf names is not asked again whether it was signed: that costs more than all the rest,
/// and there are many.
#[derive(Debug)]
pub struct Papers {
    read: Result<Evidence, BadEvidence>,
    /// Who must have signed the claim; nobody is left to ask of whoever has looked.
    asked: Option<(OrgId, Vec<PublicKey>)>,
    signed: OnceLock<Result<(), BadEvidence>>,
}

impl Papers {
    pub fn of(org: OrgId, signed: &SignedEntry) -> Self {
        let (read, asked) = match Parts::of(signed).and_then(|parts| Evidence::put_together(org, parts)) {
            Ok((evidence, keys)) => (Ok(evidence), Some((org, keys))),
            Err(why) => (Err(why), None),
        };
        Self { read, asked, signed: OnceLock::new() }
    }

    /// Of whoever has looked already.
    pub fn checked_before(evidence: Evidence) -> Self {
        Self { read: Ok(evidence), asked: None, signed: OnceLock::new() }
    }

    /// The leaf is the approval, and names these very papers; else whoever must have signed the claim must have.
    pub fn read(&self, is_listed: bool) -> Result<&Evidence, &BadEvidence> {
        if is_listed { self.read.as_ref() } else { self.checked() }
    }

    /// If whoever must have signed it has. Looked at once.
    fn checked(&self) -> Result<&Evidence, &BadEvidence> {
        let evidence = self.read.as_ref()?;
        let Some((org, keys)) = &self.asked else { return Ok(evidence) };
        let open = || Ok(evidence.signed_claim.open_signed_by::<Claim>(Some(*org), keys).map(drop)?);
        self.signed.get_or_init(open).as_ref().map(|()| evidence)
    }
}

impl PartialEq for Papers {
    fn eq(&self, other: &Self) -> bool {
        self.read == other.read
    }
}

impl Eq for Papers {}

impl<'a> Parts<'a> {
    fn of(signed: &'a SignedEntry) -> Result<Self, BadEvidence> {
        let Action::NodeAdmit { claim, invite, approval } = &signed.entry.action else {
            return Err(BadEvidence::NotAnAdmission);
        };
        let (digest, voice) = (signed.digest, signed.entry.voice);
        Ok(Self { digest, voice, claim, invite: invite.as_ref(), approval: approval.as_ref() })
    }
}

impl Evidence {
    pub fn of(org: OrgId, signed: &SignedEntry) -> Result<Self, BadEvidence> {
        Self::read(org, Parts::of(signed)?)
    }

    pub fn read(org: OrgId, parts: Parts<'_>) -> Result<Self, BadEvidence> {
        let (evidence, keys) = Self::put_together(org, parts)?;
        let _: Claim = parts.claim.open_signed_by(Some(org), &keys)?;
        Ok(evidence)
    }

    /// With the keys that must have signed the claim.
    fn put_together(org: OrgId, parts: Parts<'_>) -> Result<(Self, Vec<PublicKey>), BadEvidence> {
        let claim: Claim = parts.claim.peek(Some(org))?;
        if !matches!(claim.node_key, PublicKey::P256(_)) {
            return Err(BadEvidence::NotANodeKey);
        }
        let invite = match (claim.authority, parts.invite) {
            (ClaimAuthority::Invite(_) | ClaimAuthority::Pattern, Some(envelope)) => {
                Some((envelope.clone(), read_invite(org, &claim, envelope)?))
            }
            (ClaimAuthority::Signers, None) => None,
            (ClaimAuthority::Invite(_) | ClaimAuthority::Pattern, None) | (ClaimAuthority::Signers, Some(_)) => {
                return Err(BadEvidence::NoAuthority);
            }
        };
        let second = invite.as_ref().and_then(|(_, invite)| invite.second_key());
        let keys: Vec<PublicKey> = std::iter::once(claim.node_key).chain(second).chain(claim.replaces).collect();
        let evidence = Self {
            digest: parts.digest,
            voice: parts.voice,
            claim,
            claimed: parts.claim.digest(),
            signed_claim: parts.claim.clone(),
            invite,
            approval: parts.approval.cloned(),
        };
        Ok((evidence, keys))
    }

    /// With the signatures that came since on the same bytes, of signers in force: they carry it over a change of signers.
    /// Nothing if none came.
    #[must_use]
    pub fn resigned(&self, ground: &Ground, objects: &BTreeMap<Digest, Envelope>) -> Option<Self> {
        let carried = self.invite.as_ref().map(|(envelope, _)| envelope).into_iter();
        let carried = carried.chain(&self.approval).chain([&self.signed_claim]);
        let signed_since = |it: &Envelope| objects.get(&it.digest()).is_some_and(|object| object != it);
        if !carried.into_iter().any(signed_since) {
            return None;
        }
        let mut resigned = self.clone();
        let keys = ground.set.quorum.keys();
        let invite = resigned.invite.as_mut().map(|(envelope, _)| envelope);
        for envelope in invite.into_iter().chain(resigned.approval.as_mut()).chain([&mut resigned.signed_claim]) {
            if let Some(object) = objects.get(&envelope.digest()) {
                envelope.merge_holding(object, &keys);
            }
        }
        Some(resigned)
    }

    pub fn key(&self) -> Digest {
        self.claim.node_key.digest()
    }
}

fn read_invite(org: OrgId, claim: &Claim, envelope: &Envelope) -> Result<Invite, BadEvidence> {
    let invite: Invite = envelope.peek(Some(org))?;
    check_named(claim, &invite)?;
    Ok(invite)
}

/// Is it the invite that the claim goes by?
pub(crate) fn check_named(claim: &Claim, invite: &Invite) -> Result<(), BadEvidence> {
    if !invite.is_well_formed() {
        return Err(BadEvidence::BadInvite);
    }
    if invite.is_named_by(claim) { Ok(()) } else { Err(BadEvidence::NoAuthority) }
}
