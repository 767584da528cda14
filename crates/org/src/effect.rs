//! What one more entry of the ledger changes.
//!
//! Law: entries that do not lie in each other's past commute. Every rule looks only at what lies in the entry's own
//! past, or adds to a set. `tests.rs` holds it to that.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::{Envelope, Payload as _};
use identity::id::Digest;
use identity::principal::{Author, NodeName};

use crate::admission::{Admission, Admitted, Claim, Leave, open_invite};
use crate::approve::{Approved, Decision};
use crate::entry::{Action, SignedEntry};
use crate::grant::Granted;
use crate::invite::{Approval, Invite};
use crate::state::{AdmissionRecord, InviteRecord, MemberRecord, Spend, State, Unfit, Void, add_first, bad};

impl State {
    /// Takes one entry; the caller delivers in causal order. A void entry stands, without effect.
    pub fn apply(&mut self, signed: &SignedEntry) -> Result<Result<(), Void>, Unfit> {
        self.take(signed, None)
    }

    /// Takes a gateway's own entry with the admission that it has just sealed: the same effect, without checking again
    /// what was checked in order to seal it.
    pub fn apply_granted(&mut self, signed: &SignedEntry, granted: &Granted) -> Result<Result<(), Void>, Unfit> {
        self.take(signed, Some(granted))
    }

    fn take(&mut self, signed: &SignedEntry, granted: Option<&Granted>) -> Result<Result<(), Void>, Unfit> {
        self.check_turn(signed)?;
        self.check_author(signed)?;
        let effect = self.act(signed, granted);
        if let Err(void) = &effect {
            self.void.insert(signed.digest, void.clone());
        }
        self.frontier.0.insert(signed.entry.author.clone(), signed.place());
        Ok(effect)
    }

    /// Takes a place in the chain without doing anything: for the branches of a fork.
    pub fn pass_over(&mut self, signed: &SignedEntry, why: Void) {
        self.void.insert(signed.digest, why);
        let place = self.frontier.0.entry(signed.entry.author.clone()).or_insert_with(|| signed.place());
        *place = (*place).max(signed.place());
    }

    fn check_turn(&self, signed: &SignedEntry) -> Result<(), Unfit> {
        let entry = &signed.entry;
        let author = entry.author.clone();
        let known = self.frontier.place_of(&entry.author);
        let (last, previous) = known.map_or((0, None), |place| (place.seq, Some(place.digest)));
        if last.checked_add(1) != Some(entry.seq) {
            return Err(Unfit::OutOfTurn { author, known: last, found: entry.seq });
        }
        if entry.previous != previous {
            return Err(Unfit::Forks { author, seq: entry.seq });
        }
        self.check_seen(signed)?;
        self.check_epoch(signed)
    }

    pub(crate) fn check_seen(&self, signed: &SignedEntry) -> Result<(), Unfit> {
        let mut others = signed.entry.seen.clone();
        others.0.remove(&signed.entry.author);
        if self.frontier.covers_all(&others) { Ok(()) } else { Err(Unfit::FromTheFuture) }
    }

    pub(crate) fn check_author(&self, signed: &SignedEntry) -> Result<(), Unfit> {
        let entry = &signed.entry;
        let known = match &entry.author {
            Author::Signer(name) => {
                self.signers_before(signed).quorum.key_of(name) == Some(entry.key)
                    || self.recovered_key(signed, name) == Some(entry.key)
            }
            Author::Gateway(name) => {
                let mandated = self.voices.get(&entry.key).and_then(|gateways| gateways.get(name));
                mandated.is_some_and(|by| by.iter().any(|by| signed.past().holds(by)))
            }
        };
        if known { Ok(()) } else { Err(Unfit::NotAnAuthor(entry.author.clone())) }
    }

