//! Could she reach it then, and by whose signature?

use serde_json::Value;
use trials::attack::between::Between;
use trials::place::{Place, ended, refused, stderr, stdout, succeeded};
use wire::control::ControlAnswer;

use super::moment;
use crate::publishing::{QUAY, Scene};

fn alice(scene: &Scene, roles: &str) {
    let text = format!("nodes:\n  alice-laptop:\nusers:\n  alice:\n    nodes: alice-laptop\n{roles}");
    std::fs::write(scene.place.path("fleet/alice.yaml"), text).unwrap();
    assert_eq!(scene.publish()["published"], true);
}

/// The answer, whichever it is.
fn could(place: &Place, at: &str, who: &str) -> Value {
    let told = place.freehold(&["audit", "--at", at, "--can", who, "wiki", "--json"]);
    assert!(matches!(told.status.code(), Some(0 | 3)), "{}", stderr(&told));
    let answer: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(answer["allowed"] == true, told.status.success());
    answer
}

fn head_at(answer: &Value) -> u64 {
    answer["head"]["version"].as_u64().unwrap()
}

#[test]
fn alice_could_then_could_not_and_each_answer_names_its_head_and_who_signed_it() {
    let scene = Scene::founded(&["--node", "quay", "--signers", "2-of-2"]);
    let _gateway = scene.place.serve();
    let bare = moment();
    scene.place.joined("alice-laptop");
    scene.declare(QUAY);
    scene.publish();
    let before = moment();
    alice(&scene, "    roles: operator\n");
    let first = moment();
    alice(&scene, "");
    let without = moment();
    alice(&scene, "    roles: operator\n");
    let again = moment();
    succeeded(&scene.place.freehold(&["node", "revoke", "alice-laptop", "--yes"]));
    let after = moment();

    // Before she was there: she is known by now, and could not.
    let told = could(&scene.place, &bare, "alice");
    assert_eq!((told["allowed"].as_bool(), head_at(&told)), (Some(false), 1));
    assert!(told["against"][0].as_str().unwrap().contains("no fleet was published"), "{told}");
    let told = could(&scene.place, &before, "alice");
    assert_eq!(told["against"][0], "user alice was at home on no node");
    assert_eq!((told["since"]["edge"].as_str(), told["until"]["edge"].as_str()), (Some("open"), Some("at")));

    let told = could(&scene.place, &first, "alice");
    assert_eq!((told["allowed"].as_bool(), head_at(&told)), (Some(true), 3));
    assert_eq!(
        told["ways"][0]["words"],
        "from alice-laptop to wiki on quay, by the row \"user alice, on alice-laptop\""
    );
    assert_eq!((told["since"]["head"].as_u64(), told["until"]["head"].as_u64()), (Some(3), Some(4)));
    assert_eq!(told["since"]["by"][0], "fleet.publish fleet by signer/ann");
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|signer| signer["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&told["head"]["signed_by"]), ["ann", "ann-2"]);
    assert_eq!(names(&told["head"]["signers"]["signers"]), ["ann", "ann-2"]);
    assert_eq!(told["head"]["signers"]["threshold"], 2);
    let keys: Vec<_> = told["head"]["signed_by"].as_array().unwrap().iter().map(|it| it["key"].clone()).collect();
    assert!(keys[0] != keys[1] && keys[0].as_str().unwrap().starts_with("ed25519:"), "{keys:?}");

    let told = could(&scene.place, &without, "user/alice");
    assert_eq!((told["allowed"].as_bool(), head_at(&told)), (Some(false), 4));
    assert_eq!(told["against"][0], "no row of wiki on quay let user alice in");
    assert_eq!((told["since"]["head"].as_u64(), told["until"]["head"].as_u64()), (Some(4), Some(5)));

    let told = could(&scene.place, &again, "spiffe://harbor/user/alice@alice-laptop");
    assert_eq!((told["allowed"].as_bool(), told["until"]["head"].as_u64()), (Some(true), Some(6)));
    assert_eq!(told["until"]["by"][0], "node.revoke alice-laptop by signer/ann");
    let told = could(&scene.place, &again, "alice@quay");
    assert_eq!(told["against"][0], "user alice was not at home on quay");

    let told = could(&scene.place, &after, "alice");
    assert_eq!((told["allowed"].as_bool(), head_at(&told)), (Some(false), 6));
    assert_eq!(told["against"][0], "alice-laptop was revoked");
    assert_eq!((told["since"]["head"].as_u64(), told["until"]["edge"].as_str()), (Some(6), Some("open")));
    // The answer of then is still the same.
    assert_eq!(could(&scene.place, &first, "alice")["allowed"], true);

    let words = scene.place.freehold(&["audit", "--at", &first, "--can", "alice", "wiki"]);
    succeeded(&words);
    let words = stdout(&words);
    for part in
        ["yes: spiffe://harbor/user/alice could reach `wiki`", "signed by `ann` (ed25519:", "of signer set 1, 2 of 2"]
    {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn a_suspended_laptop_could_not_for_as_long_and_a_node_speaks_for_itself() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.place.joined("alice-laptop");
    scene.declare(QUAY);
    alice(&scene, "    roles: operator\n");
    let good = moment();
    succeeded(&scene.place.freehold(&["suspend", "alice-laptop", "--for", "1h", "--reason", "lost", "--yes"]));
    let bad = moment();
    let told = could(&scene.place, &good, "alice");
    assert_eq!(told["allowed"], true);
    assert_eq!(told["until"]["by"][0], "node.suspend alice-laptop by signer/ann");
    let told = could(&scene.place, &bad, "alice");
    assert!(told["against"][0].as_str().unwrap().contains("alice-laptop was suspended by ann until"), "{told}");
    // No role of its own.
    let told = could(&scene.place, &good, "alice-laptop");
    assert_eq!(told["against"][0], "no row of wiki on quay let node alice-laptop in");
}

#[test]
fn a_question_that_has_no_answer_is_refused_with_words() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.declare(QUAY);
    scene.publish();
    let ask = |at: &str, who: &str, what: &str| scene.place.freehold(&["audit", "--at", at, "--can", who, what]);
    ended(&ask("0s", "anm", "wiki"), 2, "no user, service or node is known by the name `anm`; did you mean `ann`?");
    ended(&ask("0s", "ann", "wikki"), 2, "no service is known by the name `wikki`; did you mean `wiki`?");
    ended(&ask("2001-01-01", "ann", "wiki"), 2, "2001-01-01T00:00:00Z is before the org was founded, at 20");
    ended(&ask("2999-01-01T00:00:00Z", "ann", "wiki"), 2, "2999-01-01T00:00:00Z has not come yet: it is 20");
    ended(&ask("yesterday", "ann", "wiki"), 2, "is no time");
    ended(&ask("0s", "king/ann", "wiki"), 2, "is not a user, service or node");
    ended(&ask("0s", "spiffe://other/user/ann", "wiki"), 2, "`other` is another org");
    ended(&scene.place.freehold(&["audit", "--at", "3d"]), 2, "--can");
    succeeded(&ask("0s", "ann", "wiki"));
}

#[test]
fn a_service_that_is_long_gone_is_known_at_every_moment_also_now() {
    /// More maps than are read on either side of a moment.
    const MORE: u32 = 50;
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.declare(QUAY);
    scene.publish();
    let with_notes = moment();
    for port in 0..MORE {
        scene.declare(&QUAY.replace("wiki", "pages-of-now").replace("8080", &(20_000 + port).to_string()));
        assert_eq!(scene.publish()["published"], true, "{port}");
    }
    assert_eq!(could(&scene.place, &with_notes, "ann")["what"], "wiki");
    let now = scene.place.freehold(&["audit", "--can", "ann", "wiki", "--json"]);
    assert_eq!(now.status.code(), Some(3), "{}", stderr(&now));
    ended(&scene.place.freehold(&["audit", "--can", "ann", "wikki"]), 2, "no service is known by the name `wikki`");
}

#[test]
fn the_roles_of_then_are_told_from_the_tree_that_the_head_names() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.place.joined("alice-laptop");
    scene.declare(QUAY);
    scene.git(&["init", "-q"]);
    let commit = |roles: &str| {
        let text = format!("nodes:\n  alice-laptop:\nusers:\n  alice:\n    nodes: alice-laptop\n{roles}");
        std::fs::write(scene.place.path("fleet/alice.yaml"), text).unwrap();
        scene.git(&["add", "."]);
        scene.git(&["commit", "-q", "-m", "alice"]);
        assert_eq!(scene.publish()["published"], true);
    };
    commit("    roles: operator\n");
    let first = moment();
    commit("");
    let told = could(&scene.place, &first, "alice");
    assert_eq!(told["allowed"], true);
    assert_eq!(told["roles"][0], "user alice has role operator; operator allows group pages; service wiki is in pages");
    let told = could(&scene.place, &moment(), "alice");
    assert_eq!(told["roles"][0], "user alice has no role");
    // Without the repository, the rows remain.
    std::fs::remove_dir_all(scene.place.path("fleet/.git")).unwrap();
    let told = could(&scene.place, &first, "alice");
    assert_eq!((told["allowed"].as_bool(), told["roles"].as_array().map(Vec::len)), (Some(true), Some(0)));
}

