//! Who may join (admission control). Decides only; the caller proves, signs and sends.

pub mod renew;

use std::net::IpAddr;

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::invite::admission::{Claim, ClaimAuthority};
use crate::invite::{Approval, InviteKind, Uses};
use crate::ledger::fold::Why;
use crate::refusal::Refusal;
use crate::state::grant::KnownInvite;
use crate::state::{AdmissionRecord, InviteRecord, MemberRecord, Standing, State};

/// An attempt to join, as the gateway sees it.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    pub claim: &'a Claim,
    /// Digest of the claim's envelope.
    pub claimed: Digest,
    pub source: IpAddr,
    pub gateway: &'a NodeName,
    pub now: Timestamp,
}

/// What an attempt amounts to, if its proof holds.
#[derive(Debug, Clone, Copy)]
pub enum EnrollOutcome<'a> {
    /// This node key already spent a use of this invite: the same admission again, and a fresh SVID.
    Again { key: Digest, member: &'a MemberRecord, invite: &'a InviteRecord },
    /// A new node, under this invite; with the approval, if it needs one.
    Admit { invite: &'a InviteRecord, approval: Option<&'a Envelope> },
    /// As good as the last, but a person must look first.
    Wait { invite: &'a InviteRecord },
}

impl<'a> EnrollOutcome<'a> {
    /// The invite whose key must have signed.
    pub const fn invite(&self) -> &'a InviteRecord {
        match self {
            Self::Again { invite, .. } | Self::Admit { invite, .. } | Self::Wait { invite } => invite,
        }
    }

    pub const fn approval(&self) -> Option<&'a Envelope> {
        match self {
            Self::Admit { approval, .. } => *approval,
            Self::Again { .. } | Self::Wait { .. } => None,
        }
    }
}

impl From<&EnrollOutcome<'_>> for KnownInvite {
    fn from(verdict: &EnrollOutcome<'_>) -> Self {
        let record = verdict.invite();
        let approval = verdict.approval().cloned();
        Self { envelope: record.envelope.clone(), invite: record.invite.clone(), approval }
    }
}

/// Everything that is checked before the proof: each refusal is its own.
pub fn consider<'a>(state: &'a State, attempt: Attempt<'_>) -> Result<EnrollOutcome<'a>, Refusal> {
    let claim = attempt.claim;
    let key = claim.node_key.digest();
    if state.revoked().node_keys.contains(&key) {
        return Err(Refusal::KeyRevoked);
    }
    if state.judged.fold.left.contains(&key) {
        return Err(Refusal::KeyLeft);
    }
    check_replaced(state, claim)?;
    let record = match claim.authority {
        ClaimAuthority::Invite(id) => {
            let record = state.invite_at(id, voice_of(state, attempt.gateway));
            record.filter(|record| record.invite.kind.is_proven()).ok_or(Refusal::InviteUnknown { invite: id })?
        }
        ClaimAuthority::Pattern => fitting_pattern(state, attempt)?,
        ClaimAuthority::Signers => return Err(Refusal::NotPermitted { needed: "signer".into() }),
    };
    if let Some(member) = state.members.get(&key) {
        return again(state, key, member, record, claim);
    }
    // The operators' map may list it although the chain of who let it in is not here.
    if let Some(name) = state.judged.fold.listed.get(&key).filter(|name| **name != claim.name) {
        return Err(Refusal::NameTaken { name: name.clone() });
    }
    check_open(state, record, attempt)?;
    if state.is_denied(attempt.claimed) {
        return Err(Refusal::Denied);
    }
    match record.invite.approval {
        Approval::None => Ok(EnrollOutcome::Admit { invite: record, approval: None }),
        Approval::Human => {
            let approval = state.approval_of(&record.invite, attempt.claimed, &claim.name, attempt.now);
            Ok(approval.map_or(EnrollOutcome::Wait { invite: record }, |approval| EnrollOutcome::Admit {
                invite: record,
                approval: Some(approval),
            }))
        }
    }
}

/// A node key that is a member already.
fn again<'a>(
    state: &'a State,
    key: Digest,
    member: &'a MemberRecord,
    record: &'a InviteRecord,
    claim: &Claim,
) -> Result<EnrollOutcome<'a>, Refusal> {
    if member.left {
        return Err(Refusal::KeyLeft);
    }
    if member.admission.invite != Some(record.invite.id) || member.claim() != claim {
        // Under another invite or another claim: one key, one node.
        return Err(Refusal::NameTaken { name: member.claim().name.clone() });
    }
    match state.standing(member) {
        Standing::Revoked => Err(Refusal::KeyRevoked),
        Standing::Waiting => Err(state.waits(member)),
        Standing::Issued | Standing::Member => Ok(EnrollOutcome::Again { key, member, invite: record }),
    }
}

