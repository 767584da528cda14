//! Scenes of signer sets: successions, recoveries, freezes and floors, when thieves hold what was replaced.

use identity::envelope::Envelope;
use identity::signers::SignerSet;

use crate::ledger::entry::Action;
use crate::ledger::signers::Stance;
use crate::ledger::step::SignerStep;
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::replicas::{
    Store, assert_holds, assert_nobody, frozen, give, head_of, hear, hear_all, in_force, install, publish, state, tell,
};
use crate::ledger::tests::world::{DELAY, Org, day, key, leaf, node, signed};

const PHRASES: &[&str] = &["phrase-1", "phrase-2"];

/// Ann alone; she handed over to bob on day 10. Her key is stolen later, and says that eve follows her.
struct Replaced {
    org: Org,
    home: Store,
    step: Envelope,
    bob: SignerSet,
    false_step: Envelope,
    eve: SignerSet,
}

fn replaced() -> Replaced {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let (bob, eve) = (org.later(2, 1, &["bob"]), org.later(2, 1, &["eve"]));
    let (step, _) = install(&org, &mut home, 10, &bob, (&["ann"], &["bob"]));
    let false_step = org.succession(&org.set(), &eve, org.first.digest(), &["ann"]);
    Replaced { org, home, step, bob, false_step, eve }
}

#[test]
fn a_newcomer_whose_floor_names_the_set_is_not_frozen_by_a_replaced_key() {
    let Replaced { org, mut home, bob, false_step, .. } = replaced();
    let mut new = org.newcomer(Some(bob.as_ref()));
    hear(&mut new, &org.first, 1000);
    tell(&mut new, &false_step, 1000);
    give(&home, &mut new, 1000);
    let next = publish(&org, &mut home, (1001, &["bob"]), &Wish::default());
    hear(&mut new, &next, 1001);
    assert_eq!(head_of(&new, 1001), Some(next.digest()));
    assert!(in_force(&new, 1001).late.contains(&false_step.digest()), "somebody should know");
}

#[test]
fn a_floor_settles_all_sets_before_it() {
    let Replaced { org, mut home, false_step, .. } = replaced();
    let cid = org.later(3, 1, &["cid"]);
    install(&org, &mut home, 20, &cid, (&["bob"], &["cid"]));
    let mut new = org.newcomer(Some(cid.as_ref()));
    hear(&mut new, &org.first, 1000);
    tell(&mut new, &false_step, 1000);
    assert!(in_force(&new, 1000).below_floor, "whoever handed this over withholds steps");
    give(&home, &mut new, 1000);
    assert_eq!((in_force(&new, 1000).set, in_force(&new, 1000).below_floor), (cid, false));
}

#[test]
fn a_newcomer_who_has_heard_only_the_thief_stays_below_its_floor_and_takes_no_set_that_leads_elsewhere() {
    let Replaced { org, home, bob, false_step, .. } = replaced();
    for floor in [bob.as_ref(), org.later(3, 1, &["cid"]).as_ref()] {
        let mut new = org.newcomer(Some(floor));
        hear(&mut new, &org.first, 20);
        tell(&mut new, &false_step, 20);
        let stays = in_force(&new, 90);
        assert_eq!((&stays.set, stays.below_floor), (&org.set(), true));
        assert!(stays.late.contains(&false_step.digest()));
    }
    let mut new = org.newcomer(Some(bob.as_ref()));
    tell(&mut new, &false_step, 20);
    give(&home, &mut new, 90);
    assert_eq!(in_force(&new, 90).set, bob);
}

#[test]
fn a_floor_that_names_a_set_which_two_rivals_signed_together_is_reached() {
    let (org, home, [one, other]) = raced(&["ann", "bob", "cid"], &["ann", "bob", "dan"]);
    let all = org.later(3, 1, &["ann", "bob"]);
    let mut new = org.newcomer(Some(all.as_ref()));
    give(&home, &mut new, 500);
    tell(&mut new, &org.agreed(&[&one, &other], &all, org.first.digest(), &["ann"]), 500);
    assert_eq!((in_force(&new, 500).set, in_force(&new, 500).below_floor), (all, false));
}

