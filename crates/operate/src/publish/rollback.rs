//! Going back: a new head that says again what an earlier one said of the fleet, for the members of now.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::{Cause, Head};
use identity::id::Digest;
use identity::members::{ClassLeaves, Leaf, Meant, MembersMap, NodeLeaf};
use identity::time::Timestamp;
use manifest::compile::{Compiled, MemberKnown};
use org::ledger::draft::Wish;
use org::ledger::heads::Held;

use super::heads::meaning;
use super::published::Published;
use crate::desk::Desk;
use crate::handed::Handed;
use crate::head::span;
use crate::keys::SignerKeys;
use crate::session::{Made, OperateError, Session};

impl<D: Desk> Session<D> {
    /// The head to go back to: the one with this version, or the last whose map was another than the present one. Of
    /// signers who were replaced since, perhaps because their keys were stolen, only one that somebody names.
    pub async fn head_before(&mut self, wanted: Option<u64>) -> Result<Head, OperateError> {
        let state = self.folded().await?;
        let mut heads: BTreeMap<u64, Held<'_>> = BTreeMap::new();
        for head in state.heads() {
            heads.entry(head.version()).or_insert(head);
        }
        let now = &self.known.head.head;
        let Some(version) = wanted else {
            let before = |head: &Held<'_>| head.version() < now.version;
            let other = |head: &Held<'_>| head.members().is_some() && head.members() != now.members;
            let earlier = heads.into_values().rev().filter(before).find(other);
            let earlier =
                earlier.ok_or_else(|| OperateError::Unwise("no earlier head published another fleet".to_owned()))?;
            if earlier.signers() != self.known.signers.as_ref() {
                let (version, set) = (earlier.version(), earlier.signers().version);
                let why = format!(
                    "head {version} was signed by signer set {set}, which was replaced: name it, --to {version}"
                );
                return Err(OperateError::Unwise(why));
            }
            return self.whole_head(earlier).await;
        };
        let head = heads.remove(&version);
        let head = head.ok_or_else(|| OperateError::NoSuch { what: "head", name: version.to_string() })?;
        if version >= now.version {
            return Err(OperateError::Unwise(format!("head {version} is the one in force")));
        }
        if head.members().is_none() {
            return Err(OperateError::Unwise(format!("head {version} was signed before a fleet was published")));
        }
        self.whole_head(head).await
    }

    pub async fn roll_back(
        &mut self,
        keys: &SignerKeys,
        (named, to): (&Compiled, &Head),
        planned_on: Option<Digest>,
    ) -> Result<Made<Head>, OperateError> {
        self.publish(keys, |session, now| {
            let head = session.draft_rollback((named, to), planned_on, now)?;
            Ok((Handed::of(session.seal(&head)?), head))
        })
        .await
    }

    /// The head that goes back.
    pub fn draft_rollback(
        &self,
        (named, to): (&Compiled, &Head),
        planned_on: Option<Digest>,
        now: Timestamp,
    ) -> Result<Head, OperateError> {
        self.check_plan(named, planned_on)?;
        let cause = Cause::FleetRollback { to: to.version };
        self.next_head_with(now, cause, (&Wish::default(), Some(&meaning(named))), |head| {
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
}

/// What an earlier map said, for the members of now: each is meant to be what its name was meant to be then, else what its
/// class was. Keys are those of now: whoever was replaced since stays replaced.
pub fn for_members(then: &Published, members: &[MemberKnown]) -> Result<Compiled, OperateError> {
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
    let twice = |_| OperateError::Unwise("two members have one name".to_owned());
    let root = MembersMap::of(&leaves).map_err(twice)?.root();
    // What only machines had that are gone is not handed in again.
    let wanted: BTreeSet<Digest> = leaves.iter().filter_map(Leaf::manifest).collect();
    let kept = then.manifests.iter().filter(|(digest, _)| wanted.contains(digest));
    let manifests = kept.map(|(digest, bytes)| (*digest, bytes.clone())).collect();
    Ok(Compiled { manifests, leaves, root, unmatched: Vec::new(), waiting: BTreeMap::new() })
}
