//! What waits for signatures is not done, whichever command left it: exit code 5, one field in JSON, and nothing has changed.

use std::process::Output;

use serde_json::Value;
use trials::place::{Place, stderr, stdout, succeeded, text};

/// `ann` here, and `ann-2` in the home `ben`.
fn two_of_two() -> Place {
    let place = Place::founded(&["--signers", "2-of-2", "--node", "quay"]);
    let to = place.path("ben").to_string_lossy().into_owned();
    succeeded(&place.freehold(&["signer", "hand-over", "ann-2", "--to", &to]));
    place
}

/// Exit code 5 and nothing else, and the one field that says so.
fn waits(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(5), "{}{}", stdout(output), stderr(output));
    let told = if output.stdout.is_empty() { stderr(output) } else { stdout(output) };
    let told: Value = serde_json::from_str(&told).unwrap_or_else(|why| panic!("{why}: {told}"));
    assert_eq!(told["waits_for_signatures"], true, "{told}");
    told
}

fn done(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(output), stderr(output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["waits_for_signatures"], false, "{told}");
    told
}

fn freehold(place: &Place, words: &[&str]) -> Output {
    place.freehold(&[words, &["--json"]].concat())
}

fn ben(place: &Place, words: &[&str]) -> Output {
    place.operator("ben", &[words, &["--json"]].concat())
}

fn agree(place: &Place, told: &Value) {
    let file = text(&told["pending"], "file");
    succeeded(&place.operator("ben", &["node", "list"]));
    done(&ben(place, &["sign", &file, "--yes"]));
    done(&ben(place, &["send", &file]));
}

#[test]
fn with_two_of_two_a_revocation_ends_with_5_and_revokes_nobody() {
    let place = two_of_two();
    let _gateway = place.serve();
    let invite = waits(&freehold(&place, &["invite", "create"]));
    agree(&place, &invite);
    succeeded(&place.join("web-1", &text(&invite, "code")));
    let revoked = waits(&freehold(&place, &["node", "revoke", "web-1", "--yes"]));
    assert_eq!(revoked["revoked"], false);
    assert_eq!(place.state_of("web-1").unwrap(), "member");
    agree(&place, &revoked);
    assert_eq!(place.state_of("web-1").unwrap(), "revoked");
}

#[test]
fn whatever_waits_for_a_signature_ends_with_5_and_says_so_by_one_field() {
    let place = two_of_two();
    let _gateway = place.serve();
    let invite = waits(&freehold(&place, &["invite", "create"]));
    // Delivered too early it is not refused for ever: it waits.
    waits(&ben(&place, &["send", &text(&invite["pending"], "file")]));
    agree(&place, &invite);
    succeeded(&place.join("web-1", &text(&invite, "code")));
    for words in [
        &["refresh"][..],
        &["invite", "revoke", &text(&invite, "id"), "--yes"],
        &["node", "replace", "web-1", "--yes"],
        &["invite", "create", "--approval", "human"],
        &["signer", "add", "cat", "--unprotected", "--yes"],
    ] {
        let before = place.facts(&["status"])["head"]["version"].clone();
        let output = freehold(&place, words);
        assert_ne!(output.status.code(), Some(2), "{}", stderr(&output));
        waits(&output);
        assert_eq!(place.facts(&["status"])["head"]["version"], before, "{words:?}");
    }
    let waived = waits(&freehold(&place, &["invite", "approve", "db-*", "--yes"]));
    assert_eq!(place.facts(&["invite", "waivers"]).as_array().map(Vec::len), Some(0), "it counts for nothing yet");
    agree(&place, &waived);
    let waivers = place.facts(&["invite", "waivers"]);
    assert_eq!((&waivers[0]["id"], waivers[0]["signed"].as_array().map(Vec::len)), (&waived["id"], Some(2)));
}