#[test]
fn a_node_without_a_floor_that_meets_both_on_one_day_freezes_until_a_recovery_names_one() {
    let Replaced { org, mut home, bob, false_step, eve, .. } = replaced();
    let mut away = org.replica();
    tell(&mut away, &false_step, 1000);
    give(&home, &mut away, 1000);
    let rivals = frozen(&away, 1000).unwrap().rivals;
    assert!(rivals.contains(&bob) && rivals.contains(&eve));
    let stays = org.way_out(&org.set(), &bob, org.first.digest(), PHRASES);
    tell(&mut home, &false_step, 1001);
    for replica in [&mut home, &mut away] {
        tell(replica, &stays, 1001);
    }
    assert!(frozen(&away, 1001 + DELAY - 1).is_some());
    let next = publish(&org, &mut home, (1001 + DELAY, &["bob"]), &Wish::default());
    hear(&mut away, &next, 1001 + DELAY);
    assert_eq!(head_of(&away, 1001 + DELAY), Some(next.digest()));
    assert_eq!(in_force(&home, 1001 + DELAY).set, in_force(&away, 1001 + DELAY).set);
}

#[test]
fn replaced_keys_alone_never_freeze_whoever_has_settled_their_successor() {
    let Replaced { mut home, bob, false_step, .. } = replaced();
    tell(&mut home, &false_step, 10 + DELAY + 1);
    assert_eq!(in_force(&home, 500).set, bob);
    assert!(in_force(&home, 500).late.contains(&false_step.digest()));
}

#[test]
fn a_set_that_strangers_spoke_of_early_is_no_rival_until_somebody_entitled_signs_it() {
    // A stranger's own step leads to eve's set, before ann's key is stolen: nobody who may has signed it.
    let Replaced { org, mut home, bob, false_step, eve, .. } = replaced();
    let stranger = org.later(2, 1, &["mallory"]);
    tell(&mut home, &org.succession(&org.set(), &stranger, org.first.digest(), &[]), 11);
    tell(&mut home, &org.succession(&stranger, &eve, org.first.digest(), &["mallory"]), 11);
    tell(&mut home, &false_step, 500);
    assert_eq!(in_force(&home, 501).set, bob);
}

#[test]
fn a_lost_key_that_is_found_undoes_no_recovery_that_a_floor_names() {
    let org = Org::new(1, &["ann"]);
    let (mut home, bob, eve) = (org.replica(), org.later(2, 1, &["bob"]), org.later(2, 1, &["eve"]));
    tell(&mut home, &org.recovery(&org.set(), &bob, org.first.digest(), PHRASES), 10);
    assert_eq!(in_force(&home, 10 + DELAY - 1).set, org.set());
    publish(&org, &mut home, (10 + DELAY, &["bob"]), &Wish::default());
    tell(&mut home, &org.succession(&org.set(), &eve, org.first.digest(), &["ann"]), 1000);
    let mut new = org.newcomer(Some(bob.as_ref()));
    give(&home, &mut new, 1000);
    assert_eq!((in_force(&home, 1001).set, in_force(&new, 1001).set), (bob.clone(), bob));
}

#[test]
fn a_succession_by_the_set_itself_beats_a_recovery_until_one_delay_after_it_took_effect() {
    for (seen, wins) in [(5, true), (10 + DELAY, true), (10 + 2 * DELAY, true), (10 + 2 * DELAY + 1, false)] {
        let org = Org::new(1, &["ann"]);
        let (mut home, bob, cid) = (org.replica(), org.later(2, 1, &["bob"]), org.later(2, 1, &["cid"]));
        tell(&mut home, &org.recovery(&org.set(), &bob, org.first.digest(), PHRASES), 10);
        let own = org.succession(&org.set(), &cid, org.first.digest(), &["ann"]);
        tell(&mut home, &own, seen);
        let at_last = in_force(&home, 100);
        assert_eq!(at_last.set == cid, wins, "seen on day {seen}");
        assert_eq!(at_last.late.contains(&own.digest()), !wins);
    }
}