fn voice_of(state: &State, gateway: &NodeName) -> Option<PublicKey> {
    state.head().and_then(|head| head.head.mandate_of(gateway)).map(|mandate| mandate.voice)
}

/// May somebody new come in with it, here and now, as this?
fn check_open(state: &State, record: &InviteRecord, attempt: Attempt<'_>) -> Result<(), Refusal> {
    if state.revoked().invite_is_revoked(record.invite.id) {
        return Err(Refusal::InviteRevoked);
    }
    if state.is_outdated(record) {
        return Err(Refusal::InviteOutdated);
    }
    record.invite.check_time(attempt.now)?;
    let voice = voice_of(state, attempt.gateway);
    let spent = voice.and_then(|voice| record.spent_at.get(&voice)).copied().unwrap_or(0);
    match voice.and_then(|voice| record.invite.right_of(voice)) {
        None => return Err(Refusal::InviteNotHere),
        Some(Uses::Limited(uses)) if spent >= uses => return Err(Refusal::InviteUsedUp { uses }),
        Some(Uses::Limited(_) | Uses::Unlimited) => {}
    }
    record.invite.check_network(attempt.source)?;
    record.invite.check_claim(attempt.claim)
}

/// The pattern that this machine came in by, or the first that is open to it. Which patterns there are is nobody's
/// business who fits none.
fn fitting_pattern<'a>(state: &'a State, attempt: Attempt<'_>) -> Result<&'a InviteRecord, Refusal> {
    let key = attempt.claim.node_key.digest();
    let mut patterns = state.invites.values().filter(|record| record.invite.kind == InviteKind::Pattern);
    if let Some(member) = state.members.get(&key) {
        let through = |record: &&InviteRecord| member.admission.invite == Some(record.invite.id);
        return patterns.find(through).ok_or_else(|| Refusal::NameTaken { name: member.claim().name.clone() });
    }
    patterns.find(|record| check_open(state, record, attempt).is_ok()).ok_or(Refusal::NoPattern)
}

/// The key whose place the claim takes must still have that name.
fn check_replaced(state: &State, claim: &Claim) -> Result<(), Refusal> {
    let Some(old) = claim.replaces.as_ref().filter(|_| state.member(&claim.node_key).is_none()) else {
        return Ok(());
    };
    let member = state.member(old).filter(|member| member.claim().name == claim.name).ok_or(Refusal::NotAdmitted)?;
    match state.standing(member) {
        Standing::Revoked if member.left => Err(Refusal::KeyLeft),
        Standing::Revoked => Err(Refusal::KeyRevoked),
        Standing::Waiting => Err(state.waits(member)),
        Standing::Issued | Standing::Member => Ok(()),
    }
}

/// The last check, after the proof, so that only a holder of the secret learns which names are in use. A name that the
/// operators published for a key is that key's, also if this ledger does not know it. The holder may hand it on.
pub fn check_name_is_free(state: &State, claim: &Claim, published: Option<Digest>) -> Result<(), Refusal> {
    let (name, replaced) = (&claim.name, claim.replaces.map(|key| key.digest()));
    let published = published.filter(|key| !state.is_gone(*key) && Some(*key) != replaced);
    // A mandate names its gateway, not a key: only the gateway's own machine may hand such a name on.
    let mandated = state.head().is_some_and(|head| head.head.mandates.iter().any(|mandate| mandate.gateway == *name));
    let handed_on = replaced.is_some() && !claim.is_low() && state.holder(name).is_some();
    if mandated && !handed_on {
        return Err(Refusal::NameTaken { name: name.clone() });
    }
    // Two that want one name both wait; a third would wait with them.
    let contested = |it: &AdmissionRecord| {
        let why = state.judged.fold.waiting.get(&it.digest).map(|waiting| &waiting.why);
        it.claim.name == *name && why == Some(&Why::Contested)
    };
    let contests = state.named(name).find(|member| member.admissions().any(contested));
    let holder = state.holder(name).or(contests);
    let holder = holder.filter(|member| Some(member.claim().node_key.digest()) != replaced);
    match (holder, published) {
        (None, None) => Ok(()),
        (Some(_), _) | (_, Some(_)) => Err(Refusal::NameTaken { name: name.clone() }),
    }
}
