//! Where things stand in the files that the rules of the whole fleet speak of.

use std::collections::BTreeMap;

use identity::principal::glob::NameGlob;
use identity::principal::{Name, NodeName};

use super::form;
use super::names::{Declared, Names};
use super::place::Spot;
use super::tree::Node;
use super::tunnel::Told;
use crate::fleet::At;

#[derive(Debug, Default)]
pub(crate) struct Spots {
    pub(crate) names: Names,
    pub(crate) users: Option<Spot>,
    /// Each pattern of each class.
    pub(crate) globs: Vec<(Name, NameGlob, Spot)>,
    pub(crate) at: BTreeMap<Name, Vec<(At, Spot)>>,
    pub(crate) addr: BTreeMap<Name, Spot>,
    /// Where nodes say where others reach them.
    pub(crate) address: BTreeMap<NodeName, Spot>,
    /// Where tunnels are told what to do, of each machine for which anything is said.
    pub(crate) tunnels: BTreeMap<At, Told>,
    pub(crate) stale: Option<Spot>,
    /// Which DNS names SVIDs may carry.
    pub(crate) svid_dns: Option<Spot>,
}

impl Spots {
    pub(crate) fn read_machines(&mut self, declared: &Declared<'_>, org: &Told) {
        let nodes = declared.nodes.iter().filter_map(|entry| Some((entry, form::machine(&entry.key).ok()?)));
        for (entry, name) in nodes {
            if let Some(address) = entry.value.get("address") {
                self.address.entry(name.clone()).or_insert(address.spot());
            }
            self.hear(At::Node(name), &entry.value, org);
        }
        for entry in &declared.classes {
            if let Ok(name) = entry.key.parse() {
                self.hear(At::Class(name), &entry.value, org);
            }
        }
    }

    fn hear(&mut self, at: At, node: &Node, org: &Told) {
        let told = Told::of(node, org);
        if !told.is_empty() {
            self.tunnels.entry(at).or_insert(told);
        }
    }
}
