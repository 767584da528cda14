//! Keys, SVIDs and wiping of a scope.

use super::*;
use crate::scene::scope;

#[test]
fn keys_are_made_once() {
    let (_root, scope) = scope();
    let first = scope.node_key().unwrap().to_pem();
    scope.make_keys().unwrap();
    assert_eq!(scope.node_key().unwrap().to_pem(), first);
}

#[test]
fn a_pending_key_stays_until_its_svid_is_installed() {
    let (_root, scope) = scope();
    let seat = scope.seat(&"spiffe://harbor/node/web-1".parse().unwrap());
    let (first, again) = (seat.pending().unwrap(), seat.pending().unwrap());
    assert_eq!((first.counter, first.key.to_pem()), (again.counter, again.key.to_pem()));
    seat.install(&first, "").unwrap();
    assert_eq!(seat.counter(), 1);
    assert_eq!(seat.pending().unwrap().counter, 2);
    assert_ne!(seat.pending().unwrap().key.to_pem(), first.key.to_pem());
}

#[test]
fn old_svids_are_forgotten_and_the_links_follow() {
    let (_root, scope) = scope();
    let seat = scope.seat(&"spiffe://harbor/node/web-1".parse().unwrap());
    for n in 1..=4 {
        let pending = seat.pending().unwrap();
        assert_eq!(pending.counter, n);
        seat.install(&pending, "").unwrap();
        assert_eq!(read_key(&scope.path("svid.key")).unwrap().to_pem(), pending.key.to_pem());
    }
    assert_eq!(std::fs::read_dir(scope.path("svids")).unwrap().count(), 2);
}

#[test]
fn wiping_leaves_nothing() {
    let (root, scope) = scope();
    scope.wipe().unwrap();
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}
