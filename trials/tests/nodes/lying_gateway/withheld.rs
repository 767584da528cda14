//! What a gateway holds back shows itself, too.

use ground::clock;
use identity::envelope::Envelope;
use identity::head::Head;
use identity::id::Digest;
use identity::members::{Leaf, Listing, Meant, MembersMap, NodeLeaf, node_key};
use identity::principal::NodeName;
use identity::text::Bytes;
use identity::time::Seconds;
use manifest::stored::{Manifest, SCHEMA};
use trials::attack::liar::Loot;
use trials::place::until;
use wire::sync::{SyncAnswer, SyncRequest};

use super::{Scene, confirmed, honest};

/// The operators' next head, with a map of one leaf: this manifest for this node.
fn next(loot: &Loot, name: &str, manifest: &[u8], change: impl FnOnce(&mut Head)) -> (Envelope, Listing) {
    let leaf = NodeLeaf { manifest: Meant::Own(Digest::of(manifest)), ..loot.leaf(loot.newest(), name) };
    let map = MembersMap::of(&[Leaf::Node(leaf.clone())]).unwrap();
    let head = loot.thief.head(|head| {
        head.version += 1;
        head.members = Some(map.root());
        change(head);
    });
    let path = map.prove(node_key(&name.parse().unwrap())).unwrap();
    (head, Listing::Own { leaf, path, class: None })
}

#[test]
fn a_head_without_what_it_says_of_the_node_is_taken_and_the_lack_is_named() {
    let (scene, gateway) = Scene::new(&["web-1"]);
    let head = scene.publish("sync: {wait: 20s}", "");
    let _web = scene.place.agent("web-1");
    scene.until_settled("web-1", head);
    let before = confirmed(&scene.place.status("web-1"));
    let liar = scene.take_over(gateway, honest(std::sync::Arc::default()));
    let manifest = Manifest { schema: 2, ..Manifest::empty(2) }.bytes();
    let (newer, listing) = next(liar.loot(), "web-1", &manifest, |_| {});

    // The head is authority, and is taken; what it wants the node to be does not come.
    let bare = newer.clone();
    liar.now(move |loot: &Loot, _: &NodeName, request: &SyncRequest| {
        let head = (request.head == head).then(|| bare.clone());
        SyncAnswer { head, ..loot.nothing() }.into()
    });
    scene.until_problem("web-1", &format!("does not say what head {} wants this node to be", head + 1));
    assert_eq!(scene.place.status("web-1")["head"], head + 1);
    // Where it stands comes, and what it should be does not.
    let place = listing.clone();
    liar.now(move |loot: &Loot, _: &NodeName, _: &SyncRequest| {
        SyncAnswer { listing: Some(place.clone()), ..loot.nothing() }.into()
    });
    scene.until_problem("web-1", "it names a manifest and does not send it");
    assert_eq!(confirmed(&scene.place.status("web-1")), before, "it keeps what it has");
    liar.now(move |loot: &Loot, _: &NodeName, request: &SyncRequest| {
        let listing = (request.listed <= head).then(|| listing.clone());
        SyncAnswer { manifest: listing.as_ref().map(|_| Bytes(manifest.clone())), listing, ..loot.nothing() }.into()
    });
    scene.until_well("web-1");
    scene.until_settled("web-1", head + 1);
    assert_ne!(confirmed(&scene.place.status("web-1")), before);
}

