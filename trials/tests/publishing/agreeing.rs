//! Several operators: what one hands in, the others sign, and somebody sends.

use trials::place::{ended, stderr, succeeded, text};

use super::{QUAY, Scene};

fn two_of_three() -> Scene {
    let scene = Scene::founded(&["--signers", "2-of-3", "--node", "quay"]);
    for (signer, home) in [("ann-2", "ben"), ("ann-3", "cat")] {
        let to = scene.place.path(home).to_string_lossy().into_owned();
        succeeded(&scene.place.freehold(&["signer", "hand-over", signer, "--to", &to]));
    }
    scene
}

#[test]
fn a_fleet_and_a_rollback_wait_for_the_second_signature() {
    let scene = two_of_three();
    let _gateway = scene.place.serve();
    scene.declare(QUAY);
    scene.git(&["init", "-q"]);
    scene.git(&["add", "."]);
    scene.git(&["commit", "-q", "-m", "first"]);
    let commit = scene.git(&["rev-parse", "HEAD"]);
    let agree = |told: &serde_json::Value, words: &[&str]| {
        assert_eq!(told["published"], false, "{told}");
        let file = text(&told["pending"], "file");
        ended(&scene.place.operator("ben", &["send", &file, "--no-wait"]), 5, "needs 2 signatures and has 1");
        let shown = scene.place.operator("ben", &["sign", "--show", &file]);
        for words in words {
            assert!(stderr(&shown).contains(words), "`{words}` in {}", stderr(&shown));
        }
        succeeded(&scene.place.co_sign("ben", &file));
        succeeded(&scene.place.operator("ben", &["send", &file, "--no-wait"]));
        // This home hears of it.
        succeeded(&scene.place.freehold(&["node", "list"]));
    };
    let first = scene.publish();
    let root = text(&first, "root");
    agree(&first, &["to publish the fleet", &format!("names the members' map {root}"), &format!("commit {commit}")]);
    assert_eq!(scene.head().members.unwrap().to_string(), root);

    scene.declare(&QUAY.replace("8080", "9090"));
    scene.git(&["commit", "-q", "-a", "-m", "second"]);
    agree(&scene.publish(), &["to publish the fleet"]);
    assert_ne!(scene.head().members.unwrap().to_string(), root);
    // The second signer sees for himself what going back would name.
    let looked = scene.place.operator_facts("ben", &["rollback", "--dry-run"]);
    assert_eq!(text(&looked, "root"), root);
    agree(
        &scene.place.facts(&["rollback", "--yes", "--no-wait"]),
        &["to go back to what head 2 said of the fleet", &format!("commit {commit}")],
    );
    assert_eq!(scene.head().members.unwrap().to_string(), root);
    assert_eq!(scene.place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn a_fleet_that_others_overtook_must_be_looked_at_again() {
    let scene = two_of_three();
    let _gateway = scene.place.serve();
    scene.declare(QUAY);
    let slow = text(&scene.publish()["pending"], "file");
    scene.declare(&QUAY.replace("8080", "9090"));
    let told = scene.place.facts(&["publish", "--yes", "--no-wait", "--pending", "quick"]);
    assert_eq!(told["published"], false);
    succeeded(&scene.place.co_sign("ben", "quick"));
    succeeded(&scene.place.operator("ben", &["send", "quick", "--no-wait"]));
    let late = scene.place.co_sign("ben", &slow);
    trials::place::ended(&late, 1, "it would not follow what is so now");
}

#[test]
fn a_revocation_that_several_signed_tells_who_has_confirmed_it_when_it_is_sent() {
    let scene = two_of_three();
    let _gateway = scene.place.serve();
    let invite = scene.place.invite(&["--uses", "2"]);
    let agree = |told: &serde_json::Value, words: &[&str]| {
        let file = text(&told["pending"], "file");
        succeeded(&scene.place.co_sign("ben", &file));
        scene.place.operator_facts("ben", &[&["send", &file], words].concat())
    };
    agree(&invite, &[]);
    for name in ["web-1", "web-2"] {
        succeeded(&scene.place.join(name, &text(&invite, "code")));
    }
    let _agent = scene.place.agent("web-1");
    let begun = scene.place.facts(&["node", "revoke", "web-2", "--yes"]);
    assert_eq!(begun["confirmed"], serde_json::json!([]), "nothing is revoked yet");
    let sent = agree(&begun, &["--wait", "60s"]);
    let confirmed = sent["confirmed"].as_array().unwrap();
    assert!(confirmed.contains(&"web-1".into()) && !confirmed.contains(&"web-2".into()), "{sent}");
    assert_eq!(sent["waiting_for"], serde_json::json!([]), "{sent}");
}
