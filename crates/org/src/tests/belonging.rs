//! Who counts as a member: the SVID and the admission together, never one alone.

use identity::id::Serial;
use identity::key::Sign as _;
use identity::signers::{Quorum, Signer};
use identity::verifier::BelievedSvid;

use crate::member::Member;
use crate::refusal::Refusal;
use crate::state::Void;
use crate::tests::world::{NOW, World, ed, node, node_key};

fn svid(n: u8, name: &str) -> BelievedSvid {
    BelievedSvid {
        principal: format!("spiffe://harbor/node/{name}").parse().unwrap(),
        node: node(name),
        node_key: node_key(n).public(),
        serial: Serial([1; 16]),
        not_after: NOW,
        issued_by: node("gw-1"),
    }
}

fn world() -> World {
    let mut world = World::new(1, &["ann"]);
    world.invite("ann", 1, [9, 9]);
    world.share();
    world.admit("gw-1", 1, 1, "web-1");
    world.admit("gw-1", 2, 1, "web-2");
    world
}

#[test]
fn a_member_is_an_svid_and_an_admission_of_one_node() {
    let world = world();
    assert!(Member::recognize(world.view("gw-1"), svid(1, "web-1")).is_ok());
}

#[test]
fn a_member_with_a_stolen_issuing_key_cannot_take_anothers_name() {
    // The SVID names web-1 and is bound by a node key that really is admitted, but as web-2.
    let world = world();
    assert_eq!(Member::recognize(world.view("gw-1"), svid(2, "web-1")), Err(Refusal::NotAdmitted));
}

#[test]
fn an_svid_without_an_admission_is_nobody() {
    let world = world();
    assert_eq!(Member::recognize(world.view("gw-1"), svid(7, "web-7")), Err(Refusal::NotAdmitted));
}

#[test]
fn a_revoked_machine_is_no_member() {
    let mut world = world();
    world.share();
    world.revoke_node("ann", 1);
    world.share();
    assert_eq!(Member::recognize(world.view("gw-1"), svid(1, "web-1")), Err(Refusal::KeyRevoked));
}

#[test]
fn a_signers_name_stands_for_one_key_for_ever() {
    let mut world = World::new(1, &["ann", "ben"]);
    let renamed = Signer { name: "ann".parse().unwrap(), key: ed("somebody else").public() };
    let ben = Signer { name: "ben".parse().unwrap(), key: ed("ben").public() };
    let install = world.install("ben", Quorum::new(1, vec![renamed, ben]).unwrap(), &["ben"], &["ben"]);
    let entry = world.append("ben", install);
    world.share();
    assert!(matches!(world.view("gw-1").void.get(&entry.digest), Some(Void::BadObject(_))));
    assert_eq!(world.view("gw-1").signer_set().version, 1);
}
