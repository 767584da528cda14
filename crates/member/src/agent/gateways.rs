//! Where this node looks for gateways, and in which order.

use ground::clock;
use identity::causes::describe;
use identity::head::Head;
use identity::principal::{Address, NodeName};
use identity::time::{Seconds, Timestamp};
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
    /// Since when that has been another one than comes first: the first may only have been away for a moment.
    second_since: Option<Timestamp>,
    /// Where one answered last, on disk or not.
    at: Option<Address>,
    /// The head names that address no longer, and what it names now was not tried yet. If that leads nowhere, this node
    /// goes back there.
    moved: bool,
}

impl Gateways {
    pub(super) fn of(head: Option<&Head>, good: Option<LastGood>) -> Self {
        let at = good.as_ref().map(|good| good.address.clone());
        let (by_head, mute) = (Vec::new(), Vec::new());
        let mut gateways = Self { by_head, first: None, mute, good, second_since: None, at, moved: false };
        if let Some(head) = head {
            gateways.learn(head);
        }
        gateways
    }

    /// What a head says of gateways. It is on disk with the head.
    fn learn(&mut self, head: &Head) {
        let before = std::mem::replace(&mut self.by_head, head.gateway_addresses(clock::now()));
        let is_gone = |at: &Address| before.contains(at) && !self.by_head.contains(at);
        self.moved |= self.at.as_ref().is_some_and(is_gone) && !self.by_head.is_empty();
        self.first = head.first_gateway().cloned();
        self.mute = head.mute_addresses();
    }

    pub(super) const fn first(&self) -> Option<&NodeName> {
        self.first.as_ref()
    }

    /// Those that operators declared, then those of the head, then `once`: where gateways were is better than nowhere.
    fn in_order(&self, declared: &[Address], once: &[Address], from_the_first: bool) -> Vec<Address> {
        let known = in_turn(declared.iter().chain(&self.by_head).chain(once).cloned());
        if from_the_first {
            return known;
        }
        // The last good one, unless another comes first since, or the operators' list no longer has it.
        let good = self.good.as_ref().filter(|good| good.first == self.first).map(|good| good.address.clone());
        let good = good.filter(|good| declared.is_empty() || declared.contains(good));
        let mut all = in_turn(good.into_iter().chain(known).chain(self.at.clone()));
        if let Some(left) = self.left(declared) {
            all.retain(|address| address != left);
            all.push(left.clone());
        }
        all
    }

    /// What is to be tried last: it was just given up, and is better than nowhere.
    fn left(&self, declared: &[Address]) -> Option<&Address> {
        self.at.as_ref().filter(|at| self.moved && !declared.contains(at))
    }

    /// One answered, and these are all in order.
    fn met(&mut self, address: &Address, in_order: &[Address], now: Timestamp) {
        self.second_since = in_order.first().filter(|first| *first != address).map(|_| now);
        (self.at, self.moved) = (Some(address.clone()), false);
    }

    /// Was another one kept to for so long that the first is to be tried again?
    fn tries_the_first(&self, after: Seconds, now: Timestamp) -> bool {
        self.second_since.is_some_and(|since| now < since || now.since(since) >= after)
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
        let addresses = self.gateways.in_order(declared, &self.node.gateways, self.tries_the_first());
        let beside = |address: &Address| !others().any(|other| other.address == *address);
        let rest = addresses.into_iter().filter(beside).map(GatewayAddress::from);
        let mut all: Vec<_> = others().cloned().chain(rest).collect();
        all.sort_by_key(|gateway| self.gateways.mute.contains(&gateway.address));
        all
    }

    fn tries_the_first(&self) -> bool {
        self.gateways.tries_the_first(self.schedule.keeps_to_another(), clock::now())
    }

    /// May what is open stay open? By a list that does not name it, it would not be found; some trials want a new line;
    /// and one who can issue nothing is not kept while there are others.
    pub(super) fn stays(&self, line: &Line, by: &[GatewayAddress]) -> bool {
        let declared = self.engine.current().map_or(&[][..], |manifest| &manifest.runs.gateways);
        let (at, mute) = (line.gateway.address(), &self.gateways.mute);
        by.iter().any(|gateway| gateway.address == *at)
            && line.first == self.gateways.first
            && self.gateways.left(declared).is_none()
            && !self.tries_the_first()
            && (line.under == self.engine.obeyed() || !self.engine.wants_new_line())
            && (!mute.contains(at) || by.iter().all(|gateway| mute.contains(&gateway.address)))
    }

