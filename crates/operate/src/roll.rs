//! Whom the next head lists: everybody whom the head in force does, and whoever became a member since. Decides only.
//!
//! A leaf is the operators' approval: it outlives the invite and the gateway by which its member came.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::{Head, MOST_RECENT, RECENT, SignedHead};
use identity::id::Digest;
use identity::members::{ClassLeaves, Leaf, Meant, MembersMap, NodeLeaf};
use identity::principal::{Name, NodeName, OrgName, Principal};
use manifest::compile::MemberKnown;
use org::state::{Standing, State};

use crate::publish::published::nodes;

/// Names and keys that a map lists.
pub type Listed = BTreeMap<NodeName, Digest>;

#[derive(Debug, Default)]
pub struct Roll {
    /// The leaves of the head in force.
    pub before: Vec<Leaf>,
    /// What the fleet says that the map should be, if it is published now.
    pub named: Option<Vec<Leaf>>,
    pub members: Vec<Newcomer>,
    /// Node keys that said themselves that they leave, or that another takes their place.
    pub left: BTreeSet<Digest>,
    /// Classes that are too good for machines that proved nothing.
    pub closed: BTreeSet<Name>,
    /// Whom older heads list, as far as their maps are here: read only if somebody loses a leaf.
    pub recent: BTreeMap<Digest, Listed>,
}

/// Somebody who is a member by this home's own fold.
#[derive(Debug, Clone)]
pub struct Newcomer {
    pub known: MemberKnown,
    /// The key whose place it takes, which signed that.
    pub replaces: Option<Digest>,
    /// It showed nothing but a host name and an address.
    pub low: bool,
}

impl Roll {
    pub fn new(before: Vec<Leaf>, named: Option<Vec<Leaf>>, state: &State) -> Self {
        let stands = |standing| match standing {
            Standing::Member | Standing::Issued => true,
            Standing::Claimed | Standing::Waiting | Standing::Revoked => false,
        };
        let members = state.members.iter().filter(|(_, member)| stands(state.standing(member)));
        let members = members.map(|(key, member)| {
            let (name, admission) = (member.claim().name.clone(), member.admission.digest);
            Newcomer {
                known: MemberKnown { name, node_key: *key, admission },
                replaces: member.claim().replaces.map(|old| old.digest()),
                low: member.claim().is_low(),
            }
        });
        let left = state.members.iter().filter(|(_, member)| member.left).map(|(key, _)| *key);
        Self { before, named, members: members.collect(), left: left.collect(), ..Self::default() }
    }

    /// Might somebody lose a leaf whom the next head does not revoke?
    pub fn may_lose(&self) -> bool {
        let named: Option<Listed> = self.named.as_deref().map(listed);
        nodes(&self.before).any(|leaf| {
            let dropped = named.as_ref().is_some_and(|named| named.get(&leaf.name) != Some(&leaf.node_key));
            dropped || self.left.contains(&leaf.node_key)
        })
    }

    /// The leaves of this head, sorted by key. Whom it revokes, and who left, has none.
    pub fn next(&self, head: &Head, org: &OrgName) -> Vec<Leaf> {
        let base = self.named.as_deref().unwrap_or(&self.before);
        let lives = |name: &NodeName, key: &Digest| {
            let ended = head.revocations.principals.contains(&Principal::node(org, name));
            !ended && !head.revocations.node_keys.contains(key) && !self.left.contains(key)
        };
        let classes = ClassLeaves::of(base);
        let mut names: BTreeMap<NodeName, NodeLeaf> = BTreeMap::new();
        for leaf in nodes(base).filter(|leaf| lives(&leaf.name, &leaf.node_key)) {
            names.insert(leaf.name.clone(), leaf.clone());
        }
        let keys: BTreeSet<Digest> = names.values().map(|leaf| leaf.node_key).collect();
        let mut fresh: BTreeMap<&NodeName, Vec<&Newcomer>> = BTreeMap::new();
        for it in self.members.iter().filter(|it| lives(&it.known.name, &it.known.node_key)) {
            // A name that somebody has is nobody else's, and a key has one name.
            if !names.contains_key(&it.known.name) && !keys.contains(&it.known.node_key) {
                fresh.entry(&it.known.name).or_default().push(it);
            }
        }
        let heirs: BTreeMap<&NodeName, &NodeLeaf> = nodes(base).map(|leaf| (&leaf.name, leaf)).collect();
        for (name, newcomers) in fresh {
            // Of two keys under one name operators choose, not this tool.
            let [it] = newcomers[..] else { continue };
            let heir = heirs.get(name).filter(|old| it.replaces == Some(old.node_key));
            let manifest = match (heir, classes.covering(name)) {
                (Some(old), _) => old.manifest.clone(),
                (None, Some(class)) if it.low && self.closed.contains(&class.class) => continue,
                (None, Some(class)) => Meant::Class(class.class.clone()),
                (None, None) => Meant::Nothing,
            };
            let MemberKnown { name, node_key, admission } = it.known.clone();
            names.insert(name.clone(), NodeLeaf { name, node_key, admission, manifest });
        }
        let classes = classes.all().cloned().map(Leaf::Class);
        let mut leaves: Vec<Leaf> = classes.chain(names.into_values().map(Leaf::Node)).collect();
        leaves.sort_by_cached_key(Leaf::key);
        leaves
    }

    /// Writes into a draft whom it lists, and by which older heads members may still show themselves.
    pub fn settle(&self, head: &mut Head, known: &SignedHead, org: &OrgName) {
        let leaves = self.next(head, org);
        if leaves.is_empty() && known.head.members.is_none() {
            return;
        }
        // They are made by name: no two have one key.
        let Ok(map) = MembersMap::of(&leaves) else { return };
        head.members = Some(map.root());
        head.recent = self.recent(head, known, &leaves);
    }

    /// The head in force and those that it names, but for heads that show a key under a name that it has no longer; whose
    /// key is revoked shows itself by none.
    fn recent(&self, head: &Head, known: &SignedHead, leaves: &[Leaf]) -> Vec<Digest> {
        let young = known.head.members.is_some() && head.issued_at.since(known.head.issued_at) <= RECENT;
        let (before, now) = (listed(&self.before), listed(leaves));
        let stays =
            |(name, key): (&NodeName, &Digest)| now.get(name) == Some(key) || head.revocations.node_keys.contains(key);
        // Whoever made the head in force has looked at those that it names: only who is lost since counts.
        let lost: Vec<(&NodeName, &Digest)> = before.iter().filter(|it| !stays(*it)).collect();
        let shows = |digest: &Digest| {
            let map = if *digest == known.digest { Some(&before) } else { self.recent.get(digest) };
            map.is_none_or(|map| lost.iter().any(|(name, key)| map.get(*name) == Some(*key)))
        };
        let heads = std::iter::once(known.digest).chain(known.head.recent.iter().copied());
        heads.filter(|digest| young && (lost.is_empty() || !shows(digest))).take(MOST_RECENT).collect()
    }
}

pub fn listed(leaves: &[Leaf]) -> Listed {
    nodes(leaves).map(|leaf| (leaf.name.clone(), leaf.node_key)).collect()
}

#[cfg(test)]
mod tests;
