//! What comes out of compiling: whose manifest says what, and that it is always the same bytes.

use identity::members::ClassLeaves;
use proptest::prelude::*;

use super::*;
use crate::fleet::StaleSpec;
use crate::sample::{any_fleet, harbor, member, members, names, read};
use crate::stored::{Caller, Delivered, Forward, Manifest, Place, ProgramSvid, Socks, Stale, Transport};

fn compiled(fleet: &Fleet, who: &str) -> Compiled {
    compile(fleet, &members(who), SCHEMA).unwrap()
}

fn manifest_of(compiled: &Compiled, who: &str) -> Manifest {
    let names = |leaf: &&Leaf| match leaf {
        Leaf::Node(leaf) => leaf.name.as_str() == who,
        Leaf::Class(leaf) => who.strip_prefix('%') == Some(leaf.class.as_str()),
    };
    let classes = ClassLeaves::of(&compiled.leaves);
    let digest = match compiled.leaves.iter().find(names).unwrap() {
        Leaf::Node(leaf) => classes.manifest_of(leaf),
        Leaf::Class(leaf) => Some(leaf.manifest),
    };
    let Some(digest) = digest else { return Manifest::nothing() };
    Manifest::read(&compiled.manifests[&digest], digest).unwrap()
}

#[test]
fn a_node_gets_its_services_users_and_both_sides_of_the_table() {
    let compiled = compiled(&harbor(), "alpha laptop");
    let alpha = manifest_of(&compiled, "alpha");
    assert_eq!(alpha.runs.services.keys().collect::<Vec<_>>(), [&read::<Name>("wiki")]);
    assert_eq!(alpha.runs.address, Some(read("alpha.example:7444")));
    let web = || vec![read("web-*")];
    assert_eq!(
        alpha.access.callers[&read::<Name>("wiki")],
        [
            Caller::Placed { principal: read("spiffe://harbor/user/alice"), at: vec![Place::Node(read("laptop"))] },
            Caller::Placed { principal: read("spiffe://harbor/user/bob"), at: vec![Place::Node(read("laptop"))] },
            Caller::Placed {
                principal: read("spiffe://harbor/service/shop"),
                at: vec![Place::Class { class: read("web"), names: web() }]
            },
            Caller::Class { class: read("web"), names: web() },
        ]
    );
    let laptop = manifest_of(&compiled, "laptop");
    assert_eq!(laptop.runs.users, names("alice bob carol"));
    let target = |name: &str| &laptop.access.targets[&read::<Name>(name)];
    assert_eq!(target("wiki").places.len(), 1);
    assert_eq!(target("wiki").places[0].address, Some(read("alpha.example:7444")));
    assert_eq!(
        target("wiki").callers,
        [read("spiffe://harbor/user/alice"), read::<identity::principal::Principal>("spiffe://harbor/user/bob")]
    );
    assert!(!target("wiki").node);
    // Every node may call the pulse, and its users may not.
    assert!(target("pulse").node && target("pulse").callers.is_empty());
}

#[test]
fn relays_are_listed_only_where_one_is_needed() {
    let compiled = compiled(&harbor(), "alpha laptop hub web-1 web-2");
    let relays = |who| manifest_of(&compiled, who).access.relays.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(relays("laptop"), ["hub"]); // its user calls the shop, which is on nodes without an address
    assert_eq!(relays("web-2"), ["hub"]); // others find it there
    assert!(relays("alpha").is_empty());
    assert!(relays("hub").is_empty());
    let shop = &manifest_of(&compiled, "laptop").access.targets[&read::<Name>("shop")];
    let found: Vec<_> = shop.places.iter().map(|dial| dial.address.as_ref().map(ToString::to_string)).collect();
    assert_eq!(found, [Some("web-1.example:7444".to_owned()), None]); // the declared node of the class, and the class
}

