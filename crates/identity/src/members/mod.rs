//! The members' map, a Merkle map: sorted, hashed into one root in the head. It proves a name's leaf, or that it has none.
//!
//! Leaves are sorted by the digest of their key, so that a proof tells nobody the names of the neighbors.

pub mod change;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::Digest;
use crate::principal::glob::NameGlob;
use crate::principal::{Name, NodeName};

/// What stands under one key of the map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Leaf {
    /// A member that was known when the head was made.
    Node(NodeLeaf),
    /// Machines that join later under one of these names.
    Class(ClassLeaf),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLeaf {
    pub name: NodeName,
    /// Digest of the node key.
    pub node_key: Digest,
    /// Digest of the admission's envelope.
    pub admission: Digest,
    pub manifest: Meant,
}

/// What a listed node is meant to be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meant {
    /// What this manifest says.
    Own(Digest),
    /// Whatever the leaf of this class says.
    Class(Name),
    /// It matches nothing: it keeps its identity and gets nothing.
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassLeaf {
    pub class: Name,
    pub names: Vec<NameGlob>,
    pub manifest: Digest,
}

impl ClassLeaf {
    pub fn covers(&self, name: &NodeName) -> bool {
        self.names.iter().any(|glob| glob.matches(name.as_str()))
    }
}

impl Leaf {
    pub fn key(&self) -> Digest {
        match self {
            Self::Node(leaf) => node_key(&leaf.name),
            Self::Class(leaf) => class_key(&leaf.class),
        }
    }

    /// The bytes that are hashed: each value inside has one written form, so a leaf has one, too.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn value(&self) -> Digest {
        Digest::of(&self.bytes())
    }

    /// The manifest that it names itself.
    pub const fn manifest(&self) -> Option<Digest> {
        match self {
            Self::Node(NodeLeaf { manifest: Meant::Own(digest), .. }) => Some(*digest),
            Self::Node(NodeLeaf { manifest: Meant::Class(_) | Meant::Nothing, .. }) => None,
            Self::Class(leaf) => Some(leaf.manifest),
        }
    }
}

/// The classes of a map, which say what some of its leaves mean.
#[derive(Debug, Clone, Default)]
pub struct ClassLeaves<'a>(BTreeMap<&'a Name, &'a ClassLeaf>);

impl<'a> ClassLeaves<'a> {
    pub fn of(leaves: impl IntoIterator<Item = &'a Leaf>) -> Self {
        let class = |leaf: &'a Leaf| match leaf {
            Leaf::Class(leaf) => Some((&leaf.class, leaf)),
            Leaf::Node(_) => None,
        };
        Self(leaves.into_iter().filter_map(class).collect())
    }

    pub fn get(&self, class: &Name) -> Option<&'a ClassLeaf> {
        self.0.get(class).copied()
    }

    pub fn all(&self) -> impl Iterator<Item = &'a ClassLeaf> + '_ {
        self.0.values().copied()
    }

    /// The class that a machine of this name is in; globs of two classes never meet.
    pub fn covering(&self, name: &NodeName) -> Option<&'a ClassLeaf> {
        self.all().find(|leaf| leaf.covers(name))
    }

    /// The manifest of a listed node; none if it is to have nothing.
    pub fn manifest_of(&self, leaf: &NodeLeaf) -> Option<Digest> {
        match &leaf.manifest {
            Meant::Own(digest) => Some(*digest),
            Meant::Class(class) => self.get(class).map(|class| class.manifest),
            Meant::Nothing => None,
        }
    }
}

/// Where a node's leaf stands.
pub fn node_key(name: &NodeName) -> Digest {
    Digest::of(format!("node/{name}").as_bytes())
}

/// Where a class's leaf stands.
pub fn class_key(class: &Name) -> Digest {
    Digest::of(format!("class/{class}").as_bytes())
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two leaves have one key")]
pub struct Doubled;

/// The whole map, for whoever proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembersMap {
    /// Key and value of each leaf, sorted by key.
    entries: Vec<(Digest, Digest)>,
    /// Hashes from the leaves to the top; an odd one at the end of a level rises as it is.
    levels: Vec<Vec<Digest>>,
}

