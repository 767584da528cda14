//! What one more entry of the ledger changes.
//!
//! Law: entries that do not lie in each other's past commute. Every rule looks only at what lies in the entry's own
//! past, or adds to a set. `tests.rs` holds it to that.

use std::collections::{BTreeMap, BTreeSet};

use identity::bundle::{Bundle, Endpoint, Identity};
use identity::envelope::Envelope;
use identity::head::{BadHead, Cut, SignedHead};
use identity::id::Digest;
use identity::principal::{Author, NodeName};
use identity::signers::{Signer, SignerSet};

use crate::admission::{Admission, Admitted, ClaimAuthority, Leave, open_invite};
use crate::entry::{Action, Cause, FIRST_EPOCH, Past, SignedEntry};
use crate::state::{
    AdmissionRecord, BundleRecord, HeadRecord, Installed, InviteRecord, MemberRecord, Spend, State, Void,
};

/// Why an entry cannot enter the ledger at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("`{0}` is no author of this org, or signed with another key")]
    NotAnAuthor(Author),
    #[error("the chain of `{author}` is at {known}; this entry is number {found}")]
    OutOfTurn { author: Author, known: u64, found: u64 },
    #[error("two entries claim place {seq} in the chain of `{author}`")]
    Forks { author: Author, seq: u64 },
    #[error("it has seen entries that are not known here")]
    FromTheFuture,
}

impl State {
    /// Takes one entry; the caller delivers in causal order. A void entry stands, without effect.
    pub fn apply(&mut self, signed: &SignedEntry) -> Result<Result<(), Void>, Unfit> {
        self.check_turn(signed)?;
        self.check_author(signed)?;
        let effect = self.act(signed);
        if let Err(void) = &effect {
            self.void.insert(signed.digest, void.clone());
        }
        self.frontier.0.insert(signed.entry.author.clone(), signed.place());
        Ok(effect)
    }

    /// What a gateway demands of an operator's entry on top: a head must follow the one in force, as every node will
    /// demand of it. Replicas cannot ask this of each other, since heads from two sides may meet.
    pub fn check_follows(&self, signed: &SignedEntry) -> Result<(), BadHead> {
        let (Action::HeadPublish { head, .. }, Some(known)) = (&signed.entry.action, self.head()) else {
            return Ok(());
        };
        let next = SignedHead { head: head.peek(Some(self.org))?, digest: head.digest() };
        let mut known = SignedHead { head: known.head.clone(), digest: known.digest };
        // Remove wins, whichever head named it first.
        known.head.revocations.absorb(&self.revocations);
        next.may_follow(&known)
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
        if entry.epoch != FIRST_EPOCH || last.checked_add(1) != Some(entry.seq) {
            return Err(Unfit::OutOfTurn { author, known: last, found: entry.seq });
        }
        if entry.previous != previous {
            return Err(Unfit::Forks { author, seq: entry.seq });
        }
        self.check_seen(signed)
    }

    pub(crate) fn check_seen(&self, signed: &SignedEntry) -> Result<(), Unfit> {
        let mut others = signed.entry.seen.clone();
        others.0.remove(&signed.entry.author);
        if self.frontier.covers_all(&others) { Ok(()) } else { Err(Unfit::FromTheFuture) }
    }

    pub(crate) fn check_author(&self, signed: &SignedEntry) -> Result<(), Unfit> {
        let entry = &signed.entry;
        let known = match &entry.author {
            Author::Signer(name) => self.signers_before(signed).quorum.key_of(name) == Some(entry.key),
            Author::Gateway(name) => {
                let mandated = self.voices.get(&entry.key).and_then(|gateways| gateways.get(name));
                mandated.is_some_and(|by| by.iter().any(|by| signed.past().holds(by)))
            }
        };
        if known { Ok(()) } else { Err(Unfit::NotAnAuthor(entry.author.clone())) }
    }

    /// The newest signer set in the entry's own past.
    fn signers_before(&self, signed: &SignedEntry) -> &SignerSet {
        self.sets_before(signed).last().unwrap_or(&self.first)
    }

    /// Every signer set in the entry's own past, the newest last.
    fn sets_before(&self, signed: &SignedEntry) -> impl DoubleEndedIterator<Item = &SignerSet> {
        let in_past = |installed: &&Installed| installed.by.iter().any(|by| signed.past().holds(by));
        std::iter::once(&self.first).chain(self.later.iter().filter(in_past).map(|installed| &installed.set))
    }

