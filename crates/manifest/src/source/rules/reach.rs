//! Who has a role, and where: enough to say whether somebody elsewhere may call a service.

use std::collections::{BTreeMap, BTreeSet};

use identity::principal::Name;

use crate::fleet::{At, Fleet, ServiceSpec};

/// Where those are who have a role. Two places are as good as many.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Holders {
    /// Somebody has it, somewhere or nowhere.
    pub(crate) any: bool,
    places: Vec<At>,
}

impl Holders {
    fn add(&mut self, at: &At) {
        self.any = true;
        if self.places.len() < 2 && !self.places.contains(at) {
            self.places.push(at.clone());
        }
    }
}

#[derive(Debug)]
pub(crate) struct Reach<'f> {
    fleet: &'f Fleet,
    pub(crate) holders: BTreeMap<&'f Name, Holders>,
    /// The roles that allow each group.
    pub(crate) allowing: BTreeMap<&'f Name, Vec<&'f Name>>,
    several_machines: bool,
}

impl<'f> Reach<'f> {
    pub(crate) fn of(fleet: &'f Fleet) -> Self {
        let mut holders: BTreeMap<&Name, Holders> = BTreeMap::new();
        let mut give = |role: &'f Name, places: &[At]| {
            let holders = holders.entry(role).or_default();
            holders.any = true;
            for at in places {
                holders.add(at);
            }
        };
        for user in fleet.users.values() {
            user.roles.iter().for_each(|role| give(role, &user.nodes));
        }
        for service in fleet.services.values() {
            service.roles.iter().for_each(|role| give(role, &service.at));
        }
        for (name, node) in &fleet.nodes {
            node.roles.iter().for_each(|role| give(role, &[At::Node(name.clone())]));
        }
        for (name, class) in &fleet.classes {
            class.like.roles.iter().for_each(|role| give(role, &[At::Class(name.clone())]));
        }
        for invite in fleet.invites.values() {
            invite.roles.iter().for_each(|role| give(role, &[]));
        }
        let mut allowing: BTreeMap<&Name, Vec<&Name>> = BTreeMap::new();
        for (role, groups) in &fleet.roles {
            for group in groups {
                allowing.entry(group).or_default().push(role);
            }
        }
        let several_machines = fleet.nodes.len() > 1 || !fleet.classes.is_empty();
        Self { fleet, holders, allowing, several_machines }
    }

    /// The places, up to two per role, of those who may call it.
    fn callers<'s>(&'s self, service: &'s ServiceSpec) -> impl Iterator<Item = &'s At> {
        let roles = service.groups.iter().filter_map(|group| self.allowing.get(group)).flatten();
        roles.filter_map(|role| self.holders.get(role)).flat_map(|holders| holders.places.iter())
    }

    /// Whether one of these roles allows it; with the role `node`, if it is a machine that asks.
    pub(crate) fn allows(&self, roles: &BTreeSet<Name>, is_machine: bool, service: &ServiceSpec) -> bool {
        let allowing = service.groups.iter().filter_map(|group| self.allowing.get(group)).flatten();
        (is_machine && self.every_node_may(service)) || allowing.into_iter().any(|role| roles.contains(*role))
    }

    fn every_node_may(&self, service: &ServiceSpec) -> bool {
        !self.fleet.every_node.is_disjoint(&service.groups)
    }

    /// Whether somebody who is not on this place, or on another node of this class, may call it.
    pub(crate) fn is_for_others(&self, service: &ServiceSpec, place: &At) -> bool {
        let same = |at: &At| at == place && matches!(place, At::Node(_));
        self.every_node_may(service) && self.several_machines || self.callers(service).any(|at| !same(at))
    }

    pub(crate) fn by_anybody(&self, service: &ServiceSpec) -> bool {
        self.every_node_may(service) || self.callers(service).next().is_some()
    }
}
