//! Compiles a fleet: one manifest per node and class, and the leaves of the members' map that name them.
//!
//! Pure and deterministic: the same fleet and members give the same bytes on every machine.

mod places;
mod reach;
mod machine;

use std::collections::{BTreeMap, BTreeSet};

use identity::id::Digest;
use identity::members::{ClassLeaf, Leaf, Meant, MembersMap, NodeLeaf};
use identity::principal::{Name, NodeName};
use serde::{Deserialize, Serialize};

use self::machine::Press;
use self::reach::sorted;
use crate::fleet::{Fleet, MachineSpec};
use crate::stored::{FileName, MAX_BYTES, SCHEMA, SCHEMA_OF_FILES, SCHEMA_OF_SVIDS, SCHEMA_OF_TUNNELS};

/// A member as its admission says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberKnown {
    pub name: NodeName,
    /// Digest of the node key.
    pub node_key: Digest,
    /// Digest of the admission's envelope.
    pub admission: Digest,
}

/// What a head would name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// Every manifest that a leaf names, by its digest. Equal ones are one.
    pub manifests: BTreeMap<Digest, Vec<u8>>,
    /// Sorted by key, as in the map.
    pub leaves: Vec<Leaf>,
    pub root: Digest,
    /// Members that are neither declared nor in a class: they keep their identity and get nothing.
    pub unmatched: Vec<NodeName>,
    /// Declared nodes that have not joined, with the manifest that they will get. There is no key to name in a leaf.
    pub waiting: BTreeMap<NodeName, Vec<u8>>,
}

/// Why a fleet cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeldBack {
    #[error("{said}, which takes manifest schema {needs}; what is compiled here has schema {schema}")]
    NeedsSchema { said: Said, needs: u32, schema: u32 },
    #[error("the manifest of {of} has {bytes} bytes; a node takes at most {MAX_BYTES}")]
    TooLarge { of: Machine, bytes: usize },
    #[error("there is no manifest schema {0}; this program writes 1 to {SCHEMA}")]
    UnknownSchema(u32),
    #[error("two members are called `{0}`")]
    TwoMembers(NodeName),
}

impl HeldBack {
    pub fn hint(&self) -> String {
        match self {
            Self::NeedsSchema { said, .. } => {
                let what = said.key();
                format!("upgrade freehold-node on the nodes that hold the schema back, or take {what} out of the fleet")
            }
            Self::TooLarge { .. } => "deliver fewer or smaller files; give access by classes and by the role `node` \
                                      rather than to thousands of principals one by one"
                .to_owned(),
            Self::UnknownSchema(_) => format!("compile for schema {SCHEMA}, or upgrade this program"),
            Self::TwoMembers(_) => "name each member once".to_owned(),
        }
    }
}

/// What a manifest is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Machine {
    Node(NodeName),
    Class(Name),
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Node(name) => write!(f, "`{name}`"),
            Self::Class(name) => write!(f, "class `{name}`"),
        }
    }
}

/// What a fleet says that not every schema can say. It is never left out: a machine on which SOCKS is to be off, or a
/// role that is to be shut out, would get what was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Files(Machine, Vec<FileName>),
    /// How tunnels behave on these.
    Tunnels(Vec<Machine>),
    /// These are told who calls.
    TellsCaller(Vec<Name>),
    Stale,
    /// How the programs of these services and users have their SVIDs.
    Svids(Vec<Name>),
}

impl Said {
    const fn key(&self) -> &'static str {
        match self {
            Self::Files(..) => "the files",
            Self::Tunnels(_) => "`tunnel`",
            Self::TellsCaller(_) => "`tells_caller`",
            Self::Stale => "`stale`",
            Self::Svids(_) => "`svid`",
        }
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Files(of, files) => {
                let names: Vec<_> = files.iter().map(|file| format!("`{file}`")).collect();
                let word = if names.len() == 1 { "the file" } else { "the files" };
                write!(f, "{of} gets {word} {}", names.join(", "))
            }
            Self::Tunnels(machines) => write!(f, "it is said how tunnels behave on {}", some(machines)),
            Self::TellsCaller(services) => {
                let names: Vec<_> = services.iter().map(|name| format!("`{name}`")).collect();
                write!(f, "callers are told to {}", some(&names))
            }
            Self::Stale => f.write_str("the org shuts out roles when a head is stale"),
            Self::Svids(whose) => {
                let names: Vec<_> = whose.iter().map(|name| format!("`{name}`")).collect();
                write!(f, "it is said how programs have the SVIDs of {}", some(&names))
            }
        }
    }
}

/// Six are named, and more are counted.
fn some(all: &[impl ToString]) -> String {
    let names: Vec<String> = all.iter().take(6).map(ToString::to_string).collect();
    let more = all.len() - names.len();
    if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
}

