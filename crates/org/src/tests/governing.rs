//! Signer sets that change hands, recovery, suspension, and ledgers that were restored from an older copy.

use identity::envelope::Envelope;
use identity::head::Epoch;
use identity::id::InviteId;
use identity::signers::{Quorum, Recovery};
use identity::time::{Seconds, Timestamp};

use super::taking_back::settled;
use super::world::{NOW, World, author, ed, node, node_key, quorum, shuffled};
use crate::entry::{Action, Cause, SignedEntry};
use crate::fold::fold_opened;
use crate::refusal::Refusal;
use crate::restore::Confirmation;
use crate::state::{Standing, State, Unfit, Void};
use crate::suspend::Suspension;
use identity::key::Sign as _;

fn world() -> World {
    let mut world = World::new(1, &["ann", "ben"]);
    world.invite("ann", 1, [5, 5]);
    world.share();
    world.admit("gw-1", 1, 1, "web");
    world.share();
    world
}

fn recovery(world: &World, quorum: Quorum, by: &[&str]) -> Envelope {
    let known = world.signers("ann");
    world.sealed(
        &Recovery { version: known.version + 1, previous: known.id, quorum, head: None, settles: false, at: NOW },
        by,
    )
}

/// An entry of a recovered signer, who is in no view yet.
fn by_recovered(world: &World, who: &str, action: Action, at: Timestamp) -> SignedEntry {
    let mut entry = world.draft("gw-1", action);
    let seen = world.view("gw-1").frontier.clone();
    (entry.author, entry.key, entry.seen, entry.at) = (author(who), ed(who).public(), seen, at);
    (entry.seq, entry.previous) = (1, None);
    world.signed(&entry, who)
}

#[test]
fn a_recovered_set_takes_over_when_the_delay_is_over_and_not_before() {
    let mut world = world();
    let recovery = recovery(&world, quorum(1, &["zoe"]), &["safe"]);
    world.append("gw-1", Action::RecoveryBegin { recovery: recovery.clone() });
    let install = world.with_head("gw-1", recovery, &["zoe"]);
    let due = NOW + Seconds::DAY;
    let mut state = world.view("gw-1").clone();
    assert_eq!(state.open_recoveries().count(), 1);

    let early = by_recovered(&world, "zoe", install.clone(), due - Seconds(1));
    assert!(matches!(state.clone().apply(&early), Ok(Err(Void::BadObject(_)))));
    assert_eq!(state.signer_set().version, 1);

    let on_time = by_recovered(&world, "zoe", install, due);
    assert_eq!(state.apply(&on_time), Ok(Ok(())));
    assert_eq!(state.signer_set().quorum, quorum(1, &["zoe"]));
    assert_eq!(state.head().unwrap().head.signers, state.signer_set().as_ref());
    assert_eq!(state.open_recoveries().count(), 0);
    assert!(!state.is_frozen());
}

#[test]
fn nobody_recovers_without_the_recovery_keys_or_unseen() {
    let mut world = world();
    let by_signers = recovery(&world, quorum(1, &["zoe"]), &["ann", "ben"]);
    let entry = world.append("gw-1", Action::RecoveryBegin { recovery: by_signers });
    assert!(matches!(settled(&world).void.get(&entry.digest), Some(Void::BadObject(_))));
    // Well signed, but never begun: its author is nobody here.
    let hidden = world.with_head("gw-1", recovery(&world, quorum(1, &["zoe"]), &["safe"]), &["zoe"]);
    let unseen = by_recovered(&world, "zoe", hidden, NOW + Seconds::DAY.times(9));
    assert!(matches!(world.view("gw-1").clone().apply(&unseen), Err(Unfit::NotAnAuthor(_))));
}

#[test]
fn the_set_that_is_not_lost_cancels_a_recovery_by_signing_its_own_successor() {
    let mut world = world();
    let recovery = recovery(&world, quorum(1, &["zoe"]), &["safe"]);
    world.append("gw-1", Action::RecoveryBegin { recovery: recovery.clone() });
    let install = world.with_head("gw-1", recovery, &["zoe"]);
    let cancel = world.install("ann", quorum(1, &["ann", "ben"]), &["ann"], &["ann"]);
    world.append("ann", cancel);
    world.share();
    assert_eq!(world.view("gw-1").open_recoveries().count(), 0);
    let late = by_recovered(&world, "zoe", install, NOW + Seconds::DAY.times(9));
    assert!(matches!(world.view("gw-1").clone().apply(&late), Ok(Err(Void::BadObject(_)))));
}

