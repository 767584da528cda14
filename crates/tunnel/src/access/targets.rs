//! What may be called elsewhere, by whom here, and by which relays: the calling side of the access tables.

use std::collections::BTreeMap;

use identity::id::Digest;
use identity::principal::{HostPort, Name, NodeName, Principal};
use manifest::stored::{Access, Target};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Targets {
    pub services: BTreeMap<Name, Target>,
    pub relays: BTreeMap<NodeName, HostPort>,
}

impl Targets {
    /// What all tables allow; where the places differ, those of the first count, which is obeyed.
    pub fn of_all(all: &[Access]) -> Self {
        let Some((first, more)) = all.split_first() else {
            return Self::default();
        };
        let mut services = first.targets.clone();
        for access in more {
            services.retain(|name, target| {
                let Some(other) = access.targets.get(name) else {
                    return false;
                };
                target.node &= other.node;
                target.callers.retain(|caller| other.callers.contains(caller));
                target.node || !target.callers.is_empty()
            });
        }
        Self { services, relays: first.relays.clone() }
    }

    /// In the order in which this node waits at them, and others look for it: another one for each node, so that the relays
    /// share the work.
    pub(crate) fn relays_of(&self, node: &NodeName) -> Vec<(NodeName, HostPort)> {
        let mut relays: Vec<_> = self.relays.iter().map(|(relay, at)| (relay.clone(), at.clone())).collect();
        relays.sort_by_key(|(relay, _)| Digest::of(format!("{node} {relay}").as_bytes()));
        relays
    }

    pub(crate) fn may_call(&self, who: &Principal, service: &Name) -> bool {
        self.services.get(service).is_some_and(|target| match who.node_name() {
            Some(_) => target.node,
            None => target.callers.contains(who),
        })
    }
}
