//! A small org as its replicas have it: each with its state, and with the bytes that it hands on.

use std::collections::BTreeMap;

use identity::envelope::{Envelope, Payload as _};
use identity::id::{Correlation, Digest, InviteId};
use identity::key::Sign as _;

use crate::enroll::{Attempt, EnrollOutcome, check_name_is_free, consider};
use crate::founding::Founding;
use crate::invite::Invite;
use crate::invite::admission::Claim;
use crate::ledger::draft::Draft;
use crate::ledger::entry::{Action, Entry, SignedEntry, Stamp, Under};
use crate::ledger::fold::{self, Why};
use crate::ledger::frontier::Frontier;
use crate::ledger::step::Sights;
use crate::ledger::tests::drafting::{Wish, draft};
use crate::ledger::tests::world::{Org, Sent, day, ed, key, machine, node, voice};
use crate::refusal::Refusal;
use crate::state::grant::{Granted, KnownInvite, ProvenClaim};
use crate::state::take::NotTaken;
use crate::state::{InviteRecord, Invites, MemberRecord, Members, Objects, Standing, State};

/// The gateway that is asked in tests that need one.
pub const HERE: &str = "g1";

/// Why somebody was not let in.
#[derive(Debug, PartialEq, Eq)]
pub enum Turned {
    Away(Refusal),
    /// A person must look first.
    Wait,
    NotTaken(NotTaken),
}

/// A home or a gateway.
#[derive(Debug, Clone)]
pub struct Site {
    pub state: State,
    entries: BTreeMap<Digest, SignedEntry>,
}

impl Site {
    /// Knows the first head.
    pub fn of(org: &Org) -> Self {
        let mut site = Self::newcomer(&org.founding);
        site.hear(&org.first, 0);
        site
    }

    pub fn newcomer(founding: &Founding) -> Self {
        Self { state: State::of(founding), entries: BTreeMap::new() }
    }

    /// Without judging it yet.
    pub fn take(&mut self, sent: &Sent, on: u64) {
        if let Some(map) = &sent.map {
            self.state.replica.take_map(map);
        }
        if sent.envelope.kind() == Entry::KIND {
            let signed = SignedEntry::open(self.state.org, sent.envelope.clone()).unwrap();
            self.state.take_entry(&signed, day(on));
            self.entries.insert(signed.digest, signed);
        } else {
            self.state.take(&sent.envelope, day(on)).unwrap();
        }
    }

    pub fn hear(&mut self, sent: &Sent, on: u64) {
        self.take(sent, on);
        self.state.conclude(day(on));
    }

    pub fn hear_all(&mut self, all: &[Sent], on: u64) {
        for sent in all {
            self.take(sent, on);
        }
        self.state.conclude(day(on));
    }

    pub fn told(&mut self, envelope: &Envelope, on: u64) {
        self.hear(&envelope.clone().into(), on);
    }

    /// Everything that it could hand on.
    pub fn holdings(&self) -> Vec<Sent> {
        let replica = &self.state.replica;
        let map = |root: Option<Digest>| root.and_then(|root| replica.maps.get(&root)).cloned();
        let heads = replica.heads.values();
        let heads = heads.map(|record| Sent { envelope: record.envelope.clone(), map: map(record.head.members) });
        let steps = replica.steps.values().map(|step| step.envelope.clone().into());
        let objects = replica.objects.values().map(|object| object.clone().into());
        heads.chain(steps).chain(objects).chain(self.entries.values().cloned().map(Sent::from)).collect()
    }

    pub fn give(&self, to: &mut Self, on: u64) {
        to.hear_all(&self.holdings(), on);
    }

    /// What a replica says that has the same, heard in this order and judged once.
    pub fn afresh(&self, founding: &Founding, things: &[Sent], on: u64) -> State {
        let mut other = Self::newcomer(founding);
        other.state.replica.sights.clone_from(&self.state.replica.sights);
        other.hear_all(things, on);
        other.state
    }

    // ---- what a gateway does ----

    /// The next entry of its chain, not yet taken.
    pub fn draft(&self, (gateway, on): (&str, u64), action: Action) -> SignedEntry {
        let last = self.state.frontier.place_of(&voice(gateway));
        let head = self.state.head().map(|record| Under { version: record.head.version, digest: record.digest });
        let under = head.unwrap_or(Under { version: 0, digest: Digest([0; 32]) });
        let when = Stamp { at: day(on), correlation: Correlation([0; 8]) };
        SignedEntry::write(self.state.org, last, &ed(gateway), under, when, action).unwrap()
    }

    pub fn write(&mut self, at: (&str, u64), action: Action) -> Result<SignedEntry, NotTaken> {
        let signed = self.draft(at, action);
        self.put(&signed, None, at.1)?;
        Ok(signed)
    }

    fn put(&mut self, signed: &SignedEntry, granted: Option<&Granted>, on: u64) -> Result<(), NotTaken> {
        self.state.take_own(signed, granted, day(on))?;
        self.entries.insert(signed.digest, signed.clone());
        Ok(())
    }

    /// Whatever operators signed, handed in at a gateway.
    pub fn handed(&mut self, at: (&str, u64), sent: &Sent) -> SignedEntry {
        if let Some(map) = &sent.map {
            self.state.replica.take_map(map);
        }
        self.write(at, Action::Take { envelope: sent.envelope.clone() }).unwrap()
    }

