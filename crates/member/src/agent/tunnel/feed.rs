//! What the tunnel is told: all of it when it starts, later only what changed, authority first.

use std::collections::BTreeMap;

use identity::id::{Digest, OrgId};
use identity::principal::{NodeName, OrgName};
use manifest::stored::Access;
use serde::Serialize;
use tunnel::control::order::{KeyedSvid, Knowledge, Order, TunnelConfig};

/// All that a tunnel goes by.
#[derive(Debug, Clone)]
pub(crate) struct Orders {
    pub id: OrgId,
    pub org: OrgName,
    pub node: NodeName,
    pub know: Knowledge,
    pub speak: Vec<KeyedSvid>,
    pub allow: Vec<Access>,
    pub run: TunnelConfig,
    /// What is left out, and why, and what to do.
    pub gaps: BTreeMap<String, String>,
}

/// What it was told last, by digests: keys are not kept twice.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fed {
    know: Option<Digest>,
    pins: BTreeMap<NodeName, Digest>,
    speak: Option<Digest>,
    allow: Option<Digest>,
    run: Option<Digest>,
}

impl Fed {
    /// What is to be said, in the order in which it is to be obeyed.
    pub(crate) fn changes(&mut self, next: &Orders, pins: &BTreeMap<NodeName, Digest>) -> Vec<Order> {
        let mut orders = Vec::new();
        if *self == Self::default() {
            orders.push(Order::Be { org: next.org.clone(), node: next.node.clone() });
        }
        if changed(&mut self.know, &next.know) {
            orders.push(Order::Know(Box::new(next.know.clone())));
        }
        // Before anybody is spoken with.
        orders.extend(self.new_pins(pins));
        if changed(&mut self.allow, &next.allow) {
            orders.push(Order::Allow(next.allow.clone()));
        }
        // A chain names its key.
        let speak: Vec<_> = next.speak.iter().map(|identity| (&identity.principal, &identity.chain)).collect();
        if changed(&mut self.speak, &speak) {
            orders.push(Order::Speak(next.speak.clone()));
        }
        // Ports that were had are only a wish for the next start.
        let run = TunnelConfig { ports: BTreeMap::new(), ..next.run.clone() };
        if changed(&mut self.run, &run) {
            orders.push(Order::Run(Box::new(next.run.clone())));
        }
        orders
    }

    /// Only those that were not said before: nobody is judged anew for one more name.
    pub(crate) fn new_pins(&mut self, pins: &BTreeMap<NodeName, Digest>) -> Option<Order> {
        let is_new = |(name, key): &(&NodeName, &Digest)| self.pins.get(*name) != Some(*key);
        let new: BTreeMap<_, _> = pins.iter().filter(is_new).map(|(name, key)| (name.clone(), *key)).collect();
        self.pins.extend(new.iter().map(|(name, key)| (name.clone(), *key)));
        (!new.is_empty()).then_some(Order::Pin(new))
    }
}

fn changed(last: &mut Option<Digest>, next: &impl Serialize) -> bool {
    // What cannot be written down counts as changed, and fails when it is sent.
    let next = serde_json::to_vec(next).ok().map(|json| Digest::of(&json));
    let same = next.is_some() && *last == next;
    *last = next;
    !same
}

#[cfg(test)]
pub(crate) mod tests;
