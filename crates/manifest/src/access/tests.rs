//! Answers in words, and that they agree with the tables that nodes obey.

use identity::id::Digest;
use identity::members::{ClassLeaves, Leaf};
use identity::principal::Principal;
use proptest::prelude::*;

use super::*;
use crate::compile::{Compiled, compile};
use crate::sample::{any_fleet, harbor, members, read};
use crate::stored::{Access, Manifest, SCHEMA};

fn told(who: &str, what: &str) -> (bool, Vec<String>) {
    let answer = may(&harbor(), &read(who), &read(what)).unwrap();
    (answer.allowed, answer.why.iter().map(ToString::to_string).collect())
}

#[test]
fn yes_comes_with_every_way_that_leads_there() {
    for (who, what, why) in [
        ("bob", "wiki", &["user `bob` has role `staff`; `staff` allows group `docs`; service `wiki` is in `docs`"][..]),
        (
            "alice@laptop",
            "wiki",
            &[
                "user `alice` has role `operator`; `operator` allows group `docs`; service `wiki` is in `docs`",
                "user `alice` has role `staff`; `staff` allows group `docs`; service `wiki` is in `docs`",
            ],
        ),
        (
            "web-7",
            "wiki",
            &[
                "node `web-7` is in class `web`, which has role `front`; `front` allows group `docs`; service `wiki` is in `docs`",
            ],
        ),
        (
            "class/web",
            "wiki",
            &["class `web` has role `front`; `front` allows group `docs`; service `wiki` is in `docs`"],
        ),
        (
            "node/stray",
            "pulse",
            &["node `stray` has role `node`; `node` allows group `beat`; service `pulse` is in `beat`"],
        ),
        (
            "spiffe://harbor/service/shop",
            "wiki",
            &["service `shop` has role `clerk`; `clerk` allows group `docs`; service `wiki` is in `docs`"],
        ),
    ] {
        let (allowed, mut told) = told(who, what);
        told.retain(|line| !line.contains("at home"));
        assert!(allowed, "{who} {what}: {told:?}");
        assert_eq!(told, why, "{who} {what}");
    }
    assert_eq!(told("bob", "wiki").1.last().unwrap(), "user `bob` is at home on `laptop`");
}

#[test]
fn no_comes_with_what_is_missing() {
    for (who, what, why) in [
        ("bob", "shop", "none of the roles of user `bob` (`staff`) allows a group of service `shop` (`public`)"),
        ("carol", "wiki", "user `carol` has no role"),
        ("alpha", "wiki", "none of the roles of node `alpha` (`node`) allows a group of service `wiki` (`docs`)"),
        ("alice@alpha", "wiki", "user `alice` is not at home on `alpha`, only on `laptop`"),
        ("web-1@web-2", "wiki", "node `web-1` is not at home on `web-2`, only on `web-1`"),
    ] {
        let (allowed, told) = told(who, what);
        assert!(!allowed, "{who} {what}");
        assert_eq!(told.last().unwrap(), why);
    }
    let mut fleet = harbor();
    fleet.services.get_mut(&read("wiki")).unwrap().groups.clear();
    let answer = may(&fleet, &read("bob"), &read("wiki")).unwrap();
    assert_eq!(answer.why[0].to_string(), "service `wiki` is in no group, so nobody may call it");
    fleet.users.get_mut(&read("bob")).unwrap().nodes.clear();
    let answer = may(&fleet, &read("bob"), &read("wiki")).unwrap();
    assert_eq!(answer.why[1].to_string(), "user `bob` is at home on no node");
}

#[test]
fn a_question_about_nobody_is_refused() {
    let ask = |who: &str, what: &str| may(&harbor(), &read(who), &read(what)).unwrap_err();
    assert_eq!(ask("mallory", "wiki"), BadAccessQuestion::NoSuch("mallory".to_owned()));
    assert_eq!(ask("user/alpha", "wiki"), BadAccessQuestion::NoSuch("alpha".to_owned()));
    assert!(matches!(ask("spiffe://other/user/alice", "wiki"), BadAccessQuestion::OtherOrg { .. }));
    assert_eq!(ask("alice", "mail"), BadAccessQuestion::NoService(read("mail")));
    for bad in ["", "Alice", "group/docs", "alice@", "a/b/c", "spiffe://harbor"] {
        assert!(bad.parse::<Who>().is_err(), "{bad}");
    }
}

#[test]
fn the_matrix_shows_all_at_once() {
    let expected = "
               pulse  shop  wiki
user/alice     .      yes   yes
user/bob       .      .     yes
user/carol     .      .     .
service/pulse  .      .     .
service/shop   .      .     yes
service/wiki   .      .     .
node/web-1     yes    yes   yes
class/web      yes    .     yes
every node     yes    .     .";
    assert_eq!(format!("\n{}", matrix(&harbor())), expected);
}

#[test]
fn the_matrix_lines_up_under_short_names() {
    let services: Vec<Name> = ["a", "db", "wiki"].map(read).into();
    let row = |who: &str, may_call: &[&str]| Row {
        who: Subject::User(read(who)),
        may_call: may_call.iter().copied().map(read).collect(),
    };
    let shown = Matrix { services, rows: vec![row("ann", &["a", "wiki"]), row("bob", &["db"])] }.to_string();
    let expected = "
          a    db   wiki
user/ann  yes  .    yes
user/bob  .    yes  .";
    assert_eq!(format!("\n{shown}"), expected);
}