#[test]
fn a_member_is_declared_or_of_a_class_or_gets_nothing() {
    let compiled = compiled(&harbor(), "alpha stray web-2 web-3 web-1");
    assert_eq!(compiled.unmatched, [read("stray")]);
    assert_eq!(manifest_of(&compiled, "stray"), Manifest::nothing());
    assert_eq!(manifest_of(&compiled, "web-2"), manifest_of(&compiled, "%web"));
    assert_eq!(compiled.waiting.keys().map(NodeName::as_str).collect::<Vec<_>>(), ["hub", "laptop"]);
    // alpha, web and web-1: those of the class say so, and for who gets nothing there is none.
    assert_eq!((compiled.leaves.len(), compiled.manifests.len()), (6, 3));
    // A declared node of a class has the class's services and roles beside its own.
    let web_1 = manifest_of(&compiled, "web-1");
    assert!(web_1.runs.services.contains_key(&read("shop")));
    assert!(web_1.access.targets[&read::<Name>("wiki")].node && web_1.access.targets[&read::<Name>("shop")].node);
}

#[test]
fn where_every_node_may_no_node_has_a_row() {
    let mut fleet = harbor();
    fleet.every_node = names("beat docs");
    let rows = &manifest_of(&compiled(&fleet, "alpha"), "alpha").access.callers[&read::<Name>("wiki")];
    assert!(rows.contains(&Caller::AnyNode));
    assert!(!rows.iter().any(|row| matches!(row, Caller::Class { .. } | Caller::Node(_))));
}

#[test]
fn the_org_bounds_how_long_an_svid_lives() {
    let mut fleet = harbor();
    fleet.org.svid_life = Some(read("24h"));
    fleet.nodes.get_mut(&read("alpha")).unwrap().policy.svid_life = Some(read("48h"));
    fleet.nodes.get_mut(&read("hub")).unwrap().policy.svid_life = Some(read("1h"));
    let compiled = compiled(&fleet, "alpha hub laptop");
    let life = |who| manifest_of(&compiled, who).runs.svid_life;
    assert_eq!([life("alpha"), life("hub"), life("laptop")], [Some(read("24h")), Some(read("1h")), Some(read("24h"))]);
}

#[test]
fn files_take_schema_2_and_whoever_gets_them_is_named() {
    let mut fleet = harbor();
    assert_eq!(manifest_of(&compile(&fleet, &members("alpha"), 1).unwrap(), "alpha").schema, 1);
    let file = Delivered { content: identity::text::Bytes(b"hello".to_vec()), executable: false };
    fleet.nodes.get_mut(&read("alpha")).unwrap().policy.files.insert(read("motd"), file.clone());
    fleet.classes.get_mut(&read("web")).unwrap().like.policy.files.insert(read("etc/x"), file);
    let against = compile(&fleet, &members("alpha"), 1).unwrap_err();
    assert_eq!(
        against.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "`alpha` gets the file `motd`, which takes manifest schema 2; what is compiled here has schema 1",
            "class `web` gets the file `etc/x`, which takes manifest schema 2; what is compiled here has schema 1",
        ]
    );
    assert!(manifest_of(&compiled(&fleet, "alpha"), "alpha").runs.files.contains_key(&read("motd")));
    assert_eq!(compile(&fleet, &[], SCHEMA + 1), Err(vec![HeldBack::UnknownSchema(SCHEMA + 1)]));
    assert_eq!(compile(&fleet, &[], 0), Err(vec![HeldBack::UnknownSchema(0)]));
}

/// A fleet that says all that takes schema 3.
fn with_tunnels() -> Fleet {
    let mut fleet = harbor();
    let forward = Forward { service: read("wiki"), user: Some(read("bob")) };
    let laptop = &mut fleet.nodes.get_mut(&read("laptop")).unwrap().policy.tunnel;
    laptop.forward.insert(read("127.0.0.1:80"), forward);
    fleet.classes.get_mut(&read("web")).unwrap().like.policy.tunnel.socks = Socks::Off;
    fleet.services.get_mut(&read("wiki")).unwrap().tells_caller = true;
    fleet.org.stale = Some(StaleSpec { margin: read("1h"), roles: names("operator front"), every_node: false });
    fleet
}

