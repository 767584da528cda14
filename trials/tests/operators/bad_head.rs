//! Operators go round a bad head: every machine follows, and nothing that was taken away comes back.

use serde_json::{Value, json};
use trials::attack::thief::Thief;
use trials::place::{Place, Running, ended, stderr, succeeded, text, until};

struct Scene {
    place: Place,
    _running: Vec<Running>,
}

/// A gateway `quay`, and two machines whose agents follow head 2.
fn scene() -> Scene {
    let place = Place::founded(&["--node", "quay"]);
    let mut running = vec![place.serve()];
    for name in ["web-1", "web-2"] {
        place.joined(name);
        running.push(place.agent(name));
    }
    let scene = Scene { place, _running: running };
    assert_eq!(scene.place.facts(&["refresh"])["head"], 2);
    scene.all_report(2);
    scene
}

impl Scene {
    /// They have it on their disks, and the operator hears so from their own signed reports.
    fn all_report(&self, head: u64) {
        let digest = Thief::of(&self.place).known().head.digest.to_string();
        for name in ["web-1", "web-2"] {
            until("it follows", || self.place.status(name)["head"] == head);
            until("it reports", || reported(&self.place, name)["digest"] == json!(digest));
        }
    }

    fn mandate(&self) -> Value {
        self.place.facts(&["mandate", "list"])[0].clone()
    }
}

fn reported(place: &Place, name: &str) -> Value {
    place.facts(&["node", "show", name])["report"]["head"].clone()
}

#[test]
fn operators_go_round_a_bad_head_and_both_machines_follow_and_report() {
    let scene = scene();
    let place = &scene.place;
    let life = scene.mandate()["svid_ttl"].clone();
    // A root that nobody should have published, then a mandate that nobody should have changed; somebody is revoked, too.
    place.facts(&["trust", "publish", "identity"]);
    place.joined("web-3");
    place.facts(&["node", "revoke", "web-3", "--yes"]);
    place.facts(&["mandate", "change", "quay", "--svid-ttl", "2h", "--yes"]);
    scene.all_report(5);
    assert_ne!(scene.mandate()["svid_ttl"], life);

    ended(&place.freehold(&["refresh", "--around", "5", "--yes"]), 1, "head 5 is the one in force");
    ended(&place.freehold(&["refresh", "--around", "77", "--yes"]), 1, "no head of the signers in force `77`");
    let asked = place.freehold(&["refresh", "--around", "2"]);
    ended(&asked, 2, "this needs a yes");
    for words in [
        "goes round head 5, on from head 2",
        "goes back to what head 2 said",
        "CHANGES THE MANDATE of `quay`",
        "version 2 of `identity` is trusted NO MORE, no longer staged",
        "what was taken away since head 2 stays so:",
        "revokes the node key",
    ] {
        assert!(stderr(&asked).contains(words), "`{words}` in {}", stderr(&asked));
    }
    assert_eq!(Thief::of(place).known().head.head.version, 5, "nothing was signed");

    let told = place.facts(&["refresh", "--around", "2", "--yes"]);
    assert_eq!(
        (&told["head"], &told["around"]["follows"], &told["around"]["goes_round"]),
        (&json!(6), &json!(2), &json!(5))
    );
    assert_eq!((&told["lists"], &told["leaves_waiting"], &told["pending"]), (&json!([]), &json!([]), &Value::Null));
    scene.all_report(6);
    assert_eq!(scene.mandate()["svid_ttl"], life);
    assert_eq!(place.state_of("web-3").as_deref(), Some("revoked"));
    // Nobody goes by the root, and its number is not used again.
    let versions = |listed: &Value| -> Vec<(u64, String)> {
        let rows = listed.as_array().unwrap().iter().filter(|row| row["domain"] == "identity");
        rows.map(|row| (row["trust_bundle_version"].as_u64().unwrap(), text(row, "state"))).collect()
    };
    assert_eq!(versions(&place.facts(&["trust", "list"])), [(1, "active".to_owned()), (2, "retired".to_owned())]);
    place.facts(&["trust", "publish", "identity"]);
    scene.all_report(7);
    assert_eq!(versions(&place.facts(&["trust", "list"])).last().unwrap(), &(3, "staged".to_owned()));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn a_co_signer_holds_a_way_round_against_the_head_that_it_follows() {
    let place = Place::founded(&["--signers", "2-of-3", "--node", "quay"]);
    for (signer, home) in [("ann-2", "ben"), ("ann-3", "cat")] {
        let to = place.path(home).to_string_lossy().into_owned();
        succeeded(&place.freehold(&["signer", "hand-over", signer, "--to", &to]));
    }
    let _gateway = place.serve();
    let agree = |told: &Value| {
        let file = text(&told["pending"], "file");
        let signed = place.co_sign("ben", &file);
        succeeded(&signed);
        succeeded(&place.operator("ben", &["send", &file]));
        succeeded(&place.freehold(&["node", "list"]));
        stderr(&signed)
    };
    agree(&place.facts(&["refresh"]));
    agree(&place.facts(&["mandate", "change", "quay", "--svid-ttl", "2h", "--yes"]));
    let shown = agree(&place.facts(&["refresh", "--around", "2", "--yes"]));
    for words in ["GOES ROUND head 3", "goes back to what head 2 said", "CHANGES THE MANDATE of `quay`"] {
        assert!(shown.contains(words), "`{words}` in {shown}");
    }
    assert_eq!(Thief::of(&place).known().head.head.version, 4);
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}
