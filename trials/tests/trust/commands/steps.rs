//! Each step changes the head and leaves a line in the ledger; what cannot be done is refused, and says why.

use serde_json::Value;
use trials::place::{Place, refused, stdout, succeeded, text};

use super::{founder, is, states, told};

#[test]
fn a_version_is_staged_used_and_taken_back_and_the_ledger_tells_each_turn() {
    let place = Place::founded(&[]);
    let before = place.facts(&["trust", "publish", "endpoint"]);
    assert_eq!((&before["trust_bundle_version"], &before["replaces_version"]), (&2.into(), &1.into()));
    is(&states(&place, "endpoint"), &[(1, "active"), (2, "staged")]);
    is(&states(&place, "identity"), &[(1, "active")]);

    let founder = founder(&place);
    let now = place.facts(&["trust", "activate", "endpoint", "--grace", "3d", "--anyway", &founder]);
    is(&states(&place, "endpoint"), &[(1, "grace"), (2, "active")]);
    assert_eq!(now["sha256_fingerprint"], before["sha256_fingerprint"]);

    let back = place.facts(&["trust", "rollback", "endpoint", "--grace", "1d"]);
    assert_eq!((&back["trust_bundle_version"], &back["reverts"]), (&3.into(), &2.into()));
    is(&states(&place, "endpoint"), &[(1, "retired"), (2, "grace"), (3, "active")]);
    let again = place.freehold(&["trust", "rollback", "endpoint"]);
    refused(&again, "version 3 has taken version 2 back already");

    let lines = told(&place, "endpoint");
    let actions: Vec<_> = lines.iter().map(|line| text(line, "action")).collect();
    let expected = ["publish", "publish", "activate", "rollback"].map(|step| format!("bootstrap_trust.{step}"));
    assert_eq!(actions, expected);
    for line in &lines {
        assert_eq!((text(line, "actor"), text(line, "result")), ("signer/ann".to_owned(), "done".to_owned()), "{line}");
        assert_eq!(text(line, "environment"), "harbor");
        assert!(!text(line, "correlation").is_empty());
    }
    let row = |nth: usize| (&lines[nth]["version"], &lines[nth]["replaces"], &lines[nth]["roots"]);
    assert_eq!(row(1), (&2.into(), &1.into(), &before["sha256_fingerprint"]));
    assert_eq!(row(2), (&2.into(), &1.into(), &before["sha256_fingerprint"]));
    assert_eq!(row(3), (&3.into(), &2.into(), &lines[0]["roots"]), "a rollback names the founders' root again");
    assert_eq!((&lines[2]["grace"], &lines[2]["waived"]), (&now["grace"], &Value::from(vec![founder])));
    assert_eq!(lines[3]["grace"], back["grace"]);
    succeeded(&place.freehold(&["audit", "--verify"]));
}

#[test]
fn what_was_only_staged_goes_at_once_when_it_is_taken_back() {
    let place = Place::founded(&[]);
    succeeded(&place.freehold(&["trust", "publish", "identity"]));
    let back = place.freehold(&["trust", "rollback", "identity"]);
    succeeded(&back);
    assert!(stdout(&back).contains("version 2 is trusted no more"), "{}", stdout(&back));
    is(&states(&place, "identity"), &[(1, "retired"), (2, "retired"), (3, "active")]);
    // And the next one is a new root under a new number.
    succeeded(&place.freehold(&["trust", "publish", "identity"]));
    is(&states(&place, "identity"), &[(1, "retired"), (2, "retired"), (3, "active"), (4, "staged")]);
    assert!(place.org().join("operator/identity-root-4.key").exists());
}

#[test]
fn nobody_turns_to_a_version_that_a_member_has_not_taken_over() {
    let place = Place::founded(&[]);
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    let told = place.freehold(&["trust", "activate", "endpoint"]);
    refused(&told, &format!("`{}`: its agent never ran", founder(&place)));
    refused(&told, "--anyway NAME");
    refused(&place.freehold(&["trust", "activate", "endpoint", "--anyway", "another"]), "no node is called `another`");
    is(&states(&place, "endpoint"), &[(1, "active"), (2, "staged")]);
}

#[test]
fn what_cannot_be_done_is_refused_with_a_reason_of_its_own() {
    let place = Place::founded(&[]);
    refused(&place.freehold(&["trust", "activate", "endpoint"]), "no version of the `endpoint` bundle is staged");
    refused(&place.freehold(&["trust", "rollback", "endpoint"]), "version 1 has nothing before it");
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    refused(&place.freehold(&["trust", "publish", "endpoint"]), "version 2 is staged already");
    let founder = founder(&place);
    let long = ["trust", "activate", "endpoint", "--grace", "500d", "--anyway", &founder];
    refused(&place.freehold(&long), "a grace lasts between nothing and 400d");
    assert!(!place.org().join("operator/endpoint-root-3.key").exists(), "what is refused draws no root");
}

#[test]
fn the_other_domain_is_not_touched() {
    let place = Place::founded(&[]);
    succeeded(&place.freehold(&["trust", "publish", "identity"]));
    refused(&place.freehold(&["trust", "activate", "endpoint"]), "no version of the `endpoint` bundle is staged");
    refused(&place.freehold(&["trust", "rollback", "endpoint"]), "nothing before it");
    let unknown = place.freehold(&["trust", "publish", "both"]);
    trials::place::ended(&unknown, 2, "possible values: endpoint, identity");
}
