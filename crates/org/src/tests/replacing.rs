//! A machine that was reinstalled: its old key proves it, its name stays, its old key ends.

use identity::id::Digest;
use identity::key::Sign as _;

use super::world::{NOW, World, node, node_key};
use crate::admission::Claim;
use crate::derived;
use crate::enroll::{Attempt, Verdict, check_name_is_free, consider};
use crate::refusal::Refusal;
use crate::state::{Standing, Void};

/// Machine 1 is a member as `web`; invite 2 is there for whoever comes next.
fn settled() -> World {
    let mut world = World::new(1, &["ann"]);
    world.invite("ann", 1, [4, 4]);
    world.invite("ann", 2, [4, 4]);
    world.share();
    world.admit("gw-1", 1, 1, "web");
    world.join("gw-1", 1);
    world.share();
    world
}

fn claim(n: u8, old: u8, name: &str) -> Claim {
    Claim { replaces: Some(node_key(old).public()), ..World::claim(n, 2, name) }
}

/// What the gateway says before and after the proof.
fn ask(world: &World, claim: &Claim) -> Result<(), Refusal> {
    let state = world.fold().state;
    let source = "10.0.0.1".parse().unwrap();
    let attempt = Attempt { claim, claimed: Digest([0; 32]), source, gateway: &node("gw-1"), now: NOW };
    match consider(&state, attempt)? {
        Verdict::Admit { .. } => check_name_is_free(&state, claim, None),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_old_key_hands_its_name_on_and_is_over() {
    let mut world = settled();
    assert_eq!(ask(&world, &claim(2, 1, "web")), Ok(()));
    let taken = world.append("gw-1", world.replacing("gw-1", (2, 1), 2, "web"));
    let state = world.fold().state;
    assert_eq!(state.void.get(&taken.digest), None);
    assert_eq!((world.standing(1), world.standing(2)), (Some(Standing::Revoked), Some(Standing::Issued)));
    assert_eq!(world.holder("web"), Some(node_key(2).public()));
    assert!(state.is_gone(node_key(1).public().digest()));
    // The old key is dead in every way: it cannot be replaced again, and does not come back.
    assert_eq!(ask(&world, &claim(3, 1, "web")), Err(Refusal::KeyLeft));
    assert_eq!(ask(&world, &World::claim(1, 2, "web")), Err(Refusal::KeyLeft));
}

#[test]
fn the_new_one_holds_the_name_on_a_gateway_that_hears_of_it_later() {
    let mut world = settled();
    world.append("gw-2", world.replacing("gw-2", (2, 1), 2, "web"));
    world.learn("gw-1", "gw-2");
    let view = world.view("gw-1");
    let holder = view.holder(&node("web")).unwrap();
    assert_eq!(view.standing(holder), Standing::Issued);
    world.join("gw-1", 2);
    assert_eq!(world.standing(2), Some(Standing::Member));
}

#[test]
fn without_the_old_key_s_word_nothing_is_replaced() {
    let mut world = settled();
    for nodes in [&[2_u8] as &[u8], &[2, 3], &[1]] {
        let forged = world.append("gw-1", world.admission_of("gw-1", 2, &claim(2, 1, "web"), nodes));
        assert!(matches!(world.fold().state.void.get(&forged.digest), Some(Void::BadObject(_))), "{nodes:?}");
    }
    assert_eq!((world.standing(1), world.standing(2)), (Some(Standing::Member), None));
}

#[test]
fn a_key_hands_on_its_own_name_only_and_not_to_itself() {
    let mut world = settled();
    assert_eq!(ask(&world, &claim(2, 1, "db")), Err(Refusal::NotAdmitted), "another name");
    assert_eq!(ask(&world, &claim(2, 3, "web")), Err(Refusal::NotAdmitted), "a key that nobody knows");
    for action in [
        world.replacing("gw-1", (2, 1), 2, "db"),
        world.replacing("gw-1", (2, 3), 2, "web"),
        world.replacing("gw-1", (4, 4), 2, "web"),
    ] {
        let void = world.append("gw-1", action);
        assert!(matches!(world.fold().state.void.get(&void.digest), Some(Void::Unknown(_))));
    }
    assert_eq!(world.standing(1), Some(Standing::Member));
}

#[test]
fn a_key_that_is_over_or_waits_hands_on_nothing() {
    let mut left = settled();
    left.leave("gw-1", 1);
    assert_eq!(ask(&left, &claim(2, 1, "web")), Err(Refusal::KeyLeft));
    let mut revoked = settled();
    revoked.revoke_node("ann", 1);
    assert_eq!(ask(&revoked, &claim(2, 1, "web")), Err(Refusal::KeyRevoked));
    // Let in by a gateway that did not know yet that the invite was revoked.
    let mut waiting = World::new(1, &["ann"]);
    waiting.invite("ann", 1, [4, 4]);
    waiting.invite("ann", 2, [4, 4]);
    waiting.share();
    waiting.revoke_invite("ann", 1);
    waiting.admit("gw-1", 1, 1, "web");
    assert_eq!(waiting.standing(1), Some(Standing::Waiting));
    assert_eq!(ask(&waiting, &claim(2, 1, "web")), Err(Refusal::Waiting));
}

#[test]
fn the_rows_after_a_replacement_are_all_that_it_changed() {
    let mut world = settled();
    let mut kept = derived::rows(world.view("gw-1"));
    let signed = world.append("gw-1", world.replacing("gw-1", (2, 1), 2, "web"));
    let state = world.view("gw-1");
    kept.extend(derived::rows_after(state, &signed).unwrap());
    assert_eq!(kept, derived::rows(state));
}
