//! Scenes of gateways' chains: who is let in, who waits and why, names, uses, forks and restored machines.

use crate::invite::Invite;
use crate::ledger::counts::NotCounted;
use crate::ledger::entry::Action;
use crate::ledger::fold::Why;
use crate::ledger::judge::NotMember;
use crate::ledger::tests::drafting::{Wish, draft};
use crate::ledger::tests::replicas::{
    admission, admit, assert_holds, assert_nobody, assert_waits, give, hear, hear_all, install, last, publish,
    shows_leaf, state, tell, under, why, write,
};
use crate::ledger::tests::world::{FRESH, Org, day, key, mandate, node, signed, voice};

#[test]
fn an_entry_under_a_head_that_others_never_saw_counts_for_them_too() {
    let org = Org::new(1, &["ann"]);
    let (mut home, mut gateway, mut new) = (org.replica(), org.replica(), org.newcomer(None));
    let invite = org.invite("i", &["x"], &[("g1", 1)], (50, &["ann"]));
    hear(&mut gateway, &publish(&org, &mut home, (1, &["ann"]), &Wish::default()), 1);
    let entry = admit(&org, &mut gateway, ("g1", 1), ("k1", "x"), &invite);
    let three = publish(&org, &mut home, (2, &["ann"]), &Wish::default());
    hear(&mut gateway, &three, 2);
    hear_all(&mut new, &[three, invite.into(), entry.into()], 3);
    assert_eq!(state(&gateway, 3), state(&new, 3));
    assert_holds(&new, "x", "k1", 3);
}

#[test]
fn a_gateway_that_was_fed_a_replaced_sets_head_loses_no_honest_entry() {
    let org = Org::new(1, &["ann"]);
    let (mut home, mut gateway) = (org.replica(), org.replica());
    let invite = org.invite("i", &["x", "y"], &[("g1", 5)], (50, &["ann", "bob"]));
    let (step, head) = install(&org, &mut home, 1, &org.later(2, 1, &["bob"]), (&["ann"], &["bob"]));
    hear(&mut gateway, &org.forged(&org.first, &["ann"], |head, _| head.version = 900), 2);
    admit(&org, &mut gateway, ("g1", 2), ("k1", "x"), &invite);
    hear_all(&mut gateway, &[step.into(), head], 3);
    admit(&org, &mut gateway, ("g1", 4), ("k2", "y"), &invite);
    give(&gateway, &mut home, 5);
    assert_holds(&home, "x", "k1", 5);
    assert_holds(&home, "y", "k2", 5);
}

#[test]
fn a_name_that_its_key_hands_on_passes_with_the_next_head_and_not_before() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["alpha"], &[("g1", 5)], (50, &["ann"]));
    tell(&mut home, &invite, 0);
    let claim = org.claim(("k2", "alpha"), &invite, Some("ka"));
    let action = Action::NodeAdmit { claim, invite: Some(invite.clone()), approval: None };
    let handed = write(&org, &mut home, "g1", 1, action);
    assert_holds(&home, "alpha", "ka", 1);
    let (name, published, presented) = (node("alpha"), key("ka"), key("k2"));
    assert_waits(&home, &handed, 1, &NotMember::NameOfAnother { name, published, presented });
    publish(&org, &mut home, (2, &["ann"]), &Wish::default());
    assert_holds(&home, "alpha", "k2", 2);
    assert_eq!(shows_leaf(&home, &org.first, "alpha", 2), Err(NotMember::Revoked));
}

#[test]
fn a_name_is_not_handed_on_by_whom_it_does_not_belong_to_nor_under_an_invite_that_does_not_count() {
    let org = Org::new(1, &["ann"]);
    let good = org.invite("i", &["alpha"], &[("g1", 5)], (50, &["ann"]));
    let bad = org.invite("bad", &["alpha"], &[("g1", 5)], (50, &["eve"]));
    for (invite, old) in [(&good, "k-other"), (&bad, "ka")] {
        let mut home = org.replica();
        let claim = org.claim(("k2", "alpha"), invite, Some(old));
        let action = Action::NodeAdmit { claim, invite: Some(invite.clone()), approval: None };
        write(&org, &mut home, "g1", 1, action);
        publish(&org, &mut home, (2, &["ann"]), &Wish::default());
        assert_holds(&home, "alpha", "ka", 2);
    }
}

