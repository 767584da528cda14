//! An admission as its gateway makes it: of parts that were checked, so that the maker need not check it again.

use std::sync::Arc;

use identity::envelope::{BadEnvelope, Envelope};
use identity::id::{InviteId, OrgId};
use identity::key::PublicKey;

use crate::invite::admission::Claim;
use crate::invite::{Approval, Invite};
use crate::ledger::chain::{Act, Written};
use crate::ledger::entry::{Action, SignedEntry};
use crate::ledger::evidence::{BadEvidence, Evidence, Papers, check_named};

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
    pub(crate) envelope: Envelope,
    pub(crate) invite: Invite,
    pub(crate) approval: Option<Envelope>,
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

/// An admission that is written here, of parts that were checked here: its maker need not check it again. Built only by
/// `new`; everybody else reads the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    action: Action,
    claim: Claim,
    invite: Invite,
}

impl Granted {
    pub fn new(proven: ProvenClaim, known: KnownInvite) -> Result<Self, BadEvidence> {
        let ProvenClaim { envelope: signed_claim, claim, invite: under } = proven;
        let KnownInvite { envelope, invite, approval } = known;
        if !matches!(claim.node_key, PublicKey::P256(_)) {
            return Err(BadEvidence::NotANodeKey);
        }
        if under != invite.id {
            return Err(BadEvidence::NoAuthority);
        }
        check_named(&claim, &invite)?;
        let approval = approval.filter(|_| invite.approval == Approval::Human);
        let action = Action::NodeAdmit { claim: signed_claim, invite: Some(envelope), approval };
        Ok(Self { action, claim, invite })
    }

    pub const fn action(&self) -> &Action {
        &self.action
    }

    pub const fn node_key(&self) -> PublicKey {
        self.claim.node_key
    }

    /// What reading the entry would find, if it is the one that says this.
    pub(crate) fn written(&self, signed: &SignedEntry) -> Option<Written> {
        if signed.entry.action != self.action {
            return None;
        }
        let Action::NodeAdmit { claim, invite, approval } = &self.action else { return None };
        let evidence = Evidence {
            digest: signed.digest,
            voice: signed.entry.voice,
            claim: self.claim.clone(),
            claimed: claim.digest(),
            signed_claim: claim.clone(),
            invite: invite.clone().map(|envelope| (envelope, self.invite.clone())),
            approval: approval.clone(),
        };
        Some(Written::doing(signed, Act::Admit(Arc::new(Papers::checked_before(evidence)))))
    }
}
