//! Turns that several operators sign, one after the other, by files.

use std::fs;

use trials::place::{Place, stdout, succeeded, until};

use super::{founder, is, states, told};

#[test]
fn two_of_two_sign_a_version_and_read_what_they_sign() {
    let place = Place::founded(&["--signers", "2-of-2"]);
    let other = place.path("other");
    fs::create_dir_all(other.join("harbor")).unwrap();
    place.copy(&place.org().join("operator"), &other.join("harbor/operator"));
    fs::remove_file(place.org().join("operator/signers/ann-2.key")).unwrap();
    for name in ["ann.key", "../identity-root.key", "../endpoint-root.key"] {
        let _ = fs::remove_file(other.join("harbor/operator/signers").join(name));
    }
    let gateway = place.serve();
    let file = place.path("turn.pending").to_string_lossy().into_owned();
    let waits = place.facts(&["trust", "publish", "endpoint", "--pending", &file]);
    assert_eq!(waits["pending"]["needs"].as_array().unwrap().len(), 2, "{waits}");
    is(&states(&place, "endpoint"), &[(1, "active")]);

    let signed = place.co_sign("other", &file);
    succeeded(&signed);
    let words = format!("{}{}", stdout(&signed), trials::place::stderr(&signed));
    assert!(words.contains("publishes trust bundle 2 of `endpoint`"), "{words}");
    assert!(words.contains("version 2 of `endpoint` is staged"), "{words}");
    succeeded(&place.operator("other", &["send", &file]));
    is(&states(&place, "endpoint"), &[(1, "active"), (2, "staged")]);

    let file = place.path("activate.pending").to_string_lossy().into_owned();
    let founder = founder(&place);
    succeeded(&place.freehold(&["trust", "activate", "endpoint", "--anyway", &founder, "--pending", &file]));
    let signed = place.co_sign("other", &file);
    let words = format!("{}{}", stdout(&signed), trials::place::stderr(&signed));
    assert!(words.contains("version 2 of `endpoint` is in use, no longer staged"), "{words}");
    assert!(words.contains("version 1 of `endpoint` is on its way out until"), "{words}");
    succeeded(&place.operator("other", &["send", &file]));
    is(&states(&place, "endpoint"), &[(1, "grace"), (2, "active")]);
    assert!(told(&place, "endpoint").iter().all(|line| line["result"] == "done"));
    drop(gateway);
}

#[test]
fn a_key_that_a_pending_names_is_not_drawn_again() {
    let place = Place::founded(&["--signers", "2-of-2"]);
    let other = place.path("other");
    fs::create_dir_all(other.join("harbor")).unwrap();
    place.copy(&place.org().join("operator"), &other.join("harbor/operator"));
    fs::remove_file(place.org().join("operator/signers/ann-2.key")).unwrap();
    fs::remove_file(other.join("harbor/operator/signers/ann.key")).unwrap();
    let _gateway = place.serve();
    let spare = place.org().join("gateway/identity-issuer.spare.key");
    until("the spare key lies ready", || spare.exists());
    let first = fs::read(&spare).unwrap();
    let replace = |name: &str| {
        let file = place.path(name).to_string_lossy().into_owned();
        let words = ["rotate", "identity", "--compromised", "--confirm", "harbor", "--pending", &file];
        succeeded(&place.freehold(&words));
        (file, fs::read(&spare).unwrap())
    };
    let (file, drawn) = replace("first.pending");
    assert!(drawn != first, "it is a new one");
    assert!(replace("second.pending").1 == drawn, "the first file names it");
    succeeded(&place.co_sign("other", &file));
    succeeded(&place.operator("other", &["send", &file]));
    is(&states(&place, "identity"), &[(1, "retired"), (2, "active")]);
    until("it issues with that key", || fs::read(place.org().join("gateway/identity-issuer.key")).unwrap() == drawn);
}