    /// As a gateway lets somebody in: asked, proven, granted, written.
    pub fn admit(&mut self, at: (&str, u64), claim: &Envelope) -> Result<SignedEntry, Turned> {
        let (granted, body) = self.grant(at, claim)?;
        let published = self.state.leaves().and_then(|leaves| leaves.get(&body.name)).map(|leaf| leaf.node_key);
        check_name_is_free(&self.state, &body, published).map_err(Turned::Away)?;
        let signed = self.draft(at, granted.action().clone());
        self.put(&signed, Some(&granted), at.1).map_err(Turned::NotTaken)?;
        Ok(signed)
    }

    fn grant(&self, (gateway, on): (&str, u64), claim: &Envelope) -> Result<(Granted, Claim), Turned> {
        let body: Claim = claim.peek(Some(self.state.org)).unwrap();
        let verdict = self.ask((gateway, on), &body, claim.digest()).map_err(Turned::Away)?;
        let known = match verdict {
            EnrollOutcome::Admit { .. } => KnownInvite::from(&verdict),
            EnrollOutcome::Wait { .. } => return Err(Turned::Wait),
            EnrollOutcome::Again { .. } => panic!("it is in already"),
        };
        let proven = ProvenClaim::check(claim.clone(), self.state.org, &known).unwrap();
        Ok((Granted::new(proven, known).unwrap(), body))
    }

    pub fn ask(
        &self,
        (gateway, on): (&str, u64),
        claim: &Claim,
        claimed: Digest,
    ) -> Result<EnrollOutcome<'_>, Refusal> {
        let source = "10.1.2.3".parse().unwrap();
        consider(&self.state, Attempt { claim, claimed, source, gateway: &node(gateway), now: day(on) })
    }

    /// Written without any question: what it amounts to is asked later, by whoever hears of it.
    pub fn force(&mut self, at: (&str, u64), action: Action) -> SignedEntry {
        let signed = self.draft(at, action);
        self.hear(&signed.clone().into(), at.1);
        signed
    }

    pub fn join(&mut self, at: (&str, u64), (key_name, name): (&str, &str)) -> SignedEntry {
        self.write(at, Action::NodeJoin { node_key: key(key_name), name: node(name) }).unwrap()
    }

    pub fn leave(&mut self, org: &Org, at: (&str, u64), (key_name, name): (&str, &str)) -> SignedEntry {
        self.write(at, Action::NodeLeave { leave: org.leave(key_name), name: node(name) }).unwrap()
    }

    // ---- what operators do here ----

    /// The next head as the honest tool drafts it, signed and taken.
    pub fn publish(&mut self, org: &Org, (on, by): (u64, &[&str]), wish: &Wish) -> Sent {
        let Draft { head, leaves, .. } = draft(&self.state.replica, day(on), wish).unwrap();
        let sent = org.head(head, leaves, by);
        self.hear(&sent, on);
        sent
    }

    /// A succession by the set in force and the new set's first head, in one act.
    pub fn install(&mut self, org: &Org, on: u64, (version, names): (u64, &[&str]), old: &[&str]) -> [Sent; 2] {
        let (head, to) = (self.state.head().unwrap().digest, org.later(version, 1, names));
        let step = org.succession(self.state.signer_set(), &to, head, old);
        self.told(&step, on);
        let head = self.publish(org, (on, &names[..1]), &Wish::default());
        [step.into(), head]
    }

    // ---- what it can be asked ----

    pub fn member(&self, key_name: &str) -> Option<&MemberRecord> {
        self.state.member(&machine(key_name).public())
    }

    pub fn standing(&self, key_name: &str) -> Option<Standing> {
        self.member(key_name).map(|member| self.state.standing(member))
    }

    pub fn why(&self, key_name: &str) -> Option<Why> {
        self.member(key_name).and_then(|member| member.why.clone())
    }

    pub fn holder(&self, name: &str) -> Option<Digest> {
        self.state.holder(&node(name)).map(|member| member.claim().node_key.digest())
    }

    pub fn invite(&self, id: &str) -> &InviteRecord {
        self.state.invite(invite_id(id)).unwrap().1
    }
}

pub fn invite_id(id: &str) -> InviteId {
    crate::ledger::tests::world::invite(id, &[], &[], 0).id
}

/// An org with one signer, and its one gateway that anybody asks; it knows these invites.
pub fn invited(invites: &[Invite]) -> (Org, Site) {
    let org = Org::new(1, &["ann"]);
    let mut site = Site::of(&org);
    for invite in invites {
        site.told(&org.seal(invite, &["ann"]), 0);
    }
    (org, site)
}

/// What whoever asks a state finds there, but for the moment when it was judged.
#[derive(Debug, PartialEq)]
pub struct Said {
    fold: fold::Projection,
    frontier: Frontier,
    sights: Sights,
    members: Members,
    invites: Invites,
    objects: Objects,
    rest: String,
}

pub fn said(state: &State) -> Said {
    let others = (&state.judged.signers, &state.judged.ground, &state.judged.voices, &state.replica.objects);
    Said {
        fold: state.judged.fold.clone(),
        frontier: state.frontier.clone(),
        sights: state.replica.sights.clone(),
        members: state.members.clone(),
        invites: state.invites.clone(),
        objects: state.objects.clone(),
        rest: format!("{others:?}"),
    }
}
