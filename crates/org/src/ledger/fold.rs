//! The fold (event sourcing): from a ground and the chains that are here to who is a member, and who waits and why.
//! Pure.
//!
//! Law: equal heads, objects, entries and sights give equal states, in whatever order they came.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::Envelope;
use identity::head::Recorded;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::members::NodeLeaf;
use identity::principal::NodeName;
use identity::signers::SignersRef;

use crate::ledger::chain::{Act, Chain, Entries, Written};
use crate::ledger::evidence::{BadEvidence, Evidence, Papers};
use crate::ledger::ground::Ground;
use crate::ledger::judge::{Fact, Facts, Link, MapPlace, Membership, NotMember, Shown, Unseen, judge};

/// Leaves of nodes, by name.
pub type Leaves = BTreeMap<NodeName, NodeLeaf>;

/// Of each voice and invite, the node keys that spent it, and how many others did before, in the order of the chain.
pub type Spent = BTreeMap<(PublicKey, Digest), BTreeMap<Digest, u64>>;

/// How many other keys did before this one, or have done if it did not.
pub(crate) fn before(spent: &Spent, voice: PublicKey, invite: Digest, key: Digest) -> u64 {
    spent.get(&(voice, invite)).map_or(0, |keys| keys.get(&key).copied().unwrap_or(keys.len() as u64))
}

/// What a replica has beside the ground.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holdings<'a> {
    /// The map of the head in force. Nothing if the head names one that is not here.
    pub leaves: Option<&'a Leaves>,
    pub chains: &'a BTreeMap<PublicKey, Entries>,
    /// What operators signed, by digest: new signatures on what an entry carries count, too.
    pub objects: &'a BTreeMap<Digest, Envelope>,
    /// Claims to which a signer of the set in force said no.
    pub denied: &'a BTreeSet<Digest>,
}

/// What the entries add up to under one ground: the replica's read model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    pub signers: SignersRef,
    pub head: Option<Digest>,
    pub members: BTreeMap<NodeName, Admitted>,
    /// By the digest of the entry.
    pub waiting: BTreeMap<Digest, Waiting>,
    /// Chains of gateways with a mandate that fork, and where.
    pub forks: BTreeMap<PublicKey, u64>,
    /// Listed names that their own keys hand on: whose they are from the next head on.
    pub handed: BTreeMap<NodeName, Admitted>,
    /// Node keys that said themselves that they leave.
    pub left: BTreeSet<Digest>,
    /// Node keys that came back with their SVID.
    pub joined: BTreeSet<Digest>,
    pub spent: Spent,
    /// Voices whose whole chain is here.
    pub whole: BTreeSet<PublicKey>,
    /// Where a chain goes on: how far it links to the record, if nothing of it lies beyond.
    pub ends: BTreeMap<PublicKey, Recorded>,
    /// The name that the head in force lists for a key.
    pub listed: BTreeMap<Digest, NodeName>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    pub key: Digest,
    pub admission: Digest,
    pub member: Membership,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Unknown if the entry cannot be read.
    pub claims: Option<(NodeName, Digest)>,
    pub voice: PublicKey,
    pub seq: u64,
    pub why: Why,
}

/// Why an admission does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error(transparent)]
    Judged(#[from] NotMember),
    #[error("another machine was let in under this name, or this one under another: an operator decides")]
    Contested,
    #[error("the operators have recorded it, and gave it no place among the members")]
    Passed,
    #[error("the members' map of the head in force is not here yet")]
    NoMap,
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] BadEvidence),
}

impl Why {
    /// Somebody did what operators had not allowed: a person must look.
    pub const fn is_alarm(&self) -> bool {
        match self {
            Self::Judged(why) => why.is_alarm() || matches!(why, NotMember::NoUsesLeft),
            Self::Contested => true,
            Self::Passed | Self::NoMap | Self::Unreadable(_) => false,
        }
    }
}

/// One admission of a chain, read.
struct Claimed<'a> {
    written: &'a Written,
    papers: &'a Papers,
    /// With signatures that came since.
    resigned: Option<Evidence>,
    /// A leaf names it.
    is_listed: bool,
    recorded: bool,
}