#[test]
fn where_both_meet_the_sets_own_successor_wins_in_every_order() {
    let mut world = world();
    let recovery = recovery(&world, quorum(1, &["zoe"]), &["safe"]);
    world.append("gw-1", Action::RecoveryBegin { recovery: recovery.clone() });
    let install = world.with_head("gw-1", recovery, &["zoe"]);
    let late = by_recovered(&world, "zoe", install, NOW + Seconds::DAY);
    let cancel = world.install("ann", quorum(1, &["ann", "cat"]), &["ann"], &["ann"]);
    world.append("ann", cancel);
    world.log.push(late);
    let state = settled(&world);
    assert_eq!(state.signer_set().quorum, quorum(1, &["ann", "cat"]));
    assert_eq!(state.head().unwrap().head.signers, state.signer_set().as_ref());
    // It is still shown: somebody may have believed the other one.
    assert!(state.is_frozen());
}

#[test]
fn what_a_removed_signer_signs_later_revokes_nobody_in_any_order_and_binds_no_later_head() {
    let mut world = World::new(1, &["ann", "bob"]);
    world.invite("ann", 1, [5, 5]);
    world.share();
    world.admit("gw-1", 3, 1, "mail");
    world.share();
    world.revoke_node("ann", 7);
    world.share();
    let install = world.install("ann", quorum(1, &["ann"]), &["ann"], &["ann"]);
    world.append("ann", install);
    // Bob's view never learnt of it, or so he says.
    let mut head = world.next_head("bob");
    head.revocations.node_keys.insert(node_key(3).public().digest());
    let head = world.sealed(&head, &["bob"]);
    let late = world.draft("bob", Action::HeadPublish { head, cause: Cause::Refresh });
    let late = world.push("bob", &late);
    let orders = [vec![0, 1, 2, 3, 4, 5, 6, 7], vec![7, 6, 5, 4, 3, 2, 1, 0]];
    for order in orders {
        let entries = shuffled(world.log.clone(), &order);
        let folded = fold_opened(&world.founding, entries);
        assert!(!folded.unplaced.contains(&late.digest));
        let state = folded.state;
        assert_eq!(state.standing(state.member(&node_key(3).public()).unwrap()), Standing::Issued);
        assert!(state.revocations.node_keys.contains(&node_key(7).public().digest()), "what came before stays");
        let next = world.next_head("ann");
        let next = world.signed(
            &world.draft("ann", Action::HeadPublish { head: world.sealed(&next, &["ann"]), cause: Cause::Refresh }),
            "ann",
        );
        assert_eq!(state.check_follows(&next, NOW), Ok(()));
    }
}

#[test]
fn an_invite_dies_with_the_signers_who_made_it() {
    let mut world = world();
    let keep = world.install("ben", quorum(1, &["ann", "ben", "cat"]), &["ben"], &["ben"]);
    world.append("ben", keep);
    world.share();
    let kept = world.admit("gw-1", 2, 1, "db");
    assert_eq!(settled(&world).void.get(&kept.digest), None, "ann is still a signer");
    let drop = world.install("ben", quorum(1, &["ben"]), &["ben"], &["ben"]);
    world.append("ben", drop);
    world.share();
    let outdated = world.admit("gw-1", 3, 1, "mail");
    assert!(matches!(settled(&world).void.get(&outdated.digest), Some(Void::Unknown(_))));
    let claim = World::claim(4, 1, "new");
    let attempt = crate::enroll::Attempt {
        claim: &claim,
        claimed: identity::id::Digest([0; 32]),
        source: [127, 0, 0, 1].into(),
        gateway: &node("gw-1"),
        now: NOW,
    };
    let refusal = crate::enroll::consider(world.view("gw-1"), attempt).unwrap_err();
    assert_eq!(refusal, Refusal::InviteOutdated);
}

fn suspension(world: &World, by: &str, span: Seconds) -> Action {
    suspension_at(world, by, (NOW, span), "odd")
}

fn suspension_at(world: &World, by: &str, (at, span): (Timestamp, Seconds), reason: &str) -> Action {
    let node_key = node_key(1).public().digest();
    let body = Suspension { node_key, name: node("web"), at, until: at + span, reason: reason.to_owned() };
    Action::NodeSuspend { suspension: world.sealed(&body, &[by]), name: node("web") }
}