#[test]
fn a_recovery_that_a_stolen_voice_or_author_dates_back_waits_as_long_as_any() {
    // Its own `at`, and that of the entry that carries it, are long ago; only this replica's first sight counts.
    for carried in [false, true] {
        let org = Org::new(1, &["ann"]);
        let (mut home, eve) = (org.replica(), org.later(2, 1, &["eve"]));
        let back = org.recovery(&org.set(), &eve, org.first.digest(), PHRASES);
        let envelope = if carried {
            super::replicas::write(&org, &mut home, "g2", 100, Action::Take { envelope: back.clone() }).envelope
        } else {
            back.clone()
        };
        tell(&mut home, &envelope, 100);
        assert_eq!(in_force(&home, 100).pending, [(back.digest(), day(100 + DELAY))]);
        // Nobody who brings it once more moves that.
        tell(&mut home, &back, 101);
        tell(&mut home, &envelope, 102);
        assert_eq!(in_force(&home, 102).pending, [(back.digest(), day(100 + DELAY))]);
        assert_eq!(in_force(&home, 100 + DELAY - 1).set, org.set());
        assert_eq!(in_force(&home, 100 + DELAY).set, eve);
    }
}

#[test]
fn a_recovery_sown_early_leaves_nobody_without_a_head() {
    let org = Org::new(1, &["ann"]);
    let (mut home, mut peer) = (org.replica(), org.replica());
    let (bob, eve) = (org.later(2, 1, &["bob"]), org.later(3, 1, &["eve"]));
    let named = publish(&org, &mut home, (1, &["ann"]), &Wish::default());
    tell(&mut peer, &org.recovery(&bob, &eve, org.first.digest(), PHRASES), 1);
    // The head that it names is on its way.
    tell(&mut peer, &org.succession(&org.set(), &bob, named.digest(), &["ann"]), 1);
    assert_eq!((in_force(&peer, 1).set, head_of(&peer, 1)), (org.set(), Some(org.first.digest())));
    hear(&mut peer, &named, 2);
    assert_eq!((in_force(&peer, 2).set, head_of(&peer, 2)), (bob, Some(named.digest())));
}

#[test]
fn a_recovery_sown_before_the_succession_that_it_would_replace_waits_from_then_on() {
    let org = Org::new(1, &["ann"]);
    let (mut home, bob, eve) = (org.replica(), org.later(2, 1, &["bob"]), org.later(3, 1, &["eve"]));
    tell(&mut home, &org.recovery(&bob, &eve, org.first.digest(), PHRASES), 1);
    tell(&mut home, &org.succession(&org.set(), &bob, org.first.digest(), &["ann"]), 10);
    assert_eq!(in_force(&home, 10).set, bob);
    assert_eq!(in_force(&home, 10 + DELAY - 1).set, bob);
    assert_eq!(in_force(&home, 10 + DELAY).set, eve);
}

#[test]
fn the_delay_of_a_recovery_runs_from_when_it_was_fully_signed() {
    let org = Org::new(1, &["ann"]);
    let (mut home, bob) = (org.replica(), org.later(2, 1, &["bob"]));
    let unsigned = org.recovery(&org.set(), &bob, org.first.digest(), &[]);
    tell(&mut home, &unsigned, 1);
    tell(&mut home, &signed(unsigned.clone(), &["phrase-1"]), 2);
    assert_eq!(in_force(&home, 49).pending, []);
    tell(&mut home, &signed(unsigned, &["phrase-2"]), 50);
    assert_eq!(in_force(&home, 50 + DELAY - 1).set, org.set());
    assert_eq!(in_force(&home, 50 + DELAY).set, bob);
}

#[test]
fn a_rival_that_was_sown_unsigned_within_the_window_freezes_nobody_when_it_is_signed_later() {
    let Replaced { org, home, eve, bob, .. } = replaced();
    let mut other = org.replica();
    tell(&mut other, &org.succession(&org.set(), &eve, org.first.digest(), &[]), 10);
    give(&home, &mut other, 10);
    tell(&mut other, &org.succession(&org.set(), &eve, org.first.digest(), &["ann"]), 300);
    assert_eq!(in_force(&other, 301).set, bob);
}

