//! Revocation, succession, thresholds and freed names: what the ledger says when something is taken back.

use identity::head::{Cut, Head, InviteCut, Revocations};
use identity::id::InviteId;
use identity::key::{PublicKey, Sign as _};
use identity::time::Timestamp;

use super::world::{NOW, World, author, node, node_key, quorum};
use crate::admission::{Admission, Claim, ClaimAuthority};
use crate::entry::{Action, Cause, SignedEntry};
use crate::fold::fold_opened;
use crate::state::{Standing, State, Void};

fn one_of_two() -> World {
    let mut world = World::new(1, &["ann", "ben"]);
    world.invite("ann", 1, [5, 5]);
    world.share();
    world
}

/// The fold, which must not depend on the order; applied in both orders of the last two entries, too.
pub fn settled(world: &World) -> State {
    let folded = world.fold();
    let backwards = fold_opened(&world.founding, world.log.iter().rev().cloned());
    assert_eq!(backwards, folded);
    let mut state = State::of(&world.founding);
    let mut waiting: Vec<&SignedEntry> = world.log.iter().rev().collect();
    while let Some(at) = waiting.iter().position(|signed| state.apply(signed).is_ok()) {
        waiting.remove(at);
    }
    assert_eq!(state, folded.state);
    state
}

fn check_standing(world: &World, expected: &[(u8, Standing)]) {
    settled(world);
    for (n, standing) in expected {
        assert_eq!(world.standing(*n), Some(*standing), "node {n}");
    }
}

fn public(n: u8) -> PublicKey {
    node_key(n).public()
}

#[test]
fn admissions_beyond_a_revoked_invites_frontier_wait() {
    let mut world = one_of_two();
    world.admit("gw-1", 1, 1, "web");
    world.learn("ann", "gw-1");
    world.admit("gw-2", 2, 1, "db");
    world.revoke_invite("ann", 1);
    world.admit("gw-1", 3, 1, "mail");
    check_standing(&world, &[(1, Standing::Issued), (2, Standing::Waiting), (3, Standing::Waiting)]);
    // A second revocation that had seen more gives nothing back.
    world.learn("ben", "gw-2");
    world.revoke_invite("ben", 1);
    check_standing(&world, &[(1, Standing::Waiting), (2, Standing::Waiting), (3, Standing::Waiting)]);
}

#[test]
fn a_revocation_whose_frontier_is_empty_lets_nobody_stand() {
    let mut world = one_of_two();
    world.admit("gw-1", 1, 1, "web");
    let (invite, seen) = (InviteId([1; 16]), Vec::new());
    let cut = InviteCut { invite, seen };
    world.publish("ann", Cause::InviteRevoke { invite }, |revocations| revocations.invites.extend([cut]));
    check_standing(&world, &[(1, Standing::Waiting)]);
}

#[test]
fn admissions_beyond_a_cut_gateways_frontier_wait() {
    let mut world = one_of_two();
    let first = world.admit("gw-1", 1, 1, "web");
    let cut: Cut = first.cut();
    world.publish("ann", Cause::Refresh, |revocations| revocations.authors.extend([cut]));
    world.admit("gw-1", 2, 1, "db");
    world.admit("gw-2", 3, 1, "mail");
    check_standing(&world, &[(1, Standing::Issued), (2, Standing::Waiting), (3, Standing::Issued)]);
}

#[test]
fn a_revoked_node_is_revoked_even_if_it_is_admitted_elsewhere() {
    let mut world = one_of_two();
    world.admit("gw-1", 1, 1, "web");
    world.revoke_node("ann", 1);
    world.admit("gw-2", 1, 1, "db");
    world.join("gw-2", 1);
    check_standing(&world, &[(1, Standing::Revoked)]);
}

#[test]
fn two_successors_of_one_signer_set_freeze_the_org() {
    let mut world = one_of_two();
    let install = |world: &mut World, who: &str, third: &str| {
        let install = world.install(who, quorum(1, &["ann", "ben", third]), &[who], &[who]);
        world.append(who, install);
    };
    install(&mut world, "ann", "cat");
    let state = settled(&world);
    assert_eq!((state.is_frozen(), state.signer_set().version), (false, 2));
    install(&mut world, "ben", "dan");
    let state = settled(&world);
    assert_eq!((state.is_frozen(), state.signer_set().version), (true, 1));
    assert_eq!(state.signer_chain(1), []);
    // Growing one branch does not heal it.
    install(&mut world, "ann", "eve");
    let state = settled(&world);
    assert_eq!((state.is_frozen(), state.signer_set().version), (true, 1));
}