#[test]
fn one_signer_suspends_for_a_day_and_only_once() {
    let mut world = World::new(2, &["ann", "ben"]);
    let invite = world.sealed(&world.invite_body("ann", 1, [5, 5]), &["ann", "ben"]);
    world.invites.insert(1, invite.clone());
    world.append("ann", Action::InviteCreate { invite });
    world.share();
    world.admit("gw-1", 1, 1, "web");
    world.share();
    let key = node_key(1).public().digest();

    let too_long = world.append("ann", suspension(&world, "ann", Seconds(86_401)));
    assert!(matches!(settled(&world).void.get(&too_long.digest), Some(Void::BadObject(_))));
    let anothers = world.append("ann", suspension(&world, "ben", Seconds::HOUR));
    assert!(matches!(settled(&world).void.get(&anothers.digest), Some(Void::BadObject(_))));

    world.append("ann", suspension(&world, "ann", Seconds::HOUR));
    let state = settled(&world);
    assert!(state.is_suspended(key, NOW + Seconds(3_599)).is_some());
    assert!(state.is_suspended(key, NOW + Seconds::HOUR).is_none());
    world.share();
    let again = world.append("ann", suspension(&world, "ann", Seconds::DAY));
    assert_eq!(settled(&world).void.get(&again.digest), Some(&Void::Repeats));
    // Another signer's word is another's.
    let other = world.append("ben", suspension(&world, "ben", Seconds::DAY));
    let state = settled(&world);
    assert_eq!(state.void.get(&other.digest), None);
    assert_eq!(state.is_suspended(key, NOW + Seconds::HOUR).map(|record| record.by.as_str()), Some("ben"));
}

#[test]
fn of_two_suspensions_at_once_everybody_counts_the_same_one() {
    let mut world = world();
    world.append("ann", suspension(&world, "ann", Seconds::HOUR));
    world.append("ben", suspension(&world, "ben", Seconds::DAY));
    let state = settled(&world);
    assert_eq!(state.suspensions[&node_key(1).public().digest()].len(), 2);
}

#[test]
fn a_suspension_that_is_dated_ahead_does_not_count_before_its_day() {
    let mut world = world();
    let at = NOW + Seconds::DAY.times(3650);
    let mut entry = world.draft("ann", suspension_at(&world, "ann", (at, Seconds::DAY), "odd"));
    entry.at = at;
    world.push("ann", &entry);
    let (state, key) = (settled(&world), node_key(1).public().digest());
    assert!(state.is_suspended(key, NOW + Seconds::DAY.times(30)).is_none());
    assert!(state.is_suspended(key, at + Seconds::HOUR).is_some());
}

#[test]
fn a_reason_is_short_and_plain() {
    for reason in ["x".repeat(201), "\u{1b}[2J".to_owned()] {
        let mut world = world();
        let entry = world.append("ann", suspension_at(&world, "ann", (NOW, Seconds::HOUR), &reason));
        assert!(matches!(settled(&world).void.get(&entry.digest), Some(Void::BadObject(_))));
    }
}

#[test]
fn a_signer_who_hides_what_was_seen_ends_nobody_elses_suspension() {
    let mut world = world();
    world.append("ann", suspension(&world, "ann", Seconds::DAY));
    world.share();
    // Lower in history than ann's, and over already.
    let over = (NOW - Seconds::DAY, Seconds(1));
    let mut entry = world.draft("ben", suspension_at(&world, "ben", over, "odd"));
    entry.seen.0.retain(|other, _| *other == author("gw-1"));
    world.push("ben", &entry);
    assert!(settled(&world).is_suspended(node_key(1).public().digest(), NOW + Seconds::HOUR).is_some());
}

/// What `who` would sign to begin an epoch from `state`.
fn restore(world: &World, state: &State, who: &str, by: &[&str]) -> SignedEntry {
    let mut head = state.head().unwrap().head.clone();
    (head.version, head.epoch) = (head.version + 1_000, state.next_epoch());
    let action = Action::HeadPublish { head: world.sealed(&head, by), cause: Cause::Restore };
    let org = world.founding.id;
    let when = (NOW, identity::id::Correlation([0; 8]));
    let (name, key) = (author(who), ed(who));
    SignedEntry::write(org, (&state.frontier, state.epoch().number + 1), (name, &key), when, action).unwrap()
}

