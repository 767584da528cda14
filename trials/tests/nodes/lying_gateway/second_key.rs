//! A gateway let a second key in under a member's name. The published map says whose name it is: the real gateway
//! refuses the other key, and operators see an alarm.

use ground::random;
use identity::id::Digest;
use identity::key::Sign as _;
use identity::members::{Leaf, Meant, NodeLeaf};
use manifest::stored::Manifest;
use trials::attack::thief::Thief;
use trials::place::{refused, stdout, succeeded, until};

use super::Scene;

fn leaf(name: &str, node_key: Digest, manifest: &[u8]) -> Leaf {
    let (admission, manifest) = (Digest([4; 32]), Meant::Own(Digest::of(manifest)));
    Leaf::Node(NodeLeaf { name: name.parse().unwrap(), node_key, admission, manifest })
}

#[test]
fn a_key_whose_name_was_published_for_another_is_refused_and_alarmed() {
    let (scene, _gateway) = Scene::new(&["web-1", "web-2"]);
    let place = &scene.place;
    let _agents = ["web-1", "web-2"].map(|node| place.agent(node));
    // Elsewhere another machine was let in as web-1, and the operators published that one.
    let thief = Thief::of(place);
    let real = random::p256().unwrap().public().digest();
    let manifest = Manifest::empty(1).bytes();
    let head = thief.publish(&[leaf("web-1", real, &manifest)], std::slice::from_ref(&manifest), |_| {});
    scene.until_problem("web-1", "the operators published the name `web-1` for the key of another machine");
    until("the operators see an alarm", || {
        let nodes = place.facts(&["node", "list"]);
        let web = nodes.as_array().unwrap().iter().find(|node| node["name"] == "web-1").unwrap().clone();
        web["alarm"].as_str().is_some_and(|alarm| alarm.contains(&real.to_string()))
    });
    let words = stdout(&place.freehold(&["node", "list"]));
    assert!(words.contains("ALARM: see `freehold node show web-1`"), "{words}");
    // It gets nothing: neither news, nor an SVID by its old one, nor by its node key.
    assert_eq!(place.status("web-1")["applied"]["head"], 0);
    std::fs::remove_file(place.scope("web-1").join("svid.pem")).ok();
    refused(&place.node("web-1", &["leave", "--yes"], ""), "for the key of another machine");
    // Whoever the map does not name is what the ledger says.
    until("the other one goes on", || place.status("web-2")["head"] == head);
    assert!(scene.problem("web-2").is_none());

    // A name that was published is taken, although this ledger has nobody under it.
    let spare = random::p256().unwrap().public().digest();
    succeeded(&place.freehold(&["node", "list"]));
    let leaves = [leaf("web-1", real, &manifest), leaf("web-3", spare, &manifest)];
    thief.publish(&leaves, &[], |_| {});
    let code = place.code(&["--uses", "2"]);
    refused(&place.join("web-3", &code), "the name `web-3` belongs to another machine");
    // Until the operators revoke that key.
    succeeded(&place.freehold(&["node", "list"]));
    thief.publish(&leaves, &[], |head| head.revocations.node_keys.extend([spare]));
    succeeded(&place.join("web-3", &code));
}
