//! Every head lists every member: by its class, or with nothing, and until it is revoked.

use identity::members::{Leaf, Listing, Meant, NodeLeaf};
use trials::attack::thief::Thief;
use trials::client::joiner::Joiner;
use trials::client::stranger::Dial;
use trials::place::{Place, succeeded};
use wire::control::{Call, ControlAnswer};

use super::watching::Puppet;
use super::{QUAY, Scene};

/// The leaves of nodes in the map of the head in force, by name, as the gateway has them.
fn leaves(place: &Place) -> Vec<NodeLeaf> {
    let thief = Thief::of(place);
    let root = thief.known().head.head.members.unwrap();
    let mut line = Dial::to(place.port).line();
    let mut ask = |call: Call| -> ControlAnswer { serde_json::from_value(thief.call(&mut line, &call).body).unwrap() };
    let ControlAnswer::Map { leaves, next: None } = ask(Call::Map { root, from: 0 }) else { panic!("no map") };
    let ControlAnswer::Blobs { blobs } = ask(Call::Blobs { digests: leaves }) else { panic!("no leaves") };
    let read = blobs.iter().map(|blob| serde_json::from_slice(&blob.0).unwrap());
    let mut nodes: Vec<NodeLeaf> = read
        .filter_map(|leaf| match leaf {
            Leaf::Node(leaf) => Some(leaf),
            Leaf::Class(_) => None,
        })
        .collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}

fn names(place: &Place) -> Vec<String> {
    leaves(place).iter().map(|leaf| leaf.name.to_string()).collect()
}

fn join(place: &Place, name: &str) -> Puppet {
    let code = place.code(&["--name", name]);
    Puppet::of(Joiner::join(&code, name, place.port), place.port)
}

#[test]
fn a_member_of_a_class_is_listed_by_the_next_head_and_stays_so_when_its_invite_is_revoked() {
    let scene = Scene::new();
    let place = &scene.place;
    let _gateway = place.serve();
    scene.declare(&format!("{QUAY}\nclasses:\n  web:\n    match: web-*\n    labels:\n      tier: front"));
    scene.publish();
    let puppet = join(place, "web-1");
    let by_class = puppet.sync(None, None);
    assert!(matches!(&by_class.listing, Some(Listing::Class { .. })), "a join needs no publish");
    assert_eq!(names(place), ["quay"]);
    succeeded(&place.freehold(&["refresh"]));
    let check = || {
        let listed = puppet.sync(None, None);
        let Some(Listing::Own { leaf, class: Some(class), .. }) = &listed.listing else { panic!("{listed:?}") };
        assert_eq!(leaf.manifest, Meant::Class("web".parse().unwrap()));
        assert_eq!(class.leaf.class.as_str(), "web");
        assert_eq!(listed.manifest, by_class.manifest, "it has what it had");
    };
    check();
    let invites = place.facts(&["invite", "list"]);
    let invites = invites.as_array().unwrap();
    let invite = invites.iter().find(|it| it["joined"].to_string().contains("web-1")).unwrap();
    succeeded(&place.freehold(&["invite", "revoke", invite["id"].as_str().unwrap(), "--yes"]));
    check();
    // Its gateway may lose its copy of what the fold said: the leaf stands in every head from now on.
    succeeded(&place.freehold(&["refresh"]));
    check();
    assert_eq!(names(place), ["quay", "web-1"]);
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    assert_eq!(names(place), ["quay"], "whom the head revokes it does not list");
    assert!(!scene.head().recent.is_empty(), "nobody else has to show newer papers for it");
    succeeded(&place.freehold(&["audit", "--verify"]));
}

#[test]
fn a_member_that_matches_nothing_is_listed_and_gets_nothing() {
    let scene = Scene::new();
    let place = &scene.place;
    let _gateway = place.serve();
    // Also while no fleet was published at all.
    let first = join(place, "stray-1");
    succeeded(&place.freehold(&["refresh"]));
    assert_eq!(names(place), ["quay", "stray-1"]);
    scene.declare(QUAY);
    scene.publish();
    let second = join(place, "stray-2");
    assert!(matches!(second.sync(None, None).listing, Some(Listing::Unlisted { .. })));
    succeeded(&place.freehold(&["refresh"]));
    assert_eq!(names(place), ["quay", "stray-1", "stray-2"]);
    for puppet in [first, second] {
        let listed = puppet.sync(None, None);
        let Some(Listing::Own { leaf, class: None, .. }) = &listed.listing else { panic!("{listed:?}") };
        assert_eq!((&leaf.manifest, &listed.manifest), (&Meant::Nothing, &None));
    }
    let plan = place.facts(&["plan"]);
    assert_eq!(plan["unmatched"], serde_json::json!(["stray-1", "stray-2"]));
    assert!(super::lines(&plan["summary"]).starts_with("nothing changes"), "{plan}");
}