#[test]
fn what_is_said_of_tunnels_reaches_those_whom_it_concerns() {
    let fleet = with_tunnels();
    let compiled = compiled(&fleet, "alpha laptop hub web-1");
    let (alpha, laptop) = (manifest_of(&compiled, "alpha"), manifest_of(&compiled, "laptop"));
    assert_eq!(laptop.runs.tunnel, fleet.nodes[&read("laptop")].policy.tunnel);
    assert_eq!(manifest_of(&compiled, "%web").runs.tunnel.socks, Socks::Off);
    assert!(alpha.runs.tunnel.is_default() && alpha.runs.services[&read("wiki")].tells_caller);
    assert_eq!(laptop.access.targets[&read::<Name>("wiki")].port, Some(8080));
    let shut_out = Stale {
        margin: read("1h"),
        callers: vec![
            Caller::Placed { principal: read("spiffe://harbor/user/alice"), at: vec![Place::Node(read("laptop"))] },
            Caller::Class { class: read("web"), names: vec![read("web-*")] },
        ],
    };
    for who in ["alpha", "hub", "web-1", "%web"] {
        assert_eq!(manifest_of(&compiled, who).access.stale, Some(shut_out.clone()), "{who}");
    }
    assert_eq!(laptop.access.stale, None, "nothing listens there");
}

#[test]
fn the_role_node_shuts_out_every_node_and_a_role_of_nobody_shuts_out_none() {
    let stale = |roles, every_node| {
        let mut fleet = harbor();
        fleet.org.stale = Some(StaleSpec { margin: read("0s"), roles: names(roles), every_node });
        manifest_of(&compiled(&fleet, "alpha"), "alpha").access.stale.map(|stale| stale.callers)
    };
    assert_eq!(stale("front probe", true), Some(vec![Caller::AnyNode]));
    assert_eq!(stale("nobody", false), None);
}

#[test]
fn what_is_said_of_tunnels_takes_schema_3_and_is_never_left_out() {
    let against = compile(&with_tunnels(), &members("alpha"), 2).unwrap_err();
    assert_eq!(
        against.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "it is said how tunnels behave on `laptop`, class `web`, which takes manifest schema 3; what is compiled here has schema 2",
            "callers are told to `wiki`, which takes manifest schema 3; what is compiled here has schema 2",
            "the org shuts out roles when a head is stale, which takes manifest schema 3; what is compiled here has schema 2",
        ]
    );
    assert_eq!(
        against[0].hint(),
        "upgrade freehold-node on the nodes that hold the schema back, or take `tunnel` out of the fleet"
    );
    let mut fleet = harbor();
    fleet.org.defaults.tunnel.transport = Transport::Tls;
    for number in 0..10 {
        let spec = MachineSpec { policy: fleet.org.defaults.clone(), ..MachineSpec::default() };
        fleet.nodes.insert(read(&format!("n{number}")), spec);
    }
    let told = compile(&fleet, &[], 2).unwrap_err()[0].to_string();
    assert!(told.contains("on `n0`, `n1`, `n2`, `n3`, `n4`, `n5` and 4 more, which"), "{told}");
}

#[test]
fn an_svid_for_a_program_is_where_its_service_or_user_is_at_home() {
    let mut fleet = harbor();
    let svid = |name: &str| ProgramSvid { dns: [read(name)].into(), ..ProgramSvid::default() };
    fleet.services.get_mut(&read("shop")).unwrap().svid = Some(svid("shop.example.org"));
    fleet.users.get_mut(&read("bob")).unwrap().svid = Some(ProgramSvid::default());
    let compiled = compiled(&fleet, "alpha laptop web-1");
    let (shop, bob) = (read("spiffe://harbor/service/shop"), read("spiffe://harbor/user/bob"));
    for who in ["%web", "web-1"] {
        let manifest = manifest_of(&compiled, who);
        assert_eq!(manifest.dns_names(&shop), [read("shop.example.org")].into(), "{who}");
        assert_eq!(manifest.runs.svids, [(shop.clone(), svid("shop.example.org"))].into());
    }
    let laptop = manifest_of(&compiled, "laptop");
    assert!(laptop.runs.svids.contains_key(&bob) && laptop.dns_names(&shop).is_empty());
    assert!(manifest_of(&compiled, "alpha").runs.svids.is_empty());
    let against = compile(&fleet, &members("alpha"), 3).unwrap_err();
    assert_eq!(
        against.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "it is said how programs have the SVIDs of `shop`, `bob`, which takes manifest schema 4; what is compiled here has schema 3"
        ]
    );
    assert!(against[0].hint().ends_with("or take `svid` out of the fleet"), "{}", against[0].hint());
    for bytes in compile(&harbor(), &members("alpha laptop"), 3).unwrap().manifests.values() {
        assert!(!String::from_utf8_lossy(bytes).contains("svids"), "an agent of schema 3 knows no such word");
    }
}