    /// Who may do what, then the doing. A new action does not compile until someone decides.
    fn act(&mut self, signed: &SignedEntry, granted: Option<&Granted>) -> Result<(), Void> {
        match (&signed.entry.author, &signed.entry.action) {
            (Author::Signer(_), Action::OrgFound { founding }) => self.found(founding),
            (Author::Signer(_), Action::SignersInstall { signers, head }) => self.install(signed, signers, head),
            (Author::Signer(_), Action::TrustPublish { bundle, head }) => self.stage(signed, bundle, head.as_ref()),
            (Author::Signer(_), Action::TrustActivate { head, turn }) => self.activate(signed, head, turn),
            (Author::Signer(_), Action::TrustRollback { bundle, head, turn }) => {
                self.take_back(signed, bundle, head, turn)
            }
            (Author::Signer(_), Action::TrustRetire { bundle, head, turn }) => {
                self.retire(signed, bundle.as_ref(), head, turn)
            }
            (Author::Signer(_), Action::HeadPublish { head, cause }) => self.publish_head(signed, head, cause),
            (Author::Signer(_), Action::ReleasePublish { release, head }) => {
                self.publish_release(signed, release, head)
            }
            (Author::Signer(_), Action::InviteCreate { invite }) => self.create_invite(signed, invite),
            (Author::Signer(_), Action::InviteConfirm { confirmation }) => self.confirm(signed, confirmation),
            (Author::Signer(_), Action::NodeSuspend { suspension, name }) => self.suspend(signed, suspension, name),
            (Author::Signer(_), Action::ManifestConfirm { consent, name }) => self.consent(signed, consent, name),
            (Author::Signer(_), Action::NodeApprove { decision, .. }) => self.decide(signed, decision),
            // A no to a waiver ends it.
            (Author::Signer(_), Action::InviteApprove { waiver }) if waiver.kind() == Decision::KIND => {
                self.decide(signed, waiver)
            }
            (Author::Signer(_), Action::InviteApprove { waiver }) => self.waive(signed, waiver),
            (Author::Gateway(_), Action::RecoveryBegin { recovery }) => self.begin_recovery(signed, recovery),
            (Author::Gateway(gateway), Action::NodeAdmit { admission }) => {
                let admitted = granted.and_then(|granted| granted.admitted(admission, signed.entry.key));
                let admitted = admitted.map_or_else(|| self.check_admission(signed, admission), Ok)?;
                self.check_invite_is_current(signed, admission, &admitted)?;
                self.admit(signed, gateway, admitted)
            }
            (Author::Gateway(_), Action::NodeJoin { node_key, .. }) => self.join(signed, node_key),
            (Author::Gateway(_), Action::NodeLeave { leave, .. }) => self.leave(signed, leave),
            (
                Author::Signer(_),
                Action::NodeAdmit { .. }
                | Action::NodeJoin { .. }
                | Action::NodeLeave { .. }
                | Action::RecoveryBegin { .. },
            )
            | (
                Author::Gateway(_),
                Action::OrgFound { .. }
                | Action::SignersInstall { .. }
                | Action::TrustPublish { .. }
                | Action::TrustActivate { .. }
                | Action::TrustRollback { .. }
                | Action::TrustRetire { .. }
                | Action::HeadPublish { .. }
                | Action::ReleasePublish { .. }
                | Action::InviteCreate { .. }
                | Action::InviteConfirm { .. }
                | Action::NodeSuspend { .. }
                | Action::ManifestConfirm { .. }
                | Action::NodeApprove { .. }
                | Action::InviteApprove { .. },
            ) => Err(Void::BeyondPower),
        }
    }

    fn found(&self, founding: &Envelope) -> Result<(), Void> {
        if founding.digest().0 == self.org.0 { Ok(()) } else { Err(Void::BadObject("another org's founding".into())) }
    }

    fn create_invite(&mut self, signed: &SignedEntry, envelope: &Envelope) -> Result<(), Void> {
        let set = self.signers_before(signed).clone();
        let envelope = envelope.kept(&set.quorum.keys());
        let invite = open_invite(&envelope, self.org, &[set]).map_err(|why| bad(&why))?;
        self.invite_ids.entry(invite.id).or_default().insert(envelope.digest());
        let record = self.invites.entry(envelope.digest()).or_insert_with(|| InviteRecord {
            invite,
            envelope: envelope.clone(),
            by: BTreeSet::new(),
            spent: BTreeMap::new(),
            spent_at: BTreeMap::new(),
        });
        record.envelope.merge(&envelope);
        add_first(&mut record.by, signed);
        Ok(())
    }

    /// Only what lies in its own past may judge it, or two replicas would judge differently.
    fn check_admission(&self, signed: &SignedEntry, envelope: &Envelope) -> Result<Admitted, Void> {
        let sets: Vec<_> = self.sets_before(signed).cloned().collect();
        Admission::check(envelope, self.org, signed.entry.key, &sets).map_err(|why| bad(&why))
    }

    fn admit(&mut self, signed: &SignedEntry, gateway: &NodeName, admitted: Admitted) -> Result<(), Void> {
        if admitted.gateway != *gateway {
            return Err(Void::BeyondPower);
        }
        let key = admitted.claim.node_key.digest();
        let known = self.members.get(&key);
        if known.is_some_and(|member| member.admissions().any(|earlier| signed.past().holds(&earlier.entry))) {
            return Err(Void::Repeats);
        }
        let replaced = self.replaced(signed, &admitted.claim)?;
        self.spend(signed, gateway, &admitted, key)?;
        let asked = admitted.invite.as_ref().is_some_and(|(_, invite)| invite.approval == Approval::Human);
        let record = AdmissionRecord {
            claimed: asked.then_some(admitted.claimed),
            pattern: admitted.invite.filter(|_| admitted.claim.is_low()).map(|(_, invite)| invite.id),
            claim: admitted.claim,
            digest: admitted.digest,
            gateway: gateway.clone(),
            at: admitted.at,
            entry: signed.cut(),
            entry_digest: signed.digest,
            seen: signed.entry.seen.clone(),
            height: signed.height(),
        };
        let mut names = BTreeSet::from([record.claim.name.clone()]);
        self.names.entry(record.claim.name.clone()).or_default().insert(key);
        match self.members.get_mut(&key) {
            None => {
                self.members.insert(key, MemberRecord::new(record));
            }
            Some(member) => {
                names.insert(member.claim().name.clone());
                member.add(record);
            }
        }
        // The old key has said so itself, by signing the claim.
        if let Some(old) = replaced {
            if let Some(member) = self.members.get_mut(&old) {
                member.left = true;
            }
            self.end(signed, old);
        }
        for name in names {
            self.settle_name(&name);
        }
        Ok(())
    }