impl MembersMap {
    pub fn new(leaves: impl IntoIterator<Item = (Digest, Digest)>) -> Result<Self, Doubled> {
        let mut entries: Vec<(Digest, Digest)> = leaves.into_iter().collect();
        entries.sort_unstable();
        if entries.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
            return Err(Doubled);
        }
        let mut levels = vec![entries.iter().map(|(key, value)| leaf_hash(*key, *value)).collect::<Vec<_>>()];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            let above = below.chunks(2).map(|pair| match pair {
                [left, right] => inner_hash(*left, *right),
                [alone] => *alone,
                _ => Digest([0; 32]),
            });
            let above = above.collect();
            levels.push(above);
        }
        Ok(Self { entries, levels })
    }

    pub fn of(leaves: &[Leaf]) -> Result<Self, Doubled> {
        Self::new(leaves.iter().map(|leaf| (leaf.key(), leaf.value())))
    }

    pub fn root(&self) -> Digest {
        let top = self.levels.last().and_then(|level| level.first()).copied();
        root_hash(self.entries.len() as u64, top)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Key and value of each leaf, in the order of keys.
    pub fn entries(&self) -> &[(Digest, Digest)] {
        &self.entries
    }

    /// The value under a key.
    pub fn get(&self, key: Digest) -> Option<Digest> {
        let at = self.entries.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        self.entries.get(at).map(|(_, value)| *value)
    }

    /// Shows that the key has the value that it has.
    pub fn prove(&self, key: Digest) -> Option<Path> {
        let at = self.entries.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(self.path(at))
    }

    /// Shows that the key is not there.
    pub fn prove_absence(&self, key: Digest) -> Option<Absence> {
        let at = self.entries.binary_search_by_key(&key, |(key, _)| *key).err()?;
        let neighbor = |at: usize| {
            let (key, value) = *self.entries.get(at)?;
            Some(Neighbor { key, value, path: self.path(at) })
        };
        Some(Absence { left: at.checked_sub(1).and_then(neighbor), right: neighbor(at) })
    }

    fn path(&self, at: usize) -> Path {
        let mut siblings = Vec::new();
        let mut place = at;
        for level in &self.levels {
            siblings.extend(level.get(place ^ 1).filter(|_| level.len() > 1));
            place /= 2;
        }
        Path { index: at as u64, count: self.entries.len() as u64, siblings }
    }
}

/// The way from a leaf to the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    pub index: u64,
    /// How many leaves the map has.
    pub count: u64,
    pub siblings: Vec<Digest>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbor {
    pub key: Digest,
    pub value: Digest,
    pub path: Path,
}

/// Two leaves that stand side by side, with nothing between; at the edge of the map there is only one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absence {
    pub left: Option<Neighbor>,
    pub right: Option<Neighbor>,
}

impl Path {
    /// Does this way lead from the leaf to the root?
    pub fn leads(&self, key: Digest, value: Digest, root: Digest) -> bool {
        if self.index >= self.count {
            return false;
        }
        let mut hash = leaf_hash(key, value);
        let (mut place, mut width) = (self.index, self.count);
        let mut siblings = self.siblings.iter();
        while width > 1 {
            let alone = place.is_multiple_of(2) && place + 1 == width;
            if !alone {
                let Some(sibling) = siblings.next() else {
                    return false;
                };
                hash = if place.is_multiple_of(2) { inner_hash(hash, *sibling) } else { inner_hash(*sibling, hash) };
            }
            place /= 2;
            width = width.div_ceil(2);
        }
        siblings.next().is_none() && root_hash(self.count, Some(hash)) == root
    }
}

impl Absence {
    pub fn holds(&self, key: Digest, root: Digest) -> bool {
        let is_there = |neighbor: &Neighbor| neighbor.path.leads(neighbor.key, neighbor.value, root);
        match (&self.left, &self.right) {
            (None, None) => root == root_hash(0, None),
            (None, Some(right)) => is_there(right) && right.path.index == 0 && key < right.key,
            (Some(left), None) => is_there(left) && left.path.index + 1 == left.path.count && left.key < key,
            (Some(left), Some(right)) => {
                is_there(left)
                    && is_there(right)
                    && left.path.index.checked_add(1) == Some(right.path.index)
                    && left.key < key
                    && key < right.key
            }
        }
    }
}

/// How a node stands in the map of one head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Listing {
    Own {
        leaf: NodeLeaf,
        path: Path,
        /// The class that the leaf names, if it names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<InClass>,
    },
    /// It joined since: its name has no leaf, and a class covers it.
    Class { leaf: ClassLeaf, path: Path, absence: Absence },
    /// It joined since, and no class covers it: it keeps what it has.
    Unlisted { absence: Absence },
}

/// A class's leaf, and that it stands in the map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InClass {
    pub leaf: ClassLeaf,
    pub path: Path,
}