/// An old copy of gw-1's ledger, and everything that happened after it was taken.
fn restored() -> (World, State) {
    let mut world = world();
    let old = world.view("gw-1").clone();
    world.admit("gw-1", 2, 1, "db");
    world.share();
    world.revoke_node("ann", 1);
    world.share();
    (world, old)
}

#[test]
fn a_restore_begins_an_epoch_and_what_was_lost_never_comes_back() {
    let (world, mut state) = restored();
    let begin = restore(&world, &state, "ann", &["ann"]);
    assert_eq!(state.apply(&begin), Ok(Ok(())));
    assert_eq!(state.epoch().number, 2);
    let lost = world.log.iter().find(|signed| !state.frontier.covers(&signed.cut()) || signed.entry.seq > 3);
    assert!(lost.is_some());
    for signed in &world.log {
        assert!(state.clone().apply(signed).is_err(), "{:?} came back", signed.cut());
    }
    // Both chains go on in the new epoch.
    for who in ["ann", "gw-1"] {
        let place = state.frontier.place_of(&author(who)).copied().unwrap();
        let next = world.draft(who, Action::NodeJoin { node_key: node_key(1).public().digest(), name: node("web") });
        let next = crate::entry::Entry {
            epoch: 2,
            seq: place.seq + 1,
            previous: Some(place.digest),
            seen: state.frontier.clone(),
            ..next
        };
        let old = crate::entry::Entry { epoch: 1, ..next.clone() };
        let late = state.apply(&world.signed(&old, who));
        assert!(matches!(late, Err(Unfit::OtherEpoch { .. } | Unfit::GivenUp)), "{who}: {late:?}");
        assert!(state.apply(&world.signed(&next, who)).is_ok(), "{who}");
    }
}

#[test]
fn a_replica_that_saw_what_was_lost_folds_to_the_same() {
    let (mut world, mut state) = restored();
    let begin = restore(&world, &state, "ann", &["ann"]);
    state.apply(&begin).unwrap().unwrap();
    world.log.push(begin);
    let folded = world.fold();
    assert_eq!(folded.state, state);
    assert!(!folded.unplaced.is_empty());
    assert_eq!(fold_opened(&world.founding, world.log.iter().rev().cloned()), folded);
    // The revocation that was lost is lost: the operators must say it again.
    assert_eq!(folded.state.revocations.node_keys.len(), 0);
}

#[test]
fn a_lost_change_of_signers_does_not_hold_up_the_restore() {
    let mut world = world();
    let mut state = world.view("ann").clone();
    // In the chain of the very signer who begins the epoch, and further up than where it begins.
    world.publish("ann", Cause::Refresh, |_| {});
    world.append("ann", world.install("ann", quorum(1, &["ann", "cat"]), &["ann"], &["cat"]));
    let begin = restore(&world, &state, "ann", &["ann"]);
    state.apply(&begin).unwrap().unwrap();
    world.log.push(begin);
    assert_eq!(world.fold().state, state);
}

#[test]
fn a_signed_restore_in_a_strangers_hand_gives_nothing_up() {
    let (mut world, old) = restored();
    let before = world.fold().state;
    // The signers agreed on it once, and let it be.
    let stranger = restore(&world, &old, "eve", &["ann"]);
    world.log.push(stranger);
    assert_eq!(world.fold().state, before);
}

#[test]
fn one_signer_of_two_begins_no_epoch() {
    let mut world = World::new(2, &["ann", "ben"]);
    let mut state = world.view("gw-1").clone();
    let alone = restore(&world, &state, "ann", &["ann"]);
    assert_eq!(state.apply(&alone), Err(Unfit::BadEpoch));
    let agreed = restore(&world, &state, "ann", &["ann", "ben"]);
    // A ledger that went on meanwhile is not the one that was meant.
    let head = world.sealed(&world.next_head("ben"), &["ann", "ben"]);
    let moved = world.append("ben", Action::HeadPublish { head, cause: Cause::Refresh });
    let mut other = state.clone();
    other.apply(&moved).unwrap().unwrap();
    assert_eq!(other.apply(&agreed), Err(Unfit::EpochElsewhere));
    assert_eq!(state.apply(&agreed), Ok(Ok(())));
}

