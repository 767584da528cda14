//! A gateway's word about its ledger, kept against the gateway.

use identity::head::{Head, Recorded};
use identity::id::Digest;
use identity::key::{EdKey, Sign as _};
use org::ledger::frontier::Tip;

use super::*;
use crate::scene::{self, NOW, key};

/// An org with the gateway `quay`, which speaks with this voice.
fn known(voice: &EdKey) -> Known {
    let founding = scene::founding();
    let mandate = identity::head::Mandate { voice: voice.public(), ..scene::mandate("quay") };
    scene::known(&founding, &Head { mandates: vec![mandate], ..scene::head(&founding) })
}

/// What a gateway says of the chain of a voice, in its own.
fn word(known: &Known, of: &EdKey, by: &EdKey, seq: u64) -> Envelope {
    let tip = Tip { voice: of.public(), place: Recorded { seq, digest: Digest([7; 32]) }, at: NOW };
    Envelope::seal(Some(known.org()), &tip).unwrap().signed(by).unwrap()
}

fn scope() -> (tempfile::TempDir, Scope) {
    let root = tempfile::tempdir().unwrap();
    let scope = Scope::at(root.path(), &"harbor".parse().unwrap());
    scope.make_keys().unwrap();
    (root, scope)
}

#[test]
fn no_lower_word_and_none_of_another_chain_rids_a_gateway_of_its_word() {
    let (_root, scope) = scope();
    let (own, other) = (key("quay"), key("another"));
    let known = known(&own);
    let told = word(&known, &own, &own, 50);
    scope.save_tip(&told, &known).unwrap();
    for (of, by, seq) in [(&own, &own, 2), (&other, &own, 99), (&other, &other, 99), (&own, &other, 99)] {
        scope.save_tip(&word(&known, of, by, seq), &known).unwrap();
        assert_eq!(scope.tip().unwrap().as_ref(), Some(&told), "{seq}");
    }
}

#[test]
fn a_voice_that_the_operators_closed_is_no_evidence_any_more() {
    let (_root, scope) = scope();
    let (old, new) = (key("quay"), key("quay again"));
    let before = known(&old);
    scope.save_tip(&word(&before, &old, &old, 50), &before).unwrap();
    let known = known(&new);
    let begun = word(&known, &new, &new, 1);
    scope.save_tip(&begun, &known).unwrap();
    assert_eq!(scope.tip().unwrap().as_ref(), Some(&begun));
    scope.save_tip(&word(&known, &old, &old, 60), &known).unwrap();
    assert_eq!(scope.tip().unwrap().as_ref(), Some(&begun));
}