#[test]
fn a_manifest_of_a_newer_schema_is_refused_with_the_words_what_to_upgrade() {
    let (scene, gateway) = Scene::new(&["web-1"]);
    let head = scene.publish("sync: {wait: 20s}", "");
    let _web = scene.place.agent("web-1");
    scene.until_settled("web-1", head);
    let before = confirmed(&scene.place.status("web-1"));
    let liar = scene.take_over(gateway, honest(std::sync::Arc::default()));
    let manifest = serde_json::json!({ "schema": 99, "runs": "otherwise" }).to_string().into_bytes();
    let (newer, listing) = next(liar.loot(), "web-1", &manifest, |_| {});
    liar.now(move |loot: &Loot, _: &NodeName, request: &SyncRequest| {
        let head = (request.head == head).then(|| newer.clone());
        let manifest = Some(Bytes(manifest.clone()));
        SyncAnswer { head, listing: Some(listing.clone()), manifest, ..loot.nothing() }.into()
    });
    let words = format!("has schema 99; this program knows up to {SCHEMA}: upgrade freehold-node");
    scene.until_problem("web-1", &words);
    assert_eq!(confirmed(&scene.place.status("web-1")), before);
    // Refused again and again, and yet it is not asked for without end.
    let (asked, began) = (liar.asked(), std::time::Instant::now());
    until("it asked again", || liar.asked() >= asked + 3);
    assert!(began.elapsed() >= std::time::Duration::from_secs(2), "it asked {} times", liar.asked() - asked);
}

#[test]
fn a_gateway_that_loses_its_mandate_is_left_at_once_whatever_connection_is_open() {
    let (scene, gateway) = Scene::new(&["web-1"]);
    let head = scene.publish("sync: {wait: 20s}", "");
    let _web = scene.place.agent("web-1");
    scene.until_settled("web-1", head);
    let liar = scene.take_over(gateway, honest(std::sync::Arc::default()));
    scene.until_well("web-1");
    let manifest = Manifest { schema: 1, ..Manifest::empty(1) }.bytes();
    let (newer, listing) = next(liar.loot(), "web-1", &manifest, |head| head.mandates.clear());
    liar.now(move |loot: &Loot, _: &NodeName, request: &SyncRequest| {
        let head = (request.head == head).then(|| newer.clone());
        let manifest = Some(Bytes(manifest.clone()));
        SyncAnswer { head, listing: Some(listing.clone()), manifest, ..loot.nothing() }.into()
    });
    scene.until_problem("web-1", "no mandate in the head names the issuing key");
    let status = scene.place.status("web-1");
    assert_eq!(status["head"], head + 1, "what the operators said is kept");
    assert_eq!(status["applied"]["head"], head, "what came with it is not");
}

/// Later heads name the same map: the place in it is said again.
fn unchanged(loot: &Loot, head: u64, name: &NodeName, request: &SyncRequest) -> SyncAnswer {
    let listed = if request.listed < head + 2 { 0 } else { head };
    loot.truth(head, name, &SyncRequest { head, listed, ..request.clone() })
}

#[test]
fn a_frozen_head_shouts_when_it_is_no_longer_fresh() {
    let (scene, gateway) = Scene::new(&["web-1"]);
    let head = scene.publish("sync: {wait: 20s}", "");
    let _web = scene.place.agent("web-1");
    scene.until_settled("web-1", head);
    let liar = scene.take_over(gateway, honest(std::sync::Arc::default()));
    // The operators renewed it for a moment, and then again; the second time is held back.
    let brief = liar.loot().thief.head(|head| {
        head.version += 1;
        head.fresh_until = clock::now() + Seconds(5);
    });
    let renewed = liar.loot().thief.head(|head| {
        head.version += 2;
        head.fresh_until = clock::now() + Seconds::DAY;
    });
    let frozen = move |loot: &Loot, name: &NodeName, request: &SyncRequest| {
        let sent = (request.head == head).then(|| brief.clone());
        SyncAnswer { head: sent, ..unchanged(loot, head, name, request) }.into()
    };
    liar.now(frozen);
    scene.until_problem("web-1", "the gateway holds it back");
    assert!(scene.problem("web-1").unwrap().contains("was fresh only until"));
    let status = scene.place.status("web-1");
    assert_eq!((&status["state"], &status["head"]), (&"member".into(), &(head + 1).into()), "and it goes on working");
    liar.now(move |loot: &Loot, name: &NodeName, request: &SyncRequest| {
        let sent = (request.head == head + 1).then(|| renewed.clone());
        SyncAnswer { head: sent, ..unchanged(loot, head, name, request) }.into()
    });
    scene.until_well("web-1");
}
