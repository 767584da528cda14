//! Where this node looks for gateways, and in which order.

use ground::clock;
use identity::causes::describe;
use identity::principal::Address;
use wire::connect::Gateway;
use wire::known::Known;

use crate::agent::{Agent, Line};
use crate::store::scope::word::{LastGood, in_turn};

impl Agent {
    pub(super) fn gateways(&self) -> Vec<Gateway> {
        let declared = self.engine.current().map(|manifest| &manifest.runs.gateways).filter(|list| !list.is_empty());
        let doors = self.options.doors.iter().flatten();
        // A trial is about the declared list alone. Later, where gateways once were is better than nowhere.
        if let Some(declared) = declared.filter(|_| self.engine.is_on_trial() && self.options.doors.is_none()) {
            return declared.iter().cloned().map(Gateway::from).collect();
        }
        let declared = || declared.into_iter().flatten().cloned();
        let known = declared().chain(self.by_head.iter().cloned()).chain(self.node.gateways.iter().cloned());
        let known = in_turn(known);
        // The last good one, unless another comes first since, or the operators' list no longer has it.
        let good = self.good.as_ref().filter(|good| good.first == self.first).map(|good| good.address.clone());
        let good = good.filter(|good| declared().next().is_none() || declared().any(|address| address == *good));
        let addresses = in_turn(good.into_iter().chain(known));
        let beside = |address: &Address| !doors.clone().any(|door| door.address == *address);
        let rest: Vec<_> = addresses.into_iter().filter(beside).map(Gateway::from).collect();
        let mut all: Vec<_> = doors.cloned().chain(rest).collect();
        all.sort_by_key(|gateway| self.mute.contains(&gateway.address));
        all
    }

    /// May what is open stay open? By a list that does not name it, it would not be found; some trials want a new line;
    /// and one who can issue nothing is not kept while there are others.
    pub(super) fn stays(&self, line: &Line, by: &[Gateway]) -> bool {
        let at = line.gateway.address();
        by.iter().any(|gateway| gateway.address == *at)
            && line.first == self.first
            && (line.under == self.engine.obeyed() || !self.engine.wants_new_line())
            && (!self.mute.contains(at) || by.iter().all(|gateway| self.mute.contains(&gateway.address)))
    }

    /// What a head says of gateways. It is on disk with the head.
    pub(super) fn learn(&mut self, known: &Known) {
        let head = &known.head.head;
        self.by_head = head.gateway_addresses(clock::now());
        self.first = head.first_gateway().cloned();
        self.mute = head.mute_addresses();
    }

    /// Who answered, on disk, so that a restart begins there: by the order of when it was looked for, so that it is no
    /// longer the first to be tried once another comes first.
    pub(super) fn remember_good(&mut self, address: Address) {
        let good = LastGood { schema: 1, address, first: self.first.clone() };
        // With one address there is nothing to choose.
        let alone = self.good.is_none() && self.by_head.len().max(self.node.gateways.len()) < 2;
        if !alone && self.good.as_ref() != Some(&good) {
            if let Err(why) = self.scope.save_last_good(&good) {
                tracing::warn!(why = describe(&why), "which gateway answered could not be written down");
            }
            self.good = Some(good);
        }
    }
}