    /// Who may do what, then the doing. A new action does not compile until someone decides.
    fn act(&mut self, signed: &SignedEntry) -> Result<(), Void> {
        match (&signed.entry.author, &signed.entry.action) {
            (Author::Signer(_), Action::OrgFound { founding }) => self.found(founding),
            (Author::Signer(_), Action::SignersInstall { signers }) => self.install(signed, signers),
            (Author::Signer(_), Action::TrustPublish { bundle }) => self.publish_bundle(signed, bundle),
            (Author::Signer(_), Action::HeadPublish { head, cause }) => self.publish_head(signed, head, cause),
            (Author::Signer(_), Action::InviteCreate { invite }) => self.create_invite(signed, invite),
            (Author::Gateway(gateway), Action::NodeAdmit { admission }) => self.admit(signed, gateway, admission),
            (Author::Gateway(_), Action::NodeJoin { node_key, .. }) => self.join(signed, node_key),
            (Author::Gateway(_), Action::NodeLeave { leave, .. }) => self.leave(signed, leave),
            (Author::Signer(_), Action::NodeAdmit { .. } | Action::NodeJoin { .. } | Action::NodeLeave { .. })
            | (
                Author::Gateway(_),
                Action::OrgFound { .. }
                | Action::SignersInstall { .. }
                | Action::TrustPublish { .. }
                | Action::HeadPublish { .. }
                | Action::InviteCreate { .. },
            ) => Err(Void::BeyondPower),
        }
    }

    fn found(&self, founding: &Envelope) -> Result<(), Void> {
        if founding.digest().0 == self.org.0 { Ok(()) } else { Err(Void::BadObject("another org's founding".into())) }
    }

    fn install(&mut self, signed: &SignedEntry, envelope: &Envelope) -> Result<(), Void> {
        let signers = self.signers_before(signed);
        let set = signers.succeed(envelope).map_err(|why| bad(&why))?;
        // A name stands for one key for ever: else the old key could go on writing the new one's chain.
        let renamed = |signer: &Signer| {
            self.sets_before(signed).any(|old| old.quorum.key_of(&signer.name).is_some_and(|key| key != signer.key))
        };
        if set.quorum.signers().iter().any(renamed) {
            return Err(Void::BadObject("a signer's name is given to another key".into()));
        }
        let envelope = envelope.kept(&signers.quorum.keys());
        if let Some(known) = self.later.iter_mut().find(|installed| installed.set.id == set.id) {
            known.envelope.merge(&envelope);
            add_first(&mut known.by, signed);
        } else {
            self.later.push(Installed { set, envelope, by: BTreeSet::from([signed.cut()]) });
            self.later.sort_by_key(|installed| (installed.set.version, installed.set.id));
        }
        Ok(())
    }

    fn publish_bundle(&mut self, signed: &SignedEntry, envelope: &Envelope) -> Result<(), Void> {
        let signers = self.signers_before(signed);
        let body = match Bundle::<Identity>::open(signers, envelope) {
            Ok(bundle) => bundle.body().clone(),
            Err(_) => Bundle::<Endpoint>::open(signers, envelope).map_err(|why| bad(&why))?.body().clone(),
        };
        let envelope = envelope.kept(&signers.quorum.keys());
        let known = self.bundles.entry(envelope.digest());
        known.or_insert_with(|| BundleRecord { body, envelope: envelope.clone() }).envelope.merge(&envelope);
        Ok(())
    }

