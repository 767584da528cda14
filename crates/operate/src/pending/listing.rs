//! Whom a head lists, as it travels with the head to other operators: by what its map differs in from theirs.

use std::collections::BTreeSet;

use identity::id::Digest;
use identity::members::change::MapChange;
use identity::members::{Leaf, MembersMap};
use serde::{Deserialize, Serialize};

/// How the members' map of a pending head differs from one that other operators have. Whoever reads it computes the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListingDiff {
    /// Nothing if no head named one before.
    pub base: Option<Digest>,
    pub go: Vec<Digest>,
    pub come: Vec<Leaf>,
}

/// Why it is not known here whom a pending head lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotListed {
    /// The head names no map.
    NoMap,
    /// The file does not say, and the map is not here.
    Unsaid,
    /// The map that it was made from is not here.
    NoBase,
    /// What the file says is not what the head names.
    OtherMap,
}

impl ListingDiff {
    pub(crate) fn between(base: Option<Digest>, before: &[Leaf], after: &[Leaf]) -> Self {
        let values = |leaves: &[Leaf]| -> Vec<Digest> { leaves.iter().map(Leaf::value).collect() };
        let change = MapChange::between(&values(before), &values(after));
        let new: BTreeSet<Digest> = change.come.into_iter().collect();
        let come = after.iter().filter(|leaf| new.contains(&leaf.value()));
        Self { base, come: come.cloned().collect(), go: change.go }
    }

    /// Nothing if this is not how one gets to that map.
    pub(crate) fn apply(&self, before: Vec<Leaf>, root: Digest) -> Option<Vec<Leaf>> {
        let mut leaves = before;
        let go: BTreeSet<&Digest> = self.go.iter().collect();
        leaves.retain(|leaf| !go.contains(&leaf.value()));
        leaves.extend(self.come.iter().cloned());
        MembersMap::of(&leaves).is_ok_and(|map| map.root() == root).then_some(leaves)
    }
}
