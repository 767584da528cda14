//! One address of loopback for each service, so that a program which asks for a name can connect to what it is told.
//!
//! In 127.64.0.0/10, from the org's id and the name. Where two would get the same one, the later name gets the next that is
//! free. A service at several nodes has one address for all of them, and one for each node that its target names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use identity::id::{Digest, OrgId};
use identity::principal::{Name, NodeName};
use manifest::stored::{Place, Target};

use crate::dial::destination::Destination;

const NETWORK: u32 = u32::from_be_bytes([127, 64, 0, 0]);
const HOSTS: u32 = 1 << 22;
/// Far fewer than there are addresses, so that a free one is always near.
pub(crate) const MOST: usize = 100_000;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct LoopbackAddresses {
    by_name: BTreeMap<Destination, Ipv4Addr>,
    by_address: BTreeMap<Ipv4Addr, Destination>,
}

impl LoopbackAddresses {
    pub fn new(org: OrgId, targets: &BTreeMap<Name, Target>) -> Self {
        let mut addresses = Self::default();
        for (service, target) in targets {
            let all = addresses.add(org, Destination { service: service.clone(), node: None });
            for node in target.places.iter().filter_map(|dial| named(&dial.at)) {
                let one = Destination { service: service.clone(), node: Some(node.clone()) };
                match all {
                    Some(all) if target.places.len() == 1 => {
                        addresses.by_name.insert(one, all);
                    }
                    Some(_) | None => {
                        addresses.add(org, one);
                    }
                }
            }
        }
        addresses
    }

    fn add(&mut self, org: OrgId, wanted: Destination) -> Option<Ipv4Addr> {
        let first = first_choice(org, &wanted);
        let mut tries = (0..HOSTS).map(|more| Ipv4Addr::from(NETWORK + (first + more) % HOSTS));
        let free = tries.find(|at| !self.by_address.contains_key(at)).filter(|_| self.by_address.len() < MOST)?;
        self.by_address.insert(free, wanted.clone());
        self.by_name.insert(wanted, free);
        Some(free)
    }

    pub(crate) fn of(&self, wanted: &Destination) -> Option<Ipv4Addr> {
        self.by_name.get(wanted).copied()
    }

    /// What is meant by an address of these.
    pub(crate) fn meaning(&self, address: IpAddr) -> Option<&Destination> {
        match address {
            IpAddr::V4(address) => self.by_address.get(&address),
            IpAddr::V6(_) => None,
        }
    }

    /// Is there a name below that of this node?
    pub(crate) fn has_node(&self, label: &str) -> bool {
        self.by_name.keys().any(|wanted| wanted.node.as_ref().is_some_and(|node| node.as_str() == label))
    }

    /// Those that somebody listens at.
    #[must_use]
    pub(crate) fn only(&self, bound: &BTreeSet<IpAddr>) -> Self {
        let is_bound = |address: &Ipv4Addr| bound.contains(&IpAddr::from(*address));
        let by_name = self.by_name.iter().filter(|(_, address)| is_bound(address));
        let by_address = self.by_address.iter().filter(|(address, _)| is_bound(address));
        Self {
            by_name: by_name.map(|(wanted, address)| (wanted.clone(), *address)).collect(),
            by_address: by_address.map(|(address, wanted)| (*address, wanted.clone())).collect(),
        }
    }

    /// Each address once, with what it leads to.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Destination, Ipv4Addr)> {
        self.by_address.iter().map(|(address, wanted)| (wanted, *address))
    }
}

fn named(place: &Place) -> Option<&NodeName> {
    match place {
        Place::Node(node) => Some(node),
        // Which nodes these are, nobody says here; SOCKS leads to each of them by its name.
        Place::Class { .. } => None,
    }
}

fn first_choice(org: OrgId, wanted: &Destination) -> u32 {
    let node = wanted.node.as_ref().map_or("", NodeName::as_str);
    let text = format!("freehold loopback address\n{org}\n{}\n{node}", wanted.service);
    let [a, b, c, d, ..] = Digest::of(text.as_bytes()).0;
    u32::from_be_bytes([a, b, c, d]) % HOSTS
}

#[cfg(test)]
mod tests {
    use identity::principal::glob::NameGlob;
    use manifest::stored::Dial;

    use super::*;

    const ORG: OrgId = OrgId([7; 32]);

    fn target(places: &[&str]) -> Target {
        let dial = |at: &&str| Dial { at: place(at), address: None };
        Target { places: places.iter().map(dial).collect(), node: true, callers: Vec::new(), port: Some(80) }
    }

    fn place(text: &str) -> Place {
        match text.strip_prefix('@') {
            Some(class) => {
                Place::Class { class: class.parse().unwrap(), names: vec!["web-*".parse::<NameGlob>().unwrap()] }
            }
            None => Place::Node(text.parse().unwrap()),
        }
    }

    fn targets(all: &[(&str, &[&str])]) -> BTreeMap<Name, Target> {
        all.iter().map(|(name, places)| (name.parse().unwrap(), target(places))).collect()
    }

    fn wanted(text: &str) -> Destination {
        Destination::parse(&format!("{text}.harbor.internal"), &"harbor".parse().unwrap()).unwrap()
    }

    #[test]
    fn each_service_has_an_address_of_its_own_that_stays() {
        let few = targets(&[("wiki", &["alpha"]), ("git", &["alpha", "beta", "@web"])]);
        let found = LoopbackAddresses::new(ORG, &few);
        assert_eq!(found.of(&wanted("wiki.alpha")), found.of(&wanted("wiki")), "there is but one place");
        assert_ne!(found.of(&wanted("git.alpha")), found.of(&wanted("git")));
        assert_eq!(found.of(&wanted("git.web-1")), None);
        assert_eq!(found.of(&wanted("wiki.beta")), None);
        assert_eq!(found.each().count(), 4);
        for (wanted, address) in found.each() {
            assert_eq!(found.meaning(address.into()), Some(wanted));
            assert!((64..128).contains(&address.octets()[1]), "{address}");
        }
        let more = LoopbackAddresses::new(
            ORG,
            &targets(&[("wiki", &["gamma"]), ("git", &["alpha", "beta"]), ("a", &["alpha"])]),
        );
        for name in ["wiki", "git", "git.beta"] {
            assert_eq!(more.of(&wanted(name)), found.of(&wanted(name)), "{name}");
        }
        let other = LoopbackAddresses::new(OrgId([8; 32]), &few);
        assert_ne!(other.of(&wanted("wiki")), found.of(&wanted("wiki")));
        assert!(found.has_node("beta") && !found.has_node("web-1"));
    }

    #[test]
    fn two_that_meet_are_set_apart_by_their_order() {
        // 30,000 names in 4,194,304 addresses meet about a hundred times.
        let all: BTreeMap<Name, Target> =
            (0..30_000).map(|n| (format!("s{n}").parse().unwrap(), target(&[]))).collect();
        let found = LoopbackAddresses::new(ORG, &all);
        assert_eq!(found.each().count(), 30_000);
        let moved =
            |(wanted, address): &(&Destination, Ipv4Addr)| u32::from(*address) != NETWORK + first_choice(ORG, wanted);
        assert!(found.each().filter(moved).count() > 10);
        assert_eq!(found, LoopbackAddresses::new(ORG, &all));
    }
}
