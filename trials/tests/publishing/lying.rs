//! A gateway that lies to the operator's tool about its members.

use identity::key::PublicKey;
use org::ledger::frontier::Frontier;
use trials::attack::between::Between;
use trials::attack::intruder::Intruder;
use trials::client::joiner::Joiner;
use trials::place::{json, succeeded, text};
use wire::control::{ControlAnswer, Observed};

use super::Scene;
use crate::gateways::Two;

/// Name and state of each node, as the tool shows them through this gateway.
fn listed(scene: &Scene, gateway: &str) -> Vec<(String, String)> {
    let told = json(&scene.place.freehold(&["node", "list", "--json", "--gateway", gateway]));
    told.as_array().unwrap().iter().map(|node| (text(node, "name"), text(node, "state"))).collect()
}

fn members(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| ((*name).to_owned(), "member".to_owned())).collect()
}

#[test]
fn a_gateway_that_hides_a_machine_or_shows_another_changes_neither_the_list_nor_what_is_signed() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1", "web-2"]);
    let key: PublicKey = text(&scene.place.facts(&["node", "show", "web-1"]), "node_key").parse().unwrap();
    let all = members(&["quay", "web-1", "web-2"]);
    let stranger = identity::id::Digest([7; 32]);
    let lie = Between::about_nodes(&scene.place, move |nodes| {
        nodes.clear();
        nodes.insert(stranger, Observed { alarm: Some("a lie".to_owned()), ..Observed::default() });
    });
    assert_eq!(listed(&scene, &lie.address), all);
    let told = scene.place.freehold(&["publish", "--yes", "--no-wait", "--gateway", &lie.address]);
    succeeded(&told);
    let shown = json(&scene.place.freehold(&["node", "show", "web-1", "--json", "--gateway", &lie.address]));
    assert_eq!((&shown["last_seen"], &shown["alarm"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    succeeded(&scene.place.freehold(&["node", "revoke", "web-1", "--yes", "--gateway", &lie.address]));
    assert!(scene.head().revocations.node_keys.contains(&key.digest()), "the machine that it hides is revoked");
}

#[test]
fn a_gateway_that_forgets_its_ledger_hides_nobody_whom_this_home_knows() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1"]);
    let lie = Between::changing(&scene.place, |answer| match answer {
        ControlAnswer::Survey(mut survey) => {
            survey.frontier = Frontier::default();
            ControlAnswer::Survey(survey)
        }
        ControlAnswer::Beyond { .. } => ControlAnswer::Beyond { entries: Vec::new(), more: false },
        ControlAnswer::Observed { .. } => {
            ControlAnswer::Observed { nodes: std::collections::BTreeMap::new(), next: None }
        }
        other => other,
    });
    assert_eq!(listed(&scene, &lie.address), members(&["quay", "web-1"]));
}

#[test]
fn an_admission_that_does_not_count_gets_no_leaf_though_the_gateway_wrote_it_down() {
    let (scene, gateway) = Scene::with_wiki(&["web-1", "web-2"]);
    let place = &scene.place;
    let outdated = place.code(&["--uses", "5"]);
    succeeded(&place.freehold(&["signer", "replace", "ann", "ben", "--unprotected", "--yes"]));
    let revoked = place.invite(&["--uses", "5"]);
    succeeded(&place.freehold(&["invite", "revoke", &text(&revoked, "id"), "--yes"]));
    let used_up = place.code(&["--uses", "1"]);
    succeeded(&place.join("web-3", &used_up));
    assert_eq!(gateway.stop(), Some(0));
    let intruder = Intruder::at(place.org().join("gateway"));
    for (code, name) in [(outdated, "web-7"), (text(&revoked, "code"), "web-8"), (used_up, "web-9")] {
        intruder.put(&intruder.says(Joiner::new(&code, name).let_in_by(&intruder.state())));
    }
    let _gateway = place.serve();
    // Operators see who waits and why; and that somebody had a use that nobody gave.
    let status = place.facts(&["status"]);
    let waits = serde_json::json!([
        { "why": "all uses of the invite at this gateway were spent", "nodes": ["web-9"] },
        { "why": "the invite that let it in does not count: 0 of the 1 signers that it needs have signed, of those in force",
          "nodes": ["web-7"] },
        { "why": "the invite that let it in does not count: it was revoked", "nodes": ["web-8"] },
    ]);
    assert_eq!(status["waits"], waits);
    let alarm = "web-9, let in by quay: all uses of the invite at this gateway were spent: freehold node show web-9";
    assert_eq!(status["alarms"], serde_json::json!([alarm]));
    assert_eq!(scene.publish()["published"], true);
    let mut all = members(&["quay", "web-1", "web-2", "web-3"]);
    all.extend(["web-7", "web-8", "web-9"].map(|name| (name.to_owned(), "waiting".to_owned())));
    assert_eq!(listed(&scene, &place.address()), all);
    // Whoever had a leaf would be in for good: another head, and the invites' end, change nothing about them.
    succeeded(&place.freehold(&["refresh"]));
    assert_eq!(listed(&scene, &place.address()), all);
}

#[test]
fn what_a_gateway_says_after_it_was_removed_lets_nobody_in() {
    let (two, laptop, vps) = Two::serving();
    let place = &two.place;
    let code = place.code(&["--uses", "5"]);
    two.settle();
    succeeded(&place.freehold(&["gateway", "remove", "vps", "--yes"]));
    assert_eq!((laptop.stop(), vps.stop()), (Some(0), Some(0)));
    let (here, removed) = (Intruder::at(place.org().join("gateway")), Intruder::at(place.scope("vps").join("gateway")));
    let admission = Joiner::new(&code, "web-9").let_in_by(&here.state());
    here.put(&here.entry(&removed.voice(), ground::clock::now(), admission));
    let _laptop = place.serve();
    succeeded(&place.freehold(&["refresh"]));
    assert_eq!(place.state_of("web-9").as_deref(), Some("waiting"));
    let status = place.facts(&["status"]);
    let why = "the gateway that let it in has no mandate for that any more";
    assert_eq!(status["waits"], serde_json::json!([{ "why": why, "nodes": ["web-9"] }]));
}

#[test]
fn whoever_left_or_was_revoked_goes_from_the_map_without_a_word() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1", "web-2", "web-3"]);
    scene.publish();
    succeeded(&scene.place.node("web-2", &["leave", "--yes"], ""));
    let gone = scene.place.facts(&["plan"])["gone"].clone();
    assert_eq!(gone, serde_json::json!([{ "name": "web-2", "revoked": false, "left": true }]));
    // The next head, whatever it is for, lists neither.
    succeeded(&scene.place.freehold(&["node", "revoke", "web-3", "--yes"]));
    assert_eq!(scene.place.facts(&["plan"])["gone"], serde_json::json!([]));
    scene.publish();
}

#[test]
fn a_machine_that_left_and_came_back_under_its_name_is_believed() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1"]);
    let old: PublicKey = text(&scene.place.facts(&["node", "show", "web-1"]), "node_key").parse().unwrap();
    succeeded(&scene.place.node("web-1", &["leave", "--yes"], ""));
    scene.place.joined("web-1");
    let told = scene.publish();
    assert_eq!(told["published"], true);
    assert!(scene.head().revocations.node_keys.contains(&old.digest()), "older proofs of membership end");
}