pub(crate) fn fold(ground: &Ground, holdings: Holdings<'_>) -> Projection {
    let mut state = Projection {
        signers: ground.set.as_ref(),
        head: ground.head.as_ref().map(|record| record.digest),
        members: BTreeMap::new(),
        waiting: BTreeMap::new(),
        forks: BTreeMap::new(),
        handed: BTreeMap::new(),
        left: BTreeSet::new(),
        joined: BTreeSet::new(),
        spent: Spent::new(),
        whole: BTreeSet::new(),
        ends: BTreeMap::new(),
        listed: BTreeMap::new(),
    };
    let mut known = Known::default();
    let mut claimed = Vec::new();
    let listed = holdings.leaves.into_iter().flat_map(BTreeMap::values).map(|leaf| leaf.admission).collect();
    let around = Around { ground, objects: holdings.objects, listed: &listed };
    for (voice, entries) in holdings.chains {
        let record = ground.head().and_then(|head| head.record.get(voice).copied());
        let chain = Chain::of(entries, record);
        // A chain that ended goes nowhere: there is nothing to choose any more.
        let open = ground.mandate(*voice).is_some();
        state.forks.extend(chain.forked_at.filter(|_| open).map(|seq| (*voice, seq)));
        let end = chain.end(record).filter(|end| entries.values().all(|written| written.seq <= end.seq));
        state.ends.extend(end.map(|end| (*voice, end)));
        known.read(around, *voice, entries, &chain, &mut claimed);
        state.joined.extend(chain.recorded.iter().chain(&chain.tail).filter_map(|written| joined(written)));
    }
    known.denied = Some(holdings.denied);
    let none = Leaves::new();
    let leaves = match (ground.head().and_then(|head| head.members), holdings.leaves) {
        (None, _) => &none,
        (Some(_), Some(leaves)) => leaves,
        (Some(_), None) => {
            state.waiting = claimed.iter().map(|it| (it.written.digest, it.waits(Why::NoMap))).collect();
            (state.spent, state.whole) = (known.spent, known.whole);
            return state;
        }
    };
    known.names = leaves.values().map(|leaf| (leaf.node_key, leaf.name.clone())).collect();
    list(&mut state, ground, leaves, &known);
    admit(&mut state, ground, leaves, &known, &claimed);
    state.handed = handed(&state, ground, leaves, &known, &claimed);
    state.left = known.left;
    (state.spent, state.whole, state.listed) = (known.spent, known.whole, known.names);
    state
}

const fn joined(written: &Written) -> Option<Digest> {
    match &written.act {
        Act::Join(node_key) => Some(*node_key),
        Act::Admit(_) | Act::Leave(_) | Act::Take => None,
    }
}

/// Whom the operators' map lists.
fn list(state: &mut Projection, ground: &Ground, leaves: &Leaves, known: &Known<'_>) {
    let Some(by) = state.head else { return };
    for leaf in leaves.values() {
        let place = MapPlace::Leaf { leaf, by };
        let shown = Shown { name: &leaf.name, key: leaf.node_key, place, evidence: None };
        if let Ok(member) = judge(shown, ground, known) {
            let admitted = Admitted { key: leaf.node_key, admission: leaf.admission, member };
            state.members.insert(leaf.name.clone(), admitted);
        }
    }
}

