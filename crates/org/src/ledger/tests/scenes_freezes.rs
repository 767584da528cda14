//! Scenes of rivals that come late, and of ways out of a freeze.

use crate::ledger::tests::replicas::{frozen, in_force, tell};
use crate::ledger::tests::scenes_signers::raced;
use crate::ledger::tests::world::{DELAY, Org};

const PHRASES: &[&str] = &["phrase-1", "phrase-2"];

#[test]
fn a_late_rival_recovery_is_shouted_and_changes_nothing() {
    let org = Org::new(1, &["ann"]);
    let (mut home, bob, eve) = (org.replica(), org.later(2, 1, &["bob"]), org.later(2, 1, &["eve"]));
    tell(&mut home, &org.recovery(&org.set(), &bob, org.first.digest(), PHRASES), 10);
    let late = org.recovery(&org.set(), &eve, org.first.digest(), &["phrase-2", "phrase-3"]);
    tell(&mut home, &late, 10 + 2 * DELAY + 1);
    assert_eq!(in_force(&home, 100).set, bob);
    assert!(in_force(&home, 100).late.contains(&late.digest()));
}

#[test]
fn a_way_out_that_was_sown_before_the_freeze_waits_from_the_freeze_on() {
    let org = Org::new(1, &["ann", "bob"]);
    let (mut home, cid) = (org.replica(), org.later(3, 1, &["cid"]));
    tell(&mut home, &org.way_out(&org.set(), &cid, org.first.digest(), PHRASES), 8);
    for (on, by, to) in [(10, "ann", "ann"), (11, "bob", "eve")] {
        tell(&mut home, &org.succession(&org.set(), &org.later(2, 1, &[to]), org.first.digest(), &[by]), on);
    }
    assert!(frozen(&home, 11 + DELAY - 1).is_some());
    assert_eq!(in_force(&home, 11 + DELAY).set, cid);
}

#[test]
fn two_ways_out_that_contradict_each_other_lead_nowhere_until_all_rivals_agree() {
    let (org, mut home, [one, other]) = raced(&["ann", "bob", "cid"], &["ann", "bob", "dan"]);
    for (to, by) in [("cid", PHRASES), ("dan", &["phrase-2", "phrase-3"][..])] {
        tell(&mut home, &org.way_out(&org.set(), &org.later(3, 1, &[to]), org.first.digest(), by), 12);
    }
    assert!(frozen(&home, 100).is_some());
    let all = org.later(3, 1, &["ann", "bob"]);
    let agreed = org.agreed(&[&one, &other], &all, org.first.digest(), &["ann"]);
    for on in [13, 50] {
        let mut told = home.clone();
        tell(&mut told, &agreed, on);
        assert_eq!(in_force(&told, 100).set, all);
    }
}

#[test]
fn a_way_out_is_a_recovery_like_any_other_to_who_saw_no_rivals() {
    let org = Org::new(1, &["ann", "bob"]);
    let (mut home, cid) = (org.replica(), org.later(3, 1, &["cid"]));
    tell(&mut home, &org.way_out(&org.set(), &cid, org.first.digest(), PHRASES), 8);
    assert_eq!(in_force(&home, 8 + DELAY - 1).set, org.set());
    assert_eq!(in_force(&home, 8 + DELAY).set, cid);
}
