//! What would change: a compiled fleet against what is published, node by node and in a few words for all.

mod facts;
mod summary;
mod words;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use identity::id::Digest;
use identity::members::{ClassLeaf, ClassLeaves, Leaf, NodeLeaf};
use identity::principal::{Name, NodeName};
use serde::{Deserialize, Serialize};

use self::facts::Facts;
pub use self::facts::What;
use crate::compile::{Compiled, Machine};
use crate::stored::{BadManifest, Manifest, SCHEMA};

/// What a gateway has: the leaves of the head in force, and the manifests that they name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Published {
    pub leaves: Vec<Leaf>,
    pub manifests: BTreeMap<Digest, Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPublished {
    #[error("the published manifest {0} is not there to compare with")]
    Missing(Digest),
    #[error("the published manifest {digest} cannot be compared with: {source}")]
    Unreadable {
        digest: Digest,
        #[source]
        source: BadManifest,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// In words, the weightiest first.
    pub summary: Vec<String>,
    pub counts: Counts,
    /// Machines for which something changes; those with the same change stand together.
    pub changes: Vec<MachineChange>,
    /// Members that get a leaf of their own.
    pub enter: Vec<NodeName>,
    /// Nodes whose leaf goes: they keep what they have.
    pub leave: Vec<NodeName>,
    /// Another machine under the same name.
    pub replaced: Vec<NodeName>,
    /// ClassLeaves that come, go, or cover other names.
    pub classes: Vec<ClassChange>,
    /// Members that are neither declared nor in a class.
    pub unmatched: Vec<NodeName>,
    /// Declared nodes that have not joined.
    pub waiting: Vec<NodeName>,
}

/// The names that a class covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClassChange {
    pub class: Name,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// How many nodes with a leaf of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub on_trial: usize,
    pub access_only: usize,
    pub unchanged: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineChange {
    pub machines: Vec<Machine>,
    /// Goes back by itself unless confirmed; otherwise a table is swapped.
    pub on_trial: bool,
    pub changes: Vec<Change>,
}

/// Without `from` it is gained, without `to` it is lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Change {
    pub what: What,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub who: String,
    pub from: Option<String>,
    pub to: Option<String>,
}

impl Plan {
    /// Would publishing give every node what it has already?
    pub const fn is_empty(&self) -> bool {
        let same_map = self.enter.is_empty() && self.leave.is_empty() && self.replaced.is_empty();
        self.changes.is_empty() && same_map && self.classes.is_empty()
    }
}

/// Is this change one that can break a node?
pub(crate) fn needs_trial(old: &Manifest, new: &Manifest) -> bool {
    old.runs != new.runs
}

/// What one machine gains and loses. Without a manifest so far it is compared with the empty one.
pub fn between(old: Option<&Manifest>, new: &Manifest) -> Vec<Change> {
    let old = old.map_or_else(|| facts::of(&Manifest::empty(SCHEMA)), facts::of);
    differences(&old, &facts::of(new))
}

pub fn compare(old: &Published, new: &Compiled) -> Result<Plan, BadPublished> {
    let (before, after) = (Leaves::of(&old.leaves), Leaves::of(&new.leaves));
    let mut open = Opened { old: &old.manifests, new: &new.manifests, read: BTreeMap::new() };
    // Machines by what they have and what they would have.
    let mut groups: BTreeMap<(Option<Digest>, Option<Digest>), Vec<Machine>> = BTreeMap::new();
    for (name, leaf) in &after.nodes {
        let pair = (before.manifest_of(name), after.classes.manifest_of(leaf));
        groups.entry(pair).or_default().push(Machine::Node((*name).clone()));
    }
    for leaf in after.classes.all() {
        let had = before.classes.get(&leaf.class).map(|leaf| leaf.manifest);
        groups.entry((had, Some(leaf.manifest))).or_default().push(Machine::Class(leaf.class.clone()));
    }
    let mut counts = Counts::default();
    let mut alike: BTreeMap<(bool, Vec<Change>), Vec<Machine>> = BTreeMap::new();
    for ((had, gets), machines) in groups {
        let nodes = machines.iter().filter(|machine| matches!(machine, Machine::Node(_))).count();
        let (on_trial, changes) = if had == gets { (false, Vec::new()) } else { open.changes(had, gets)? };
        if changes.is_empty() {
            counts.unchanged += nodes;
        } else {
            *(if on_trial { &mut counts.on_trial } else { &mut counts.access_only }) += nodes;
            alike.entry((on_trial, changes)).or_default().extend(machines);
        }
    }
    let change = |((on_trial, changes), mut machines): (_, Vec<Machine>)| {
        machines.sort();
        MachineChange { machines, on_trial, changes }
    };
    let mut changes: Vec<MachineChange> = alike.into_iter().map(change).collect();
    changes.sort_by(|a, b| a.machines.cmp(&b.machines));
    let names = |all: Vec<&NodeName>| all.into_iter().cloned().collect::<Vec<_>>();
    let both = || after.nodes.iter().filter_map(|(name, leaf)| Some((*name, *leaf, *before.nodes.get(name)?)));
    let mut plan = Plan {
        summary: Vec::new(),
        counts,
        changes,
        enter: names(after.nodes.keys().filter(|name| !before.nodes.contains_key(*name)).copied().collect()),
        leave: names(before.nodes.keys().filter(|name| !after.nodes.contains_key(*name)).copied().collect()),
        replaced: names(both().filter(|(_, a, b)| a.node_key != b.node_key).map(|(name, ..)| name).collect()),
        classes: classes(&before, &after),
        unmatched: new.unmatched.clone(),
        waiting: new.waiting.keys().cloned().collect(),
    };
    let (was, is) = (open.callers(&before)?, open.callers(&after)?);
    plan.summary = summary::of(&plan, &was, &is);
    Ok(plan)
}

