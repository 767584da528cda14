//! What is to be listened at, from what the fleet says and who is at home here. Decides only.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use identity::principal::{HostPort, PrincipalKind};
use manifest::stored::{Socks, Target};

use crate::access::targets::Targets;
use crate::control::listener::ListenerId;
use crate::control::order::TunnelConfig;
use crate::dial::destination::Destination;
use crate::local::auth::ProgramAuth;
use crate::local::ports::{BadWish, ListenWish};

/// Each address of a service is a socket; a laptop that may call thousands of services has SOCKS.
pub(crate) const SERVICES: usize = 1_000;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ListenPlan {
    /// In the order in which they are bound: what was declared comes before what follows from it.
    pub wishes: Vec<(ListenerId, ListenWish)>,
    pub failed: BTreeMap<ListenerId, String>,
}

impl ListenPlan {
    pub fn new(running: &TunnelConfig, auth: &ProgramAuth, targets: &Targets) -> Self {
        let mut plan = Self::default();
        let socks = match &running.policy.socks {
            Socks::Off => None,
            // Whoever has taken the port would be told a password.
            Socks::At { addr, password: true } => {
                plan.add(ListenerId::Socks, ListenWish::of(addr).map(ListenWish::exactly))
            }
            Socks::At { addr, password: false } => plan.add(ListenerId::Socks, ListenWish::of(addr)),
        };
        for wished in running.policy.forward.keys() {
            plan.add(ListenerId::Forward(wished.clone()), ListenWish::of(wished));
        }
        if let Some(wished) = &running.policy.resolver {
            // Whoever has taken the port would answer for all names of the org.
            plan.add(ListenerId::Resolver, on_loopback(wished).map(ListenWish::exactly));
            plan.add_services(auth, targets);
        }
        if let Some(socks) = socks {
            // Only users have passwords: where one is asked for, nobody gets in at another's port.
            let all = !matches!(running.policy.socks, Socks::At { password: true, .. });
            let home = (1..).zip(auth.home()).filter(|(_, principal)| all || principal.kind() == PrincipalKind::User);
            let places = home.map(|(nth, principal)| (ListenerId::SocksOf(principal.clone()), socks.follower(nth)));
            // Those who had a port have it again before somebody new takes it.
            let (had, new): (Vec<_>, Vec<_>) = places.partition(|(place, _)| running.ports.contains_key(place));
            for (place, wish) in had.into_iter().chain(new) {
                plan.add(place, wish);
            }
        }
        plan
    }

    fn add_services(&mut self, auth: &ProgramAuth, targets: &Targets) {
        let known =
            |wanted: &Destination| targets.services.get(&wanted.service).and_then(|target: &Target| target.port);
        let all = auth.addresses.each().filter_map(|(wanted, address)| Some((wanted, address, known(wanted)?)));
        // By name, so that the same ones are left out each time.
        let all: BTreeMap<_, _> =
            all.map(|(wanted, address, port)| (wanted, SocketAddr::from((address, port)))).collect();
        for (n, (wanted, at)) in all.into_iter().enumerate() {
            let place = match wanted.node.clone() {
                None => ListenerId::Service(wanted.service.clone()),
                Some(node) => ListenerId::ServiceAt(wanted.service.clone(), node),
            };
            if n < SERVICES {
                self.wishes.push((place, ListenWish::at(at).exactly()));
            } else {
                self.failed.insert(place, format!("only {SERVICES} services get an address of their own: use SOCKS"));
            }
        }
    }

    fn add(&mut self, place: ListenerId, wish: Result<ListenWish, BadWish>) -> Option<ListenWish> {
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
fn on_loopback(wished: &HostPort) -> Result<ListenWish, BadWish> {
    ListenWish::of(wished)?.on_loopback()
}

#[cfg(test)]
mod tests {
    use identity::id::OrgId;
    use manifest::stored::{Dial, Forward, TunnelPolicy};

    use super::*;
    use crate::local::auth::ThisNode;

    fn running(socks: &str, forward: &[&str], resolver: Option<&str>) -> TunnelConfig {
        let socks = match socks {
            "" => Socks::Off,
            addr => Socks::At { addr: addr.parse().unwrap(), password: false },
        };
        let wiki = || Forward { service: "wiki".parse().unwrap(), user: None };
        let forward = forward.iter().map(|addr| (addr.parse().unwrap(), wiki())).collect();
        let resolver = resolver.map(|addr| addr.parse().unwrap());
        let policy = TunnelPolicy { socks, forward, resolver, ..TunnelPolicy::default() };
        let (services, ports, passwords) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        TunnelConfig { address: None, relay: false, policy, services, ports, passwords }
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

    fn plan(running: &TunnelConfig) -> ListenPlan {
        let (org, node) = ("harbor".parse().unwrap(), "laptop".parse().unwrap());
        let here = ThisNode { id: OrgId([1; 32]), org: &org, node: &node };
        let home = ["spiffe://harbor/node/laptop", "spiffe://harbor/user/alice"].map(|text| text.parse().unwrap());
        let auth = ProgramAuth::new(here, running, home.to_vec(), &targets());
        ListenPlan::new(running, &auth, &targets())
    }

    fn names(plan: &ListenPlan) -> Vec<String> {
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
        let place = |of: &str| ListenerId::SocksOf(format!("spiffe://harbor/{of}").parse().unwrap());
        running.ports.insert(place("user/alice"), "127.0.0.1:1081".parse().unwrap());
        let found = plan(&running);
        let expected: Vec<ListenerId> = vec![ListenerId::Socks, place("user/alice"), place("node/laptop")];
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
        let (_, wish) = found.wishes.iter().find(|(place, _)| *place == ListenerId::Resolver).unwrap();
        let wished = "127.0.0.1:5300".parse().unwrap();
        assert_eq!(wish.tries(Some("127.0.0.1:41000".parse().unwrap()), OrgId([1; 32])), [wished]);
    }

    #[test]
    fn what_is_off_is_off() {
        assert_eq!(plan(&running("", &[], None)), ListenPlan::default());
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
