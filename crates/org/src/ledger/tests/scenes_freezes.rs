//! Scenes of rivals that come late, and of ways out of a freeze.

use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::replicas::{Store, frozen, give, head_of, hear, in_force, install, publish, state, tell};
use crate::ledger::tests::scenes_signers::raced;
use crate::ledger::tests::world::{DELAY, Org, signed};

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

#[test]
fn a_set_that_names_fewer_rivals_than_there_are_leads_nowhere() {
    let (org, mut home, [one, other]) = raced(&["ann", "bob", "cid"], &["ann", "bob", "dan"]);
    let (third, all) = (org.later(2, 1, &["ann", "bob", "eve"]), org.later(3, 1, &["ann", "bob"]));
    tell(&mut home, &org.succession(&org.set(), &third, org.first.digest(), &["bob"]), 12);
    for named in [&[&one][..], &[&one, &other], &[&third, &other]] {
        tell(&mut home, &org.agreed(named, &all, org.first.digest(), &["ann", "bob", "eve"]), 13);
        assert_eq!(frozen(&home, 13).map(|it| it.rivals.len()), Some(3));
    }
    tell(&mut home, &org.agreed(&[&third, &one, &other], &all, org.first.digest(), &["ann"]), 14);
    assert_eq!(in_force(&home, 14).set, all);
}

#[test]
fn a_set_that_all_rivals_signed_brings_no_removed_key_back() {
    let org = Org::new(1, &["ann", "bob", "old"]);
    let mut home = org.replica();
    let second = org.later(2, 1, &["ann", "bob"]);
    let (_, head) = install(&org, &mut home, 1, &second, (&["ann"], &["ann"]));
    let [one, other] = ["cid", "dan"].map(|third| org.later(3, 1, &["ann", "bob", third]));
    for (set, by) in [(&one, "ann"), (&other, "bob")] {
        tell(&mut home, &org.succession(&second, set, head.digest(), &[by]), 10);
    }
    let (back, all) = (org.later(4, 1, &["ann", "bob", "old"]), org.later(4, 1, &["ann", "bob"]));
    tell(&mut home, &org.agreed(&[&one, &other], &back, head.digest(), &["ann", "bob", "cid", "dan"]), 11);
    assert!(frozen(&home, 11).is_some());
    tell(&mut home, &org.agreed(&[&one, &other], &all, head.digest(), &["ann"]), 12);
    assert_eq!(in_force(&home, 12).set, all);
}

/// Whoever followed one of them has seen its keys go; whoever is frozen must not be led elsewhere.
#[test]
fn a_set_that_all_rivals_signed_brings_back_no_key_that_one_of_them_removed() {
    let (org, frozen_one, [one, other]) = raced(&["ann", "cid"], &["ann", "bob", "dan"]);
    let mut followed = org.replica();
    let step = |set, by| org.succession(&org.set(), set, org.first.digest(), &[by]);
    tell(&mut followed, &step(&one, "ann"), 10);
    tell(&mut followed, &step(&other, "bob"), 10 + DELAY + 1);
    let (back, all) = (org.later(3, 1, &["ann", "bob"]), org.later(3, 1, &["ann", "dan"]));
    let by = &["ann", "bob", "cid", "dan"];
    let mut replicas = [frozen_one, followed];
    for replica in &mut replicas {
        tell(replica, &org.agreed(&[&one, &other], &back, org.first.digest(), by), 51);
    }
    assert!(frozen(&replicas[0], 51).is_some());
    assert_eq!(in_force(&replicas[1], 51).set, one);
    for replica in &mut replicas {
        tell(replica, &org.agreed(&[&one, &other], &all, org.first.digest(), by), 52);
        assert_eq!(in_force(replica, 52).set, all);
    }
}

#[test]
fn what_all_rivals_signed_is_followed_also_by_who_had_gone_by_one_of_them_for_longer_than_a_delay() {
    let (org, frozen_one, [one, other]) = raced(&["ann", "cid"], &["bob", "dan"]);
    let (mut here, mut there, all) = (org.replica(), org.replica(), org.later(3, 1, &["cid", "dan"]));
    let half = org.agreed(&[&one, &other], &all, org.first.digest(), &["ann"]);
    let step = |set, by| org.succession(&org.set(), set, org.first.digest(), &[by]);
    let steps = [step(&one, "ann"), step(&other, "bob")];
    for (replica, first) in [(&mut here, 0), (&mut there, 1)] {
        tell(replica, &steps[first], 10);
        tell(replica, &steps[1 - first], 10 + DELAY + 1);
        tell(replica, &half, 10 + DELAY + 1);
    }
    assert_eq!((in_force(&here, 50).set, in_force(&there, 50).set), (one, other), "one side alone leads nowhere");
    let mut replicas = [here, there, frozen_one];
    for replica in &mut replicas {
        tell(replica, &signed(half.clone(), &["dan"]), 51);
        assert_eq!(in_force(replica, 51).set, all);
    }
    let head = publish(&org, &mut replicas[0], (52, &["cid"]), &Wish::default());
    for replica in &mut replicas {
        hear(replica, &head, 52);
        assert_eq!(head_of(replica, 52), Some(head.digest()));
    }
    // Whoever begins now is handed the steps to each, and settles them by its floor.
    let mut new = org.newcomer(Some(all.as_ref()));
    give(&replicas[1], &mut new, 500);
    assert_eq!(in_force(&new, 500).set, all);
}

fn meet(one: &mut Store, other: &mut Store, on: u64) {
    let before = one.clone();
    give(other, one, on);
    give(&before, other, on);
}

/// No freeze is to be seen: each side goes by its own set, and shouts of the other.
#[test]
fn two_sides_that_went_by_two_sets_for_longer_than_a_delay_are_one_again_by_the_same_next_set() {
    let org = Org::new(1, &["ann", "bob"]);
    let [one, other] = ["cid", "dan"].map(|third| org.later(2, 1, &["ann", "bob", third]));
    let (mut here, mut there) = (org.replica(), org.replica());
    install(&org, &mut here, 10, &one, (&["ann"], &["ann"]));
    install(&org, &mut there, 10, &other, (&["bob"], &["bob"]));
    meet(&mut here, &mut there, 10 + DELAY + 1);
    assert_eq!((in_force(&here, 50).set, in_force(&there, 50).set), (one, other));
    assert_eq!((in_force(&here, 50).late.len(), in_force(&there, 50).late.len()), (1, 1));
    // One adds whom the other had added: the same keys, under the same number.
    let all = org.later(3, 1, &["dan", "cid", "bob", "ann"]);
    install(&org, &mut here, 51, &all, (&["ann"], &["cid"]));
    install(&org, &mut there, 52, &all, (&["bob"], &["dan"]));
    meet(&mut here, &mut there, 53);
    assert_eq!((in_force(&here, 53).set, in_force(&there, 53).set), (all.clone(), all));
    let next = publish(&org, &mut here, (54, &["ann"]), &Wish::default());
    hear(&mut there, &next, 54);
    assert_eq!(state(&here, 54), state(&there, 54));
    assert_eq!(head_of(&there, 54), Some(next.digest()));
}
