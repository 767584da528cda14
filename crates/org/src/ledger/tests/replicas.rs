//! What honest machines and operators do in the small org, and what a replica can be asked.

use std::collections::BTreeMap;

use identity::envelope::{BadEnvelope, Envelope, Payload as _};
use identity::id::Digest;
use identity::principal::NodeName;
use identity::signers::{SignerSet, SignersRef};
use identity::time::Timestamp;

use super::world::{Org, Sent, day, key, node, voice};
use crate::founding::Founding;
use crate::ledger::draft::Draft;
use crate::ledger::entry::{Action, Entry, SignedEntry, Under};
use crate::ledger::fold::{Projection, Why};
use crate::ledger::judge::{Fact, Facts, MapPlace, Membership, NotMember, Shown, judge};
use crate::ledger::replica::Replica;
use crate::ledger::signers::{Frozen, InForce, Signers};
use crate::ledger::tests::drafting::{Wish, draft};

/// A replica with the bytes of its entries, as a store keeps them beside it: what it hands on is what it was given.
#[derive(Debug, Clone)]
pub struct Store {
    replica: Replica,
    written: BTreeMap<Digest, SignedEntry>,
}

impl Store {
    pub fn new(founding: &Founding, floor: Option<SignersRef>) -> Self {
        Self { replica: Replica::new(founding, floor), written: BTreeMap::new() }
    }

    pub fn take(&mut self, envelope: &Envelope, now: Timestamp) -> Result<(), BadEnvelope> {
        self.replica.take(envelope, now)?;
        if envelope.kind() == Entry::KIND {
            let signed = SignedEntry::open(self.replica.org, envelope.clone())?;
            self.written.insert(signed.digest, signed);
        }
        Ok(())
    }

    /// Every entry that the replica has now.
    pub fn entries(&self) -> impl Iterator<Item = &SignedEntry> {
        self.replica.chains.values().flat_map(BTreeMap::keys).map(|digest| &self.written[digest])
    }

    pub fn entries_of(&self, gateway: &str) -> impl Iterator<Item = &SignedEntry> {
        let voice = voice(gateway);
        self.entries().filter(move |signed| signed.entry.voice == voice)
    }

    pub fn entry(&self, digest: Digest) -> Option<&SignedEntry> {
        self.entries().find(|signed| signed.digest == digest)
    }
}

impl std::ops::Deref for Store {
    type Target = Replica;
    fn deref(&self) -> &Replica {
        &self.replica
    }
}

impl std::ops::DerefMut for Store {
    fn deref_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }
}

pub fn hear(replica: &mut Store, sent: &Sent, on: u64) {
    if let Some(map) = &sent.map {
        replica.take_map(map);
    }
    replica.take(&sent.envelope, day(on)).unwrap();
}

pub fn tell(replica: &mut Store, envelope: &Envelope, on: u64) {
    replica.take(envelope, day(on)).unwrap();
}

pub fn hear_all(replica: &mut Store, all: &[Sent], on: u64) {
    for sent in all {
        hear(replica, sent, on);
    }
}

/// Everything that a replica could hand on.
pub fn holdings(replica: &Store) -> Vec<Sent> {
    let map = |root: Option<Digest>| root.and_then(|root| replica.maps.get(&root)).cloned();
    let heads = replica.heads.values();
    let heads = heads.map(|record| Sent { envelope: record.envelope.clone(), map: map(record.head.members) });
    let steps = replica.steps.values().map(|step| step.envelope.clone().into());
    let objects = replica.objects.values().map(|object| object.clone().into());
    let entries = replica.entries().map(|signed| signed.clone().into());
    heads.chain(steps).chain(objects).chain(entries).collect()
}

pub fn give(from: &Store, to: &mut Store, on: u64) {
    hear_all(to, &holdings(from), on);
}

/// The next head as the honest tool drafts it, signed, and taken where it was made.
pub fn publish(org: &Org, home: &mut Store, (on, by): (u64, &[&str]), wish: &Wish) -> Sent {
    let Draft { head, leaves, .. } = draft(home, day(on), wish).unwrap();
    let sent = org.head(head, leaves, by);
    hear(home, &sent, on);
    sent
}

