//! A gateway's word about its ledger, kept against the gateway.

use identity::head::{Epoch, Head, Place};
use identity::id::Digest;
use identity::principal::Author;
use org::frontier::Tip;

use super::*;
use crate::scene::{self, NOW, key};

/// An org with the gateway `quay`.
fn known(epoch: Epoch) -> Known {
    let founding = scene::founding();
    let head = Head { mandates: vec![scene::mandate("quay")], epoch, ..scene::head(&founding) };
    scene::known(&founding, &head)
}

fn place(epoch: u32, seq: u64) -> Place {
    Place { epoch, seq, digest: Digest([7; 32]) }
}

/// What the gateway says under a name, always in its own voice.
fn word(known: &Known, name: &str, place: Place) -> Envelope {
    let tip = Tip { author: Author::Gateway(name.parse().unwrap()), place, at: NOW };
    Envelope::seal(Some(known.org()), &tip).unwrap().signed(&key("quay")).unwrap()
}

#[test]
fn no_name_and_no_epoch_of_its_own_rids_a_gateway_of_its_word() {
    let root = tempfile::tempdir().unwrap();
    let scope = Scope::at(root.path(), &"harbor".parse().unwrap());
    scope.make_keys().unwrap();
    let known = known(Epoch::first());
    let told = word(&known, "quay", place(1, 50));
    scope.save_tip(&told, &known).unwrap();
    for (name, at) in [("quay", place(1, 2)), ("another", place(1, 2)), ("quay", place(9, 2))] {
        scope.save_tip(&word(&known, name, at), &known).unwrap();
        assert_eq!(scope.tip().unwrap().as_ref(), Some(&told), "{name} {at:?}");
    }
}

#[test]
fn what_an_epoch_gave_up_is_no_evidence_and_what_it_kept_is() {
    let root = tempfile::tempdir().unwrap();
    let scope = Scope::at(root.path(), &"harbor".parse().unwrap());
    scope.make_keys().unwrap();
    let before = known(Epoch::first());
    scope.save_tip(&word(&before, "quay", place(1, 50)), &before).unwrap();
    let after = [(Author::Gateway("quay".parse().unwrap()), place(1, 40))].into();
    let known = known(Epoch { number: 2, after });
    // The gateway has written nothing since.
    let kept = word(&known, "quay", place(1, 40));
    scope.save_tip(&kept, &known).unwrap();
    assert_eq!(scope.tip().unwrap().as_ref(), Some(&kept));
    scope.save_tip(&word(&known, "quay", place(2, 30)), &known).unwrap();
    assert_eq!(scope.tip().unwrap().as_ref(), Some(&kept));
}
