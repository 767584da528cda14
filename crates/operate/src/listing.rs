//! Brings the members' map along with each head: prepared before it is drafted, handed in before it is.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::Head;
use identity::id::Digest;
use identity::members::{ClassLeaves, Leaf};
use identity::principal::Name;
use manifest::compile::Compiled;
use manifest::stored::Manifest;
use org::entry::Action;
use org::state::State;

use crate::desk::Desk;
use crate::roll::{Listed, Roll, listed};
use crate::session::{OperateError, Session};

/// What the map of the next head is made from.
#[derive(Debug, Clone, Copy)]
pub enum Basis<'a> {
    /// That of the head in force.
    InForce,
    /// What the fleet says.
    Fleet(&'a Compiled),
    /// Nothing: the head says itself which map it names. After a restore the gateway has just that one.
    AsDrafted,
}

impl<D: Desk> Session<D> {
    /// Who is listed now, and who came since. A fleet is not published without that; any other head is: who came since then
    /// waits for the next one, and what keeps it is told.
    pub(crate) async fn bring_roll(&mut self, basis: Basis<'_>) -> Result<(), OperateError> {
        self.roll = None;
        let named = match basis {
            Basis::AsDrafted => return Ok(()),
            Basis::InForce => None,
            Basis::Fleet(compiled) => Some(compiled.leaves.clone()),
        };
        if named.is_none() && self.is_behind() {
            return Ok(());
        }
        let is_fleet = named.is_some();
        match Box::pin(self.make_roll(named)).await {
            Ok(roll) => self.roll = Some(roll),
            Err(why) if is_fleet => return Err(why),
            Err(why) => self.copy_trouble = Some(identity::causes::describe(&why)),
        }
        Ok(())
    }

    async fn make_roll(&mut self, named: Option<Vec<Leaf>>) -> Result<Roll, OperateError> {
        let before = match self.known.head.head.members {
            Some(root) => self.leaves_of(root).await?.1,
            None => Vec::new(),
        };
        let state = self.folded().await?;
        let mut roll = Roll::new(before, named, &state);
        if roll.members.iter().any(|member| member.low) {
            let base = roll.named.as_ref().unwrap_or(&roll.before).clone();
            roll.closed = self.closed_classes(&base).await?;
        }
        if roll.may_lose() {
            roll.recent = self.listed_by(&state);
        }
        Ok(roll)
    }

    /// Classes whose machines serve, relay or speak for somebody.
    async fn closed_classes(&mut self, leaves: &[Leaf]) -> Result<BTreeSet<Name>, OperateError> {
        let classes = ClassLeaves::of(leaves);
        let digests: Vec<Digest> = classes.all().map(|leaf| leaf.manifest).collect();
        let manifests = self.kept_blobs(&digests).await?;
        let is_plain = |digest: Digest| {
            let manifest = manifests.get(&digest).and_then(|bytes| Manifest::read(bytes, digest).ok());
            manifest.is_some_and(|it| it.runs.services.is_empty() && it.runs.users.is_empty() && !it.runs.relay)
        };
        Ok(classes.all().filter(|leaf| !is_plain(leaf.manifest)).map(|leaf| leaf.class.clone()).collect())
    }

    /// Whom the heads list that the one in force names, as far as their maps are here.
    fn listed_by(&self, state: &State) -> BTreeMap<Digest, Listed> {
        let recent = self.known.head.head.recent.iter();
        let of = |digest: &Digest| {
            let record = state.heads.values().find(|record| record.digest == *digest)?;
            Some((*digest, listed(&self.leaves_at_home(record.head.members?)?)))
        };
        recent.filter_map(of).collect()
    }

    /// Hands in the map that a draft names, if the gateway need not have it.
    pub(crate) async fn stage_for(&mut self, action: &Action) -> Result<(), OperateError> {
        let org = self.known.org();
        let Some(head) = action.head().map(|head| head.peek::<Head>(Some(org))).transpose()? else { return Ok(()) };
        let (Some(root), Some(roll)) = (head.members, &self.roll) else { return Ok(()) };
        if self.known.head.head.members == Some(root) {
            return Ok(());
        }
        let leaves = roll.next(&head, &self.known.founding.record.name);
        let before = self.known.head.head.members.map(|base| (base, roll.before.clone()));
        let manifests = self.manifests_at_home(&leaves);
        self.hand_in_leaves((root, &leaves, &manifests), before, &mut |_, _| {}).await
    }

    /// What waited for signatures may go to another gateway than the one that was handed its map.
    pub(crate) async fn stage_again(&mut self, action: &Action) -> Result<(), OperateError> {
        let org = self.known.org();
        let head = action.head().and_then(|head| head.peek::<Head>(Some(org)).ok());
        let Some(root) = head.and_then(|head| head.members) else { return Ok(()) };
        if self.known.head.head.members == Some(root) {
            return Ok(());
        }
        let Some(leaves) = self.leaves_at_home(root) else { return Ok(()) };
        let manifests = self.manifests_at_home(&leaves);
        let base = self.known.head.head.members;
        let before = base.and_then(|base| Some((base, self.leaves_at_home(base)?)));
        self.hand_in_leaves((root, &leaves, &manifests), before, &mut |_, _| {}).await
    }
}