/// A succession by the set in force and the new set's first head, in one act.
pub fn install(
    org: &Org,
    home: &mut Store,
    on: u64,
    to: &SignerSet,
    (old, new): (&[&str], &[&str]),
) -> (Envelope, Sent) {
    let ground = home.ground(day(on)).unwrap();
    let step = org.succession(&ground.set, to, ground.head.unwrap().digest, old);
    tell(home, &step, on);
    (step, publish(org, home, (on, new), &Wish::default()))
}

/// The chain's end, as far as it is here.
pub fn last<'a>(replica: &'a Store, gateway: &str) -> Option<&'a SignedEntry> {
    replica.entries_of(gateway).max_by_key(|signed| (signed.entry.seq, signed.digest))
}

pub fn under(replica: &Replica, on: u64) -> Under {
    let head = replica.ground(day(on)).ok().and_then(|ground| ground.head);
    head.map_or(Under { version: 0, digest: Digest([0; 32]) }, |it| Under {
        version: it.head.version,
        digest: it.digest,
    })
}

/// A gateway writes whatever it is at its chain's end.
pub fn write(org: &Org, at: &mut Store, gateway: &str, on: u64, action: Action) -> SignedEntry {
    let signed = org.entry(gateway, last(at, gateway), under(at, on), action);
    tell(at, &signed.envelope, on);
    signed
}

pub fn admission(org: &Org, who: (&str, &str), invite: &Envelope) -> Action {
    Action::NodeAdmit { claim: org.claim(who, invite, None), invite: Some(invite.clone()), approval: None }
}

/// A gateway lets a machine in: its key, its name.
pub fn admit(
    org: &Org,
    at: &mut Store,
    (gateway, on): (&str, u64),
    who: (&str, &str),
    invite: &Envelope,
) -> SignedEntry {
    write(org, at, gateway, on, admission(org, who, invite))
}

// ---- what a replica can be asked ----

pub fn state(replica: &Replica, on: u64) -> Projection {
    replica.state(day(on)).unwrap()
}

pub fn holder(replica: &Replica, name: &str, on: u64) -> Option<Digest> {
    state(replica, on).members.get(&node(name)).map(|admitted| admitted.key)
}

#[track_caller]
pub fn assert_holds(replica: &Replica, name: &str, key_name: &str, on: u64) {
    assert_eq!(holder(replica, name, on), Some(key(key_name)), "{name}: {:?}", state(replica, on).waiting);
}

#[track_caller]
pub fn assert_nobody(replica: &Replica, name: &str, on: u64) {
    assert_eq!(holder(replica, name, on), None, "{name}");
}

pub fn why(replica: &Replica, entry: &SignedEntry, on: u64) -> Option<Why> {
    state(replica, on).waiting.get(&entry.digest).map(|waiting| waiting.why.clone())
}

#[track_caller]
pub fn assert_waits(replica: &Replica, entry: &SignedEntry, on: u64, expected: &NotMember) {
    assert_eq!(why(replica, entry, on), Some(Why::Judged(expected.clone())));
}

pub fn head_of(replica: &Replica, on: u64) -> Option<Digest> {
    state(replica, on).head
}

#[track_caller]
pub fn in_force(replica: &Replica, on: u64) -> InForce {
    match replica.signers(day(on)) {
        Signers::InForce(in_force) => in_force,
        Signers::Frozen(frozen) => panic!("frozen: {frozen:?}"),
    }
}

pub fn frozen(replica: &Replica, on: u64) -> Option<Frozen> {
    match replica.signers(day(on)) {
        Signers::InForce(_) => None,
        Signers::Frozen(frozen) => Some(frozen),
    }
}

/// A peer holds no chains; it may remember whom it saw first.
pub struct Peer {
    pub pinned: Option<Digest>,
}

impl Facts for Peer {
    fn pinned(&self, _: &NodeName) -> Fact<Option<Digest>> {
        Fact::Known(self.pinned)
    }
}

/// Somebody shows itself by the leaf that it has in this head's map.
pub fn shows_leaf(replica: &Replica, by: &Sent, name: &str, on: u64) -> Result<Membership, NotMember> {
    let leaf = &by.map.as_ref().unwrap()[&node(name)];
    let place = MapPlace::Leaf { leaf, by: by.digest() };
    let shown = Shown { name: &leaf.name, key: leaf.node_key, place, evidence: None };
    judge(shown, &replica.ground(day(on)).unwrap(), &Peer { pinned: None })
}
