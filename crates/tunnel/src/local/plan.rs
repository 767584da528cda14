//! What is to be listened at, from what the fleet says and who is at home here. Decides only.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use identity::principal::{HostPort, Kind};
use manifest::stored::{Socks, Target};

use crate::control::{Place, Running};
use crate::dial::destination::Wanted;
use crate::local::ports::{BadWish, Wish};
use crate::local::speakers::Desk;
use crate::state::shared::Targets;

/// Each address of a service is a socket; a laptop that may call thousands of services has SOCKS.
pub const SERVICES: usize = 1_000;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they are bound: what was declared comes before what follows from it.
    pub wishes: Vec<(Place, Wish)>,
    pub failed: BTreeMap<Place, String>,
}

impl Plan {
    pub fn new(running: &Running, desk: &Desk, targets: &Targets) -> Self {
        let mut plan = Self::default();
        let socks = match &running.policy.socks {
            Socks::Off => None,
            // Whoever has taken the port would be told a password.
            Socks::At { addr, password: true } => plan.add(Place::Socks, Wish::of(addr).map(Wish::exactly)),
            Socks::At { addr, password: false } => plan.add(Place::Socks, Wish::of(addr)),
        };
        for wished in running.policy.forward.keys() {
            plan.add(Place::Forward(wished.clone()), Wish::of(wished));
        }
        if let Some(wished) = &running.policy.resolver {
            // Whoever has taken the port would answer for all names of the org.
            plan.add(Place::Resolver, on_loopback(wished).map(Wish::exactly));
            plan.add_services(desk, targets);
        }
        if let Some(socks) = socks {
            // Only users have passwords: where one is asked for, nobody gets in at another's port.
            let all = !matches!(running.policy.socks, Socks::At { password: true, .. });
            let home = (1..).zip(desk.home()).filter(|(_, principal)| all || principal.kind() == Kind::User);
            let places = home.map(|(nth, principal)| (Place::SocksOf(principal.clone()), socks.follower(nth)));
            // Those who had a port have it again before somebody new takes it.
            let (had, new): (Vec<_>, Vec<_>) = places.partition(|(place, _)| running.ports.contains_key(place));
            for (place, wish) in had.into_iter().chain(new) {
                plan.add(place, wish);
            }
        }
        plan
    }

    fn add_services(&mut self, desk: &Desk, targets: &Targets) {
        let known = |wanted: &Wanted| targets.services.get(&wanted.service).and_then(|target: &Target| target.port);
        let all = desk.addresses.each().filter_map(|(wanted, address)| Some((wanted, address, known(wanted)?)));
        // By name, so that the same ones are left out each time.
        let all: BTreeMap<_, _> =
            all.map(|(wanted, address, port)| (wanted, SocketAddr::from((address, port)))).collect();
        for (n, (wanted, at)) in all.into_iter().enumerate() {
            let place = match wanted.node.clone() {
                None => Place::Service(wanted.service.clone()),
                Some(node) => Place::ServiceAt(wanted.service.clone(), node),
            };
            if n < SERVICES {
                self.wishes.push((place, Wish::at(at).exactly()));
            } else {
                self.failed.insert(place, format!("only {SERVICES} services get an address of their own: use SOCKS"));
            }
        }
    }

    fn add(&mut self, place: Place, wish: Result<Wish, BadWish>) -> Option<Wish> {
        match wish {
            Ok(wish) => {
                self.wishes.push((place, wish));
                Some(wish)
            }
            Err(why) => {
                self.failed.insert(place, why.to_string());
                None
            }
        }
    }
}

/// Its answers are addresses of loopback: they are of no use to others.
fn on_loopback(wished: &HostPort) -> Result<Wish, BadWish> {
    Wish::of(wished)?.on_loopback()
}

#[cfg(test)]
mod tests {
    use identity::id::OrgId;
    use manifest::stored::{Dial, Forward, TunnelPolicy};

    use super::*;
    use crate::local::speakers::Here;

    fn running(socks: &str, forward: &[&str], resolver: Option<&str>) -> Running {
        let socks = match socks {
            "" => Socks::Off,
            addr => Socks::At { addr: addr.parse().unwrap(), password: false },
        };
        let wiki = || Forward { service: "wiki".parse().unwrap(), user: None };
        let forward = forward.iter().map(|addr| (addr.parse().unwrap(), wiki())).collect();
        let resolver = resolver.map(|addr| addr.parse().unwrap());
        let policy = TunnelPolicy { socks, forward, resolver, ..TunnelPolicy::default() };
        let (services, ports, passwords) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Running { address: None, relay: false, policy, services, ports, passwords }
    }

