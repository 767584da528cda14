//! A compiled fleet as files: the documented layout of `freehold compile --out`. Names and bytes only; nothing is written.

use std::collections::BTreeMap;

use identity::id::{Digest, OrgId};
use identity::members::{ClassLeaves, Leaf};
use identity::principal::{Name, NodeName, OrgName};
use serde::{Deserialize, Serialize};

use crate::compile::Compiled;
use crate::fleet::Fleet;

/// What the layout is, as a whole; raised when a reader of the old one would go wrong.
pub(crate) const LAYOUT: u32 = 1;
/// The file by which a folder is known to be such a layout.
pub const INDEX: &str = "index.json";

const MANIFEST_SCHEMA: &str = include_str!("../schemas/manifest.schema.json");
const LEAF_SCHEMA: &str = include_str!("../schemas/leaf.schema.json");

/// For people and programs: which manifest is whose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompiledIndex {
    pub freehold_layout: u32,
    pub org: OrgName,
    pub org_id: OrgId,
    /// Schema of the manifests.
    pub schema: u32,
    /// Members to the digest of their manifest, their own or their class's.
    pub nodes: BTreeMap<NodeName, Digest>,
    pub classes: BTreeMap<Name, Digest>,
    /// Members that are neither declared nor in a class.
    pub unmatched: Vec<NodeName>,
    /// Declared nodes that have not joined: no leaf names their manifest yet.
    pub waiting: Vec<NodeName>,
}

/// The members' map as the head names it by its root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MapFile {
    pub root: Digest,
    /// Sorted by key.
    pub leaves: Vec<MapEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MapEntry {
    pub key: Digest,
    pub leaf: Leaf,
}

/// Every file of the layout, by its relative path.
pub fn emit(fleet: &Fleet, compiled: &Compiled, schema: u32) -> BTreeMap<String, Vec<u8>> {
    let entry = |leaf: &Leaf| MapEntry { key: leaf.key(), leaf: leaf.clone() };
    let map = MapFile { root: compiled.root, leaves: compiled.leaves.iter().map(entry).collect() };
    let mut index = CompiledIndex {
        freehold_layout: LAYOUT,
        org: fleet.org.name.clone(),
        org_id: fleet.org.id,
        schema,
        nodes: BTreeMap::new(),
        classes: BTreeMap::new(),
        unmatched: compiled.unmatched.clone(),
        waiting: compiled.waiting.keys().cloned().collect(),
    };
    let classes = ClassLeaves::of(&compiled.leaves);
    for leaf in &compiled.leaves {
        match leaf {
            Leaf::Node(leaf) => {
                index.nodes.extend(classes.manifest_of(leaf).map(|digest| (leaf.name.clone(), digest)));
            }
            Leaf::Class(leaf) => drop(index.classes.insert(leaf.class.clone(), leaf.manifest)),
        }
    }
    let mut files = BTreeMap::from([
        (INDEX.to_owned(), pretty(&index)),
        ("map.json".to_owned(), pretty(&map)),
        ("schemas/manifest.schema.json".to_owned(), MANIFEST_SCHEMA.into()),
        ("schemas/leaf.schema.json".to_owned(), LEAF_SCHEMA.into()),
    ]);
    files.extend(compiled.manifests.iter().map(|(digest, bytes)| (format!("manifests/{digest}.json"), bytes.clone())));
    files.extend(compiled.waiting.iter().map(|(name, bytes)| (format!("waiting/{name}.json"), bytes.clone())));
    files
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests;
