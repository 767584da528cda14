//! What is published: the members' map that a signed head names, with the manifests that its leaves name.

use std::collections::{BTreeMap, BTreeSet};

use identity::id::Digest;
use identity::members::{ClassLeaves, Leaf, MembersMap, NodeLeaf};
use identity::principal::{Name, NodeName};
use manifest::diff;
use manifest::stored::Manifest;

#[derive(Debug, Clone)]
pub struct PublishedMap {
    pub map: MembersMap,
    /// In the order of the map.
    pub leaves: Vec<Leaf>,
    pub manifests: BTreeMap<Digest, Vec<u8>>,
}

/// The machines that may speak for a user.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserHomes {
    pub nodes: BTreeSet<NodeName>,
    pub classes: BTreeSet<Name>,
}

/// The leaves of nodes, without those of classes.
pub(crate) fn nodes(leaves: &[Leaf]) -> impl Iterator<Item = &NodeLeaf> {
    leaves.iter().filter_map(|leaf| match leaf {
        Leaf::Node(leaf) => Some(leaf),
        Leaf::Class(_) => None,
    })
}

impl PublishedMap {
    /// To be compared with.
    pub(crate) fn as_compared(published: Option<&Self>) -> diff::Published {
        let compared = |it: &Self| diff::Published { leaves: it.leaves.clone(), manifests: it.manifests.clone() };
        published.map(compared).unwrap_or_default()
    }

    /// The highest schema that a published manifest has.
    pub fn schema(&self) -> Option<u32> {
        self.manifests.keys().filter_map(|digest| self.manifest(*digest)).map(|manifest| manifest.schema).max()
    }

    fn manifest(&self, digest: Digest) -> Option<Manifest> {
        Manifest::read(self.manifests.get(&digest)?, digest).ok()
    }

    /// The users for whom a node may speak.
    pub fn users_at(&self, node: &NodeName) -> BTreeSet<Name> {
        let leaf = self.nodes().find(|leaf| leaf.name == *node);
        let digest = leaf.and_then(|leaf| ClassLeaves::of(&self.leaves).manifest_of(leaf));
        digest.and_then(|digest| self.manifest(digest)).map(|manifest| manifest.runs.users).unwrap_or_default()
    }

    /// Every user, and where each is at home.
    pub(crate) fn users(&self) -> BTreeMap<Name, UserHomes> {
        let mut users: BTreeMap<Name, UserHomes> = BTreeMap::new();
        for leaf in &self.leaves {
            let manifest = leaf.manifest().and_then(|digest| self.manifest(digest));
            for user in manifest.map(|manifest| manifest.runs.users).unwrap_or_default() {
                let homes = users.entry(user).or_default();
                match leaf {
                    Leaf::Node(leaf) => homes.nodes.insert(leaf.name.clone()),
                    Leaf::Class(leaf) => homes.classes.insert(leaf.class.clone()),
                };
            }
        }
        users
    }

    /// The nodes and classes on which a user is at home.
    pub fn homes_of(&self, user: &Name) -> Vec<String> {
        self.those(|manifest| manifest.runs.users.contains(user))
    }

    /// The nodes and classes that are meant to be so, in words.
    pub fn those(&self, so: impl Fn(&Manifest) -> bool) -> Vec<String> {
        let read = |leaf: &Leaf| leaf.manifest().and_then(|digest| self.manifest(digest));
        let has = |leaf: &&Leaf| read(leaf).is_some_and(|manifest| so(&manifest));
        let named = |leaf: &Leaf| match leaf {
            Leaf::Node(leaf) => format!("`{}`", leaf.name),
            Leaf::Class(leaf) => format!("the class `{}`", leaf.class),
        };
        let mut named: Vec<String> = self.leaves.iter().filter(has).map(named).collect();
        named.sort();
        named
    }

    pub fn nodes(&self) -> impl Iterator<Item = &NodeLeaf> {
        nodes(&self.leaves)
    }
}