    fn targets() -> Targets {
        let target = |places: &[&str], port| Target {
            places: places
                .iter()
                .map(|at| Dial { at: manifest::stored::Place::Node(at.parse().unwrap()), address: None })
                .collect(),
            node: true,
            callers: Vec::new(),
            port,
        };
        let all = [
            ("db", target(&["a"], Some(5432))),
            ("old", target(&["a"], None)),
            ("wiki", target(&["a", "b"], Some(80))),
        ];
        let services = all.into_iter().map(|(name, target)| (name.parse().unwrap(), target)).collect();
        Targets { services, relays: BTreeMap::new() }
    }

    fn plan(running: &Running) -> Plan {
        let (org, node) = ("harbor".parse().unwrap(), "laptop".parse().unwrap());
        let here = Here { id: OrgId([1; 32]), org: &org, node: &node };
        let home = ["spiffe://harbor/node/laptop", "spiffe://harbor/user/alice"].map(|text| text.parse().unwrap());
        let desk = Desk::new(here, running, home.to_vec(), &targets());
        Plan::new(running, &desk, &targets())
    }

    fn names(plan: &Plan) -> Vec<String> {
        plan.wishes.iter().map(|(place, _)| place.clone().into()).collect()
    }

    #[test]
    fn what_is_declared_comes_first() {
        let found = plan(&running("127.0.0.1:1080", &["127.0.0.1:1081"], Some("127.0.0.1:5300")));
        let expected = [
            "socks",
            "forward/127.0.0.1:1081",
            "resolver",
            "service/db",
            "service/wiki",
            "service/wiki/a",
            "service/wiki/b",
            "socks/spiffe://harbor/node/laptop",
            "socks/spiffe://harbor/user/alice",
        ];
        assert_eq!(names(&found), expected);
        assert_eq!(found.failed, BTreeMap::new());
    }

    #[test]
    fn who_had_a_port_is_asked_before_who_is_new() {
        let mut running = running("127.0.0.1:1080", &[], None);
        let place = |of: &str| Place::SocksOf(format!("spiffe://harbor/{of}").parse().unwrap());
        running.ports.insert(place("user/alice"), "127.0.0.1:1081".parse().unwrap());
        let found = plan(&running);
        let expected: Vec<Place> = vec![Place::Socks, place("user/alice"), place("node/laptop")];
        assert_eq!(found.wishes.iter().map(|(place, _)| place.clone()).collect::<Vec<_>>(), expected);
        // Which it is in the order stays: what was free is found at the same place by all who look.
        let free = found.wishes.iter().map(|(_, wish)| wish.tries(None, OrgId([1; 32]))[0].port());
        assert_eq!(free.collect::<Vec<_>>(), [1080, 1082, 1081]);
    }

    #[test]
    fn where_passwords_are_asked_for_those_who_have_none_have_no_port() {
        let mut running = running("127.0.0.1:1080", &[], None);
        running.policy.socks = Socks::At { addr: "127.0.0.1:1080".parse().unwrap(), password: true };
        assert_eq!(names(&plan(&running)), ["socks", "socks/spiffe://harbor/user/alice"]);
    }

    #[test]
    fn the_resolver_is_where_the_system_asks_for_names_or_nowhere() {
        let found = plan(&running("", &[], Some("127.0.0.1:5300")));
        let (_, wish) = found.wishes.iter().find(|(place, _)| *place == Place::Resolver).unwrap();
        let wished = "127.0.0.1:5300".parse().unwrap();
        assert_eq!(wish.tries(Some("127.0.0.1:41000".parse().unwrap()), OrgId([1; 32])), [wished]);
    }

    #[test]
    fn what_is_off_is_off() {
        assert_eq!(plan(&running("", &[], None)), Plan::default());
        assert_eq!(names(&plan(&running("", &["127.0.0.1:80"], None))), ["forward/127.0.0.1:80"]);
    }

    #[test]
    fn what_cannot_be_is_told() {
        let found = plan(&running("proxy.example:1080", &[], Some("0.0.0.0:53")));
        let failed: Vec<String> = found.failed.keys().map(|place| place.clone().into()).collect();
        assert_eq!(failed, ["socks", "resolver"]);
        assert_eq!(names(&found).first().map(String::as_str), Some("service/db"));
    }
}
