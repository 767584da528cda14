//! Who is at home where: the users and services of each node and class, and the class that covers a name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use identity::principal::glob::NameGlob;
use identity::principal::{Name, NodeName};

use crate::fleet::{At, Fleet};

#[derive(Debug, Clone, Default)]
pub(super) struct Home<'a> {
    pub users: BTreeSet<&'a Name>,
    pub services: BTreeSet<&'a Name>,
}

#[derive(Debug)]
pub(super) struct Places<'a> {
    at: BTreeMap<&'a At, Home<'a>>,
    classes: Classes<'a>,
    /// Declared nodes of each class.
    declared: HashMap<&'a Name, Vec<&'a NodeName>>,
}

impl<'a> Places<'a> {
    pub(super) fn of(fleet: &'a Fleet) -> Self {
        let mut at: BTreeMap<&At, Home<'_>> = BTreeMap::new();
        for (name, user) in &fleet.users {
            for place in &user.nodes {
                at.entry(place).or_default().users.insert(name);
            }
        }
        for (name, service) in &fleet.services {
            for place in &service.at {
                at.entry(place).or_default().services.insert(name);
            }
        }
        let classes = Classes::of(fleet);
        let mut declared: HashMap<&Name, Vec<&NodeName>> = HashMap::new();
        for node in fleet.nodes.keys() {
            if let Some(class) = classes.covering(node) {
                declared.entry(class).or_default().push(node);
            }
        }
        Self { at, classes, declared }
    }

    pub(super) fn class_of(&self, node: &NodeName) -> Option<&'a Name> {
        self.classes.covering(node)
    }

    pub(super) fn declared_in(&self, class: &Name) -> &[&'a NodeName] {
        self.declared.get(class).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn of_class(&self, class: &Name) -> Home<'a> {
        self.at.get(&At::Class(class.clone())).cloned().unwrap_or_default()
    }

    /// A node that is declared and covered by a class is at home in both.
    pub(super) fn of_node(&self, node: &NodeName) -> Home<'a> {
        let mut home = self.at.get(&At::Node(node.clone())).cloned().unwrap_or_default();
        if let Some(shared) = self.class_of(node).and_then(|class| self.at.get(&At::Class(class.clone()))) {
            home.users.extend(&shared.users);
            home.services.extend(&shared.services);
        }
        home
    }
}

/// The patterns of all classes by what stands before their first `*`, so that a name asks only those that may fit.
#[derive(Debug)]
struct Classes<'a> {
    by_beginning: HashMap<String, Vec<(&'a NameGlob, &'a Name)>>,
}

impl<'a> Classes<'a> {
    fn of(fleet: &'a Fleet) -> Self {
        let mut by_beginning: HashMap<String, Vec<_>> = HashMap::new();
        for (class, spec) in &fleet.classes {
            for glob in &spec.names {
                let beginning = glob.to_string().split('*').next().unwrap_or_default().to_owned();
                by_beginning.entry(beginning).or_default().push((glob, class));
            }
        }
        Self { by_beginning }
    }

    /// Classes are disjoint; were they not, the first by name would count.
    fn covering(&self, node: &NodeName) -> Option<&'a Name> {
        let name = node.as_str();
        let beginnings = (0..=name.len()).filter_map(|end| name.get(..end));
        let globs = beginnings.filter_map(|beginning| self.by_beginning.get(beginning)).flatten();
        globs.filter(|(glob, _)| glob.matches(name)).map(|(_, class)| *class).min()
    }
}
