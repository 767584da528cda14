//! Either side is killed while a machine waits: the same keys, the same claim, the same words.

use trials::place::{Place, text, until};

use super::{approve, begin, human, joined, status, waiting, words};

#[test]
fn a_gateway_that_is_killed_while_one_waits_knows_it_again() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let join = begin(&place, "web-1", "web-1", &human(&place, &[]));
    let (words, before) = (words(&place, "web-1"), waiting(&place));
    gateway.kill();
    let _gateway = place.serve();
    let after = waiting(&place);
    for field in ["words", "claim", "since", "hostname", "invite"] {
        assert_eq!(after[0][field], before[0][field], "{field}");
    }
    approve(&place, &words);
    joined(&place, join, "web-1");
}

#[test]
fn a_yes_is_found_by_one_who_was_away_when_it_was_said() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let join = begin(&place, "web-1", "web-1", &human(&place, &[]));
    let words = words(&place, "web-1");
    gateway.kill();
    // The operator's tool writes to the ledger itself; the machine finds no gateway meanwhile.
    approve(&place, &words);
    let _gateway = place.serve();
    joined(&place, join, "web-1");
}

#[test]
fn a_machine_that_is_killed_while_it_waits_shows_the_same_words() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = human(&place, &[]);
    let join = begin(&place, "web-1", "web-1", &code);
    let shown = words(&place, "web-1");
    join.kill();
    let join = begin(&place, "web-1", "web-1", &code);
    assert_eq!(words(&place, "web-1"), shown);
    assert_eq!(waiting(&place).len(), 1);
    join.kill();
    // Its agent goes on, without the code.
    let _agent = place.agent("web-1");
    approve(&place, &shown);
    until("the agent runs as a member", || {
        let told = place.node("web-1", &["status", "--json"], "");
        serde_json::from_slice::<serde_json::Value>(&told.stdout).is_ok_and(|told| told["running"] == true)
    });
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    assert!(!place.scope("web-1").join("waiting.key").exists());
}

#[test]
fn one_that_gives_up_leaves_nothing_behind() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = human(&place, &[]);
    begin(&place, "web-1", "web-1", &code).kill();
    let join = begin(&place, "web-1", "web-1", &code);
    words(&place, "web-1");
    join.kill();
    let claim = text(&status(&place, "web-1").unwrap(), "claim");
    trials::place::succeeded(&place.node("web-1", &["leave", "--local", "--yes"], ""));
    assert!(!place.scope("web-1").exists());
    let join = begin(&place, "web-1", "web-1", &code);
    let shown = words(&place, "web-1");
    assert_ne!(text(&status(&place, "web-1").unwrap(), "claim"), claim, "new keys, new words");
    approve(&place, &shown);
    joined(&place, join, "web-1");
}
