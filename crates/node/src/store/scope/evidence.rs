//! A gateway's word about its ledger, kept against the gateway.

use std::collections::BTreeSet;

use identity::head::{Epoch, Head, Mandate, Place, Revocations};
use identity::id::{Digest, KeyId, sha256};
use identity::key::{EdKey, Sign as _};
use identity::principal::Author;
use identity::signers::{Quorum, Signer};
use identity::text::Bytes;
use identity::time::Seconds;
use org::founding::{Founding, FoundingRecord};
use org::frontier::Tip;

use super::*;

const NOW: Timestamp = Timestamp::from_unix(1_800_000_000);

fn key(name: &str) -> EdKey {
    EdKey::from_seed(&sha256(name.as_bytes()))
}

fn quorum(name: &str) -> Quorum {
    Quorum::new(1, vec![Signer { name: name.parse().unwrap(), key: key(name).public() }]).unwrap()
}

/// An org with the gateway `quay`.
fn known(epoch: Epoch) -> Known {
    let record = FoundingRecord {
        name: "harbor".parse().unwrap(),
        founded_at: NOW,
        identity_root: Bytes(vec![1]),
        endpoint_root: Bytes(vec![2]),
        signers: quorum("ann"),
        recovery: quorum("safe"),
        recovery_delay: Seconds::DAY,
    };
    let founding = Founding::open(Envelope::seal(None, &record).unwrap().signed(&key("ann")).unwrap()).unwrap();
    let mandate = Mandate {
        gateway: "quay".parse().unwrap(),
        voice: key("quay").public(),
        identity_issuer: KeyId([1; 32]),
        endpoint_issuer: KeyId([2; 32]),
        hosts: Vec::new(),
        kinds: BTreeSet::new(),
        names: Vec::new(),
        svid_ttl: Seconds::DAY,
        not_before: NOW,
        not_after: NOW + Seconds::DAY,
        addresses: Vec::new(),
    };
    let head = Head {
        version: 1,
        reverts: None,
        issued_at: NOW,
        fresh_until: NOW + Seconds::DAY,
        members: None,
        members_floor: 0,
        mandates: vec![mandate],
        placements: Vec::new(),
        revocations: Revocations::default(),
        trust: Vec::new(),
        signers: founding.first_signers().as_ref(),
        epoch,
        release: None,
        fleet: None,
    };
    let head = Envelope::seal(Some(founding.id), &head).unwrap().signed(&key("ann")).unwrap();
    Known::new(founding, Vec::new(), head).unwrap()
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