    fn publish_head(&mut self, signed: &SignedEntry, envelope: &Envelope, cause: &Cause) -> Result<(), Void> {
        let signers = self.signers_before(signed);
        let opened = SignedHead::open(signers, envelope).map_err(|why| bad(&why))?;
        let envelope = envelope.kept(&signers.quorum.keys());
        let head = &opened.head;
        let does_it = match cause {
            Cause::Founding | Cause::Refresh => true,
            Cause::NodeRevoke { node_key, .. } => head.revocations.node_keys.contains(node_key),
            Cause::InviteRevoke { invite } => head.revocations.invite_is_revoked(*invite),
        };
        if !does_it {
            return Err(Void::BadObject("the head does not do what the entry says".into()));
        }
        self.revocations.absorb(&head.revocations);
        for mandate in &head.mandates {
            let gateways = self.voices.entry(mandate.voice).or_default();
            add_first(gateways.entry(mandate.gateway.clone()).or_default(), signed);
        }
        for key in &head.revocations.node_keys {
            self.end(signed, *key);
        }
        let (version, digest) = (head.version, opened.digest);
        let record = HeadRecord { digest, envelope, head: opened.head, contested: false };
        match self.heads.get_mut(&version) {
            None => {
                self.heads.insert(version, record);
            }
            Some(known) if known.digest == digest => known.envelope.merge(&record.envelope),
            // Two heads under one number: both are shown, the lower digest stands wherever this is folded.
            Some(known) => {
                let keep = if known.digest < digest { known.clone() } else { record };
                *known = HeadRecord { contested: true, ..keep };
            }
        }
        Ok(())
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

    fn admit(&mut self, signed: &SignedEntry, gateway: &NodeName, envelope: &Envelope) -> Result<(), Void> {
        // Only what lies in its own past may judge it, or two replicas would judge differently.
        let sets: Vec<_> = self.sets_before(signed).cloned().collect();
        let checked = Admission::check(envelope, self.org, signed.entry.key, &sets);
        let admitted = checked.map_err(|why| bad(&why))?;
        if admitted.gateway != *gateway {
            return Err(Void::BeyondPower);
        }
        let key = admitted.claim.node_key.digest();
        let known = self.members.get(&key);
        if known.is_some_and(|member| member.admissions().any(|earlier| signed.past().holds(&earlier.entry))) {
            return Err(Void::Repeats);
        }
        self.spend(signed, gateway, &admitted, key)?;
        let record = AdmissionRecord {
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
        for name in names {
            self.settle_name(&name);
        }
        Ok(())
    }

    /// One use per node key, at most as many as the gateway's right.
    fn spend(
        &mut self,
        signed: &SignedEntry,
        gateway: &NodeName,
        admitted: &Admitted,
        key: Digest,
    ) -> Result<(), Void> {
        let ClaimAuthority::Invite(id) = admitted.claim.authority else {
            return Ok(());
        };
        let (at, past) = (signed.entry.at, signed.past());
        let record = admitted.invite.as_ref().and_then(|(digest, _)| self.invites.get_mut(digest));
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

    fn end(&mut self, signed: &SignedEntry, key: Digest) {
        add_first(self.endings.entry(key).or_default(), signed);
        if let Some(name) = self.members.get(&key).map(|member| member.claim().name.clone()) {
            self.settle_name(&name);
        }
    }

    /// Decides anew who holds a name, from all claims to it: whoever is lowest in history, and each later one in
    /// whose own past all earlier ones had ended.
    fn settle_name(&mut self, name: &NodeName) {
        let claimed = self.names.get(name).into_iter().flatten();
        let claimed = claimed.filter_map(|key| self.members.get_key_value(key));
        let mut rivals: Vec<_> = claimed.filter(|(_, member)| member.claim().name == *name).collect();
        rivals.sort_by_key(|(_, member)| member.admission.rank());
        let (mut standing, mut verdicts) = (Vec::new(), Vec::new());
        for (key, member) in rivals {
            let gone = |earlier: &Digest| {
                let endings = self.endings.get(earlier);
                endings.is_some_and(|endings| endings.iter().any(|at| member.admission.has_seen(at)))
            };
            let outrun = !standing.iter().all(gone);
            if !outrun {
                standing.push(*key);
            }
            verdicts.push((*key, outrun));
        }
        for (key, outrun) in verdicts {
            if let Some(member) = self.members.get_mut(&key) {
                member.outrun = outrun;
            }
        }
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

    pub(crate) fn admissions(&self) -> impl Iterator<Item = &AdmissionRecord> {
        std::iter::once(&self.admission).chain(&self.rivals)
    }

    /// True for every admission that a gateway gave this node key, also for one that another came before.
    pub fn was_given(&self, admission: Digest) -> bool {
        self.admissions().any(|given| given.digest == admission)
    }

    fn is_known_to(&self, past: Past<'_>) -> bool {
        self.admissions().any(|admission| past.holds(&admission.entry))
    }
}

/// Keeps only the first entries of their kind: none that another already had in its past.
fn add_first(first: &mut BTreeSet<Cut>, signed: &SignedEntry) {
    if !first.iter().any(|at| signed.past().holds(at)) {
        first.insert(signed.cut());
    }
}

fn bad(why: &dyn std::fmt::Display) -> Void {
    Void::BadObject(why.to_string())
}
