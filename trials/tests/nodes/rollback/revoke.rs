//! A revocation travels with the head, stays whatever goes back, and is on the disk before anything else.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use identity::head::Head;
use identity::id::Digest;
use identity::members::{Leaf, Listing, Meant, MembersMap, NodeLeaf, node_key};
use identity::principal::NodeName;
use identity::text::Bytes;
use identity::time::Seconds;
use manifest::stored::Manifest;
use trials::attack::liar::{Loot, Told};
use trials::place::{Running, succeeded, until};
use wire::known::{Known, KnownFile};
use wire::sync::{SyncAnswer, SyncRequest};

use super::NODES;
use crate::nodes::lying_gateway::{Scene, honest};

/// The head on a node's disk.
fn on_disk(scope: &Path) -> Head {
    let file: KnownFile = serde_json::from_slice(&std::fs::read(scope.join("known.json")).unwrap()).unwrap();
    Known::from_file(file).unwrap().head.head
}

fn key_of(scene: &Scene, node: &str) -> Digest {
    let shown = scene.place.facts(&["node", "show", node]);
    let key: identity::key::PublicKey = serde_json::from_value(shown["node_key"].clone()).unwrap();
    key.digest()
}

#[test]
fn a_revocation_is_pushed_to_all_written_first_and_acknowledged() {
    let (scene, _gateway) = Scene::new(&NODES);
    let place = &scene.place;
    // They wait so long that only a push can reach them while this walk has patience.
    let agent = |node: &str| {
        let mut command = place.node_command(node, &["run", "--every", "5m"]);
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let [first, second, third] = NODES.map(agent);
    let head = scene.publish("sync: {wait: 5m}", "");
    for node in NODES {
        scene.until_settled(node, head);
    }
    until("all have said so", || {
        NODES.iter().all(|node| scene.report(node).is_some_and(|report| report.head.version == head))
    });
    let key = key_of(&scene, "web-3");
    succeeded(&place.freehold(&["node", "revoke", "web-3", "--yes"]));
    until("it is on the first disk", || on_disk(&place.scope("web-1")).revocations.node_keys.contains(&key));
    // Right then it dies.
    first.kill();
    assert!(on_disk(&place.scope("web-1")).revocations.node_keys.contains(&key));
    assert_eq!(place.status("web-1")["head"], head + 1);
    until("it is on the second disk", || on_disk(&place.scope("web-2")).revocations.node_keys.contains(&key));
    until("the second one acknowledges it", || {
        scene.report("web-2").is_some_and(|report| report.head.version == head + 1)
    });
    let _again = agent("web-1");
    until("the first one does when it is back", || {
        scene.report("web-1").is_some_and(|report| report.head.version == head + 1)
    });
    let (code, told) = third.end();
    assert_ne!(code, Some(0), "{told}");
    assert!(told.contains("was revoked by the operators"), "{told}");
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn a_gateway_that_serves_nobody_under_the_new_state_makes_a_node_go_back_but_not_forget() {
    let (scene, gateway) = Scene::new(&["web-1", "web-2"]);
    let _web = scene.place.agent("web-1");
    let head = scene.publish("sync: {wait: 20s}", "");
    scene.until_settled("web-1", head);
    let other = key_of(&scene, "web-2");
    let liar = scene.take_over(gateway, honest(Arc::default()));
    scene.until_well("web-1");

    // One head brings a new state and a revocation.
    let mut manifest = Manifest::empty(2);
    manifest.runs.apply.deadline = Seconds(6);
    manifest.runs.gateways = vec![scene.place.address().parse().unwrap()];
    let bytes = manifest.bytes();
    let loot = liar.loot();
    let leaf = NodeLeaf { manifest: Meant::Own(Digest::of(&bytes)), ..loot.leaf(head, "web-1") };
    let map = MembersMap::of(&[Leaf::Node(leaf.clone())]).unwrap();
    let newer = loot.thief.head(|head| {
        head.version += 1;
        head.members = Some(map.root());
        head.revocations.node_keys.insert(other);
    });
    let path = map.prove(node_key(&"web-1".parse().unwrap())).unwrap();
    let listing = Listing::Own { leaf, path, class: None };
    let place = listing.clone();
    let delivered = Arc::new(AtomicBool::new(false));
    let once = Arc::clone(&delivered);
    let shown = newer.clone();
    liar.now(move |loot: &Loot, _: &NodeName, _: &SyncRequest| {
        if once.swap(true, Ordering::Relaxed) {
            return Told::HangUp;
        }
        let manifest = Some(Bytes(bytes.clone()));
        SyncAnswer { head: Some(newer.clone()), listing: Some(listing.clone()), manifest, ..loot.nothing() }.into()
    });
    until("it has it", || delivered.load(Ordering::Relaxed));
    liar.shut(true);
    until("it went back", || !scene.place.status("web-1")["applied"]["rolled_back"].is_null());
    let status = scene.place.status("web-1");
    let why = status["applied"]["rolled_back"]["why"].as_str().unwrap();
    assert!(why.contains("gateway"), "{status}");
    assert!(status["applied"]["trial"].is_null() && status["problem"].is_string(), "{status}");
    assert_eq!(status["head"], head + 1);
    assert!(on_disk(&scene.place.scope("web-1")).revocations.node_keys.contains(&other), "it is no less revoked");
    // Served again, it is well, and still what it was before.
    liar.show(shown);
    liar.now(move |loot: &Loot, _: &NodeName, _: &SyncRequest| {
        SyncAnswer { listing: Some(place.clone()), ..loot.nothing() }.into()
    });
    liar.shut(false);
    scene.until_well("web-1");
    let status = scene.place.status("web-1");
    assert_eq!(status["applied"]["rolled_back"]["why"].as_str().map(|why| why.contains("gateway")), Some(true));
}
