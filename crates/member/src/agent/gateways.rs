//! Where this node looks for gateways, and in which order.

use ground::clock;
use identity::causes::describe;
use identity::head::Head;
use identity::principal::{Address, NodeName};
use wire::connect::GatewayAddress;
use wire::known::Known;

use crate::agent::{Agent, Line};
use crate::store::scope::word::{LastGood, in_turn};

/// What was heard of them, and where one was met.
#[derive(Debug)]
pub(super) struct Gateways {
    /// Where they are by the head that was heard last, and which of them comes first.
    by_head: Vec<Address>,
    first: Option<NodeName>,
    /// Where they can issue nothing.
    mute: Vec<Address>,
    /// Where one was met last.
    good: Option<LastGood>,
}

impl Gateways {
    pub(super) fn of(head: Option<&Head>, good: Option<LastGood>) -> Self {
        let mut gateways = Self { by_head: Vec::new(), first: None, mute: Vec::new(), good };
        if let Some(head) = head {
            gateways.learn(head);
        }
        gateways
    }

    /// What a head says of gateways. It is on disk with the head.
    fn learn(&mut self, head: &Head) {
        self.by_head = head.gateway_addresses(clock::now());
        self.first = head.first_gateway().cloned();
        self.mute = head.mute_addresses();
    }

    pub(super) const fn first(&self) -> Option<&NodeName> {
        self.first.as_ref()
    }

    /// Those that operators declared, then those of the head, then `once`: where gateways were is better than nowhere.
    fn in_order(&self, declared: &[Address], once: &[Address]) -> Vec<Address> {
        let known = in_turn(declared.iter().chain(&self.by_head).chain(once).cloned());
        // The last good one, unless another comes first since, or the operators' list no longer has it.
        let good = self.good.as_ref().filter(|good| good.first == self.first).map(|good| good.address.clone());
        let good = good.filter(|good| declared.is_empty() || declared.contains(good));
        in_turn(good.into_iter().chain(known))
    }
}

impl Agent {
    pub(super) fn gateways(&self) -> Vec<GatewayAddress> {
        let declared = self.engine.current().map_or(&[][..], |manifest| &manifest.runs.gateways);
        let others = &self.options.tried_first;
        // A trial is about the declared list alone.
        if !declared.is_empty() && self.engine.is_on_trial() && others.is_none() {
            return declared.iter().cloned().map(GatewayAddress::from).collect();
        }
        let others = || others.iter().flatten();
        let addresses = self.gateways.in_order(declared, &self.node.gateways);
        let beside = |address: &Address| !others().any(|other| other.address == *address);
        let rest = addresses.into_iter().filter(beside).map(GatewayAddress::from);
        let mut all: Vec<_> = others().cloned().chain(rest).collect();
        all.sort_by_key(|gateway| self.gateways.mute.contains(&gateway.address));
        all
    }

    /// May what is open stay open? By a list that does not name it, it would not be found; some trials want a new line;
    /// and one who can issue nothing is not kept while there are others.
    pub(super) fn stays(&self, line: &Line, by: &[GatewayAddress]) -> bool {
        let (at, mute) = (line.gateway.address(), &self.gateways.mute);
        by.iter().any(|gateway| gateway.address == *at)
            && line.first == self.gateways.first
            && (line.under == self.engine.obeyed() || !self.engine.wants_new_line())
            && (!mute.contains(at) || by.iter().all(|gateway| mute.contains(&gateway.address)))
    }

    pub(super) fn learn(&mut self, known: &Known) {
        self.gateways.learn(&known.head.head);
    }

    /// Who answered, on disk, so that a restart begins there: by the order of when it was looked for, so that it is no
    /// longer the first to be tried once another comes first.
    pub(super) fn remember_good(&mut self, address: Address) {
        let gateways = &mut self.gateways;
        let good = LastGood { schema: 1, address, first: gateways.first.clone() };
        // With one address there is nothing to choose; but one that cannot be read is not to stay.
        let is_there = self.scope.path("last-good.json").exists();
        let few = gateways.by_head.len().max(self.node.gateways.len()) < 2;
        let alone = gateways.good.is_none() && few && !is_there;
        if !alone && gateways.good.as_ref() != Some(&good) {
            if let Err(why) = self.scope.save_last_good(&good) {
                tracing::warn!(why = describe(&why), "which gateway answered could not be written down");
            }
            gateways.good = Some(good);
        }
    }
}