/// What the node where a service listens would say. Nothing if it listens nowhere.
fn enforced(compiled: &Compiled, service: &Name) -> Vec<Access> {
    let manifest = |digest: Digest| Manifest::read(&compiled.manifests[&digest], digest).unwrap();
    let named = compiled.leaves.iter().filter_map(Leaf::manifest);
    let hosts = named.map(manifest).filter(|manifest| manifest.runs.services.contains_key(service));
    hosts.map(|manifest| manifest.access).collect()
}

const EVERYBODY: [&str; 8] = ["n0", "n01", "n02", "n1", "n11", "n2", "x7", "stray"];

/// Everybody who could ask.
fn principals(fleet: &Fleet) -> Vec<Principal> {
    let org = &fleet.org.name;
    let users = fleet.users.keys().map(|name| Principal::user(org, name));
    let services = fleet.services.keys().map(|name| Principal::service(org, name));
    let nodes = EVERYBODY.map(|name| Principal::node(org, &read(name)));
    users.chain(services).chain(nodes).collect()
}

proptest! {
    /// The two share no code.
    #[test]
    fn what_is_answered_is_what_nodes_enforce(fleet in any_fleet()) {
        let compiled = compile(&fleet, &members(&EVERYBODY.join(" ")), SCHEMA).unwrap();
        let principals = principals(&fleet);
        for service in fleet.services.keys() {
            for access in enforced(&compiled, service) {
                for (principal, node) in principals.iter().flat_map(|who| EVERYBODY.map(|node| (who, node))) {
                    let who: Who = read(&format!("{}/{}@{node}", principal.kind().word(), principal.name()));
                    let answer = may(&fleet, &who, service).unwrap();
                    prop_assert_eq!(access.permits(service, principal, &read(node)), answer.allowed, "{} -> {}: {:?}", who.name, service, answer);
                }
            }
        }
    }

    /// Whoever may call is shut out by a stale head just if a role of theirs is.
    #[test]
    fn who_is_shut_out_by_a_stale_head_is_who_nodes_shut_out(fleet in any_fleet()) {
        let compiled = compile(&fleet, &members(&EVERYBODY.join(" ")), SCHEMA).unwrap();
        let principals = principals(&fleet);
        for service in fleet.services.keys() {
            for access in enforced(&compiled, service) {
                for (principal, node) in principals.iter().flat_map(|who| EVERYBODY.map(|node| (who, node))) {
                    let who: Who = read(&format!("{}/{}@{node}", principal.kind().word(), principal.name()));
                    let answer = may(&fleet, &who, service).unwrap();
                    let told = answer.why.iter().find_map(|step| match step {
                        AccessStep::UntilStale { margin, .. } => Some(*margin),
                        _ => None,
                    });
                    let stale = access.stale.as_ref().filter(|_| answer.allowed);
                    let rows = stale.filter(|stale| stale.callers.iter().any(|row| row.matches(principal, &read(node))));
                    prop_assert_eq!(rows.map(|stale| stale.margin), told, "{} -> {}", who.name, service);
                }
            }
        }
    }

    /// Whoever may call finds the service among the targets of the node, and nobody else does.
    #[test]
    fn both_sides_of_the_table_agree(fleet in any_fleet()) {
        let compiled = compile(&fleet, &members(&EVERYBODY.join(" ")), SCHEMA).unwrap();
        for leaf in &compiled.leaves {
            let Leaf::Node(leaf) = leaf else { continue };
            if compiled.unmatched.contains(&leaf.name) {
                continue;
            }
            let digest = ClassLeaves::of(&compiled.leaves).manifest_of(leaf).unwrap();
            let manifest = Manifest::read(&compiled.manifests[&digest], digest).unwrap();
            let org = &fleet.org.name;
            let users = manifest.runs.users.iter().map(|name| Principal::user(org, name));
            let services = manifest.runs.services.keys().map(|name| Principal::service(org, name));
            for principal in users.chain(services).chain([Principal::node(org, &leaf.name)]) {
                for service in fleet.services.keys() {
                    let who: Who = read(&format!("{}/{}@{}", principal.kind().word(), principal.name(), leaf.name));
                    let target = manifest.access.targets.get(service);
                    let listed = target.is_some_and(|target| match principal.kind() {
                        PrincipalKind::Node => target.node,
                        PrincipalKind::User | PrincipalKind::Service => target.callers.contains(&principal),
                    });
                    prop_assert_eq!(listed, may(&fleet, &who, service).unwrap().allowed, "{} {}", principal, service);
                }
            }
        }
    }

    #[test]
    fn the_matrix_says_what_a_single_question_says(fleet in any_fleet()) {
        for row in matrix(&fleet).rows.iter().filter(|row| row.who != Subject::EveryNode) {
            for service in fleet.services.keys() {
                let answer = may(&fleet, &read(&row.who.to_string()), service).unwrap();
                prop_assert_eq!(row.may_call.contains(service), answer.allowed, "{} {}", row.who, service);
            }
        }
    }
}
