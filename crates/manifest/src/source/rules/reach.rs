//! Who has a role, and where: enough to say whether somebody elsewhere may call a service.

use std::collections::BTreeMap;

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

    fn add_all(&mut self, others: Option<&Self>) {
        for at in others.iter().flat_map(|others| &others.places) {
            self.add(at);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Reach<'f> {
    fleet: &'f Fleet,
    pub(crate) holders: BTreeMap<&'f Name, Holders>,
    /// The roles that allow each group.
    pub(crate) allowing: BTreeMap<&'f Name, Vec<&'f Name>>,
    /// Where those are whom each group lets in.
    let_in: BTreeMap<&'f Name, Holders>,
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
        let mut let_in: BTreeMap<&Name, Holders> = BTreeMap::new();
        for (role, groups) in &fleet.roles {
            for group in groups {
                allowing.entry(group).or_default().push(role);
                let_in.entry(group).or_default().add_all(holders.get(role));
            }
        }
        let several_machines = fleet.nodes.len() > 1 || !fleet.classes.is_empty();
        Self { fleet, holders, allowing, let_in, several_machines }
    }

    /// Where those are who may call it.
    pub(crate) fn callers(&self, service: &ServiceSpec) -> Holders {
        let mut callers = Holders::default();
        service.groups.iter().for_each(|group| callers.add_all(self.let_in.get(group)));
        callers
    }

    /// The roles that allow it, each as often as groups do.
    pub(crate) fn allowing(&self, service: &'f ServiceSpec) -> impl Iterator<Item = &'f Name> {
        service.groups.iter().filter_map(|group| self.allowing.get(group)).flatten().copied()
    }

    pub(crate) fn every_node_may(&self, service: &ServiceSpec) -> bool {
        !self.fleet.every_node.is_disjoint(&service.groups)
    }

    /// Whether somebody who is not on this place, or on another node of this class, may call it.
    pub(crate) fn is_for_others(&self, service: &ServiceSpec, callers: &Holders, place: &At) -> bool {
        let same = |at: &At| at == place && matches!(place, At::Node(_));
        self.every_node_may(service) && self.several_machines || callers.places.iter().any(|at| !same(at))
    }

    pub(crate) fn by_anybody(&self, service: &ServiceSpec) -> bool {
        self.every_node_may(service) || !self.callers(service).places.is_empty()
    }
}