#[test]
fn a_name_that_its_key_hands_on_to_two_passes_to_none_until_an_operator_decides() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["alpha"], &[("g1", 5)], (50, &["ann"]));
    let heirs = ["k2", "k3"].map(|heir| {
        let claim = org.claim((heir, "alpha"), &invite, Some("ka"));
        write(&org, &mut home, "g1", 1, Action::NodeAdmit { claim, invite: Some(invite.clone()), approval: None })
    });
    publish(&org, &mut home, (2, &["ann"]), &Wish::default());
    assert_holds(&home, "alpha", "ka", 2);
    publish(&org, &mut home, (3, &["ann"]), &Wish { list: vec![heirs[1].digest], ..Wish::default() });
    assert_holds(&home, "alpha", "k3", 3);
}

#[test]
fn a_machine_that_left_frees_its_name_and_its_key_never_returns() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["alpha"], &[("g1", 5)], (50, &["ann"]));
    tell(&mut home, &invite, 0);
    write(&org, &mut home, "g1", 1, Action::NodeLeave { leave: org.leave("ka"), name: node("alpha") });
    assert_nobody(&home, "alpha", 1);
    admit(&org, &mut home, ("g1", 1), ("k2", "alpha"), &invite);
    assert_holds(&home, "alpha", "k2", 1);
    publish(&org, &mut home, (2, &["ann"]), &Wish::default());
    assert_holds(&home, "alpha", "k2", 2);
    let back = admit(&org, &mut home, ("g1", 3), ("ka", "alpha"), &invite);
    assert_waits(&home, &back, 3, &NotMember::Revoked);
}

#[test]
fn a_replica_that_lacks_recorded_entries_does_not_guess_the_uses() {
    let org = Org::new(1, &["ann"]);
    let (mut gateway, mut new) = (org.replica(), org.newcomer(None));
    let invite = org.invite("i", &["x", "y"], &[("g1", 1)], (50, &["ann"]));
    tell(&mut gateway, &invite, 0);
    let first = admit(&org, &mut gateway, ("g1", 1), ("k1", "x"), &invite);
    let head = publish(&org, &mut gateway, (2, &["ann"]), &Wish::default());
    let second = admit(&org, &mut gateway, ("g1", 3), ("k2", "y"), &invite);
    hear_all(&mut new, &[head, invite.into(), second.clone().into()], 4);
    assert_waits(&new, &second, 4, &NotMember::UsesUnknown);
    hear(&mut new, &first.into(), 5);
    assert_waits(&new, &second, 5, &NotMember::NoUsesLeft);
}

#[test]
fn an_overspent_invite_lets_in_as_many_as_it_says_in_the_order_of_the_chain() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x", "y", "z"], &[("g1", 2), ("g2", 1)], (50, &["ann"]));
    admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    admit(&org, &mut home, ("g1", 1), ("k2", "y"), &invite);
    let third = admit(&org, &mut home, ("g1", 1), ("k3", "z"), &invite);
    assert_waits(&home, &third, 1, &NotMember::NoUsesLeft);
    admit(&org, &mut home, ("g2", 1), ("k4", "z"), &invite);
    for (name, key) in [("x", "k1"), ("y", "k2"), ("z", "k4")] {
        assert_holds(&home, name, key, 1);
    }
    let no_right = admit(&org, &mut home, ("g3", 1), ("k5", "z"), &invite);
    assert_waits(&home, &no_right, 1, &NotMember::NoUsesLeft);
}

#[test]
fn a_use_is_spent_whatever_became_of_the_key() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x", "y"], &[("g2", 1)], (40, &["ann"]));
    let mut elsewhere = org.replica();
    admit(&org, &mut home, ("g2", 1), ("e1", "x"), &invite);
    let revokes = Wish { revoke_keys: vec![key("e1")], ..Wish::default() };
    hear(&mut home, &publish(&org, &mut elsewhere, (1, &["ann"]), &revokes), 1);
    let second = admit(&org, &mut home, ("g2", 2), ("e2", "y"), &invite);
    assert_waits(&home, &second, 2, &NotMember::NoUsesLeft);
}

