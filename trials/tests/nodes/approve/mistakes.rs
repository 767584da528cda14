//! The wrong one of two, a use that is gone, a claim in other hands.

use org::invite::words::Words;
use rusqlite::Connection;
use trials::client::joiner::{Ground, Joiner, prove};
use trials::client::stranger::Dial;
use trials::place::{Place, refused, stderr, succeeded, text};
use wire::permit::Ask;

use super::{approve, begin, human, joined, turned_away, waiting, words};

#[test]
fn of_two_with_one_name_the_wrong_one_is_approved_and_then_replaced() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = human(&place, &["--uses", "2"]);
    let (right, wrong) = (begin(&place, "right", "web-1", &code), begin(&place, "wrong", "web-1", &code));
    let (rights, wrongs) = (words(&place, "right"), words(&place, "wrong"));
    assert_ne!(rights, wrongs);
    let unclear = place.freehold(&["node", "approve", "web-1"]);
    refused(&unclear, "2 machines fit");
    for shown in [&rights, &wrongs] {
        assert!(stderr(&unclear).contains(shown.as_str()), "{}", stderr(&unclear));
    }
    approve(&place, &wrongs);
    joined(&place, wrong, "web-1");
    let key = place.facts(&["node", "show", "web-1"])["node_key"].clone();
    turned_away(right, "the name `web-1` belongs to another machine");
    assert!(!place.scope("right").exists());
    // A yes that comes now finds nobody, and an operator puts it right.
    refused(&place.freehold(&["node", "approve", &rights, "--yes"]), "no such machine waits");
    let replaced = place.facts(&["node", "replace", "web-1", "--yes"]);
    succeeded(&place.node("right", &["join", "--name", "web-1"], &text(&replaced, "code")));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    assert_ne!(place.facts(&["node", "show", "web-1"])["node_key"], key);
}

#[test]
fn a_yes_is_no_use() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = human(&place, &[]);
    // Approved, but away.
    let away = place.node("away", &["join", "--name", "away", "--no-wait", "--json"], &code);
    let away: serde_json::Value = serde_json::from_slice(&away.stdout).unwrap();
    approve(&place, &text(&away, "words"));
    let late = begin(&place, "late", "late", &code);
    let lates = words(&place, "late");
    let quick = begin(&place, "quick", "quick", &code);
    approve(&place, &words(&place, "quick"));
    joined(&place, quick, "quick");
    let db = Connection::open(place.org().join("gateway/ledger.db")).unwrap();
    let kept: i64 = db.query_row("SELECT COUNT(*) FROM claims", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 0, "nobody can come in by it any more");
    turned_away(late, "the invite is used up");
    assert_eq!(waiting(&place).len(), 0);
    refused(&place.freehold(&["node", "approve", &lates, "--yes"]), "no such machine waits");
    refused(&place.join("away", &code), "the invite is used up");
}

#[test]
fn an_approved_claim_is_of_no_use_to_another_key() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = human(&place, &["--uses", "2"]);
    let (own, thief) = (Joiner::new(&code, "web-1"), Joiner::new(&code, "web-1"));
    let enroll = |make: &dyn Fn(Ground) -> wire::enroll::EnrollRequest| {
        let mut line = Dial::to(place.port).line();
        let ground = Ground::on(&mut line);
        line.code(Ask::Enroll, &make(ground))
    };
    assert_eq!(enroll(&|ground| own.request(ground)), "awaiting_approval");
    approve(&place, &Words::of(own.signed_claim().digest()).to_string());
    assert_eq!(enroll(&|ground| thief.request(ground)), "awaiting_approval", "the same name, another key");
    let hands = |ground: Ground| {
        let svid = thief.svid(ground.not_after);
        prove(own.signed_claim(), svid, ground, (&thief.invite_key(), &thief.node_key))
    };
    assert_eq!(enroll(&hands), "bad_proof", "the approved claim, under another key's proof");
    assert_eq!(enroll(&|ground| own.request(ground)), "ok");
    assert_eq!(enroll(&|ground| thief.request(ground)), "name_taken");
}
