//! What a gateway seals itself is what everybody else's check finds, and nothing else is spared that check.

use identity::envelope::Envelope;
use identity::id::InviteId;
use identity::key::Sign;

use super::world::{NOW, World, ed, node, node_key};
use crate::admission::{Admission, BadAdmission};
use crate::enroll::Verdict;
use crate::entry::{Action, SignedEntry};
use crate::grant::{Granted, KnownInvite, ProvenClaim};
use crate::state::Void;

fn invited() -> World {
    let mut world = World::new(1, &["ann"]);
    world.invite("ann", 1, [2, 1]);
    world.invite("ann", 2, [2, 1]);
    world.share();
    world
}

fn signed_claim(world: &World, n: u8, invite: u8, hands: &[&dyn Sign]) -> Envelope {
    let mut claim = Envelope::seal(Some(world.founding.id), &World::claim(n, invite, "web")).unwrap();
    for hand in hands {
        claim.sign(*hand).unwrap();
    }
    claim
}

fn proven(world: &World, n: u8, invite: u8) -> ProvenClaim {
    let key = ed(&format!("invite {invite}"));
    let claim = signed_claim(world, n, invite, &[&key, &node_key(n)]);
    ProvenClaim::check(claim, world.founding.id, &known(world, invite)).unwrap()
}

fn known(world: &World, invite: u8) -> KnownInvite {
    let invite = world.view("gw-1").invite(InviteId([invite; 16])).unwrap().1;
    KnownInvite::from(&Verdict::Admit { invite, approval: None })
}

fn granted(world: &World, n: u8) -> Granted {
    let by = (&node("gw-1"), &ed("gw-1") as &dyn Sign);
    Granted::seal(world.founding.id, proven(world, n, 1), known(world, 1), by, NOW).unwrap()
}

fn entry(world: &World, admission: Envelope) -> SignedEntry {
    world.signed(&world.draft("gw-1", Action::NodeAdmit { admission }), "gw-1")
}

#[test]
fn what_is_sealed_passes_the_check_and_has_the_same_effect() {
    let world = invited();
    let granted = granted(&world, 1);
    let sets = [world.signers("gw-1").clone()];
    let voice = ed("gw-1").public();
    let checked = Admission::check(granted.envelope(), world.founding.id, voice, &sets).unwrap();
    assert_eq!(granted.admitted(granted.envelope(), voice), Some(checked));
    let signed = entry(&world, granted.envelope().clone());
    let (mut by_grant, mut by_check) = (world.view("gw-1").clone(), world.view("gw-1").clone());
    assert_eq!(by_grant.apply_granted(&signed, &granted), Ok(Ok(())));
    assert_eq!(by_check.apply(&signed), Ok(Ok(())));
    assert_eq!(by_grant, by_check);
}

#[test]
fn a_grant_spares_no_other_bytes_the_check() {
    let world = invited();
    let granted = granted(&world, 1);
    // The same claim, but no invite's key has signed it.
    let forged = Admission {
        claim: signed_claim(&world, 1, 1, &[&node_key(1)]),
        invite: Some(world.invites[&1].clone()),
        approval: None,
        gateway: node("gw-1"),
        at: NOW,
    };
    let signed = entry(&world, world.sealed(&forged, &["gw-1"]));
    let found = world.view("gw-1").clone().apply_granted(&signed, &granted);
    assert!(matches!(found, Ok(Err(Void::BadObject(_)))), "{found:?}");
    assert_eq!(granted.admitted(granted.envelope(), ed("gw-2").public()), None, "another's voice");
}

#[test]
fn a_claim_is_proven_by_both_keys_and_sealed_only_under_its_own_invite() {
    let world = invited();
    let (org, key) = (world.founding.id, ed("invite 1"));
    for hands in [&[&key as &dyn Sign] as &[&dyn Sign], &[&node_key(1)], &[&node_key(1), &ed("invite 2")]] {
        assert!(ProvenClaim::check(signed_claim(&world, 1, 1, hands), org, &known(&world, 1)).is_err());
    }
    let by = (&node("gw-1"), &ed("gw-1") as &dyn Sign);
    let other_invite = Granted::seal(org, proven(&world, 1, 1), known(&world, 2), by, NOW);
    assert_eq!(other_invite, Err(BadAdmission::BeyondInvite));
    // Signed by the key of invite 2, while the claim names invite 1.
    let crossed = signed_claim(&world, 1, 1, &[&ed("invite 2"), &node_key(1)]);
    let crossed = ProvenClaim::check(crossed, org, &known(&world, 2)).unwrap();
    for invite in [1, 2] {
        let found = Granted::seal(org, crossed.clone(), known(&world, invite), by, NOW);
        assert_eq!(found, Err(BadAdmission::BeyondInvite));
    }
    let late =
        Granted::seal(org, proven(&world, 1, 1), known(&world, 1), by, NOW + identity::time::Seconds::DAY.times(400));
    assert_eq!(late, Err(BadAdmission::BeyondInvite));
}
