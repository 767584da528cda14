//! Another operator's head, held against this home's own fold before it is co-signed (four eyes): what it does to
//! machines, and what contradicts what is known here.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::{Cause, FleetRef, Head, MOST_PREVIOUS, MOST_RECENT};
use identity::id::Digest;
use identity::key::PublicKey;
use identity::members::{ClassLeaves, Leaf, NodeLeaf};
use identity::principal::{Name, NodeName};
use identity::signers::SignerSet;
use org::ledger::draft::Meaning;
use org::ledger::fold::{Leaves, Why};
use org::ledger::heads::HeadRecord;
use org::ledger::onward::{Recent, leads_on};
use org::ledger::step::SignerStep;
use org::state::State;
use wire::known::Known;

use crate::folder::OperatorFolder;
use crate::pending::listing::NotListed;
use crate::pending::{BadPending, Pending};
use crate::replica::kept::Kept;
use crate::replica::published::nodes;
use crate::replica::roll::{Roll, ended, newly_listed};
use crate::replica::{Replica, ReplicaError};

/// Who is meant to be something else than now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Remade {
    #[error("`{0}`")]
    Node(NodeName),
    #[error("the class `{0}`")]
    Class(Name),
}

/// Where a head says otherwise than this home's fold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    #[error("it lists `{0}`, of which this home's copy of the ledger knows nothing")]
    Unknown(NodeName),
    #[error("it lists `{name}`, which does not count here: {why}")]
    NotCounted { name: NodeName, why: Box<Why> },
    #[error("it lists `{0}` with another key than the one that is known here")]
    OtherKey(NodeName),
    #[error("it lists `{0}` by another admission than the one that is known here")]
    OtherAdmission(NodeName),
    #[error("it means {0} to be something else than now, though it is of the fleet of now")]
    OtherMeaning(Remade),
    #[error("it drops `{0}`, and does not revoke its key")]
    Dropped(NodeName),
    #[error("it forgets what was revoked")]
    Forgets,
    #[error("it follows or takes in the head {0}, which this home does not know, or which too few signed")]
    TakesIn(Digest),
    #[error(
        "it lets members show themselves by the head {0}, which the one that it follows does not name, or which \
         is too old for that, or shows a key under a name that it has no longer"
    )]
    ShowsBy(Digest),
    #[error("it names more heads than it may")]
    NamesTooMany,
    #[error("it settles the chain of `{0}` no further than an earlier entry than now")]
    RecordFalls(String),
    #[error("it settles the chain of `{gateway}` at an entry {seq} that is not the one here")]
    RecordParts { gateway: String, seq: u64 },
}

/// What a co-signer sees.
#[derive(Debug, Default)]
pub struct Weighed {
    pub roll: Roll,
    /// Machines, and classes of them, that are meant to be something else than now.
    pub remade: Vec<Remade>,
    pub contradictions: Vec<Contradiction>,
    /// What could not be compared, and why.
    pub unseen: Option<String>,
}

