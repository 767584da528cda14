//! Whoever moves away and comes back goes on counting where it was, and leaves no key behind.

use super::*;

fn seats() -> (tempfile::TempDir, Scope, Principal) {
    let (root, scope) = crate::scene::scope();
    (root, scope, "spiffe://harbor/user/alice".parse().unwrap())
}

#[test]
fn a_user_who_comes_back_is_asked_for_under_the_next_number() {
    let (_root, scope, alice) = seats();
    let seat = scope.seat(&alice);
    for number in 1..=2 {
        let pending = seat.pending().unwrap();
        assert_eq!(pending.counter, number);
        seat.install(&pending, "").unwrap();
        scope.keep_seats(&BTreeSet::new()).unwrap();
        assert_eq!((seat.svid().unwrap().map(|svid| svid.counter), seat.counter()), (None, number));
        assert_eq!(secrets_below(&seat.folder), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_key_that_was_asked_for_and_not_answered_is_asked_for_again() {
    let (_root, scope, alice) = seats();
    let seat = scope.seat(&alice);
    let first = seat.pending().unwrap();
    scope.keep_seats(&BTreeSet::new()).unwrap();
    let again = seat.pending().unwrap();
    assert_eq!((first.counter, first.key.to_pem()), (again.counter, again.key.to_pem()));
}

#[test]
fn who_is_at_home_keeps_the_seat() {
    let (_root, scope, alice) = seats();
    let seat = scope.seat(&alice);
    let pending = seat.pending().unwrap();
    seat.install(&pending, "").unwrap();
    scope.keep_seats(&[alice].into()).unwrap();
    assert!(seat.folder.join("svid.key").exists());
}