#[test]
fn two_keys_under_one_unlisted_name_and_two_names_of_one_key_all_wait() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x", "y", "z"], &[("g1", 9), ("g2", 9)], (40, &["ann"]));
    let bad = org.invite("bad", &["w", "z"], &[("g2", 9)], (40, &["eve"]));
    let all = [("g1", "k1", "x"), ("g2", "e1", "x"), ("g2", "e1", "y")];
    let all = all.map(|(gateway, key, name)| admit(&org, &mut home, (gateway, 1), (key, name), &invite));
    for entry in &all {
        assert_eq!(why(&home, entry, 1), Some(Why::Contested));
    }
    // What does not count contests nothing.
    admit(&org, &mut home, ("g1", 1), ("k3", "z"), &invite);
    admit(&org, &mut home, ("g2", 1), ("e2", "z"), &bad);
    assert_holds(&home, "z", "k3", 1);
    // An operator decides.
    let wish = Wish { list: vec![all[0].digest], ..Wish::default() };
    publish(&org, &mut home, (2, &["ann"]), &wish);
    assert_holds(&home, "x", "k1", 2);
}

#[test]
fn a_chain_that_forks_stands_up_to_there_and_the_order_of_arrival_chooses_nothing() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x", "y", "z"], &[("g1", 9)], (40, &["ann"]));
    tell(&mut home, &invite, 0);
    let first = admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    let ways = [("k2", "y"), ("k3", "z")].map(|who| admission(&org, who, &invite));
    let [one, other] = ways.map(|action| org.entry("g1", Some(&first), under(&home, 1), action));
    hear(&mut home, &one.clone().into(), 1);
    assert_holds(&home, "y", "k2", 1);
    hear(&mut home, &other.clone().into(), 2);
    assert_holds(&home, "x", "k1", 2);
    assert_waits(&home, &one, 2, &NotMember::Forked);
    assert_waits(&home, &other, 2, &NotMember::Forked);
    assert_eq!(state(&home, 2).forks[&voice("g1")], 2);
    // Reopened: the operators close the voice, list whom they choose, and rights are signed anew.
    let wish = Wish {
        close: vec![voice("g1")],
        mandate: vec![mandate("g1", "g1-anew")],
        list: vec![other.digest],
        ..Wish::default()
    };
    publish(&org, &mut home, (3, &["ann"]), &wish);
    assert_holds(&home, "x", "k1", 3);
    assert_holds(&home, "z", "k3", 3);
    assert_waits(&home, &one, 3, &NotMember::NoMandate);
}

#[test]
fn a_gateway_restored_without_its_last_entry_that_writes_on_forks_and_loses_nobody_unsaid() {
    let org = Org::new(1, &["ann"]);
    let (mut home, mut gateway) = (org.replica(), org.replica());
    let invite = org.invite("i", &["x", "y"], &[("g1", 9)], (40, &["ann"]));
    tell(&mut gateway, &invite, 0);
    let forgotten = admit(&org, &mut gateway, ("g1", 1), ("k1", "x"), &invite);
    give(&gateway, &mut home, 1);
    gateway.chains.clear();
    let again = admit(&org, &mut gateway, ("g1", 2), ("k2", "y"), &invite);
    give(&gateway, &mut home, 3);
    for entry in [&forgotten, &again] {
        assert_waits(&home, entry, 3, &NotMember::Forked);
    }
}

#[test]
fn what_lies_beyond_a_missing_place_waits_until_somebody_brings_it() {
    let org = Org::new(1, &["ann"]);
    let (mut home, mut gateway) = (org.replica(), org.replica());
    let invite = org.invite("i", &["x", "y"], &[("g1", 9)], (40, &["ann"]));
    let first = admit(&org, &mut gateway, ("g1", 1), ("k1", "x"), &invite);
    let second = admit(&org, &mut gateway, ("g1", 1), ("k2", "y"), &invite);
    hear(&mut home, &second.clone().into(), 2);
    assert_waits(&home, &second, 2, &NotMember::NotLinked);
    hear(&mut home, &first.into(), 3);
    assert_holds(&home, "y", "k2", 3);
}