    /// The node key that this one takes the place of: it must have had the name.
    fn replaced(&self, signed: &SignedEntry, claim: &Claim) -> Result<Option<Digest>, Void> {
        let Some(old) = claim.replaces.map(|key| key.digest()) else {
            return Ok(None);
        };
        // Only what lies in its own past: which of two admissions stands may turn out later.
        let past = signed.past();
        let named = |given: &AdmissionRecord| past.holds(&given.entry) && given.claim.name == claim.name;
        match self.members.get(&old).filter(|member| member.admissions().any(named)) {
            Some(_) if old != claim.node_key.digest() => Ok(Some(old)),
            _ => Err(Void::Unknown(format!("node key {old} as `{}`", claim.name))),
        }
    }

    /// An invite dies with the signers who made it: those of now must have signed enough of it.
    fn check_invite_is_current(
        &self,
        signed: &SignedEntry,
        admission: &Envelope,
        admitted: &Admitted,
    ) -> Result<(), Void> {
        let current = self.signers_before(signed);
        let Some((_, invite)) = admitted.invite.as_ref() else {
            return Ok(());
        };
        if invite.signers == current.version && invite.approval == Approval::None {
            return Ok(());
        }
        let body: Admission = admission.peek(Some(self.org)).map_err(|why| bad(&why))?;
        if invite.approval == Approval::Human {
            let (about, name) = ((invite, body.claim.digest()), &admitted.claim.name);
            let sets = std::slice::from_ref(current);
            let approved = body.approval.as_ref().and_then(|by| Approved::check(by, about, name, admitted.at, sets));
            approved.ok_or_else(|| Void::Unknown("approval".to_owned()))?;
        }
        if invite.signers == current.version {
            return Ok(());
        }
        let opened = body.invite.as_ref().map(|envelope| current.open::<Invite>(envelope));
        if matches!(opened, Some(Ok(_))) { Ok(()) } else { Err(Void::Unknown(format!("invite {} now", invite.id))) }
    }

    /// One use per node key, at most as many as the gateway's right.
    fn spend(
        &mut self,
        signed: &SignedEntry,
        gateway: &NodeName,
        admitted: &Admitted,
        key: Digest,
    ) -> Result<(), Void> {
        let Some((digest, id)) = admitted.invite.as_ref().map(|(digest, invite)| (digest, invite.id)) else {
            return Ok(());
        };
        let (at, past) = (signed.entry.at, signed.past());
        let record = self.invites.get_mut(digest);
        let record = record.filter(|record| record.by.iter().any(|by| past.holds(by)));
        let record = record.ok_or_else(|| Void::Unknown(format!("invite {id}")))?;
        if record.uses_left(gateway) == Some(0) {
            return Err(Void::Overspent);
        }
        record.spent.entry(key).or_default().insert(Spend { by: signed.cut(), at });
        *record.spent_at.entry(signed.entry.author.clone()).or_default() += 1;
        Ok(())
    }

    fn join(&mut self, signed: &SignedEntry, key: &Digest) -> Result<(), Void> {
        let member = self.members.get_mut(key).filter(|member| member.is_known_to(signed.past()));
        let member = member.ok_or_else(|| Void::Unknown(format!("node key {key}")))?;
        add_first(&mut member.joined, signed);
        Ok(())
    }

    fn leave(&mut self, signed: &SignedEntry, envelope: &Envelope) -> Result<(), Void> {
        let named: Leave = envelope.peek(Some(self.org)).map_err(|why| bad(&why))?;
        let leave: Leave = envelope.open_signed_by(Some(self.org), &[named.node_key]).map_err(|why| bad(&why))?;
        let key = leave.node_key.digest();
        let member = self.members.get_mut(&key).filter(|member| member.is_known_to(signed.past()));
        member.ok_or_else(|| Void::Unknown(format!("node key {key}")))?.left = true;
        self.end(signed, key);
        Ok(())
    }
}

impl MemberRecord {
    const fn new(admission: AdmissionRecord) -> Self {
        Self { admission, rivals: Vec::new(), joined: BTreeSet::new(), left: false, outrun: false }
    }

    fn add(&mut self, mut admission: AdmissionRecord) {
        if admission.rank() < self.admission.rank() {
            std::mem::swap(&mut self.admission, &mut admission);
        }
        self.rivals.push(admission);
        self.rivals.sort_by_key(AdmissionRecord::rank);
    }
}