#[test]
fn no_later_head_leaves_the_epoch() {
    let (world, mut state) = restored();
    state.apply(&restore(&world, &state, "ann", &["ann"])).unwrap().unwrap();
    let mut head = state.head().unwrap().head.clone();
    (head.version, head.epoch) = (head.version + 1, Epoch::first());
    let action = Action::HeadPublish { head: world.sealed(&head, &["ann"]), cause: Cause::Refresh };
    let when = (NOW, identity::id::Correlation([0; 8]));
    let key = ed("ann");
    let entry = SignedEntry::write(world.founding.id, (&state.frontier, 2), (author("ann"), &key), when, action);
    assert!(matches!(state.apply(&entry.unwrap()), Ok(Err(Void::BadObject(_)))));
}

#[test]
fn open_invites_wait_for_a_word_after_a_restore() {
    let (world, mut state) = restored();
    let consider = |state: &State| {
        let claim = World::claim(4, 1, "new");
        let gateway = node("gw-1");
        let source = [127, 0, 0, 1].into();
        let attempt = crate::enroll::Attempt {
            claim: &claim,
            claimed: identity::id::Digest([0; 32]),
            source,
            gateway: &gateway,
            now: NOW,
        };
        crate::enroll::consider(state, attempt).map(|_| ())
    };
    assert_eq!(consider(&state), Ok(()));
    state.apply(&restore(&world, &state, "ann", &["ann"])).unwrap().unwrap();
    assert_eq!(consider(&state), Err(Refusal::InviteUnconfirmed));
    let body = Confirmation { epoch: 2, invites: [InviteId([1; 16])].into() };
    let action = Action::InviteConfirm { confirmation: world.sealed(&body, &["ann"]) };
    let when = (NOW, identity::id::Correlation([0; 8]));
    let key = ed("ann");
    let entry = SignedEntry::write(world.founding.id, (&state.frontier, 2), (author("ann"), &key), when, action);
    assert_eq!(state.apply(&entry.unwrap()), Ok(Ok(())));
    assert_eq!(consider(&state), Ok(()));
}

#[test]
fn an_invite_that_was_lost_waits_for_a_word_when_one_signer_writes_it_again() {
    let mut world = World::new(2, &["ann", "ben"]);
    let mut state = world.view("gw-1").clone();
    let invite = world.sealed(&world.invite_body("ann", 1, [1, 1]), &["ann", "ben"]);
    world.invites.insert(1, invite.clone());
    world.append("ann", Action::InviteCreate { invite: invite.clone() });
    let mut head = state.head().unwrap().head.clone();
    (head.version, head.epoch, head.issued_at) = (head.version + 1_000, state.next_epoch(), NOW + Seconds::HOUR);
    let begin = Action::HeadPublish { head: world.sealed(&head, &["ann", "ben"]), cause: Cause::Restore };
    for (who, action) in [("ann", begin), ("ben", Action::InviteCreate { invite })] {
        let (key, when) = (ed(who), (NOW, identity::id::Correlation([0; 8])));
        let place = (&state.frontier, 2);
        let entry = SignedEntry::write(world.founding.id, place, (author(who), &key), when, action).unwrap();
        state.apply(&entry).unwrap().unwrap();
    }
    assert!(state.is_unconfirmed(state.invites.values().next().unwrap()));
}

#[test]
fn a_recovery_takes_nobodys_name() {
    let mut world = world();
    let named = |name: &str, key: &str| {
        let signer = identity::signers::Signer { name: name.parse().unwrap(), key: ed(key).public() };
        Quorum::new(1, vec![signer]).unwrap()
    };
    for (quorum, counts) in
        [(named("ann", "thief"), false), (named("zoe", "zoe"), true), (named("zoe", "thief"), false)]
    {
        let recovery = recovery(&world, quorum, &["safe"]);
        let begun = world.append("gw-1", Action::RecoveryBegin { recovery });
        assert_eq!(!settled(&world).void.contains_key(&begun.digest), counts);
    }
}

#[test]
fn the_state_survives_its_rows_with_all_of_this_in_it() {
    let (world, mut state) = restored();
    state.apply(&restore(&world, &state, "ann", &["ann"])).unwrap().unwrap();
    let rows = crate::derived::rows(&state);
    assert_eq!(crate::derived::restore(&world.founding, &rows), Ok(state));
    let mut world = self::world();
    world.append("ann", suspension(&world, "ann", Seconds::HOUR));
    let recovery = recovery(&world, quorum(1, &["zoe"]), &["safe"]);
    world.append("gw-1", Action::RecoveryBegin { recovery });
    let state = settled(&world);
    assert_eq!(crate::derived::restore(&world.founding, &crate::derived::rows(&state)), Ok(state));
}
