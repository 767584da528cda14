//! Yes, no, too late; by one, by two; with all the words or fewer.

use std::process::Output;

use serde_json::json;
use trials::place::{Place, ended, mode, refused, stderr, stdout, succeeded, text};

use super::{approve, begin, human, joined, status, turned_away, waiting, words};

#[test]
fn a_machine_is_let_in_when_its_words_are_approved() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    let code = human(&place, &["--label", "rack 3"]);
    let join = begin(&place, "web-1", "web-1", &code);
    let words = words(&place, "web-1");
    let (told, rows) = (status(&place, "web-1").unwrap(), waiting(&place));
    assert_eq!((rows.len(), &rows[0]["claim"], &rows[0]["name"]), (1, &told["claim"], &json!("web-1")));
    assert_eq!((&rows[0]["address"], &rows[0]["invite_label"]), (&json!("127.0.0.1"), &json!("rack 3")));
    assert_eq!((&rows[0]["os"], &rows[0]["approvers"]), (&json!("linux"), &json!(1)));
    assert_eq!(words.split([' ', ',']).filter(|word| !word.is_empty()).count(), 7);
    assert_eq!(mode(&place.scope("web-1").join("waiting.key")), 0o600);
    assert_eq!(place.state_of("web-1"), None, "nothing of it is in the ledger");
    let decided = approve(&place, &words);
    assert_eq!((&decided["done"], &decided["approved_by"]), (&json!(true), &json!(["ann"])));
    joined(&place, join, "web-1");
    assert_eq!(waiting(&place).len(), 0);
    assert!(!place.scope("web-1").join("waiting.key").exists(), "the code is wiped");
    let audit: Vec<String> =
        place.facts(&["audit"]).as_array().unwrap().iter().map(|line| text(line, "action")).collect();
    assert!(audit.iter().any(|action| action == "node.approve"), "{audit:?}");
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn a_machine_that_is_denied_ends_with_its_keys_wiped() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = human(&place, &[]);
    let join = begin(&place, "web-1", "web-1", &code);
    words(&place, "web-1");
    succeeded(&place.freehold(&["node", "deny", "web-1", "--yes"]));
    turned_away(join, "an operator turned this machine away");
    assert!(!place.scope("web-1").exists());
    assert_eq!((waiting(&place).len(), place.state_of("web-1")), (0, None));
    // With new keys it may ask again.
    let join = begin(&place, "web-1", "web-1", &code);
    approve(&place, &words(&place, "web-1"));
    joined(&place, join, "web-1");
}

#[test]
fn nobody_looks_and_the_invite_ends() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let join = begin(&place, "web-1", "web-1", &human(&place, &["--ttl", "10s"]));
    words(&place, "web-1");
    turned_away(join, "nobody approved this machine in time");
    assert_eq!(waiting(&place).len(), 0);
    // A fresh code goes on where it was.
    succeeded(&place.join("web-1", &place.code(&[])));
}

#[test]
fn who_does_not_wait_is_told_and_goes_on_later() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = human(&place, &[]);
    let first = place.node("web-1", &["join", "--name", "web-1", "--no-wait", "--json"], &code);
    assert_eq!(first.status.code(), Some(5), "{}", stderr(&first));
    let told: serde_json::Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!((text(&told, "state"), told["claim"].is_string()), ("waiting".to_owned(), true));
    let again = place.node_command("web-1", &["join", "--no-wait"]);
    ended(&trials::place::output(again), 5, "an operator must approve this machine first");
    ended(&place.node("web-1", &["join", "--wait", "2s"], ""), 5, "an operator must approve this machine first");
    ended(&place.node("web-1", &["join"], "rubbish"), 2, "this is not an invite code");
    let doctor = place.node("web-1", &["doctor"], "");
    assert!(stdout(&doctor).contains("waits for an operator's approval"), "{}", stdout(&doctor));
    let found = place.freehold(&["doctor"]);
    assert!(stdout(&found).contains("1 machines wait for an operator"), "{}", stdout(&found));
    approve(&place, &text(&told, "words"));
    assert_eq!(waiting(&place)[0]["approved_by"], json!(["ann"]), "until it has come");
    succeeded(&trials::place::output(place.node_command("web-1", &["join"])));
    assert_eq!((place.state_of("web-1").as_deref(), waiting(&place).len()), (Some("member"), 0));
}

#[test]
fn less_than_all_words_is_never_taken_unseen() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let join = begin(&place, "web-1", "web-1", &human(&place, &[]));
    let words = words(&place, "web-1");
    let few: Vec<&str> = words.split([' ', ',']).filter(|word| !word.is_empty()).take(3).collect();
    let few = few.join(" ");
    let claim = text(&status(&place, "web-1").unwrap(), "claim");
    let say = |claim: &str, more: &[&str]| -> Output { place.freehold(&[&["node", "approve", claim], more].concat()) };
    for less in [few.as_str(), "web-1", &claim[..12]] {
        ended(&say(less, &["--yes"]), 2, "all seven words");
        let shown = say(less, &[]);
        ended(&shown, 2, "no terminal to ask at");
        assert!(stderr(&shown).contains(&words), "{}", stderr(&shown));
    }
    let other = "abbey abbey abbey abbey abbey abbey abbey";
    for nobody in ["web-2", other, "nonsense", "0123456789abcdef"] {
        refused(&say(nobody, &["--yes"]), "no such machine waits");
    }
    assert_eq!(place.state_of("web-1"), None);
    succeeded(&say(&claim, &["--yes"]));
    joined(&place, join, "web-1");
}

#[test]
fn two_approvers_are_two_people() {
    let place = Place::founded(&["--signers", "1-of-3"]);
    let to = place.path("ben").to_string_lossy().into_owned();
    succeeded(&place.freehold(&["signer", "hand-over", "ann-2", "--to", &to]));
    let _gateway = place.serve();
    let join = begin(&place, "web-1", "web-1", &human(&place, &["--approvers", "2"]));
    let words = words(&place, "web-1");
    let first = approve(&place, &words);
    assert_eq!((&first["done"], &first["approvers"]), (&json!(false), &json!(2)));
    refused(&place.freehold(&["node", "approve", &words, "--yes"]), "has approved it already");
    assert_eq!((place.state_of("web-1"), &waiting(&place)[0]["approved_by"]), (None, &first["approved_by"]));
    assert!(waiting(&place)[0]["approved_until"].is_string(), "{:?}", waiting(&place));
    let second = place.operator_facts("ben", &["node", "approve", &words, "--yes"]);
    assert_eq!(second["done"], true, "{second}");
    joined(&place, join, "web-1");
    ended(&place.freehold(&["invite", "create", "--approval", "human", "--approvers", "4"]), 1, "between 1 and 3");
}