    /// Where its gateway was found, if the head gives it addresses, and not this one. Its own machine finds it anyway.
    pub(super) fn beside(&self, line: &Line) -> Option<Address> {
        let at = line.gateway.address();
        let own = self.options.tried_first.iter().flatten().any(|first| first.address == *at);
        let mandate = line.known.head.head.mandate_of(&line.gateway.mandate.gateway)?;
        (!own && !mandate.addresses.is_empty() && !mandate.addresses.contains(at)).then(|| at.clone())
    }

    /// Has what was just heard made another address than that of this line worth a try?
    pub(super) fn goes_elsewhere(&self, line: &Line) -> bool {
        let declared = self.engine.current().map_or(&[][..], |manifest| &manifest.runs.gateways);
        self.gateways.left(declared) == Some(line.gateway.address())
    }

    pub(super) fn learn(&mut self, known: &Known) {
        self.gateways.learn(&known.head.head);
    }

    /// Who answered, on disk, so that a restart begins there: by the order of when it was looked for, so that it is no
    /// longer the first to be tried once another comes first.
    pub(super) fn remember_good(&mut self, address: Address) {
        let declared = self.engine.current().map_or(&[][..], |manifest| &manifest.runs.gateways);
        let in_order = self.gateways.in_order(declared, &self.node.gateways, true);
        let gateways = &mut self.gateways;
        gateways.met(&address, &in_order, clock::now());
        let good = LastGood { schema: 1, address, first: gateways.first.clone() };
        // With one address there is nothing to choose.
        let alone = gateways.good.is_none() && gateways.by_head.len().max(self.node.gateways.len()) < 2;
        if !alone && gateways.good.as_ref() != Some(&good) {
            if let Err(why) = self.scope.save_last_good(&good) {
                tracing::warn!(why = describe(&why), "which gateway answered could not be written down");
            }
            gateways.good = Some(good);
        }
    }
}

#[cfg(test)]
mod tests {
    use identity::head::Mandate;

    use super::*;
    use crate::scene;

    #[test]
    fn a_gateway_that_was_away_for_a_moment_is_tried_again_if_it_comes_first() {
        let [first, second]: [Address; 2] = ["10.0.0.1:7443", "10.0.0.2:7443"].map(|at| at.parse().unwrap());
        let (now, after) = (Timestamp::from_unix(1_000), Seconds(600));
        let mut gateways = Gateways::of(None, None);
        gateways.by_head = vec![first.clone(), second.clone()];
        gateways.good = Some(LastGood { schema: 1, address: second.clone(), first: None });
        let order = |gateways: &Gateways, at: u64| {
            gateways.in_order(&[], &[], gateways.tries_the_first(after, now + Seconds(at)))[0].clone()
        };
        gateways.met(&second, &[first.clone(), second.clone()], now);
        assert_eq!([order(&gateways, 0), order(&gateways, 599)], [second.clone(), second.clone()]);
        assert_eq!(order(&gateways, 600), first);
        // It answers: nothing is tried again.
        gateways.met(&first, &[first.clone(), second], now);
        assert!(!gateways.tries_the_first(after, now + Seconds(9_999)));
    }
    #[test]
    fn where_a_gateway_is_no_longer_is_tried_after_where_it_is_and_not_given_up() {
        let [old, new]: [Address; 2] = ["10.0.0.1:7443", "10.0.0.2:7443"].map(|at| at.parse().unwrap());
        let founding = scene::founding();
        let by = |addresses: &[&Address]| {
            let addresses = addresses.iter().map(|address| (*address).clone()).collect();
            let (not_before, not_after) = (Timestamp::from_unix(0), Timestamp::from_unix(1 << 40));
            let mandate = Mandate { addresses, not_before, not_after, ..scene::mandate("quay") };
            Head { mandates: vec![mandate], ..scene::head(&founding) }
        };
        let mut gateways = Gateways::of(Some(&by(&[&old])), None);
        gateways.met(&old, std::slice::from_ref(&old), scene::NOW);
        gateways.learn(&by(&[&old, &new]));
        assert_eq!((gateways.in_order(&[], &[], false), gateways.moved), (vec![old.clone(), new.clone()], false));
        gateways.learn(&by(&[&new]));
        assert_eq!(gateways.in_order(&[], std::slice::from_ref(&old), false), [new.clone(), old.clone()]);
        assert_eq!(gateways.in_order(&[], &[], false), [new.clone(), old.clone()], "nothing is dropped");
        // What operators declared is not overruled.
        assert!(gateways.left(std::slice::from_ref(&old)).is_none());
        // It led nowhere: back, and there it stays.
        gateways.met(&old, &[new.clone(), old.clone()], scene::NOW);
        assert!(!gateways.moved);
        gateways.learn(&by(&[&new]));
        assert!(!gateways.moved);
    }
}
