//! Another operator's head, held against this home's own fold before it is co-signed: what it does to machines, and what
//! contradicts what is known here.

use std::collections::BTreeMap;

use identity::head::{Cause, Head};
use identity::id::Digest;
use identity::members::{Leaf, NodeLeaf};
use identity::principal::NodeName;
use org::ledger::fold::Leaves;
use org::state::State;
use wire::known::Known;

use crate::folder::OperatorFolder;
use crate::kept;
use crate::pending::{BadPending, Pending};
use crate::replica::{Replica, ReplicaError};
use crate::roll::{Roll, ended, newly_listed};

/// Where a head says otherwise than this home's fold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    #[error("it lists `{0}`, of which this home's copy of the ledger knows nothing")]
    Unknown(NodeName),
    #[error("it lists `{name}`, which does not count here: {why}")]
    NotCounted { name: NodeName, why: String },
    #[error("it lists `{0}` with another key than the one that is known here")]
    OtherKey(NodeName),
    #[error("it drops `{0}`, and does not revoke its key")]
    Dropped(NodeName),
    #[error("it forgets what was revoked")]
    Forgets,
    #[error("it settles the chain of `{0}` no further than an earlier entry than now")]
    RecordFalls(String),
}

/// What a co-signer sees.
#[derive(Debug, Default)]
pub struct Weighed {
    pub roll: Roll,
    pub contradictions: Vec<Contradiction>,
    /// What could not be compared, and why.
    pub unseen: Option<&'static str>,
}

/// Nothing to weigh if no head is in it.
pub fn weigh(folder: &OperatorFolder, known: &Known, pending: &Pending) -> Result<Weighed, BadPending> {
    let Some(head) = pending.handed.head(known.org()) else { return Ok(Weighed::default()) };
    let unseen = |why| Ok(Weighed { unseen: Some(why), ..Weighed::default() });
    let state = match Replica::open(folder, known).map(Replica::unlocked) {
        Ok(replica) if replica.state.head().is_some_and(|own| own.digest == known.head.digest) => replica.state,
        Ok(_) | Err(ReplicaError::Ledger(_) | ReplicaError::NotTaken(_)) => {
            return unseen("this home's copy of the ledger is not as new as what it knows");
        }
        Err(ReplicaError::File(why)) => return Err(why.into()),
    };
    let Some(root) = head.members else { return unseen("it names no members' map") };
    let at_home = |root: Option<Digest>| match root {
        Some(root) => kept::leaves_at_home(folder, known, root),
        None => Some(Vec::new()),
    };
    let listed = match (at_home(Some(root)), &pending.listing) {
        (Some(leaves), _) => leaves,
        (None, Some(listing)) => match at_home(listing.base) {
            Some(before) => listing.apply(before, root).ok_or(BadPending::OtherMap)?,
            None => return unseen("the members' map that it was made from is not in this home"),
        },
        (None, None) => return unseen("the file does not say whom it lists"),
    };
    Ok(judge(&state, &head, listed))
}

fn judge(state: &State, head: &Head, listed: Vec<Leaf>) -> Weighed {
    let nodes = listed.into_iter().filter_map(|leaf| match leaf {
        Leaf::Node(leaf) => Some((leaf.name.clone(), leaf)),
        Leaf::Class(_) => None,
    });
    let (after, none): (Leaves, _) = (nodes.collect(), Leaves::new());
    let before = state.leaves().unwrap_or(&none);
    let mut contradictions: Vec<Contradiction> =
        after.values().filter_map(|leaf| contradicts(state, before, head, leaf)).collect();
    let kept: BTreeMap<Digest, &NodeName> = after.values().map(|leaf| (leaf.node_key, &leaf.name)).collect();
    let dropped = before
        .values()
        .filter(|leaf| !kept.contains_key(&leaf.node_key) && !head.revocations.node_keys.contains(&leaf.node_key));
    contradictions.extend(dropped.map(|leaf| Contradiction::Dropped(leaf.name.clone())));
    if !head.revocations.keeps(&state.revocations, head.issued_at) {
        contradictions.push(Contradiction::Forgets);
    }
    let own = state.head().map(|record| &record.head);
    for (voice, place) in own.into_iter().flat_map(|own| &own.record) {
        if head.record.get(voice).is_none_or(|it| it.seq < place.seq) {
            let mandate = own.and_then(|own| own.mandate_for_voice(*voice));
            let gateway = mandate.map_or_else(|| voice.to_string(), |mandate| mandate.gateway.to_string());
            contradictions.push(Contradiction::RecordFalls(gateway));
        }
    }
    let roll = Roll { lists: newly_listed(Some(before), &after), revokes_keys: ended(state, head), ..Roll::default() };
    Weighed { roll, contradictions, unseen: None }
}

/// Whether this leaf is other than the fold has it, or a rival that is taken in.
fn contradicts(state: &State, before: &Leaves, head: &Head, leaf: &NodeLeaf) -> Option<Contradiction> {
    let (name, key) = (&leaf.name, leaf.node_key);
    let is_here = |leaves: &Leaves| leaves.get(name).is_some_and(|own| own.node_key == key);
    let rivals = || state.ground.rivals.iter().filter_map(|it| state.replica.maps.get(&it.head.members?));
    let folded = [&state.fold.members, &state.fold.handed].map(|all| all.get(name).map(|it| it.key));
    if is_here(before) || folded.contains(&Some(key)) || rivals().any(is_here) {
        return None;
    }
    let waiting = state.fold.waiting.values().find(|it| it.claims.as_ref() == Some(&(name.clone(), key)));
    match waiting {
        // It is what the head is for: a person looked at who waits.
        Some(_) if chooses(head, name) => None,
        _ if before.contains_key(name) || folded.iter().any(Option::is_some) => {
            Some(Contradiction::OtherKey(name.clone()))
        }
        Some(waiting) => Some(Contradiction::NotCounted { name: name.clone(), why: waiting.why.to_string() }),
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
