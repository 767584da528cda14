//! A gateway that lies to the operator's tool about its members.

use identity::key::Sign as _;
use trials::between::Between;
use trials::place::{refused, stderr, succeeded};

use super::Scene;

fn publish(scene: &Scene, gateway: &str) -> std::process::Output {
    scene.place.freehold(&["publish", "--yes", "--no-wait", "--gateway", gateway])
}

#[test]
fn a_second_key_under_a_members_name_is_refused_and_shouted() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1", "web-2"]);
    let before = scene.head().version;
    let keys: Vec<_> = ["web-1", "web-2"]
        .iter()
        .map(|name| scene.place.facts(&["node", "show", name])["node_key"].as_str().unwrap().to_owned())
        .collect();

    // The gateway shows another machine, which it really let in, under the name of a member.
    let lie = Between::about_nodes(&scene.place, |nodes| {
        let other = nodes.iter().find(|node| node.name.as_str() == "web-2").unwrap().clone();
        for node in nodes.iter_mut().filter(|node| node.name.as_str() == "web-1") {
            (node.node_key, node.admission) = (other.node_key, other.admission);
        }
        nodes.retain(|node| node.name.as_str() != "web-2");
    });
    let told = publish(&scene, &lie.address);
    refused(&told, "`web-1` was published with the node key");
    assert!(stderr(&told).contains("which was never revoked"), "{}", stderr(&told));
    assert!(stderr(&told).contains(&keys[1]), "both keys are shown: {}", stderr(&told));
    drop(lie);

    // Two live keys under one name.
    let lie = Between::about_nodes(&scene.place, |nodes| {
        let mut other = nodes.iter().find(|node| node.name.as_str() == "web-2").unwrap().clone();
        other.name = "web-1".parse().unwrap();
        nodes.push(other);
    });
    refused(&publish(&scene, &lie.address), "two live node keys under the name `web-1`");
    drop(lie);

    // A machine that nobody let in.
    let lie = Between::about_nodes(&scene.place, |nodes| {
        let mut other = nodes.iter().find(|node| node.name.as_str() == "web-2").unwrap().clone();
        other.name = "web-3".parse().unwrap();
        other.node_key = ground::random::p256().unwrap().public();
        nodes.push(other);
    });
    refused(&publish(&scene, &lie.address), "the admission of `web-3`");
    drop(lie);
    assert_eq!(scene.head().version, before, "nothing was signed");
    succeeded(&scene.place.freehold(&["publish", "--yes", "--no-wait"]));
}

#[test]
fn a_member_that_the_gateway_hides_keeps_its_leaf_or_its_name_would_be_free_for_another_key() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1", "web-2", "web-3"]);
    let before = scene.head().version;
    let lie = Between::about_nodes(&scene.place, |nodes| nodes.retain(|node| node.name.as_str() != "web-1"));
    refused(&publish(&scene, &lie.address), "neither revoked nor left by its own word");
    assert_eq!(scene.head().version, before, "nothing was signed");
    let told =
        scene.place.freehold(&["publish", "--yes", "--no-wait", "--without", "web-1", "--gateway", &lie.address]);
    succeeded(&told);
    drop(lie);
    // Whoever said so itself, or was revoked, goes without a word.
    scene.publish();
    succeeded(&scene.place.node("web-2", &["leave", "--yes"], ""));
    succeeded(&scene.place.freehold(&["node", "revoke", "web-3", "--yes"]));
    let gone = scene.place.facts(&["plan"])["gone"].clone();
    let told = serde_json::json!([
        { "name": "web-2", "revoked": false, "left": true }, { "name": "web-3", "revoked": true }
    ]);
    assert_eq!(gone, told);
    scene.publish();
}

#[test]
fn a_machine_that_left_and_came_back_under_its_name_is_believed() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1"]);
    succeeded(&scene.place.node("web-1", &["leave", "--yes"], ""));
    scene.place.joined("web-1");
    let told = scene.publish();
    assert_eq!(told["published"], true);
    assert!(scene.head().recent.is_empty(), "older proofs of membership end");
}
