//! Whom a head newly lists, and whose keys it ends, is seen by whoever signs it; a co-signer holds it against its own home.

use serde_json::{Value, json};
use trials::place::{Place, ended, json as facts, stderr, succeeded, text};

#[test]
fn a_command_that_signs_a_head_names_whom_it_lists_and_whose_key_it_ends() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    assert_eq!(place.facts(&["refresh"])["lists"], json!(["quay"]), "the first head names no map");
    place.joined("web-1");
    place.joined("web-2");
    let refreshed = place.freehold(&["refresh"]);
    succeeded(&refreshed);
    assert!(stderr(&refreshed).contains("lists 2 new members: web-1, web-2\n"), "{}", stderr(&refreshed));
    assert_eq!(place.facts(&["refresh"])["lists"], json!([]), "they are listed by now");
    place.joined("web-3");
    let revoked = place.facts(&["node", "revoke", "web-2", "--yes"]);
    assert_eq!((&revoked["lists"], &revoked["revokes_keys"]), (&json!(["web-3"]), &json!(["web-2"])));
    assert_eq!(revoked["leaves_waiting"], json!([]));
}

/// One key stays with ann, the others go to homes of their own.
fn two_of_three() -> (Place, String) {
    let place = Place::founded(&["--signers", "2-of-3", "--node", "quay"]);
    let code = place.code(&["--uses", "3"]);
    for (signer, home) in [("ann-2", "ben"), ("ann-3", "cat")] {
        let to = place.path(home).to_string_lossy().into_owned();
        succeeded(&place.freehold(&["signer", "hand-over", signer, "--to", &to]));
    }
    (place, code)
}

#[test]
fn a_co_signer_sees_whom_a_head_lists_and_signs_for_nobody_whom_its_own_home_does_not_know() {
    let (place, code) = two_of_three();
    let _gateway = place.serve();
    succeeded(&place.operator("ben", &["node", "list"]));
    for node in ["web-1", "web-2"] {
        succeeded(&place.join(node, &code));
    }
    let told = place.facts(&["refresh"]);
    assert_eq!(told["lists"], json!(["quay", "web-1", "web-2"]));
    let file = text(&told["pending"], "file");
    // Of these machines this home has not heard: it does not take another operator's word.
    let unheard = place.operator("ben", &["sign", &file, "--yes"]);
    ended(&unheard, 3, "it lists `web-1`, of which this home's copy of the ledger knows nothing (and 1 more)");
    assert!(stderr(&unheard).contains("freehold node list, then sign again"), "{}", stderr(&unheard));
    let shown = facts(&place.operator("ben", &["sign", "--show", &file, "--json"]));
    assert_eq!((shown["contradicts"].as_array().unwrap().len(), &shown["not_compared"]), (2, &Value::Null));

    // Whoever writes somebody out of the file changes what it says, not what is signed.
    let mut hidden: Value = serde_json::from_slice(&std::fs::read(place.path(&file)).unwrap()).unwrap();
    hidden["listing"]["come"].as_array_mut().unwrap().pop();
    std::fs::write(place.path("hidden"), hidden.to_string()).unwrap();
    ended(&place.operator("ben", &["sign", "hidden", "--yes"]), 1, "it shows other members than its head names");

    succeeded(&place.operator("ben", &["node", "list"]));
    let signed = place.operator("ben", &["sign", &file, "--yes"]);
    succeeded(&signed);
    assert!(stderr(&signed).contains("lists 3 new members: quay, web-1, web-2\n"), "{}", stderr(&signed));
    succeeded(&place.operator("ben", &["send", &file, "--no-wait"]));
    assert_eq!(place.facts(&["refresh"])["lists"], json!([]), "they are listed by now");
}
