//! Heads that newer ones lead back to lie on the disk alone, and are read again where something is judged by them.

use ground::clock;
use identity::id::Digest;
use ledger::store::Ledger;
use org::ledger::entry::Action;
use org::state::State;
use trials::attack::intruder::Intruder;
use trials::attack::thief::Thief;
use trials::place::{Place, stdout, succeeded, text, until};

fn state(place: &Place) -> State {
    let (ledger, founding) = Ledger::open(&place.org().join("gateway/ledger.db")).unwrap();
    ledger.state(&founding, clock::now()).unwrap()
}

#[test]
fn a_head_that_others_led_back_to_is_read_again_when_somebody_goes_round_them() {
    let place = Place::founded(&[]);
    let first = Thief::of(&place).known().head;
    let invite = place.invite(&[]);
    succeeded(&place.freehold(&["invite", "revoke", &text(&invite, "id"), "--yes"]));
    for _ in 0..3 {
        succeeded(&place.freehold(&["refresh"]));
    }
    let before = state(&place);
    assert_eq!((before.heads().count(), before.replica.heads.whole_count()), (5, 1));
    // Operators go round all that came since the first: that stands beside, and takes away what it took away.
    let around = Thief::of(&place).head(|head| {
        *head = first.head.clone();
        head.version = 9;
        head.previous = vec![first.digest];
        head.issued_at = clock::now();
    });
    let intruder = Intruder::at(place.org().join("gateway"));
    intruder.put(&intruder.says(Action::Take { envelope: around.clone() }));
    let after = state(&place);
    assert_eq!(after.head().unwrap().digest, around.digest());
    let rivals: Vec<u64> = after.judged.ground.rivals.iter().map(|rival| rival.head.version).collect();
    assert_eq!(rivals, [5, 4, 3, 2], "all of them are whole");
    assert!(after.revoked().invite_is_revoked(text(&invite, "id").parse().unwrap()));
    let passed: Vec<Digest> = after.judged.ground.reached.iter().copied().filter(|it| *it != around.digest()).collect();
    assert_eq!(passed, [first.digest]);
    assert!(after.replica.heads.get(&first.digest).is_none(), "that one was passed");
    // What was read piece by piece is what the entries say.
    let told = intruder.state();
    assert_eq!((&told.judged.ground, &told.judged.fold), (&after.judged.ground, &after.judged.fold));
    let status = place.facts(&["status"]);
    let shown: Vec<_> = status["rivals"].as_array().unwrap().iter().map(|rival| rival["version"].clone()).collect();
    assert_eq!(shown, [5, 4, 3, 2]);
    assert_eq!(status["rivals"][3]["takes_away"][0], format!("revokes the invite {}", text(&invite, "id")));
    let alarms = status["alarms"].to_string();
    assert!(alarms.contains("signed by ann, stands beside head 9, which does not know of it: it revokes the invite"));
    // And the next command goes on from there.
    succeeded(&place.freehold(&["refresh"]));
    assert_eq!(state(&place).head().unwrap().head.version, 10);
}

#[test]
fn a_machine_tells_the_operators_of_a_head_that_it_left() {
    let place = Place::founded(&["--node", "quay"]);
    let (first, gateway) = (Thief::of(&place).known().head, place.serve());
    place.joined("web-1");
    let _web = place.agent("web-1");
    succeeded(&place.freehold(&["refresh"]));
    let bad = Thief::of(&place).known().head;
    until("it follows", || place.status("web-1")["head"] == bad.head.version);
    assert_eq!(place.facts(&["status"])["heads_left"], serde_json::json!([]));
    drop(gateway);
    let around = Thief::of(&place).head(|head| {
        head.version = 9;
        head.previous = vec![first.digest];
        head.recent.clear();
        head.issued_at = clock::now();
    });
    let intruder = Intruder::at(place.org().join("gateway"));
    intruder.put(&intruder.says(Action::Take { envelope: around }));
    let _gateway = place.serve();
    until("it follows the higher one", || place.status("web-1")["head"] == 9);
    let left = || place.facts(&["status"])["heads_left"].clone();
    let told = serde_json::json!({ "node": "web-1", "version": bad.head.version, "digest": bad.digest });
    until("it says which it left", || left().as_array().unwrap().contains(&told));
    let words = stdout(&place.freehold(&["node", "show", "web-1"]));
    assert!(words.contains(&format!("left       head {} ({})", bad.head.version, bad.digest)), "{words}");
    // Taken in by the next head, it is left no more, whatever the machine's last report says.
    succeeded(&place.freehold(&["refresh"]));
    assert_eq!(left(), serde_json::json!([]));
}