#[test]
fn a_split_between_a_recovery_and_a_late_succession_heals_by_one_set_that_both_sign() {
    let org = Org::new(1, &["ann"]);
    let (mut p, mut q) = (org.replica(), org.replica());
    let (bob, cid, dan) = (org.later(2, 1, &["bob"]), org.later(2, 1, &["cid"]), org.later(3, 1, &["dan"]));
    let recovery = org.recovery(&org.set(), &bob, org.first.digest(), PHRASES);
    let own = org.succession(&org.set(), &cid, org.first.digest(), &["ann"]);
    tell(&mut p, &recovery, 0);
    tell(&mut q, &own, 0);
    tell(&mut p, &own, 50);
    tell(&mut q, &recovery, 50);
    assert_eq!((in_force(&p, 51).set, in_force(&q, 51).set), (bob.clone(), cid.clone()));
    for (from, by) in [(&bob, "bob"), (&cid, "cid")] {
        let step = org.succession(from, &dan, org.first.digest(), &[by]);
        tell(&mut p, &step, 60);
        tell(&mut q, &step, 60);
    }
    let next = publish(&org, &mut p, (70, &["dan"]), &Wish::default());
    hear(&mut q, &next, 70);
    assert_eq!(state(&p, 70), state(&q, 70));
}

/// Ann and bob, one of two; each says who follows, on days 10 and 11.
pub(super) fn raced(of_ann: &[&str], of_bob: &[&str]) -> (Org, Store, [SignerSet; 2]) {
    let org = Org::new(1, &["ann", "bob"]);
    let mut home = org.replica();
    let sets = [org.later(2, 1, of_ann), org.later(2, 1, of_bob)];
    tell(&mut home, &org.succession(&org.set(), &sets[0], org.first.digest(), &["ann"]), 10);
    tell(&mut home, &org.succession(&org.set(), &sets[1], org.first.digest(), &["bob"]), 11);
    (org, home, sets)
}

#[test]
fn two_operators_who_each_add_a_colleague_go_on_by_one_set_that_both_sides_signed() {
    let (org, mut home, [one, other]) = raced(&["ann", "bob", "cid"], &["ann", "bob", "dan"]);
    assert_eq!(frozen(&home, 12).unwrap().since, day(11));
    let all = org.later(3, 1, &["ann", "bob", "cid", "dan"]);
    let half = org.agreed(&[&one, &other], &all, org.first.digest(), &["cid"]);
    tell(&mut home, &half, 12);
    assert!(frozen(&home, 12).is_some(), "cid is of one side only");
    tell(&mut home, &signed(half, &["ann"]), 12);
    assert_eq!(in_force(&home, 12).set, all, "without any delay");
}

#[test]
fn a_set_that_all_rivals_signed_is_not_held_up_by_a_recovery_that_waits() {
    let (org, mut home, [one, other]) = raced(&["ann", "bob", "cid"], &["ann", "bob", "dan"]);
    let (saved, all) = (org.later(3, 1, &["safe"]), org.later(3, 1, &["ann", "bob"]));
    tell(&mut home, &org.way_out(&org.set(), &saved, org.first.digest(), PHRASES), 12);
    tell(&mut home, &org.agreed(&[&one, &other], &all, org.first.digest(), &["ann"]), 13);
    assert_eq!(in_force(&home, 13).set, all);
    assert_eq!(in_force(&home, 100).set, all);
}

#[test]
fn a_way_out_by_recovery_that_has_taken_effect_is_final_one_delay_later() {
    let (org, mut home, [one, other]) = raced(&["ann", "bob", "cid"], &["ann", "bob", "dan"]);
    let (saved, all) = (org.later(3, 1, &["safe"]), org.later(3, 1, &["ann", "bob"]));
    tell(&mut home, &org.way_out(&org.set(), &saved, org.first.digest(), PHRASES), 12);
    tell(&mut home, &org.agreed(&[&one, &other], &all, org.first.digest(), &["ann"]), 12 + 2 * DELAY + 1);
    assert_eq!(in_force(&home, 100).set, saved);
}