/// Whom gateways let in since.
fn admit(state: &mut Projection, ground: &Ground, leaves: &Leaves, known: &Known<'_>, claimed: &[Claimed<'_>]) {
    let mut counting: Vec<(&Claimed<'_>, &Evidence, Membership)> = Vec::new();
    for it in claimed {
        let verdict = match it.evidence() {
            Err(why) => Err(Why::Unreadable(why.clone())),
            Ok(evidence) if it.recorded => match leaves.get(&evidence.claim.name) {
                Some(leaf) if leaf.node_key == evidence.key() => continue,
                Some(_) | None => Err(passed(ground, leaves, known, evidence)),
            },
            Ok(evidence) => considered(ground, leaves, known, evidence).map(|member| (evidence, member)),
        };
        match verdict {
            Ok((_, Membership::Listed)) => {}
            Ok((evidence, member)) => counting.push((it, evidence, member)),
            Err(why) => drop(state.waiting.insert(it.written.digest, it.waits(why))),
        }
    }
    // Two keys under one name, or two names of one key: all wait. What does not count contests nothing.
    let (mut keys, mut names): (BTreeMap<_, BTreeSet<_>>, BTreeMap<_, BTreeSet<_>>) = Default::default();
    for (_, evidence, _) in &counting {
        keys.entry(&evidence.claim.name).or_default().insert(evidence.key());
        names.entry(evidence.key()).or_default().insert(&evidence.claim.name);
    }
    for (it, evidence, member) in &counting {
        let alone = keys.get(&evidence.claim.name).is_some_and(|keys| keys.len() == 1)
            && names.get(&evidence.key()).is_some_and(|names| names.len() == 1);
        if !alone {
            state.waiting.insert(it.written.digest, it.waits(Why::Contested));
            continue;
        }
        let admitted = Admitted { key: evidence.key(), admission: it.written.digest, member: member.clone() };
        // A machine whose first reply was lost may have asked elsewhere: the lower digest is shown, whoever has both.
        let slot = state.members.entry(evidence.claim.name.clone()).or_insert_with(|| admitted.clone());
        if slot.key != admitted.key || admitted.admission < slot.admission {
            *slot = admitted;
        }
    }
}

/// Is whom a gateway let in beyond the record a member, by this map? Whoever holds chains and lacks a part of one does not
/// guess how often an invite was used.
pub(crate) fn considered(
    ground: &Ground,
    leaves: &Leaves,
    facts: &dyn Facts,
    evidence: &Evidence,
) -> Result<Membership, Why> {
    let name = &evidence.claim.name;
    let place = place_of(name, leaves, ground);
    // A machine that is listed may have asked twice: the leaf names the admission that counts.
    let is_listed = matches!(place, MapPlace::Leaf { leaf, .. } if leaf.node_key == evidence.key());
    let shown = Shown { name, key: evidence.key(), place, evidence: Some(evidence).filter(|_| !is_listed) };
    let member = judge(shown, ground, facts)?;
    if misses_uses(&member) { Err(NotMember::UsesUnknown.into()) } else { Ok(member) }
}

/// What was recorded needs a leaf of its own. Why it has none, the judge says, if something stands against it.
fn passed(ground: &Ground, leaves: &Leaves, known: &Known<'_>, evidence: &Evidence) -> Why {
    let name = &evidence.claim.name;
    let shown = Shown { name, key: evidence.key(), place: place_of(name, leaves, ground), evidence: None };
    match judge(shown, ground, known) {
        Ok(_) | Err(NotMember::NoAdmission) => Why::Passed,
        Err(why) => why.into(),
    }
}

/// How a name stands in the map of the head in force.
fn place_of<'l>(name: &NodeName, leaves: &'l Leaves, ground: &Ground) -> MapPlace<'l> {
    match (&ground.head, leaves.get(name)) {
        (Some(head), Some(leaf)) => MapPlace::Leaf { leaf, by: head.digest },
        (Some(head), None) if head.head.members.is_some() => MapPlace::NoLeaf { by: head.digest },
        (_, _) => MapPlace::NoMap,
    }
}

/// Who would be let in under a listed name, by a claim that the listed key co-signed. If several would, an operator decides.
fn handed(
    state: &Projection,
    ground: &Ground,
    leaves: &Leaves,
    known: &Known<'_>,
    claimed: &[Claimed<'_>],
) -> BTreeMap<NodeName, Admitted> {
    let mut heirs: BTreeMap<NodeName, BTreeMap<Digest, Admitted>> = BTreeMap::new();
    for it in claimed.iter().filter(|it| !it.recorded) {
        let (Ok(evidence), Some(by)) = (it.evidence(), state.head) else { continue };
        let (name, key) = (&evidence.claim.name, evidence.key());
        let listed = leaves.get(name).map(|leaf| leaf.node_key);
        if listed.is_none() || listed != evidence.claim.replaces.map(|old| old.digest()) {
            continue;
        }
        let shown = Shown { name, key, place: MapPlace::NoLeaf { by }, evidence: Some(evidence) };
        match judge(shown, ground, known) {
            Ok(member @ Membership::Invited { .. }) if !misses_uses(&member) => {
                let admitted = Admitted { key, admission: it.written.digest, member };
                heirs.entry(name.clone()).or_default().insert(key, admitted);
            }
            Ok(_) | Err(_) => {}
        }
    }
    let alone = |(name, keys): (NodeName, BTreeMap<Digest, Admitted>)| match keys.len() {
        1 => keys.into_values().next().map(|admitted| (name, admitted)),
        _ => None,
    };
    heirs.into_iter().filter_map(alone).collect()
}

fn misses_uses(member: &Membership) -> bool {
    matches!(member, Membership::Invited { unseen, .. } if unseen.contains(&Unseen::Uses))
}

impl Claimed<'_> {
    fn evidence(&self) -> Result<&Evidence, &BadEvidence> {
        let read = self.papers.read(self.is_listed);
        read.map(|evidence| self.resigned.as_ref().unwrap_or(evidence))
    }

    fn waits(&self, why: Why) -> Waiting {
        let claims = self.evidence().ok().map(|evidence| (evidence.claim.name.clone(), evidence.key()));
        Waiting { claims, voice: self.written.voice, seq: self.written.seq, why }
    }
}