/// What the map says that a node should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    Manifest(Digest),
    /// It is to have nothing.
    Nothing,
    /// Not a word: it keeps what it has.
    NoWord,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadListing {
    #[error("the way from this node's leaf to the head's map does not hold")]
    BrokenPath,
    #[error("the leaf is that of `{0}`, not of this node")]
    OtherNode(NodeName),
    #[error("the map gives this node's name to another key: another machine was published under it")]
    OtherKey,
    #[error("the class `{0}` does not cover this node's name")]
    OtherClass(Name),
    #[error("the leaf names the class `{0}`, which is not shown")]
    NoClass(Name),
    #[error("the class `{0}` is shown, which the leaf does not name")]
    StrayClass(Name),
    #[error("it is not shown that this node's name has no leaf of its own")]
    NotAbsent,
    #[error("the head has no members' map")]
    NoMap,
}

impl Listing {
    /// The leaf that the map has under this name, or that it has none: whichever of the two is shown. Which class covers the
    /// name says nothing about whose name it is.
    pub fn leaf_of(&self, root: Digest, name: &NodeName) -> Result<Option<&NodeLeaf>, BadListing> {
        match self {
            Self::Own { leaf, path, .. } => check_leaf(leaf, path, root, name).map(|()| Some(leaf)),
            Self::Class { absence, .. } | Self::Unlisted { absence } => {
                check_absence(absence, root, name).map(|()| None)
            }
        }
    }

    /// What the map says that this node should be.
    pub fn check(&self, root: Digest, name: &NodeName, key: Digest) -> Result<Said, BadListing> {
        match self {
            Self::Own { leaf, path, class } => {
                check_leaf(leaf, path, root, name)?;
                if leaf.node_key != key {
                    return Err(BadListing::OtherKey);
                }
                match (&leaf.manifest, class) {
                    (Meant::Own(digest), None) => Ok(Said::Manifest(*digest)),
                    (Meant::Nothing, None) => Ok(Said::Nothing),
                    (Meant::Class(named), Some(InClass { leaf, path })) if *named == leaf.class => {
                        check_class(leaf, path, root, name)?;
                        Ok(Said::Manifest(leaf.manifest))
                    }
                    (Meant::Class(named), _) => Err(BadListing::NoClass(named.clone())),
                    (Meant::Own(_) | Meant::Nothing, Some(stray)) => {
                        Err(BadListing::StrayClass(stray.leaf.class.clone()))
                    }
                }
            }
            Self::Class { leaf, path, absence } => {
                check_class(leaf, path, root, name)?;
                check_absence(absence, root, name)?;
                Ok(Said::Manifest(leaf.manifest))
            }
            Self::Unlisted { absence } => check_absence(absence, root, name).map(|()| Said::NoWord),
        }
    }
}

fn check_leaf(leaf: &NodeLeaf, path: &Path, root: Digest, name: &NodeName) -> Result<(), BadListing> {
    if leaf.name != *name {
        return Err(BadListing::OtherNode(leaf.name.clone()));
    }
    let leads = path.leads(node_key(name), Leaf::Node(leaf.clone()).value(), root);
    if leads { Ok(()) } else { Err(BadListing::BrokenPath) }
}

fn check_class(leaf: &ClassLeaf, path: &Path, root: Digest, name: &NodeName) -> Result<(), BadListing> {
    if !leaf.covers(name) {
        return Err(BadListing::OtherClass(leaf.class.clone()));
    }
    let leads = path.leads(class_key(&leaf.class), Leaf::Class(leaf.clone()).value(), root);
    if leads { Ok(()) } else { Err(BadListing::BrokenPath) }
}

fn check_absence(absence: &Absence, root: Digest, name: &NodeName) -> Result<(), BadListing> {
    if absence.holds(node_key(name), root) { Ok(()) } else { Err(BadListing::NotAbsent) }
}

fn leaf_hash(key: Digest, value: Digest) -> Digest {
    Digest::of(&joined(0, key, value))
}

fn inner_hash(left: Digest, right: Digest) -> Digest {
    Digest::of(&joined(1, left, right))
}

fn joined(mark: u8, left: Digest, right: Digest) -> [u8; 65] {
    let mut bytes = [mark; 65];
    let both = left.0.iter().chain(&right.0);
    bytes.iter_mut().skip(1).zip(both).for_each(|(byte, from)| *byte = *from);
    bytes
}

/// The count is hashed in, so that a map has one shape only.
fn root_hash(count: u64, top: Option<Digest>) -> Digest {
    let top = top.unwrap_or(Digest([0; 32]));
    Digest::of(&[&b"freehold members v1\0"[..], &count.to_be_bytes(), &top.0].concat())
}

#[cfg(test)]
mod tests;