#[test]
fn a_third_rival_within_the_window_does_not_close_the_way_out() {
    let (org, mut p, _) = raced(&["ann"], &["eve"]);
    let mut q = org.replica();
    give(&p, &mut q, 11);
    let (third, cid) = (org.later(2, 1, &["eve-2"]), org.later(3, 1, &["cid"]));
    let way_out = org.way_out(&org.set(), &cid, org.first.digest(), PHRASES);
    tell(&mut p, &way_out, 12);
    tell(&mut q, &way_out, 12);
    tell(&mut p, &org.succession(&org.set(), &third, org.first.digest(), &["bob"]), 13);
    assert_eq!(frozen(&p, 13).unwrap().rivals.len(), 3);
    for replica in [&p, &q] {
        assert!(frozen(replica, 12 + DELAY - 1).is_some());
        assert_eq!(in_force(replica, 12 + DELAY).set, cid);
    }
}

#[test]
fn a_frozen_replica_signs_nothing_and_believes_no_new_head() {
    let (org, mut home, _) = raced(&["ann"], &["eve"]);
    let eager = org.forged(&org.first, &["ann", "bob"], |head, _| head.version = 2);
    hear(&mut home, &eager, 12);
    assert!(home.state(day(12)).is_err());
    assert!(crate::ledger::tests::drafting::draft(&home, day(12), &Wish::default()).is_err());
}

#[test]
fn sights_on_both_sides_of_the_windows_edge_are_healed_by_one_set() {
    let org = Org::new(1, &["ann", "bob"]);
    let (mut p, mut q) = (org.replica(), org.replica());
    let (ann, eve, next) = (org.later(2, 1, &["ann"]), org.later(2, 1, &["eve"]), org.later(3, 1, &["ann", "amy"]));
    let own = org.succession(&org.set(), &ann, org.first.digest(), &["ann"]);
    let false_step = org.succession(&org.set(), &eve, org.first.digest(), &["bob"]);
    tell(&mut p, &own, 10);
    tell(&mut q, &own, 10);
    tell(&mut p, &false_step, 10 + DELAY);
    tell(&mut q, &false_step, 10 + DELAY + 1);
    assert!(frozen(&p, 20).is_some());
    assert_eq!(in_force(&q, 20).set, ann);
    let way_out = org.way_out(&org.set(), &next, org.first.digest(), PHRASES);
    let same = org.succession(&ann, &next, org.first.digest(), &["ann"]);
    for replica in [&mut p, &mut q] {
        tell(replica, &way_out, 41);
        tell(replica, &same, 41);
    }
    let head = publish(&org, &mut p, (60, &["amy"]), &Wish::default());
    hear(&mut q, &head, 60);
    assert_eq!(state(&p, 60), state(&q, 60));
    assert_eq!(head_of(&p, 60), Some(head.digest()));
}

#[test]
fn stolen_phrases_and_a_replaced_key_together_do_not_get_past_a_set_that_objects() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let (bob, eve) = (org.later(2, 1, &["bob"]), org.later(3, 1, &["eve"]));
    let (_, head) = install(&org, &mut home, 0, &bob, (&["ann"], &["bob"]));
    let false_two = org.later(2, 1, &["eve"]);
    tell(&mut home, &org.succession(&org.set(), &false_two, org.first.digest(), &["ann"]), 500);
    tell(&mut home, &org.way_out(&org.set(), &eve, org.first.digest(), PHRASES), 500);
    tell(&mut home, &org.way_out(&org.set(), &false_two, org.first.digest(), PHRASES), 500);
    tell(&mut home, &org.recovery(&bob, &eve, org.first.digest(), PHRASES), 500);
    let next = org.later(3, 1, &["bob-2"]);
    tell(&mut home, &org.succession(&bob, &next, head.digest(), &["bob"]), 501);
    assert_eq!(in_force(&home, 600).set, next);
}