fn classes(before: &Leaves<'_>, after: &Leaves<'_>) -> Vec<ClassChange> {
    let covered = |leaf: &ClassLeaf| leaf.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let all: BTreeSet<&Name> = before.classes.all().chain(after.classes.all()).map(|leaf| &leaf.class).collect();
    let change = |class: &Name| {
        let (from, to) = (before.classes.get(class).map(covered), after.classes.get(class).map(covered));
        (from != to).then(|| ClassChange { class: class.clone(), from, to })
    };
    all.into_iter().filter_map(change).collect()
}

struct Leaves<'a> {
    nodes: BTreeMap<&'a NodeName, &'a NodeLeaf>,
    classes: ClassLeaves<'a>,
}

impl<'a> Leaves<'a> {
    fn of(leaves: &'a [Leaf]) -> Self {
        let node = |leaf: &'a Leaf| match leaf {
            Leaf::Node(leaf) => Some((&leaf.name, leaf)),
            Leaf::Class(_) => None,
        };
        Self { nodes: leaves.iter().filter_map(node).collect(), classes: ClassLeaves::of(leaves) }
    }

    /// What a node has by this map: as its leaf says, or, if it joined since, what the class has that covers it.
    fn manifest_of(&self, name: &NodeName) -> Option<Digest> {
        match self.nodes.get(name) {
            Some(leaf) => self.classes.manifest_of(leaf),
            None => self.classes.covering(name).map(|leaf| leaf.manifest),
        }
    }

    fn manifests(&self) -> BTreeSet<Digest> {
        let nodes = self.nodes.values().filter_map(|leaf| self.classes.manifest_of(leaf));
        nodes.chain(self.classes.all().map(|leaf| leaf.manifest)).collect()
    }
}

/// Manifests of both sides, each read once.
struct Opened<'a> {
    old: &'a BTreeMap<Digest, Vec<u8>>,
    new: &'a BTreeMap<Digest, Vec<u8>>,
    read: BTreeMap<Digest, Rc<Manifest>>,
}

impl Opened<'_> {
    fn read(&mut self, digest: Digest) -> Result<Rc<Manifest>, BadPublished> {
        if let Some(manifest) = self.read.get(&digest) {
            return Ok(Rc::clone(manifest));
        }
        let manifest = Rc::new(Manifest::read(self.bytes(digest)?, digest).map_err(unreadable(digest))?);
        self.read.insert(digest, Rc::clone(&manifest));
        Ok(manifest)
    }

    /// Whether it goes on trial, and what changes. No manifest is the same as the empty one.
    fn changes(&mut self, had: Option<Digest>, gets: Option<Digest>) -> Result<(bool, Vec<Change>), BadPublished> {
        let mut read =
            |digest: Option<Digest>| digest.map_or_else(|| Ok(Rc::new(Manifest::empty(SCHEMA))), |it| self.read(it));
        let (had, gets) = (read(had)?, read(gets)?);
        Ok((needs_trial(&had, &gets), differences(&facts::of(&had), &facts::of(&gets))))
    }

    /// Who may call what, wherever it listens, with the places from which they may.
    fn callers(&self, leaves: &Leaves<'_>) -> Result<summary::Callers, BadPublished> {
        let mut all = summary::Callers::new();
        for digest in leaves.manifests() {
            let tables = match self.read.get(&digest) {
                Some(manifest) => Cow::Borrowed(&manifest.access.callers),
                None => Cow::Owned(facts::callers_in(self.bytes(digest)?, digest).map_err(unreadable(digest))?),
            };
            for (service, rows) in tables.iter() {
                for (who, places) in rows.iter().map(facts::caller) {
                    all.entry((service.to_string(), who)).or_default().insert(places);
                }
            }
        }
        Ok(all)
    }

    fn bytes(&self, digest: Digest) -> Result<&[u8], BadPublished> {
        let bytes = self.new.get(&digest).or_else(|| self.old.get(&digest));
        bytes.map(Vec::as_slice).ok_or(BadPublished::Missing(digest))
    }
}

fn unreadable(digest: Digest) -> impl FnOnce(BadManifest) -> BadPublished {
    move |source| BadPublished::Unreadable { digest, source }
}

fn differences(old: &Facts, new: &Facts) -> Vec<Change> {
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let change = |key: &facts::Fact| {
        let (from, to) = (old.get(key).cloned(), new.get(key).cloned());
        (from != to).then(|| Change { what: key.what, name: key.name.clone(), who: key.who.clone(), from, to })
    };
    keys.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests;
