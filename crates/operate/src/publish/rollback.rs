//! Going back: a new head that says again what an earlier one said of the fleet, for the members of now.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::{Cause, Head};
use identity::id::Digest;
use identity::members::{ClassLeaves, Leaf, Meant, MembersMap, NodeLeaf};
use identity::time::Timestamp;
use manifest::compile::{Compiled, MemberKnown};
use org::ledger::draft::Wish;
use org::ledger::heads::KnownHead;

use super::heads::{check_plan, meaning};
use crate::key::SignerKeys;
use crate::replica::kept::manifests_of;
use crate::replica::published::PublishedMap;
use crate::session::fold::whole_head;
use crate::session::head::span;
use crate::session::stage::stage;
use crate::session::{Aim, Made, NextHead, OperateError, Result, Session, Unwise};

/// The head to go back to: the one with this version, or the last whose map was another than the present one. Of
/// signers who were replaced since, perhaps because their keys were stolen, only one that somebody names.
pub(super) async fn head_before(session: &mut Session, wanted: Option<u64>) -> Result<Head> {
    let state = session.folded().await?;
    let mut heads: BTreeMap<u64, KnownHead<'_>> = BTreeMap::new();
    for head in state.heads() {
        heads.entry(head.version()).or_insert(head);
    }
    let now = session.head();
    let found = if let Some(version) = wanted {
        let head = heads.remove(&version).ok_or_else(|| OperateError::no_such("head", &version))?;
        if version >= now.version {
            return Err(Unwise::InForce(version).into());
        }
        if head.members().is_none() {
            return Err(Unwise::BeforeFleets(version).into());
        }
        head
    } else {
        let before = |head: &KnownHead<'_>| head.version() < now.version;
        let other = |head: &KnownHead<'_>| head.members().is_some() && head.members() != now.members;
        let earlier = heads.into_values().rev().filter(before).find(other).ok_or(Unwise::NoEarlierFleet)?;
        if earlier.signers() != session.signers().as_ref() {
            let (version, set) = (earlier.version(), earlier.signers().version);
            return Err(Unwise::OfFormerSigners { version, set }.into());
        }
        earlier
    };
    Ok(whole_head(session, found).await?.head)
}

/// Hands it in, and goes back to it. `told` hears how much is handed in, of how much.
pub(super) async fn roll_back(
    session: &mut Session,
    keys: &SignerKeys,
    named: &Compiled,
    to: &Head,
    planned_on: Option<Digest>,
    told: impl FnMut(usize, usize) + Send,
) -> Result<Made<Head>> {
    stage(session, named, told).await?;
    session.publish_head(keys, |session, now| head_back(session, named, to, planned_on, now)).await
}

/// The head that goes back.
pub(super) fn head_back(
    session: &Session,
    named: &Compiled,
    to: &Head,
    planned_on: Option<Digest>,
    now: Timestamp,
) -> Result<NextHead> {
    check_plan(session.head(), named, planned_on)?;
    let cause = Cause::FleetRollback { to: to.version };
    let meaning = meaning(named);
    let aim = Aim { cause, wish: Wish::default(), meaning: Some(&meaning) };
    session.next_head(now, aim, |head| {
        head.reverts = Some(to.version);
        head.fresh_until = now + span(to);
        head.fleet.clone_from(&to.fleet);
        for mandate in &mut head.mandates {
            let before = to.mandates.iter().find(|it| it.voice == mandate.voice);
            mandate.svid_ttl = before.map_or(mandate.svid_ttl, |before| before.svid_ttl);
        }
        head.placements.clear();
    })
}

/// What an earlier map said, for the members of now: each is meant to be what its name was meant to be then, else what its
/// class was. Keys are those of now: whoever was replaced since stays replaced.
pub(super) fn for_members(then: &PublishedMap, members: &[MemberKnown]) -> Result<Compiled, Unwise> {
    let classes = ClassLeaves::of(&then.leaves);
    let names: BTreeMap<_, &Meant> = then.nodes().map(|leaf| (&leaf.name, &leaf.manifest)).collect();
    let mut leaves: Vec<Leaf> = classes.all().map(|leaf| Leaf::Class(leaf.clone())).collect();
    for member in members {
        let by_class =
            || classes.covering(&member.name).map_or(Meant::Nothing, |leaf| Meant::Class(leaf.class.clone()));
        let manifest = names.get(&member.name).map_or_else(by_class, |meant| (*meant).clone());
        let MemberKnown { name, node_key, admission } = member.clone();
        leaves.push(Leaf::Node(NodeLeaf { name, node_key, admission, manifest }));
    }
    leaves.sort_by_cached_key(Leaf::key);
    let root = MembersMap::of(&leaves).map_err(|_| Unwise::TwoOfOneName)?.root();
    // What only machines had that are gone is not handed in again.
    let wanted: BTreeSet<Digest> = manifests_of(&leaves).into_iter().collect();
    let kept = then.manifests.iter().filter(|(digest, _)| wanted.contains(digest));
    let manifests = kept.map(|(digest, bytes)| (*digest, bytes.clone())).collect();
    Ok(Compiled { manifests, leaves, root, unmatched: Vec::new(), waiting: BTreeMap::new() })
}