#[test]
fn a_step_needs_the_threshold_of_the_set_that_it_follows_or_the_recovery_keys_and_the_next_number() {
    let org = Org::new(2, &["ann", "bob", "cat"]);
    let (mut home, head) = (org.replica(), org.first.digest());
    let (two, three) = (org.later(2, 2, &["ann", "eve"]), org.later(3, 2, &["ann", "eve"]));
    let good = org.succession(&org.set(), &two, head, &["ann", "bob"]);
    let stance = |home: &Store, step: &Envelope| home.stance_if_seen(step, day(1)).unwrap();
    assert_eq!(stance(&home, &good), Stance::Taken);
    let waits = stance(&home, &org.recovery(&org.set(), &two, head, PHRASES));
    assert_eq!(waits, Stance::Waits { until: day(1 + DELAY) });
    for by in [&["ann"][..], &["eve", "dan"], &["ann", "eve"], &[], PHRASES] {
        assert_eq!(stance(&home, &org.succession(&org.set(), &two, head, by)), Stance::NotTaken, "{by:?}");
    }
    for by in [&["phrase-1"][..], &["ann", "bob", "cat"], &["phrase-1", "ann"], &[]] {
        assert_eq!(stance(&home, &org.recovery(&org.set(), &two, head, by)), Stance::NotTaken, "{by:?}");
    }
    let skips = org.succession(&org.set(), &three, head, &["ann", "bob"]);
    assert_eq!(stance(&home, &skips), Stance::NotTaken);
    tell(&mut home, &good, 1);
    assert_eq!(in_force(&home, 1).set, two);
    let again = org.succession(&two, &two, head, &["ann", "eve"]);
    assert_eq!(stance(&home, &again), Stance::NotTaken);
}

#[test]
fn whose_signatures_a_step_lacks_is_told_of_one_that_would_be_taken_once_it_has_them() {
    let org = Org::new(2, &["ann", "bob", "cat"]);
    let (mut home, head, two) = (org.replica(), org.first.digest(), org.later(2, 2, &["ann", "eve"]));
    let asks = |home: &Store, step: Envelope| home.asks(&SignerStep::read(home.org, &step).unwrap(), day(2));
    assert_eq!(asks(&home, org.succession(&org.set(), &two, head, &[])), Some(vec![org.set().quorum]));
    let recovery = org.recovery(&org.set(), &two, head, &[]);
    assert_eq!(asks(&home, recovery), Some(vec![home.basis.recovery.clone()]));
    tell(&mut home, &org.succession(&org.set(), &two, head, &["ann", "bob"]), 1);
    let (late, again) = (org.later(2, 1, &["cat"]), org.later(3, 2, &["ann", "bob"]));
    assert_eq!(asks(&home, org.succession(&org.set(), &late, head, &[])), None, "of the set before");
    assert_eq!(asks(&home, org.succession(&two, &again, head, &[])), None, "the key of `bob` never returns");
}

#[test]
fn a_removed_signers_key_never_returns() {
    let org = Org::new(1, &["ann", "bob"]);
    let mut home = org.replica();
    let ann = org.later(2, 1, &["ann"]);
    install(&org, &mut home, 1, &ann, (&["ann"], &["ann"]));
    let by_bob = org.invite("eve-invite", &["x"], &[("g1", 9)], (999, &["bob"]));
    tell(&mut home, &by_bob, 2);
    let again = org.later(3, 1, &["ann", "bob"]);
    let head = home.ground(day(9)).unwrap().head.unwrap().digest;
    tell(&mut home, &org.succession(&ann, &again, head, &["ann"]), 9);
    assert_eq!(in_force(&home, 9).set, ann);
    let recovered = org.recovery(&ann, &again, head, PHRASES);
    tell(&mut home, &recovered, 9);
    assert_eq!(in_force(&home, 99).set, ann, "not by the phrases either");
    super::replicas::admit(&org, &mut home, ("g1", 9), ("k-eve", "x"), &by_bob);
    assert_nobody(&home, "x", 9);
}

