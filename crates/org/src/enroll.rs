//! Who may join. Decides only; the caller proves, signs and sends.

use std::net::IpAddr;

use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::admission::{Claim, ClaimAuthority};
use crate::invite::{Invite, Uses};
use crate::refusal::Refusal;
use crate::state::{InviteRecord, MemberRecord, Standing, State};

/// An attempt to join, as the gateway sees it.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    pub claim: &'a Claim,
    pub source: IpAddr,
    pub gateway: &'a NodeName,
    pub now: Timestamp,
}

/// What an attempt amounts to, if its proof holds.
#[derive(Debug, Clone, Copy)]
pub enum Verdict<'a> {
    /// This node key already spent a use of this invite: the same admission again, and a fresh SVID.
    Again { key: Digest, member: &'a MemberRecord, invite: &'a InviteRecord },
    /// A new node, under this invite.
    Admit { invite: &'a InviteRecord },
}

impl<'a> Verdict<'a> {
    /// The invite whose key must have signed.
    pub const fn invite(&self) -> &'a InviteRecord {
        match self {
            Self::Again { invite, .. } | Self::Admit { invite } => invite,
        }
    }
}

/// Everything that is checked before the proof: each refusal is its own.
pub fn consider<'a>(state: &'a State, attempt: Attempt<'_>) -> Result<Verdict<'a>, Refusal> {
    let claim = attempt.claim;
    let key = claim.node_key.digest();
    let ClaimAuthority::Invite(id) = claim.authority else {
        return Err(Refusal::NotPermitted { needed: "signer".into() });
    };
    if state.revocations.node_keys.contains(&key) {
        return Err(Refusal::KeyRevoked);
    }
    let (_, record) = state.invite(id).ok_or(Refusal::InviteUnknown { invite: id })?;
    if let Some(member) = state.members.get(&key) {
        if member.left {
            return Err(Refusal::KeyLeft);
        }
        if record.spent.contains_key(&key) && member.claim() == claim {
            return match state.standing(member) {
                Standing::Revoked => Err(Refusal::KeyRevoked),
                Standing::Waiting => Err(Refusal::Waiting),
                Standing::Claimed | Standing::Issued | Standing::Member => {
                    Ok(Verdict::Again { key, member, invite: record })
                }
            };
        }
        // The key is a member under another invite or another claim: one key, one node.
        return Err(Refusal::NameTaken { name: member.claim().name.clone() });
    }
    if state.revocations.invite_is_revoked(id) {
        return Err(Refusal::InviteRevoked);
    }
    if state.is_unconfirmed(record) {
        return Err(Refusal::InviteUnconfirmed);
    }
    let current = state.signer_set();
    if record.invite.signers != current.version && current.open::<Invite>(&record.envelope).is_err() {
        return Err(Refusal::InviteOutdated);
    }
    record.invite.check_time(attempt.now)?;
    match (record.invite.right_of(attempt.gateway), record.uses_left(attempt.gateway)) {
        (None, _) => return Err(Refusal::InviteNotHere),
        (Some(Uses::Limited(uses)), Some(0)) => return Err(Refusal::InviteUsedUp { uses }),
        (Some(_), _) => {}
    }
    record.invite.check_network(attempt.source)?;
    record.invite.check_claim(claim)?;
    Ok(Verdict::Admit { invite: record })
}

/// The last check, after the proof, so that only a holder of the secret learns which names are in use. A name that the
/// operators published for a key is that key's, also if this ledger does not know it.
pub fn check_name_is_free(state: &State, name: &NodeName, published: Option<Digest>) -> Result<(), Refusal> {
    let published = published.filter(|key| !state.is_gone(*key));
    match (state.holder(name), published) {
        (None, None) => Ok(()),
        (Some(_), _) | (_, Some(_)) => Err(Refusal::NameTaken { name: name.clone() }),
    }
}