/// An agent of schema 2 must not find a word that it does not know, and keeps the bytes that it has.
#[test]
fn for_schema_2_not_a_byte_has_changed() {
    let compiled = compile(&harbor(), &members("alpha hub laptop web-1 web-7 stray"), 2).unwrap();
    for bytes in compiled.manifests.values() {
        let text = String::from_utf8(bytes.clone()).unwrap();
        for word in ["tunnel", "tells_caller", "stale", "port"] {
            assert!(!text.contains(&format!("\"{word}\"")), "{word}: {text}");
        }
    }
    assert_eq!(compiled.root.to_string(), "9f7b6414cb73e5ed574cd7f37123496b790339e04f006825f8a69184ab2acc27");
}

#[test]
fn what_no_node_would_take_is_not_compiled() {
    let mut fleet = harbor();
    let file = Delivered { content: identity::text::Bytes(vec![0; MAX_BYTES]), executable: false };
    fleet.nodes.get_mut(&read("laptop")).unwrap().policy.files.insert(read("big"), file);
    for joined in ["laptop", "alpha"] {
        let against = compile(&fleet, &members(joined), SCHEMA).unwrap_err();
        assert!(
            matches!(&against[..], [HeldBack::TooLarge { of: Machine::Node(name), .. }] if name.as_str() == "laptop")
        );
    }
    let twice = compile(&harbor(), &members("alpha alpha"), SCHEMA);
    assert_eq!(twice, Err(vec![HeldBack::TwoMembers(read("alpha"))]));
}

const EVERYBODY: &str = "n0 n01 n02 n1 n11 n2 x7 stray";

proptest! {
    #[test]
    fn what_is_written_by_hand_is_what_the_contract_writes(fleet in any_fleet()) {
        let compiled = compiled(&fleet, EVERYBODY);
        for bytes in compiled.manifests.values().chain(compiled.waiting.values()) {
            let manifest = Manifest::read(bytes, Digest::of(bytes)).unwrap();
            prop_assert_eq!(&manifest.bytes(), bytes);
        }
        let used: BTreeSet<Digest> = compiled.leaves.iter().filter_map(Leaf::manifest).collect();
        prop_assert_eq!(used, compiled.manifests.keys().copied().collect::<BTreeSet<_>>());
        prop_assert_eq!(compiled.root, MembersMap::of(&compiled.leaves).unwrap().root());
    }

    #[test]
    fn the_order_in_which_things_were_declared_and_joined_does_not_show(
        fleet in any_fleet(),
        order in Just((0..8).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let straight = compiled(&fleet, EVERYBODY);
        let words: Vec<&str> = EVERYBODY.split(' ').collect();
        let shuffled: Vec<_> = order.iter().map(|at| member(words[*at])).collect();
        let mut turned = fleet.clone();
        turned.users.values_mut().for_each(|user| user.nodes.reverse());
        turned.services.values_mut().for_each(|service| service.at.reverse());
        turned.classes.values_mut().for_each(|class| class.names.reverse());
        prop_assert_eq!(compile(&turned, &shuffled, SCHEMA).unwrap(), straight);
    }

    #[test]
    fn rows_are_sorted_and_each_stands_once(fleet in any_fleet()) {
        let compiled = compiled(&fleet, EVERYBODY);
        for (digest, bytes) in &compiled.manifests {
            let access = Manifest::read(bytes, *digest).unwrap().access;
            for rows in access.callers.values() {
                prop_assert!(rows.is_sorted_by(|a, b| a < b), "{rows:?}");
            }
            for target in access.targets.values() {
                prop_assert!(target.callers.is_sorted_by(|a, b| a < b));
                prop_assert!(target.places.is_sorted_by(|a, b| a < b));
                prop_assert!(target.node || !target.callers.is_empty());
            }
        }
    }
}