/// What each node and class would be, for the members that are known. All that stands against it, at once.
pub fn compile(fleet: &Fleet, members: &[MemberKnown], schema: u32) -> Result<Compiled, Vec<HeldBack>> {
    if !(1..=SCHEMA).contains(&schema) {
        return Err(vec![HeldBack::UnknownSchema(schema)]);
    }
    let mut against = against_schema(fleet, schema);
    against.extend(doubled(members));
    let mut draft = Draft { press: Press::new(fleet, schema), manifests: BTreeMap::new(), leaves: Vec::new(), against };
    for (class, spec) in &fleet.classes {
        let manifest = draft.keep(Machine::Class(class.clone()), draft.press.class(class, &spec.like));
        let leaf = ClassLeaf { class: class.clone(), names: sorted(&spec.names), manifest };
        draft.leaves.push((Leaf::Class(leaf.clone()).key(), Leaf::Class(leaf)));
    }
    let (mut unmatched, mut joined) = (Vec::new(), BTreeSet::new());
    for member in members {
        let manifest = match (fleet.nodes.get(&member.name), draft.press.places.class_of(&member.name)) {
            (Some(spec), _) => {
                joined.insert(&member.name);
                Meant::Own(draft.keep(Machine::Node(member.name.clone()), draft.press.node(&member.name, spec)))
            }
            (None, Some(class)) => Meant::Class(class.clone()),
            (None, None) => {
                unmatched.push(member.name.clone());
                Meant::Nothing
            }
        };
        let MemberKnown { name, node_key, admission } = member.clone();
        let leaf = Leaf::Node(NodeLeaf { name, node_key, admission, manifest });
        draft.leaves.push((leaf.key(), leaf));
    }
    unmatched.sort();
    let waiting = fleet.nodes.iter().filter(|(name, _)| !joined.contains(name));
    let waiting = waiting.map(|(name, spec)| (name.clone(), draft.wait(name, spec))).collect();
    draft.finish(unmatched, waiting)
}

struct Draft<'a> {
    press: Press<'a>,
    manifests: BTreeMap<Digest, Vec<u8>>,
    leaves: Vec<(Digest, Leaf)>,
    against: Vec<HeldBack>,
}

impl Draft<'_> {
    fn weigh(&mut self, of: Machine, bytes: &[u8]) {
        if bytes.len() > MAX_BYTES {
            self.against.push(HeldBack::TooLarge { of, bytes: bytes.len() });
        }
    }

    fn keep(&mut self, of: Machine, bytes: Vec<u8>) -> Digest {
        self.weigh(of, &bytes);
        let digest = Digest::of(&bytes);
        self.manifests.entry(digest).or_insert(bytes);
        digest
    }

    fn wait(&mut self, name: &NodeName, spec: &MachineSpec) -> Vec<u8> {
        let bytes = self.press.node(name, spec);
        self.weigh(Machine::Node(name.clone()), &bytes);
        bytes
    }

    fn finish(
        mut self,
        unmatched: Vec<NodeName>,
        waiting: BTreeMap<NodeName, Vec<u8>>,
    ) -> Result<Compiled, Vec<HeldBack>> {
        if !self.against.is_empty() {
            return Err(self.against);
        }
        self.leaves.sort_unstable_by_key(|(key, _)| *key);
        let Ok(map) = MembersMap::new(self.leaves.iter().map(|(key, leaf)| (*key, leaf.value()))) else {
            return Err(self.against);
        };
        let leaves = self.leaves.into_iter().map(|(_, leaf)| leaf).collect();
        Ok(Compiled { manifests: self.manifests, leaves, root: map.root(), unmatched, waiting })
    }
}

fn against_schema(fleet: &Fleet, schema: u32) -> Vec<HeldBack> {
    let mut against = Vec::new();
    let services = fleet.services.iter().filter(|(_, it)| it.svid.is_some()).map(|(name, _)| name);
    let users = fleet.users.iter().filter(|(_, it)| it.svid.is_some()).map(|(name, _)| name);
    let svids: Vec<Name> = services.chain(users).cloned().collect();
    if schema < SCHEMA_OF_SVIDS && !svids.is_empty() {
        against.push(HeldBack::NeedsSchema { said: Said::Svids(svids), needs: SCHEMA_OF_SVIDS, schema });
    }
    if schema >= SCHEMA_OF_TUNNELS {
        return against;
    }
    let nodes = fleet.nodes.iter().map(|(name, node)| (Machine::Node(name.clone()), node));
    let classes = fleet.classes.iter().map(|(name, class)| (Machine::Class(name.clone()), &class.like));
    let machines: Vec<(Machine, &MachineSpec)> = nodes.chain(classes).collect();
    if schema < SCHEMA_OF_FILES {
        let machines = machines.iter().filter(|(_, spec)| !spec.policy.files.is_empty());
        let said = machines.map(|(of, spec)| Said::Files(of.clone(), spec.policy.files.keys().cloned().collect()));
        against.extend(said.map(|said| HeldBack::NeedsSchema { said, needs: SCHEMA_OF_FILES, schema }));
    }
    let tunnels = machines.into_iter().filter(|(_, spec)| !spec.policy.tunnel.is_default());
    let tunnels: Vec<Machine> = tunnels.map(|(of, _)| of).collect();
    let tells = fleet.services.iter().filter(|(_, it)| it.tells_caller);
    let tells: Vec<Name> = tells.map(|(name, _)| name.clone()).collect();
    let tunnels = (!tunnels.is_empty()).then_some(Said::Tunnels(tunnels));
    let tells = (!tells.is_empty()).then_some(Said::TellsCaller(tells));
    let stale = fleet.org.stale.as_ref().map(|_| Said::Stale);
    let said = tunnels.into_iter().chain(tells).chain(stale);
    against.extend(said.map(|said| HeldBack::NeedsSchema { said, needs: SCHEMA_OF_TUNNELS, schema }));
    against
}

fn doubled(members: &[MemberKnown]) -> Vec<HeldBack> {
    let mut seen = BTreeSet::new();
    members
        .iter()
        .filter(|member| !seen.insert(&member.name))
        .map(|member| HeldBack::TwoMembers(member.name.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