#[test]
fn a_removed_signer_of_a_one_of_two_set_who_goes_on_is_heard_by_nobody() {
    let org = Org::new(1, &["ann", "bob"]);
    let (mut home, mut peer) = (org.replica(), org.replica());
    install(&org, &mut home, 1, &org.later(2, 1, &["ann"]), (&["ann"], &["ann"]));
    give(&home, &mut peer, 1);
    let before = state(&peer, 2);
    let goes_on = org.forged(&org.first, &["bob"], |head, leaves| {
        head.version = 9;
        head.revocations.node_keys.insert(key("ka"));
        leaves.insert(node("x"), leaf("x", "k-eve"));
    });
    hear(&mut peer, &goes_on, 2);
    let by_bob = org.invite("late", &["y"], &[("g1", 9)], (999, &["bob"]));
    tell(&mut peer, &by_bob, 2);
    assert_eq!(state(&peer, 2), before);
    super::replicas::admit(&org, &mut peer, ("g1", 2), ("k-eve", "y"), &by_bob);
    assert_eq!(state(&peer, 2).members, before.members);
}

#[test]
fn a_succession_is_seen_only_with_a_head_to_stand_on() {
    let Replaced { org, home, step, bob, .. } = replaced();
    let mut new = org.newcomer(None);
    tell(&mut new, &step, 11);
    assert_eq!(in_force(&new, 90).set, org.set());
    give(&home, &mut new, 100);
    assert_eq!((in_force(&new, 100).set, in_force(&new, 100).since), (bob, Some(day(100))));
}

#[test]
fn while_its_first_head_is_withheld_the_named_head_stands_in_and_no_head_nine_of_a_replaced_key() {
    let Replaced { org, step, .. } = replaced();
    let mut replica = org.replica();
    tell(&mut replica, &step, 11);
    assert_holds(&replica, "alpha", "ka", 11);
    let nine = org.forged(&org.first, &["ann"], |head, leaves| {
        head.version = 9;
        leaves.insert(node("alpha"), leaf("alpha", "k-eve"));
    });
    hear(&mut replica, &nine, 12);
    assert_eq!(head_of(&replica, 12), Some(org.first.digest()));
    assert_holds(&replica, "alpha", "ka", 12);
}

#[test]
fn two_first_heads_of_one_succession_are_rivals_and_the_next_takes_both_in() {
    let Replaced { org, home, .. } = replaced();
    let (mut one, mut other) = (org.replica(), org.replica());
    for replica in [&mut one, &mut other] {
        let steps = home.steps.values().map(|step| step.envelope.clone().into()).collect::<Vec<_>>();
        hear_all(replica, &steps, 10);
    }
    let revokes = Wish { revoke_keys: vec![key("ka")], ..Wish::default() };
    publish(&org, &mut one, (10, &["bob"]), &revokes);
    publish(&org, &mut other, (10, &["bob"]), &Wish::default());
    give(&one, &mut other, 11);
    give(&other, &mut one, 11);
    assert_eq!(state(&one, 11), state(&other, 11));
    assert_nobody(&one, "alpha", 11);
    let next = publish(&org, &mut one, (12, &["bob"]), &Wish::default());
    assert_eq!(org.body(&next).previous.len(), 2);
    let mut new = org.newcomer(Some(in_force(&one, 12).set.as_ref()));
    hear_all(&mut new, &[next, home.steps.values().next().unwrap().envelope.clone().into()], 12);
    assert_nobody(&new, "alpha", 12);
}

#[test]
fn a_home_restored_in_mid_rotation_is_handed_what_it_forgot() {
    let Replaced { org, home, bob, false_step, .. } = replaced();
    let mut restored = org.replica();
    // Not knowing better, ann signs one more head of her own.
    let mut there = home.clone();
    let stray = publish(&org, &mut restored, (20, &["ann"]), &Wish::default());
    hear(&mut there, &stray, 21);
    assert_eq!(state(&there, 21), state(&home, 21));
    give(&there, &mut restored, 22);
    assert_eq!(state(&restored, 22), state(&there, 22));
    // Its own first sight is the day on which it was handed over: from a thief's word on that day only a floor saves.
    let mut with_floor = org.newcomer(Some(bob.as_ref()));
    give(&restored, &mut with_floor, 22);
    tell(&mut with_floor, &false_step, 22);
    tell(&mut restored, &false_step, 22);
    assert_eq!(in_force(&with_floor, 22).set, bob);
    assert!(frozen(&restored, 22).is_some());
}