#[test]
fn one_successor_installed_by_two_is_no_conflict() {
    let mut world = one_of_two();
    for who in ["ann", "ben"] {
        let install = world.install(who, quorum(1, &["ann", "ben", "cat"]), &[who], &[who]);
        world.append(who, install);
    }
    let state = settled(&world);
    assert_eq!((state.is_frozen(), state.signer_set().version, state.later.len()), (false, 2, 1));
}

#[test]
fn what_only_some_of_the_threshold_signed_has_no_effect() {
    type Make = fn(&World, &[&str]) -> Action;
    let revoked = |world: &World| {
        let mut head: Head = world.next_head("ann");
        head.revocations.node_keys.insert(public(1).digest());
        head
    };
    let made: [(&str, Make); 4] = [
        ("head", |world, by| Action::HeadPublish {
            head: world.sealed(&world.next_head("ann"), by),
            cause: Cause::Refresh,
        }),
        ("invite", |world, by| Action::InviteCreate { invite: world.sealed(&world.invite_body("ann", 1, [1, 1]), by) }),
        ("signers", |world, by| world.install("ann", quorum(1, &["ann"]), by, &["ann"])),
        ("claim", |world, by| founder(world, by, NOW)),
    ];
    for (case, make) in made {
        let who = if case == "claim" { "gw-1" } else { "ann" };
        for (by, counts) in
            [(&["ann"][..], false), (&["ann", "eve"], false), (&["ann", "ben"], true), (&["ben", "cat"], true)]
        {
            let mut world = World::new(2, &["ann", "ben", "cat"]);
            let signed = world.append(who, make(&world, by));
            let state = settled(&world);
            let void = state.void.get(&signed.digest);
            assert_eq!(void.is_none(), counts, "{case} by {by:?}: {void:?}");
            assert!(counts || matches!(void, Some(Void::BadObject(_))), "{case} by {by:?}: {void:?}");
        }
    }
    let mut world = World::new(2, &["ann", "ben", "cat"]);
    let (cause, head) = (Cause::Refresh, world.sealed(&revoked(&world), &["ann"]));
    world.append("ann", Action::HeadPublish { head, cause });
    assert_eq!(settled(&world).revocations, Revocations::default());
}

fn founder(world: &World, by: &[&str], at: Timestamp) -> Action {
    let claim = Claim { authority: ClaimAuthority::Signers, ..World::claim(1, 1, "gw-1") };
    let mut claim = world.sealed(&claim, by);
    claim.sign(&node_key(1)).unwrap();
    let admission = Admission { claim, invite: None, approval: None, gateway: node("gw-1"), at };
    Action::NodeAdmit { admission: world.sealed(&admission, &["gw-1"]) }
}

#[test]
fn a_signer_set_that_the_gateway_had_not_seen_judges_nothing() {
    let mut world = one_of_two();
    let install = world.install("ben", quorum(1, &["ann", "ben", "cat"]), &["ben"], &["ben"]);
    world.append("ben", install);
    let action = founder(&world, &["cat"], NOW);
    let unaware = world.append("gw-1", action);
    assert!(matches!(settled(&world).void.get(&unaware.digest), Some(Void::BadObject(_))));
    world.learn("gw-1", "ben");
    let action = founder(&world, &["cat"], NOW);
    let aware = world.append("gw-1", action);
    assert_eq!(settled(&world).void.get(&aware.digest), None);
    assert_eq!(world.standing(1), Some(Standing::Member));
}