#[test]
fn a_gateway_that_withholds_a_map_or_an_entry_is_told_which_and_nothing_is_guessed() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.declare(QUAY);
    scene.publish();
    let root = scene.head().members.unwrap().to_string();
    let ask = |gateway: &str| {
        // A home that has the map asks nobody for it.
        std::fs::remove_dir_all(scene.place.org().join("operator/replica")).unwrap();
        scene.place.freehold(&["audit", "--can", "ann", "wiki", "--gateway", gateway])
    };

    let lie = Between::changing(&scene.place, |answer| match answer {
        ControlAnswer::Map { .. } => ControlAnswer::Map { leaves: Vec::new(), next: None },
        other => other,
    });
    let told = ask(&lie.address);
    ended(&told, 1, "which the gateway no longer has");
    assert!(stderr(&told).contains(&root) && stderr(&told).contains("head 2"), "{}", stderr(&told));
    drop(lie);

    // Other bytes than those that were published are as good as none.
    let lie = Between::changing(&scene.place, |answer| match answer {
        ControlAnswer::Blobs { blobs } => ControlAnswer::Blobs {
            blobs: blobs.into_iter().map(|blob| identity::text::Bytes([blob.0, vec![b' ']].concat())).collect(),
        },
        other => other,
    });
    ended(&ask(&lie.address), 1, "which the gateway no longer has");
    drop(lie);

    // An entry that this operator knows of is not there any more.
    let lie = Between::changing(&scene.place, |answer| match answer {
        ControlAnswer::Beyond { mut entries, more } => {
            entries.pop();
            ControlAnswer::Beyond { entries, more }
        }
        other => other,
    });
    refused(&ask(&lie.address), "does not bring them");
    drop(lie);
    succeeded(&ask(&scene.place.address()));
}