/// Why a head is not held against this home's fold.
#[derive(Debug)]
enum NotWeighed {
    Unseen(&'static str),
    Bad(BadPending),
}

impl From<NotListed> for NotWeighed {
    fn from(why: NotListed) -> Self {
        match why {
            NotListed::NoMap => Self::Unseen("it names no members' map"),
            NotListed::Unsaid => Self::Unseen("the file does not say whom it lists"),
            NotListed::NoBase => Self::Unseen("the members' map that it was made from is not in this home"),
            NotListed::OtherMap => Self::Bad(BadPending::OtherMap),
        }
    }
}

/// Nothing to weigh if no head is in it.
pub fn weigh(folder: &OperatorFolder, known: &Known, pending: &Pending) -> Result<Weighed, BadPending> {
    let Some(head) = pending.handed.head(known.org()) else { return Ok(Weighed::default()) };
    match weigh_head(folder, known, pending, &head) {
        Ok(weighed) => Ok(weighed),
        Err(NotWeighed::Unseen(why)) => Ok(Weighed { unseen: Some(why.to_owned()), ..Weighed::default() }),
        Err(NotWeighed::Bad(why)) => Err(why),
    }
}

fn weigh_head(folder: &OperatorFolder, known: &Known, pending: &Pending, head: &Head) -> Result<Weighed, NotWeighed> {
    use NotWeighed::{Bad, Unseen};
    let older = "this home's copy of the ledger is not as new as what it knows";
    let Replica { mut state, ledger, .. } = match Replica::open(folder, known).map(Replica::unlocked) {
        Ok(replica) => replica,
        Err(ReplicaError::Ledger(_) | ReplicaError::NotTaken(_)) => return Err(Unseen(older)),
        Err(ReplicaError::File(why)) => return Err(Bad(why.into())),
    };
    let at_home = |root: Digest| Kept { folder, known }.leaves(root);
    if let Some(set) = agreed(known, pending) {
        let settled = settled(&state, &set, at_home);
        state = settled.ok_or(Unseen("no two signer sets claim one place in this home's copy of the ledger"))?;
        if head.previous.first().copied() != state.head().map(|own| own.digest) {
            return Err(Unseen("it goes on from another head than this home would"));
        }
    } else if state.head().is_none_or(|own| own.digest != known.head.digest) {
        return Err(Unseen(older));
    }
    let listed = pending.leaves(head, at_home)?;
    let now = match (state.leaves(), state.head().and_then(|own| own.head.members)) {
        (Some(leaves), _) => leaves.clone(),
        (None, None) => Leaves::new(),
        (None, Some(_)) => return Err(Unseen("the members' map of the head in force is not in this home")),
    };
    // Under other signers, the head that a succession names may be followed.
    if head.signers == known.signers.as_ref() && head.previous.first() != Some(&known.head.digest) {
        let followed = head.previous.first().copied().filter(|digest| state.replica.heads.contains(digest));
        let found = followed.and_then(|digest| ledger.heads(&BTreeSet::from([digest])).ok()?.pop());
        let record = found.and_then(|envelope| {
            let head = envelope.peek(Some(known.org())).ok()?;
            Some(HeadRecord { digest: envelope.digest(), envelope, head })
        });
        let record =
            record.ok_or(Unseen("it goes round the head in force, and the one that it follows is not in this home"))?;
        let leaves = record.head.members.map_or_else(|| Some(Vec::new()), at_home);
        let leaves = leaves.ok_or(Unseen("the members' map of the head that it follows is not in this home"))?;
        bring(&mut state, &record, &leaves);
        state.judged.ground = state.judged.ground.around(&record, &state.replica.heads);
        state.judged.fold = state.replica.fold(&state.judged.ground);
    }
    Ok(judge(&state, &now, head, &listed))
}

/// The set that all sign who claim one place, if it is about that.
fn agreed(known: &Known, pending: &Pending) -> Option<SignerSet> {
    let step = SignerStep::read(known.org(), pending.handed.step()?).ok()?;
    (!step.also.is_empty()).then_some(step.to)
}

/// What will be so once all who claim one place have signed this set; nothing if nobody contests here. `leaves` has the maps
/// of their heads, as far as they are here.
pub(crate) fn settled(state: &State, set: &SignerSet, leaves: impl Fn(Digest) -> Option<Vec<Leaf>>) -> Option<State> {
    let mut with_maps = state.clone();
    for record in state.claimed_heads() {
        if let Some(leaves) = record.head.members.and_then(&leaves) {
            bring(&mut with_maps, record, &leaves);
        }
    }
    with_maps.settled_by_all(set)
}

/// By the state as it is where the head goes on from; `now` lists whom the head in force does.
fn judge(state: &State, now: &Leaves, head: &Head, listed: &[Leaf]) -> Weighed {
    let (none, nothing) = (Leaves::new(), BTreeMap::new());
    let before = state.leaves().unwrap_or(&none);
    let own = state.head().map(|record| &record.head);
    let after: Leaves = nodes(listed).map(|leaf| (leaf.name.clone(), leaf.clone())).collect();
    let mut contradictions: Vec<Contradiction> =
        after.values().filter_map(|leaf| contradicts(state, before, head, leaf)).collect();
    let kept: BTreeSet<Digest> = after.values().map(|leaf| leaf.node_key).collect();
    let lost =
        |leaf: &&NodeLeaf| !kept.contains(&leaf.node_key) && !head.revocations.node_keys.contains(&leaf.node_key);
    let dropped: BTreeSet<&NodeName> =
        before.values().chain(now.values()).filter(lost).map(|leaf| &leaf.name).collect();
    contradictions.extend(dropped.into_iter().cloned().map(Contradiction::Dropped));
    let classes = own.and_then(|own| state.replica.classes.get(&own.members?)).cloned().unwrap_or_default();
    let remade = remade(&Meaning::of_map(before, classes), before, head, listed);
    if own.is_some_and(|own| keeps_fleet(own, head)) {
        contradictions.extend(remade.iter().cloned().map(Contradiction::OtherMeaning));
    }
    if !head.revocations.keeps(state.revoked(), head.issued_at) {
        contradictions.push(Contradiction::Forgets);
    }
    let (settled, mut unseen) = (own.map_or(&nothing, |own| &own.record), Vec::new());
    contradictions.extend(named(state, head, &after));
    for (voice, place) in settled {
        if head.record.get(voice).is_none_or(|it| it.seq < place.seq) {
            contradictions.push(Contradiction::RecordFalls(gateway_of(state, *voice)));
        }
    }
    for (voice, at) in &head.record {
        let (gateway, seq) = (gateway_of(state, *voice), at.seq);
        match leads_on(&state.replica, *voice, *at, settled.get(voice).copied()) {
            Some(true) => {}
            Some(false) => contradictions.push(Contradiction::RecordParts { gateway, seq }),
            None => {
                let why =
                    format!("it settles the chain of `{gateway}` up to entry {seq}, which this home does not have");
                unseen.push(why);
            }
        }
    }
    let roll = Roll { lists: newly_listed(Some(now), &after), revokes_keys: ended(state, head), ..Roll::default() };
    Weighed { roll, remade, contradictions, unseen: (!unseen.is_empty()).then(|| unseen.join("; ")) }
}

/// Other heads, which it names by digest alone: what they take back counts, and by their maps members may show themselves.
fn named(state: &State, head: &Head, lists: &Leaves) -> Vec<Contradiction> {
    let sets = &state.judged.ground.sets;
    let counts = |digest: &Digest| state.replica.heads.held(digest).is_some_and(|it| it.is_signed(sets));
    let own = state.head();
    let by_own = |digest: &Digest| own.is_some_and(|own| own.digest == *digest || own.head.recent.contains(digest));
    let recent = Recent::of(&state.replica, sets, head.issued_at, lists);
    let is_over = |digest: &Digest| {
        let it = state.replica.heads.held(digest);
        it.is_some_and(|it| recent.may_name(it) == Some(false))
    };
    let taken_in = head.previous.iter().filter(|it| !counts(it)).copied().map(Contradiction::TakesIn);
    let shows = head.recent.iter().filter(|it| !by_own(it) || is_over(it)).copied().map(Contradiction::ShowsBy);
    let many = head.previous.len() > MOST_PREVIOUS || head.recent.len() > MOST_RECENT;
    taken_in.chain(shows).chain(many.then_some(Contradiction::NamesTooMany)).collect()
}

/// Puts an older head and its map where drafts and judges look for them.
pub(crate) fn bring(state: &mut State, head: &HeadRecord, leaves: &[Leaf]) {
    state.replica.bring_back(&head.envelope);
    let Some(root) = head.head.members else { return };
    let classes = ClassLeaves::of(leaves).all().cloned().collect();
    state.replica.maps.insert(root, nodes(leaves).map(|leaf| (leaf.name.clone(), leaf.clone())).collect());
    state.replica.classes.insert(root, classes);
}

fn gateway_of(state: &State, voice: PublicKey) -> String {
    state.judged.voices.get(&voice).map_or_else(|| voice.to_string(), ToString::to_string)
}

/// Whoever goes on by the fleet of now means everybody to be what they were.
fn keeps_fleet(own: &Head, head: &Head) -> bool {
    // Of files that no commit names nobody can say that they are those of now.
    let is_named = |fleet: &FleetRef| fleet.commit.is_some() && !fleet.dirty;
    match head.cause {
        Cause::FleetPublish | Cause::FleetRollback { .. } => {
            own.fleet == head.fleet && head.fleet.as_ref().is_none_or(is_named)
        }
        _ => true,
    }
}

/// Who is meant to be something else than before. What a fleet means those to be whom it newly lists, it says for the first
/// time.
pub(crate) fn remade(meaning: &Meaning, before: &Leaves, head: &Head, listed: &[Leaf]) -> Vec<Remade> {
    let compiled = matches!(head.cause, Cause::FleetPublish | Cause::FleetRollback { .. });
    let judged = |leaf: &&NodeLeaf| !compiled || before.contains_key(&leaf.name);
    let other = nodes(listed).filter(judged).filter(|leaf| meaning.of(&leaf.name) != leaf.manifest);
    let classes = ClassLeaves::of(listed);
    let new = classes.all().filter(|class| !meaning.classes.contains(class));
    let gone = meaning.classes.iter().filter(|class| classes.get(&class.class).is_none());
    let other_classes = new.chain(gone).map(|class| Remade::Class(class.class.clone()));
    other.map(|leaf| Remade::Node(leaf.name.clone())).chain(other_classes).collect()
}

/// Whether this leaf is other than the fold has it, or a rival that is taken in.
fn contradicts(state: &State, before: &Leaves, head: &Head, leaf: &NodeLeaf) -> Option<Contradiction> {
    let (name, key, admission) = (&leaf.name, leaf.node_key, leaf.admission);
    let rivals = state.judged.ground.rivals.iter().filter_map(|it| state.replica.maps.get(&it.head.members?));
    let listed = rivals.chain([before]).filter_map(|leaves| leaves.get(name)).map(|own| (own.node_key, own.admission));
    let folded = [&state.judged.fold.members, &state.judged.fold.handed]
        .map(|all| all.get(name).map(|it| (it.key, it.admission)));
    let known: Vec<(Digest, Digest)> = listed.chain(folded.into_iter().flatten()).collect();
    if known.contains(&(key, admission)) {
        return None;
    }
    let claims = Some((name.clone(), key));
    let waiting = state.judged.fold.waiting.get(&admission).filter(|it| it.claims == claims);
    match waiting {
        // It is what the head is for: a person looked at who waits.
        Some(_) if chooses(head, name) => None,
        _ if known.iter().any(|(known, _)| *known == key) => Some(Contradiction::OtherAdmission(name.clone())),
        _ if !known.is_empty() => Some(Contradiction::OtherKey(name.clone())),
        Some(waiting) => Some(Contradiction::NotCounted { name: name.clone(), why: Box::new(waiting.why.clone()) }),
        None => Some(Contradiction::Unknown(name.clone())),
    }
}

fn chooses(head: &Head, chosen: &NodeName) -> bool {
    match &head.cause {
        Cause::NodeList { name, .. } => name == chosen,
        Cause::GatewayReopen { .. } => true,
        _ => false,
    }
}
