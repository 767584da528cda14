//! Fleets for tests: one by hand, and any small one by chance.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::str::FromStr;

use identity::id::{Digest, OrgId};
use identity::principal::{HostPort, Name, NodeName};
use identity::time::Seconds;
use proptest::prelude::*;

use crate::compile::MemberKnown;
use crate::fleet::{At, ClassSpec, Fleet, MachineSpec, OrgSpec, Policy, ServiceSpec, StaleSpec, UserSpec};
use crate::stored::{Forward, Socks, Transport, TunnelPolicy};

pub(crate) fn read<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(crate) fn names<T: FromStr<Err: Debug> + Ord>(words: &str) -> BTreeSet<T> {
    words.split_whitespace().map(read).collect()
}

/// `web` is a class, everything else a node.
fn places(words: &str) -> Vec<At> {
    let place = |word: &str| match word.strip_prefix('%') {
        Some(class) => At::Class(read(class)),
        None => At::Node(read(word)),
    };
    words.split_whitespace().map(place).collect()
}

pub(crate) fn machine(roles: &str, address: Option<&str>) -> MachineSpec {
    MachineSpec { roles: names(roles), address: address.map(read), ..MachineSpec::default() }
}

pub(crate) fn service(at: &str, addr: &str, groups: &str, roles: &str) -> ServiceSpec {
    ServiceSpec {
        at: places(at),
        addr: read(addr),
        groups: names(groups),
        roles: names(roles),
        tells_caller: false,
        svid: None,
    }
}

pub(crate) fn user(roles: &str, nodes: &str) -> UserSpec {
    UserSpec { roles: names(roles), nodes: places(nodes), svid: None }
}

pub(crate) fn empty() -> Fleet {
    let org = OrgSpec {
        name: read("harbor"),
        id: OrgId([7; 32]),
        freshness: Seconds(86_400 * 30),
        svid_life: None,
        svid_dns: Vec::new(),
        stale: None,
        defaults: Policy::default(),
    };
    Fleet {
        org,
        nodes: BTreeMap::new(),
        classes: BTreeMap::new(),
        services: BTreeMap::new(),
        users: BTreeMap::new(),
        roles: BTreeMap::from([(read("operator"), BTreeSet::new())]),
        every_node: BTreeSet::new(),
        groups: BTreeSet::new(),
        invites: BTreeMap::new(),
    }
}

/// Two services, three people, a class, a relay.
pub(crate) fn harbor() -> Fleet {
    let mut fleet = empty();
    fleet.nodes = BTreeMap::from([
        (read("alpha"), machine("", Some("alpha.example:7444"))),
        (read("laptop"), machine("", None)),
        (read("hub"), MachineSpec { relay: true, ..machine("", Some("hub.example:7444")) }),
        (read("web-1"), machine("probe", Some("web-1.example:7444"))),
    ]);
    fleet.classes =
        BTreeMap::from([(read("web"), ClassSpec { names: vec![read("web-*")], like: machine("front", None) })]);
    fleet.services = BTreeMap::from([
        (read("wiki"), service("alpha", "127.0.0.1:8080", "docs", "")),
        (read("shop"), service("%web", "127.0.0.1:8081", "public", "clerk")),
        (read("pulse"), service("hub", "127.0.0.1:8082", "beat", "")),
    ]);
    fleet.users = BTreeMap::from([
        (read("alice"), user("staff operator", "laptop")),
        (read("bob"), user("staff", "laptop")),
        (read("carol"), user("", "laptop")),
    ]);
    fleet.roles = BTreeMap::from([
        (read("operator"), names("docs public")),
        (read("staff"), names("docs")),
        (read("clerk"), names("docs")),
        (read("front"), names("docs")),
        (read("probe"), names("public")),
    ]);
    fleet.every_node = names("beat");
    fleet.groups = names("docs public beat");
    fleet
}

pub(crate) fn member(name: &str) -> MemberKnown {
    let digest = |what: &str| Digest::of(format!("{what} {name}").as_bytes());
    MemberKnown { name: read(name), node_key: digest("key"), admission: digest("admission") }
}

pub(crate) fn members(words: &str) -> Vec<MemberKnown> {
    words.split_whitespace().map(member).collect()
}