/// What is known before the chains are read.
#[derive(Clone, Copy)]
struct Around<'a> {
    ground: &'a Ground,
    objects: &'a BTreeMap<Digest, Envelope>,
    /// Admissions that a leaf names.
    listed: &'a BTreeSet<Digest>,
}

/// What the chains say, for the judge.
#[derive(Default)]
struct Known<'a> {
    names: BTreeMap<Digest, NodeName>,
    left: BTreeSet<Digest>,
    links: BTreeMap<Digest, Link>,
    spent: Spent,
    /// Voices whose whole chain is here.
    whole: BTreeSet<PublicKey>,
    denied: Option<&'a BTreeSet<Digest>>,
}

impl Known<'_> {
    fn read<'c>(
        &mut self,
        Around { ground, objects, listed }: Around<'_>,
        voice: PublicKey,
        entries: &'c Entries,
        chain: &Chain<'c>,
        claimed: &mut Vec<Claimed<'c>>,
    ) {
        if chain.whole {
            self.whole.insert(voice);
        }
        let settled = ground.head().and_then(|head| head.record.get(&voice)).map_or(0, |record| record.seq);
        self.links.extend(chain.tail.iter().map(|written| (written.digest, Link::Linked)));
        let tail: BTreeSet<Digest> = chain.tail.iter().map(|written| written.digest).collect();
        let recorded: BTreeSet<Digest> = chain.recorded.iter().map(|written| written.digest).collect();
        let in_order = chain.recorded.iter().chain(&chain.tail).copied();
        let beside = entries.values().filter(|it| !tail.contains(&it.digest) && !recorded.contains(&it.digest));
        for written in in_order.chain(beside) {
            let linked = tail.contains(&written.digest) || recorded.contains(&written.digest);
            if !linked {
                let forked = chain.forked_at.is_some_and(|at| written.seq >= at && written.seq > settled);
                self.links.insert(written.digest, if forked { Link::Forked } else { Link::NotLinked });
            }
            match &written.act {
                Act::Admit(papers) => {
                    let (is_listed, recorded) = (listed.contains(&written.digest), recorded.contains(&written.digest));
                    let evidence = papers.read(is_listed).ok();
                    if let Some(evidence) = evidence.filter(|_| linked) {
                        self.spend(voice, evidence);
                    }
                    let resigned = evidence.filter(|_| !recorded).and_then(|it| it.resigned(ground, objects));
                    claimed.push(Claimed { written, papers, resigned, is_listed, recorded });
                }
                // What was recorded, a head has settled; and a voice that ended says nothing more.
                Act::Leave(key) if tail.contains(&written.digest) && ground.mandate(voice).is_some() => {
                    self.left.extend(*key);
                }
                Act::Leave(_) | Act::Join(_) | Act::Take => {}
            }
        }
    }

    fn spend(&mut self, voice: PublicKey, evidence: &Evidence) {
        let Some((envelope, _)) = &evidence.invite else { return };
        let keys = self.spent.entry((voice, envelope.digest())).or_default();
        let next = keys.len() as u64;
        keys.entry(evidence.key()).or_insert(next);
    }
}

impl Facts for Known<'_> {
    fn name_of(&self, key: Digest) -> Fact<Option<NodeName>> {
        Fact::Known(self.names.get(&key).cloned())
    }

    fn has_left(&self, key: Digest) -> Fact<bool> {
        Fact::Known(self.left.contains(&key))
    }

    fn link(&self, _: PublicKey, admission: Digest) -> Fact<Link> {
        Fact::Known(self.links.get(&admission).copied().unwrap_or(Link::NotLinked))
    }

    fn spent_before(&self, voice: PublicKey, invite: Digest, key: Digest) -> Fact<u64> {
        if self.whole.contains(&voice) { Fact::Known(before(&self.spent, voice, invite, key)) } else { Fact::Unknown }
    }

    fn is_denied(&self, claim: Digest) -> Fact<bool> {
        self.denied.map_or(Fact::Unknown, |denied| Fact::Known(denied.contains(&claim)))
    }
}
