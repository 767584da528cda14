//! A members' map that was published, read back: who was at home where, what listened where, and which row let whom in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use identity::id::Digest;
use identity::members::{ClassLeaf, Leaf, Meant, NodeLeaf};
use identity::principal::{Name, NodeName, Principal, PrincipalKind};

use crate::stored::{BadManifest, Caller, Manifest, Place};

#[derive(Debug, Clone)]
pub struct Table {
    nodes: BTreeMap<NodeName, NodeLeaf>,
    classes: Vec<ClassLeaf>,
    manifests: BTreeMap<Digest, Manifest>,
}

impl Table {
    pub fn read(leaves: &[Leaf], bytes: &BTreeMap<Digest, Vec<u8>>) -> Result<Self, BadManifest> {
        let (mut nodes, mut classes, mut manifests) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        for leaf in leaves {
            if let Some(named) = leaf.manifest()
                && let std::collections::btree_map::Entry::Vacant(free) = manifests.entry(named)
            {
                let bytes = bytes.get(&named).map(Vec::as_slice).unwrap_or_default();
                free.insert(Manifest::read(bytes, named)?);
            }
            match leaf {
                Leaf::Node(leaf) => drop(nodes.insert(leaf.name.clone(), leaf.clone())),
                Leaf::Class(leaf) => classes.push(leaf.clone()),
            }
        }
        Ok(Self { nodes, classes, manifests })
    }

    /// What a machine of this name should be: as its leaf says; one that joined since is what its class is.
    pub fn manifest(&self, node: &NodeName) -> Option<&Manifest> {
        let class =
            |fits: &dyn Fn(&ClassLeaf) -> bool| self.classes.iter().find(|leaf| fits(leaf)).map(|leaf| leaf.manifest);
        let digest = match self.nodes.get(node).map(|leaf| &leaf.manifest) {
            Some(Meant::Own(digest)) => Some(*digest),
            Some(Meant::Class(named)) => class(&|leaf| leaf.class == *named),
            Some(Meant::Nothing) => None,
            None => class(&|leaf| leaf.covers(node)),
        };
        self.manifests.get(&digest?)
    }

    /// The same, with machines that another map has and this one lists no longer: what they were is told of them.
    #[must_use]
    pub fn with_gone(mut self, other: &Self, is_gone: impl Fn(&NodeLeaf) -> bool) -> Self {
        for (name, leaf) in other.nodes.iter().filter(|(_, leaf)| is_gone(leaf)) {
            if let (false, Some(manifest)) = (self.nodes.contains_key(name), other.manifest(name)) {
                let digest = manifest.digest();
                self.manifests.entry(digest).or_insert_with(|| manifest.clone());
                let leaf = NodeLeaf { manifest: Meant::Own(digest), ..leaf.clone() };
                self.nodes.insert(name.clone(), leaf);
            }
        }
        self
    }

    /// Could a machine of this name hold an SVID for the principal?
    pub fn is_home(&self, node: &NodeName, principal: &Principal) -> bool {
        match principal.node_name() {
            Some(own) => own == *node,
            None => self.manifest(node).is_some_and(|manifest| manifest.places(principal)),
        }
    }

    pub fn serves(&self, node: &NodeName, service: &Name) -> bool {
        self.manifest(node).is_some_and(|manifest| manifest.runs.services.contains_key(service))
    }

    /// The rows by which the machine lets the principal in, from that node.
    pub fn rows(&self, at: &NodeName, service: &Name, who: &Principal, from: &NodeName) -> Vec<Caller> {
        let rows = self.manifest(at).map(|manifest| manifest.access.rows_for(service, who, from));
        rows.into_iter().flatten().cloned().collect()
    }

    /// Every name in it.
    pub fn names(&self) -> BTreeSet<(PrincipalKind, String)> {
        let nodes = self.nodes.keys().map(|name| (PrincipalKind::Node, name.to_string()));
        let users = self.manifests.values().flat_map(|manifest| &manifest.runs.users);
        let users = users.map(|name| (PrincipalKind::User, name.to_string()));
        let services = self.manifests.values().flat_map(|manifest| manifest.runs.services.keys());
        nodes.chain(users).chain(services.map(|name| (PrincipalKind::Service, name.to_string()))).collect()
    }
}

/// A row as a person reads it.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed { principal, at } => {
                let places: Vec<String> = at.iter().map(ToString::to_string).collect();
                write!(f, "{} `{}`, on {}", principal.kind().word(), principal.name(), places.join(", "))
            }
            Self::Node(name) => write!(f, "node `{name}`"),
            Self::Class { class, .. } => write!(f, "every node of class `{class}`"),
            Self::AnyNode => f.write_str("every node"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "`{name}`"),
            Self::Class { class, .. } => write!(f, "class `{class}`"),
        }
    }
}
