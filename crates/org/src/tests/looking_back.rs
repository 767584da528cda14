//! The ledger up to a moment.

use identity::key::Sign as _;
use identity::time::{Seconds, Timestamp};

use super::world::{NOW, World, node, node_key};
use crate::entry::{Action, Cause, SignedEntry};
use crate::hindsight::{NotBelieved, Past};

fn minute(n: u64) -> Timestamp {
    NOW + Seconds::MINUTE.times(n)
}

/// Writes it as of a moment.
fn at(world: &mut World, who: &str, minutes: u64, action: Action) -> SignedEntry {
    let mut entry = world.draft(who, action);
    entry.at = minute(minutes);
    let signed = world.push(who, &entry);
    world.share();
    signed
}

fn head(world: &World, who: &str, revoked: &[u8]) -> Action {
    let mut head = world.next_head(who);
    head.revocations.node_keys.extend(revoked.iter().map(|n| node_key(*n).public().digest()));
    Action::HeadPublish { head: world.sealed(&head, &[who]), cause: Cause::Refresh }
}

#[test]
fn the_state_at_a_moment_is_the_fold_of_what_was_dated_by_then() {
    let mut world = World::new(1, &["ann", "ben"]);
    world.invite("ann", 1, [5, 5]);
    world.share();
    let admission = world.admission("gw-1", 1, 1, "web");
    at(&mut world, "gw-1", 10, admission);
    let suspension = world.suspension("ben", 1, (minute(20), Seconds::MINUTE.times(5)));
    at(&mut world, "ben", 20, suspension);
    let revocation = head(&world, "ann", &[1]);
    at(&mut world, "ann", 30, revocation);
    let web = node("web");
    let believed = |minutes: u64| {
        let mut past = Past::of(&world.founding, world.log.clone());
        past.walk_to(minute(minutes)).believed(&web, None, minute(minutes))
    };
    assert_eq!(believed(9), Err(NotBelieved::Nobody(web.clone())));
    assert_eq!(believed(10), Ok(()));
    assert!(matches!(believed(20), Err(NotBelieved::Suspended { .. })));
    assert_eq!(believed(25), Ok(()), "a suspension ends by itself");
    assert_eq!(believed(30), Err(NotBelieved::Revoked(web.clone())));

    let past = Past::of(&world.founding, world.log.clone());
    let turns: Vec<_> = past.turns(minute(40), |name| *name == web).into_iter().collect();
    assert_eq!(turns, [minute(0), minute(10), minute(20), minute(25), minute(30)]);
    assert_eq!(past.founded_at(), Some(NOW));
    let mut all = past.clone();
    assert_eq!(*all.walk_to(minute(40)), world.fold().state);
}

#[test]
fn what_is_dated_before_something_that_it_has_seen_counts_from_then_on() {
    let mut world = World::new(1, &["ann", "ben"]);
    let first = head(&world, "ann", &[]);
    at(&mut world, "ann", 30, first);
    // Ben's clock is behind, or he says so.
    let second = head(&world, "ben", &[]);
    let late = at(&mut world, "ben", 5, second);
    let mut past = Past::of(&world.founding, world.log.clone());
    assert_eq!(past.walk_to(minute(29)).head().unwrap().head.version, 1);
    assert_eq!(past.walk_to(minute(30)).head().unwrap().head.version, 3);
    let brought = past.brought(past.state().head().unwrap().digest).unwrap();
    assert_eq!((brought.at, brought.signed.digest), (minute(30), late.digest));
}

#[test]
fn a_head_is_told_with_those_who_signed_it_and_no_others() {
    let mut world = World::new(2, &["ann", "ben", "cay"]);
    let body = world.next_head("ann");
    let head = world.sealed(&body, &["ann", "cay"]);
    at(&mut world, "ann", 10, Action::HeadPublish { head, cause: Cause::Refresh });
    let mut past = Past::of(&world.founding, world.log.clone());
    let state = past.walk_to(minute(10));
    let (set, signed) = state.signers_of(state.head().unwrap()).unwrap();
    let names: Vec<_> = signed.iter().map(|signer| signer.name.as_str()).collect();
    assert_eq!((names.as_slice(), set.quorum.threshold(), set.quorum.signers().len()), (&["ann", "cay"][..], 2, 3));
}
