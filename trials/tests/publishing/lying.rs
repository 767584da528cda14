//! A gateway that lies to the operator's tool about its members.

use identity::envelope::Envelope;
use identity::key::{PublicKey, Sign as _};
use org::entry::Action;
use org::state::Standing;
use trials::between::Between;
use trials::intruder::Intruder;
use trials::joiner::Joiner;
use trials::place::{Place, refused, stderr, succeeded, text};
use trials::thief::Thief;
use wire::control::{Answer, Call, NodeView};

use super::Scene;

fn publish(scene: &Scene, gateway: &str) -> std::process::Output {
    scene.place.freehold(&["publish", "--yes", "--no-wait", "--gateway", gateway])
}

#[test]
fn a_second_key_under_a_members_name_is_refused_and_shouted() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1", "web-2"]);
    let before = scene.head().version;

    // The gateway shows another machine, which it really let in, under the name of a member.
    let lie = Between::about_nodes(&scene.place, |nodes| {
        let other = nodes.iter().find(|node| node.name.as_str() == "web-2").unwrap().clone();
        for node in nodes.iter_mut().filter(|node| node.name.as_str() == "web-1") {
            (node.node_key, node.admission) = (other.node_key, other.admission);
        }
        nodes.retain(|node| node.name.as_str() != "web-2");
    });
    let told = publish(&scene, &lie.address);
    refused(&told, "the gateway shows `web-1` with the node key");
    for words in ["that key was let in as `web-2`", "the gateway does not show `web-1`"] {
        assert!(stderr(&told).contains(words), "`{words}` in {}", stderr(&told));
    }
    drop(lie);

    // Two live keys under one name.
    let lie = Between::about_nodes(&scene.place, |nodes| {
        let mut other = nodes.iter().find(|node| node.name.as_str() == "web-2").unwrap().clone();
        other.name = "web-1".parse().unwrap();
        nodes.push(other);
    });
    refused(&publish(&scene, &lie.address), "that key was let in as `web-2`");
    drop(lie);

    // A machine that nobody let in.
    let lie = Between::about_nodes(&scene.place, |nodes| {
        let mut other = nodes.iter().find(|node| node.name.as_str() == "web-2").unwrap().clone();
        other.name = "web-3".parse().unwrap();
        other.node_key = ground::random::p256().unwrap().public();
        nodes.push(other);
    });
    refused(&publish(&scene, &lie.address), "nobody was let in with that key");
    drop(lie);
    assert_eq!(scene.head().version, before, "nothing was signed");
    succeeded(&scene.place.freehold(&["publish", "--yes", "--no-wait"]));
}

#[test]
fn a_member_that_the_gateway_hides_keeps_its_leaf_or_its_name_would_be_free_for_another_key() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1", "web-2", "web-3"]);
    let before = scene.head().version;
    let lie = Between::about_nodes(&scene.place, |nodes| nodes.retain(|node| node.name.as_str() != "web-1"));
    refused(&publish(&scene, &lie.address), "the gateway does not show `web-1`");
    let told =
        scene.place.freehold(&["publish", "--yes", "--no-wait", "--without", "web-1", "--gateway", &lie.address]);
    refused(&told, "by the ledger, folded here, it is member");
    assert_eq!(scene.head().version, before, "nothing was signed");
    drop(lie);
    // Whoever said so itself, or was revoked, goes without a word.
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

/// A machine that the gateway lets in by itself: every key signed that an admission needs, and no operator would agree.
fn smuggled(place: &Place, code: &str, name: &str) -> (Joiner, Envelope) {
    let (joiner, thief) = (Joiner::new(code, name), Thief::of(place));
    let mut line = trials::stranger::Dial::to(place.port).line();
    let asked = thief.call(&mut line, &Call::Invite { id: joiner.code.ticket.authority().invite().unwrap() });
    let Answer::Document(invite) = serde_json::from_value(asked.body).unwrap() else { panic!("no invite") };
    let intruder = Intruder::at(place.org().join("gateway"));
    let admit = Action::NodeAdmit { claim: joiner.signed_claim(), invite, approval: None };
    (joiner, intruder.says(admit).envelope)
}

/// Shows it as a member like another, with its admission.
fn showing(place: &Place, (joiner, admission): &(Joiner, Envelope), like: &str) -> Between {
    let (name, key, admission, like) =
        (joiner.name.clone(), joiner.node_key.public(), admission.clone(), like.to_owned());
    Between::changing(place, move |answer| match answer {
        Answer::Nodes { mut nodes, next } => {
            let mut view: NodeView = nodes.iter().find(|node| node.name.as_str() == like).unwrap().clone();
            (view.name, view.node_key, view.admission) = (name.clone(), key, admission.digest());
            nodes.push(view);
            Answer::Nodes { nodes, next }
        }
        Answer::Document(None) => Answer::Document(Some(admission.clone())),
        other => other,
    })
}

#[test]
fn an_admission_that_does_not_count_gets_no_leaf_whatever_the_gateway_shows() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1", "web-2"]);
    let place = &scene.place;
    let revoked = place.invite(&["--uses", "5"]);
    succeeded(&place.freehold(&["invite", "revoke", &text(&revoked, "id"), "--yes"]));
    let used_up = place.code(&["--uses", "1"]);
    succeeded(&place.join("web-3", &used_up));
    scene.publish();
    let before = scene.head().version;
    for code in [text(&revoked, "code"), used_up] {
        let rogue = smuggled(place, &code, "web-9");
        let lie = showing(place, &rogue, "web-1");
        let told = publish(&scene, &lie.address);
        refused(&told, "the gateway shows `web-9`");
        assert!(stderr(&told).contains("by the ledger, folded here, nobody was let in"), "{}", stderr(&told));
        // Nor does anybody sign about it what the gateway says of it.
        for words in [
            &["suspend", "web-9", "--yes"][..],
            &["node", "revoke", "web-9", "--yes"],
            &["node", "replace", "web-9", "--yes"],
        ] {
            let told = place.freehold(&[words, &["--gateway", &lie.address]].concat());
            refused(&told, "is not what was signed");
        }
    }
    assert_eq!(scene.head().version, before, "nothing was signed");
    // The other way round: one that the ledger knows, and the gateway calls something else.
    let lie = Between::about_nodes(place, |nodes| {
        for node in nodes.iter_mut().filter(|node| node.name.as_str() == "web-3") {
            node.state = Standing::Waiting;
        }
    });
    refused(&publish(&scene, &lie.address), "shows `web-3` as waiting");
    drop(lie);
    let told = scene.publish();
    assert_eq!(told["published"], true);
}