#[test]
fn copies_of_one_object_with_other_signatures_are_one_object() {
    let mut world = World::new(2, &["ann", "ben", "cat"]);
    let head = world.next_head("ann");
    let invite = world.invite_body("ann", 1, [1, 1]);
    for (who, by) in [("ann", ["ann", "ben"]), ("cat", ["cat", "ben"])] {
        let (head, invite) = (world.sealed(&head, &by), world.sealed(&invite, &by));
        world.append(who, Action::HeadPublish { head, cause: Cause::Refresh });
        world.append(who, Action::InviteCreate { invite });
    }
    let state = settled(&world);
    let record = state.head().unwrap();
    let keys = state.first.quorum.keys();
    assert_eq!(state.heads_at(record.head.version).count(), 1);
    assert_eq!(record.envelope.signers_among(&keys), keys);
    assert_eq!(state.invite(InviteId([1; 16])).unwrap().1.envelope.signers_among(&keys), keys);
}

#[test]
fn two_heads_of_one_version_are_shown_as_contested() {
    let mut world = one_of_two();
    world.revoke_node("ann", 1);
    world.revoke_node("ben", 2);
    let state = settled(&world);
    assert_eq!(state.heads_at(state.head().unwrap().head.version).count(), 2);
    let both = [public(1).digest(), public(2).digest()].into();
    assert_eq!(state.revocations.node_keys, both, "remove wins");
}

#[test]
fn of_two_machines_that_race_for_a_name_one_holds_it() {
    let mut world = one_of_two();
    world.admit("gw-1", 1, 1, "web");
    world.admit("gw-2", 2, 1, "web");
    settled(&world);
    let standings = [world.standing(1), world.standing(2)];
    assert!(standings.contains(&Some(Standing::Issued)) && standings.contains(&Some(Standing::Waiting)));
    let holder = world.holder("web").unwrap();
    // Whoever waits does not inherit: it had not seen the other's end.
    let winner = if holder == public(1) { 1 } else { 2 };
    world.share();
    world.revoke_node("ann", winner);
    settled(&world);
    assert_eq!(world.holder("web"), None);
}

#[test]
fn a_freed_name_goes_only_to_a_machine_whose_gateway_saw_it_freed() {
    for by_leave in [true, false] {
        let free = |world: &mut World| {
            if by_leave {
                world.leave("gw-1", 1);
                "gw-1"
            } else {
                world.revoke_node("ann", 1);
                "ann"
            }
        };
        let mut world = one_of_two();
        world.admit("gw-1", 1, 1, "web");
        world.share();
        let freed_at = free(&mut world);
        assert_eq!(world.holder("web"), None);
        world.admit("gw-2", 2, 1, "web");
        assert_eq!(world.holder("web"), None, "gw-2 had not seen it");
        check_standing(&world, &[(1, Standing::Revoked), (2, Standing::Waiting)]);
        world.learn("gw-2", freed_at);
        world.admit("gw-2", 3, 1, "web");
        assert_eq!(world.holder("web"), Some(public(3)), "gw-2 has seen it");
        check_standing(&world, &[(2, Standing::Waiting), (3, Standing::Issued)]);
    }
}

#[test]
fn a_key_that_left_is_gone_and_its_use_stays_spent() {
    let mut world = one_of_two();
    world.invite("ann", 2, [1, 0]);
    world.share();
    world.admit("gw-1", 1, 2, "web");
    world.leave("gw-1", 1);
    let late = world.admit("gw-1", 2, 2, "db");
    assert_eq!(settled(&world).void.get(&late.digest), Some(&Void::Overspent));
    let state = settled(&world);
    assert_eq!(state.invite(InviteId([2; 16])).unwrap().1.spent_at[&author("gw-1")], 1);
}

#[test]
fn a_machine_with_one_good_admission_does_not_wait() {
    let mut world = World::new(1, &["ann"]);
    world.invite("ann", 1, [1, 1]);
    world.share();
    // The first reply was lost, and the second gateway has not heard of it.
    let lost = world.admit("gw-1", 1, 1, "web");
    world.admit("gw-2", 1, 1, "web");
    world.learn("ann", "gw-2");
    world.revoke_invite("ann", 1);
    assert_eq!(world.standing(1), Some(Standing::Issued), "ann has seen what gw-2 did");
    let state = world.fold().state;
    let member = state.member(&node_key(1).public()).unwrap();
    let Action::NodeAdmit { admission } = &lost.entry.action else { panic!("not an admission") };
    assert!(member.was_given(admission.digest()) && !member.was_given(lost.digest));
    assert_eq!(member.rivals.len(), 1);
}