#[test]
fn an_invite_may_have_been_over_for_one_fresh_span_and_not_longer() {
    let org = Org::new(1, &["ann"]);
    for (issued, counts) in [(40, true), (40 + FRESH - 1, true), (40 + FRESH, false)] {
        let mut home = org.replica();
        publish(&org, &mut home, (issued, &["ann"]), &Wish::default());
        let invite = org.invite("i", &["x"], &[("g2", 1)], (40, &["ann"]));
        let entry = admit(&org, &mut home, ("g2", issued), ("k", "x"), &invite);
        let expected = Why::Judged(NotMember::Invite(NotCounted::Over { until: day(40) }));
        assert_eq!(why(&home, &entry, issued), (!counts).then_some(expected), "day {issued}");
    }
}

#[test]
fn a_leaf_outlives_invite_and_gateway() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x"], &[("g1", 1)], (40, &["ann"]));
    tell(&mut home, &invite, 0);
    admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    publish(&org, &mut home, (2, &["ann"]), &Wish::default());
    let id = invite.peek::<Invite>(Some(org.founding.id)).unwrap().id;
    let wish = Wish { close: vec![voice("g1")], revoke_invites: vec![id], ..Wish::default() };
    publish(&org, &mut home, (200, &["ann"]), &wish);
    assert_holds(&home, "x", "k1", 200);
}

#[test]
fn who_joined_in_the_tail_of_a_gateway_that_is_closed_then_gets_its_leaf_by_the_same_head() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x", "y"], &[("g1", 2)], (40, &["ann"]));
    admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    publish(&org, &mut home, (2, &["ann"]), &Wish { close: vec![voice("g1")], ..Wish::default() });
    assert_holds(&home, "x", "k1", 2);
    let beyond = admit(&org, &mut home, ("g1", 3), ("k2", "y"), &invite);
    assert_waits(&home, &beyond, 3, &NotMember::NoMandate);
    publish(&org, &mut home, (4, &["ann"]), &Wish { list: vec![beyond.digest], ..Wish::default() });
    assert_holds(&home, "y", "k2", 4);
}

#[test]
fn new_signatures_on_the_same_bytes_carry_an_invite_over_a_change_of_signers() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x"], &[("g1", 1)], (50, &["ann"]));
    tell(&mut home, &invite, 0);
    let entry = admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    let mut other = org.replica();
    tell(&mut other, &org.succession(&org.set(), &org.later(2, 1, &["bob"]), org.first.digest(), &["ann"]), 2);
    tell(&mut other, &entry.envelope, 2);
    let unsigned = NotMember::Invite(NotCounted::NotSigned { found: 0, needed: 1 });
    assert_waits(&other, &entry, 2, &unsigned);
    tell(&mut other, &signed(invite, &["bob"]), 3);
    assert_holds(&other, "x", "k1", 3);
}

#[test]
fn signatures_that_come_one_by_one_add_up() {
    let org = Org::new(2, &["ann", "bob", "cid"]);
    let mut home = org.replica();
    let unsigned = org.invite("i", &["x"], &[("g1", 1)], (50, &[]));
    let entry = admit(&org, &mut home, ("g1", 1), ("k1", "x"), &signed(unsigned.clone(), &["ann"]));
    assert_waits(&home, &entry, 1, &NotMember::Invite(NotCounted::NotSigned { found: 1, needed: 2 }));
    tell(&mut home, &signed(unsigned.clone(), &["eve"]), 2);
    tell(&mut home, &unsigned, 2);
    let other = signed(unsigned.clone(), &["ann"]);
    tell(&mut home, &other, 2);
    assert_waits(&home, &entry, 2, &NotMember::Invite(NotCounted::NotSigned { found: 1, needed: 2 }));
    tell(&mut home, &signed(unsigned, &["cid"]), 3);
    assert_holds(&home, "x", "k1", 3);
}

