//! Heads that newer ones lead back to lie on the disk alone, and are read again where something is judged by them.

use ground::clock;
use identity::id::Digest;
use ledger::store::Ledger;
use org::entry::Action;
use org::state::State;
use trials::intruder::Intruder;
use trials::place::{Place, succeeded, text};
use trials::thief::Thief;

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
    let rivals: Vec<u64> = after.ground.rivals.iter().map(|rival| rival.head.version).collect();
    assert_eq!(rivals, [5, 4, 3, 2], "all of them are whole");
    assert!(after.revocations.invite_is_revoked(text(&invite, "id").parse().unwrap()));
    let passed: Vec<Digest> = after.ground.reached.iter().copied().filter(|it| *it != around.digest()).collect();
    assert_eq!(passed, [first.digest]);
    assert!(after.replica.heads.get(&first.digest).is_none(), "that one was passed");
    // What was read piece by piece is what the entries say.
    let told = intruder.state();
    assert_eq!((&told.ground, &told.fold), (&after.ground, &after.fold));
    // And the next command goes on from there.
    succeeded(&place.freehold(&["refresh"]));
    assert_eq!(state(&place).head().unwrap().head.version, 10);
}