/// Small enough that things meet: nodes `n0`.., of which some are in the classes `c0` (`n0*`) and `c1` (`n1*`, `x*`).
pub(crate) fn any_fleet() -> impl Strategy<Value = Fleet> {
    let some = |what: &'static [&'static str]| proptest::sample::subsequence(what, 0..=what.len());
    let roles = || some(&["r0", "r1", "r2", "operator"]).prop_map(|words| words.join(" "));
    let groups = || some(&["g0", "g1", "g2"]).prop_map(|words| words.join(" "));
    let place = || some(&["n0", "n01", "n1", "n2", "n3", "%c0", "%c1"]).prop_map(|words| words.join(" "));
    let address = prop_oneof![Just(None), Just(Some("10.0.0.1:1")), Just(Some("10.0.0.2:2"))];
    let machine = (roles(), address, any::<bool>(), tunnel()).prop_map(|(roles, address, relay, tunnel)| {
        let policy = Policy { tunnel, ..Policy::default() };
        MachineSpec { relay, policy, ..machine(&roles, address) }
    });
    let services = (place(), groups(), roles(), any::<bool>()).prop_map(|(at, groups, roles, tells_caller)| {
        ServiceSpec { tells_caller, ..service(&at, "127.0.0.1:80", &groups, &roles) }
    });
    let stale = prop::option::of((roles(), any::<bool>(), 0..3_u64)).prop_map(|stale| {
        stale.map(|(roles, every_node, margin)| StaleSpec { margin: Seconds(margin), roles: names(&roles), every_node })
    });
    let users = (roles(), place()).prop_map(|(roles, at)| user(&roles, &at));
    let every = |machines: Vec<MachineSpec>| {
        ["n0", "n01", "n1", "n2", "n3"].map(read::<NodeName>).into_iter().zip(machines).collect()
    };
    let machines = proptest::collection::vec(machine.clone(), 5);
    let classes = proptest::collection::vec(machine, 2);
    let services = proptest::collection::vec(services, 0..4);
    let users = proptest::collection::vec(users, 0..4);
    let allows = proptest::collection::vec(groups(), 4);
    (machines, classes, services, users, allows, groups(), stale).prop_map(
        move |(machines, classes, services, users, allows, every_node, stale)| {
            let mut fleet = empty();
            fleet.org.stale = stale;
            fleet.nodes = every(machines);
            let globs = [vec![read("n0*")], vec![read("x*"), read("n1*")]];
            let specs = globs.into_iter().zip(classes).map(|(names, like)| ClassSpec { names, like });
            fleet.classes = numbered("c").zip(specs).collect();
            fleet.services = numbered("s").zip(services).collect();
            fleet.users = numbered("u").zip(users).collect();
            fleet.roles =
                ["r0", "r1", "r2", "operator"].map(read).into_iter().zip(allows.iter().map(|it| names(it))).collect();
            fleet.every_node = names(&every_node);
            fleet.groups = names("g0 g1 g2");
            fleet
        },
    )
}

fn tunnel() -> impl Strategy<Value = TunnelPolicy> + Clone {
    let transport = prop_oneof![Just(Transport::Auto), Just(Transport::Tls), Just(Transport::Quic)];
    let address = || prop::option::of(prop_oneof![Just("[::1]:53"), Just("0.0.0.0:7444")].prop_map(read));
    let addr: HostPort = read("127.0.0.1:1081");
    let said = any::<bool>().prop_map(move |password| Socks::At { addr: addr.clone(), password });
    let socks = prop_oneof![Just(Socks::default()), Just(Socks::Off), said];
    let user = prop::option::of(prop_oneof![Just("u0"), Just("u1")].prop_map(read));
    let forward = prop_oneof![Just("s0"), Just("s1")].prop_map(read);
    let forward = (forward, user).prop_map(|(service, user)| Forward { service, user });
    let at = prop_oneof![Just("127.0.0.1:5432"), Just("127.0.0.1:80"), Just("[::1]:9")].prop_map(read);
    let forward = prop::collection::btree_map(at, forward, 0..3);
    let said = (transport, address(), socks, forward, address());
    let said = said.prop_map(|(transport, listen, socks, forward, resolver)| TunnelPolicy {
        transport,
        listen,
        socks,
        forward,
        resolver,
    });
    prop_oneof![Just(TunnelPolicy::default()), said]
}

fn numbered(letter: &'static str) -> impl Iterator<Item = Name> {
    (0..).map(move |number| read(&format!("{letter}{number}")))
}
