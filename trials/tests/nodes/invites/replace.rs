//! A machine that was reinstalled: its old key keeps it its name.

use trials::place::{Place, refused, succeeded, text};

use crate::publishing::Scene;

/// The old node key, saved before the disk was wiped.
fn reinstalled(place: &Place, node: &str) -> String {
    let saved = place.path(&format!("{node}.key"));
    place.copy(&place.scope(node).join("node.key"), &saved);
    std::fs::remove_dir_all(place.root(node)).unwrap();
    saved.to_string_lossy().into_owned()
}

#[test]
fn the_old_key_keeps_the_name_and_is_over() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let place = &scene.place;
    place.joined("web-1");
    scene.declare("nodes:\n  quay:\n  web-1:");
    scene.publish();
    place.copy(&place.root("web-1"), &place.root("ghost"));
    let key = reinstalled(place, "web-1");
    let code = place.code(&["--uses", "5"]);
    refused(&place.join("web-1", &code), "the name `web-1` belongs to another machine");
    // A listed name changes hands with the next head, not before.
    refused(
        &place.node("web-1", &["join", "--name", "web-1", "--old-key", &key], &code),
        "`web-1` changes hands with the operators' next head",
    );
    succeeded(&place.freehold(&["refresh"]));
    succeeded(&place.node("web-1", &["join", "--name", "web-1", "--old-key", &key], &code));
    // Both stand under the name, and may have come in one second.
    let nodes = place.facts(&["node", "list"]);
    let mut states: Vec<_> = nodes.as_array().unwrap().iter().filter(|row| row["name"] == "web-1").collect();
    states.sort_by_key(|row| text(row, "state"));
    assert_eq!(states.iter().map(|row| text(row, "state")).collect::<Vec<_>>(), ["member", "revoked"]);
    assert!(!place.scope("web-1").join("old.key").exists(), "the old key is of no use any more");
    // The head that handed the name on lists the new key, as what the old one was meant to be.
    succeeded(&place.node("web-1", &["sync"], ""));
    // What is left of the old machine is nothing any more.
    let ghost = place.node("ghost", &["sync"], "");
    assert!(!ghost.status.success(), "{}", trials::place::stdout(&ghost));
    refused(
        &place.node("other", &["join", "--name", "web-1", "--old-key", &key], &code),
        "was revoked and can never return",
    );
    scene.publish();
    succeeded(&place.node("web-1", &["sync"], ""));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn an_old_key_gives_its_own_name_only_and_nothing_when_it_is_revoked() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    place.joined("web-2");
    let key = reinstalled(&place, "web-1");
    let code = place.code(&["--uses", "5"]);
    let with_key = |name: &str, key: &str| place.node("new", &["join", "--name", name, "--old-key", key], &code);
    refused(&with_key("web-2", &key), "does not know such an admission");
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    refused(&with_key("web-1", &key), "this machine's key was revoked and can never return");
    assert!(!place.scope("new").exists());
    // Without it, `node replace` is the way.
    let told = place.facts(&["node", "replace", "web-1", "--yes"]);
    succeeded(&place.join("web-1", &trials::place::text(&told, "code")));
}
