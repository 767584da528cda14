//! Users and their machines: added, and revoked apart.

use serde_json::json;
use trials::place::{refused, stderr, stdout, succeeded, text};

use super::{QUAY, Scene};

#[test]
fn a_user_is_added_by_words_and_an_invite_for_exactly_one_machine() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.declare(QUAY);
    let before = std::fs::read(scene.place.path("fleet/fleet.yaml")).unwrap();
    let told = scene.place.facts(&["user", "add", "alice", "--node", "alice-laptop", "--role", "operator"]);
    assert_eq!(
        text(&told, "yaml"),
        "nodes:\n  alice-laptop:\nusers:\n  alice:\n    roles: [operator]\n    nodes: alice-laptop\n"
    );
    assert_eq!(std::fs::read(scene.place.path("fleet/fleet.yaml")).unwrap(), before, "no file is changed");
    let code = text(&told["invite"], "code");
    refused(&scene.place.join("web-1", &code), "");
    succeeded(&scene.place.join("alice-laptop", &code));
    // What was printed is a fleet.
    std::fs::write(scene.place.path("fleet/alice.yaml"), text(&told, "yaml")).unwrap();
    let users = || scene.place.facts(&["user", "list"]);
    let before = users();
    let planned = scene.place.facts(&["publish", "fleet", "--dry-run"]);
    assert_eq!(planned, scene.place.facts(&["plan", "fleet"]));
    assert_eq!(users(), before, "nothing was published");
    let published = scene.publish();
    assert_eq!(published["published"], true);
    let alice = json!({"name": "alice", "state": "user", "nodes": ["alice-laptop"], "classes": []});
    assert!(
        users().as_array().unwrap().contains(&alice) && !before.as_array().unwrap().contains(&alice),
        "{}",
        users()
    );
    let again = scene.place.freehold(&["user", "add", "alice", "--node", "other"]);
    refused(&again, "the fleet has a user `alice` already");
    let member = scene.place.facts(&["user", "add", "bob", "--node", "alice-laptop"]);
    assert_eq!(member["invite"], json!(null));
    assert_eq!(text(&member, "yaml"), "users:\n  bob:\n    nodes: alice-laptop\n");
    refused(&scene.place.freehold(&["user", "add", "bob", "--node", "x", "--role", "king"]), "no role `king`");
}

#[test]
fn alice_and_her_laptop_are_revoked_apart_and_each_says_what_it_does_not_do() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.place.joined("alice-laptop");
    scene.declare(&format!("{QUAY}\n  quiet:\n    at: quay\n    addr: 127.0.0.1:81\n    groups: pages"));
    std::fs::write(
        scene.place.path("fleet/alice.yaml"),
        "nodes:\n  alice-laptop:\nusers:\n  alice:\n    roles: operator\n    nodes: [alice-laptop, quay]\n",
    )
    .unwrap();
    scene.publish();
    refused(&scene.place.freehold(&["user", "revoke", "alic", "--yes"]), "no node may speak for");
    let revoked = scene.place.freehold(&["user", "revoke", "alice", "--yes"]);
    succeeded(&revoked);
    let plan = stderr(&revoked);
    assert!(plan.contains("at home on `alice-laptop`, `quay`"), "{plan}");
    assert!(plan.contains("NOT revoked: the machines that she uses"), "{plan}");
    assert!(stdout(&revoked).contains("refused at the gateways; confirmed by"), "{}", stdout(&revoked));
    assert_eq!(scene.place.state_of("alice-laptop").unwrap(), "member");
    let users = scene.place.freehold(&["user", "list"]);
    let listed = stdout(&users);
    let alice = listed.lines().find(|line| line.starts_with("alice")).unwrap();
    assert_eq!(alice.split_whitespace().collect::<Vec<_>>(), ["alice", "revoked", "alice-laptop,", "quay"]);
    let principal = "spiffe://harbor/user/alice".parse().unwrap();
    assert!(scene.head().revocations.principals.contains(&principal));
    refused(&scene.place.freehold(&["user", "add", "alice", "--node", "new-laptop"]), "");

    let revoked = scene.place.freehold(&["node", "revoke", "alice-laptop", "--yes"]);
    succeeded(&revoked);
    assert!(stderr(&revoked).contains("`alice` is not revoked, and stays on `quay`"), "{}", stderr(&revoked));
    assert_eq!(scene.place.state_of("alice-laptop").unwrap(), "revoked");
}

#[test]
fn a_revocation_while_no_gateway_serves_promises_nothing_for_now() {
    let scene = Scene::new();
    let gateway = scene.place.serve();
    scene.place.joined("web-1");
    gateway.stop();
    let revoked = scene.place.freehold(&["node", "revoke", "web-1", "--yes"]);
    succeeded(&revoked);
    assert!(stderr(&revoked).contains("cut as soon as a gateway serves: its SVID"), "{}", stderr(&revoked));
    let told = stdout(&revoked);
    assert!(
        told.contains("nobody hears of it until one does: freehold serve") && !told.contains("refused at"),
        "{told}"
    );
}