#[test]
fn what_follows_a_branch_that_was_not_recorded_waits() {
    let org = Org::new(1, &["ann"]);
    let (mut home, mut twin) = (org.replica(), org.replica());
    let invite = org.invite("i", &["x", "y", "z"], &[("g1", 9)], (40, &["ann"]));
    tell(&mut home, &invite, 0);
    admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    publish(&org, &mut home, (1, &["ann"]), &Wish::default());
    admit(&org, &mut twin, ("g1", 1), ("k2", "y"), &invite);
    let beyond = admit(&org, &mut twin, ("g1", 1), ("k3", "z"), &invite);
    give(&twin, &mut home, 2);
    assert_waits(&home, &beyond, 2, &NotMember::NotLinked);
    assert_eq!(state(&home, 2).members.len(), 2);
}

#[test]
fn a_voided_entry_beside_good_ones_holds_up_none_of_them() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x", "y"], &[("g1", 2)], (50, &["ann"]));
    tell(&mut home, &invite, 0);
    admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    // The claim is not signed by the machine that it names.
    let stranger = org.claim(("k-eve", "w"), &invite, None);
    let claim = stranger.kept(&std::collections::BTreeSet::new());
    let void = Action::NodeAdmit { claim, invite: Some(invite.clone()), approval: None };
    let void = write(&org, &mut home, "g1", 1, void);
    admit(&org, &mut home, ("g1", 1), ("k2", "y"), &invite);
    assert!(matches!(why(&home, &void, 1), Some(Why::Unreadable(_))));
    publish(&org, &mut home, (2, &["ann"]), &Wish::default());
    assert_holds(&home, "x", "k1", 2);
    assert_holds(&home, "y", "k2", 2);
    assert!(state(&home, 2).waiting.contains_key(&void.digest));
    assert_eq!(home.ground(day(2)).unwrap().head().unwrap().record[&voice("g1")].seq, 3);
}

#[test]
fn a_no_outranks_a_yes_wherever_it_comes_from() {
    use crate::invite::Approval;
    use crate::invite::approve::{Decision, Verdict};
    let org = Org::new(1, &["ann", "bob"]);
    let mut home = org.replica();
    let asks =
        crate::invite::Invite { approval: Approval::Human, ..super::world::invite("i", &["x", "y"], &[("g1", 9)], 50) };
    let invite = org.seal(&asks, &["ann"]);
    let decided = |about, verdict, by: &str| org.seal(&Decision { about, verdict, until: Some(day(40)) }, &[by]);
    let claim = org.claim(("k1", "x"), &invite, None);
    let approved = |by| Action::NodeAdmit {
        claim: claim.clone(),
        invite: Some(invite.clone()),
        approval: Some(decided(claim.digest(), Verdict::Approve, by)),
    };
    let by_eve = write(&org, &mut home, "g1", 1, approved("eve"));
    assert_waits(&home, &by_eve, 1, &NotMember::NotApproved);
    let by_ann = write(&org, &mut home, "g1", 1, approved("ann"));
    assert_holds(&home, "x", "k1", 1);
    tell(&mut home, &decided(claim.digest(), Verdict::Deny, "eve"), 2);
    assert_holds(&home, "x", "k1", 2);
    tell(&mut home, &decided(claim.digest(), Verdict::Deny, "bob"), 2);
    assert_waits(&home, &by_ann, 2, &NotMember::Denied);
    let unasked = write(&org, &mut home, "g1", 3, admission(&org, ("k2", "y"), &invite));
    assert_waits(&home, &unasked, 3, &NotMember::NotApproved);
    assert_eq!(last(&home, "g1").unwrap().digest, unasked.digest);
    assert!(draft(&home, day(3), &Wish::default()).unwrap().leaves.len() == 1);
}

#[test]
fn an_invite_for_any_name_lists_no_class() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let any = org.invite("any", &["*"], &[("g1", 9)], (50, &["ann"]));
    admit(&org, &mut home, ("g1", 1), ("k1", "db-7"), &any);
    assert_holds(&home, "db-7", "k1", 1);
    let body: Invite = any.peek(Some(org.founding.id)).unwrap();
    assert!(!body.lists(&node("db-7")), "it is a member, and gets nothing that such names carry");
    let narrow = org.invite("narrow", &["web-*"], &[("g1", 9)], (50, &["ann"]));
    let beyond = admit(&org, &mut home, ("g1", 1), ("k2", "db-8"), &narrow);
    assert_waits(&home, &beyond, 1, &NotMember::BeyondInvite);
}
