//! Scenes of heads: rivals, what they take back, and what the maker of the next one owes to everybody.

use identity::bundle::Domain;
use identity::head::{Head, Revocations, TrustLine, TrustState};
use identity::id::Digest;

use crate::ledger::draft::Fate;
use crate::ledger::judge::NotMember;
use crate::ledger::tests::drafting::{Wish, draft};
use crate::ledger::tests::replicas::{
    admit, assert_holds, assert_nobody, assert_waits, give, head_of, hear, hear_all, in_force, install, publish,
    shows_leaf, state, tell, why,
};
use crate::ledger::tests::world::{Org, day, key, leaf, mandate, node, voice};

fn revoking(name: &str) -> Wish {
    Wish { revoke_keys: vec![key(name)], ..Wish::default() }
}

fn closing(gateway: &str) -> Wish {
    Wish { close: vec![voice(gateway)], ..Wish::default() }
}

#[test]
fn a_closed_voice_stays_closed_though_a_rival_with_a_lower_digest_mandates_it() {
    let org = Org::new(1, &["ann", "bob"]);
    let (mut ann, mut peer) = (org.replica(), org.replica());
    let invite = org.invite("i", &["x", "y"], &[("g2", 5)], (50, &["ann"]));
    let closes = publish(&org, &mut ann, (1, &["ann"]), &closing("g2"));
    // Bob does not know. His head is as new, and its digest is lower.
    let by_bob =
        (0..).map(|nonce| org.forged(&org.first, &["bob"], |head, _| (head.version, head.reverts) = (2, Some(nonce))));
    let by_bob = by_bob.into_iter().find(|head| head.digest() < closes.digest()).unwrap();
    let mut bob = org.replica();
    hear_all(&mut bob, &[by_bob.clone(), invite.into()], 1);
    hear_all(&mut peer, &[closes, by_bob.clone()], 2);
    give(&bob, &mut peer, 2);
    assert_eq!(head_of(&peer, 2), Some(by_bob.digest()));
    let invite = bob.objects.values().next().unwrap().clone();
    let entry = admit(&org, &mut peer, ("g2", 2), ("k-eve", "x"), &invite);
    assert_waits(&peer, &entry, 2, &NotMember::NoMandate);
    give(&ann, &mut bob, 3);
    give(&peer, &mut bob, 3);
    let merged = publish(&org, &mut bob, (3, &["bob"]), &Wish::default());
    assert!(org.body(&merged).mandate_for_voice(voice("g2")).is_none());
    let mut new = org.newcomer(None);
    hear_all(&mut new, &[merged, invite.into(), entry.clone().into()], 4);
    assert_waits(&new, &entry, 4, &NotMember::NoMandate);
}

#[test]
fn a_gateway_that_begins_a_new_voice_leaves_the_old_one_closed_for_ever() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let anew = Wish { mandate: vec![mandate("g2", "g2-anew")], ..Wish::default() };
    let head = org.body(&publish(&org, &mut home, (1, &["ann"]), &anew));
    assert!(head.revocations.voices.contains(&voice("g2")), "no rival can bring it back");
    assert!(head.mandate_for_voice(voice("g2-anew")).is_some());
}

#[test]
fn a_rivals_revocation_counts_at_once_and_the_next_head_carries_it_to_who_has_only_that() {
    let org = Org::new(1, &["ann", "bob"]);
    let (mut ann, mut bob) = (org.replica(), org.replica());
    let revokes = publish(&org, &mut ann, (1, &["ann"]), &revoking("ka"));
    publish(&org, &mut bob, (1, &["bob"]), &Wish::default());
    publish(&org, &mut bob, (1, &["bob"]), &Wish::default());
    assert_holds(&bob, "alpha", "ka", 1);
    hear(&mut bob, &revokes, 2);
    assert_nobody(&bob, "alpha", 2);
    let next = publish(&org, &mut bob, (2, &["bob"]), &Wish::default());
    let mut new = org.newcomer(None);
    hear(&mut new, &next, 3);
    assert_nobody(&new, "alpha", 3);
}

#[test]
fn a_rival_gives_nothing() {
    let org = Org::new(1, &["ann", "bob"]);
    let mut home = org.replica();
    publish(&org, &mut home, (1, &["ann"]), &Wish::default());
    publish(&org, &mut home, (1, &["ann"]), &Wish::default());
    let before = state(&home, 2);
    let rival = org.forged(&org.first, &["bob"], |head, leaves| {
        head.version = 2;
        head.mandates.push(mandate("g4", "g4"));
        head.trust.push(TrustLine::new(Domain::Identity, 1, Digest([7; 32]), TrustState::Active));
        leaves.insert(node("x"), leaf("x", "k-eve"));
    });
    hear(&mut home, &rival, 2);
    assert_eq!(state(&home, 2), before);
    let ground = home.ground(day(2)).unwrap();
    assert_eq!((ground.mandate(voice("g4")), ground.trust()), (None, Vec::new()));
    assert_eq!(shows_leaf(&home, &rival, "x", 2), Err(NotMember::TooOld));
}

#[test]
fn a_rival_that_retires_a_root_is_heeded_at_once() {
    let org = Org::new(1, &["ann", "bob"]);
    let line = |version, n, state| TrustLine::new(Domain::Identity, version, Digest([n; 32]), state);
    let two = org.forged(&org.first, &["ann"], |head, _| {
        head.version = 2;
        head.trust = vec![line(1, 1, TrustState::Grace), line(2, 2, TrustState::Active)];
    });
    let mut home = org.replica();
    hear(&mut home, &two, 1);
    publish(&org, &mut home, (1, &["ann"]), &Wish::default());
    let rival = org.forged(&two, &["bob"], |head, _| {
        (head.version, head.trust) = (3, vec![line(1, 1, TrustState::Retired), line(2, 2, TrustState::Active)]);
        head.reverts = Some(1);
    });
    publish(&org, &mut home, (1, &["ann"]), &Wish::default());
    hear(&mut home, &rival, 2);
    let states: Vec<_> = home.ground(day(2)).unwrap().trust().iter().map(|line| line.state).collect();
    assert_eq!(states, [TrustState::Retired, TrustState::Active]);
}

/// A rotation that was abandoned, and is released late: the roots that it retires are gone, and nothing comes of it but what
/// has to take their place.
#[test]
fn a_rival_that_retires_every_root_of_one_domain_brings_no_more_than_the_one_in_use_there() {
    let org = Org::new(1, &["ann", "bob"]);
    let line = |domain, version, n, state| TrustLine::new(domain, version, Digest([n; 32]), state);
    let first = [line(Domain::Endpoint, 1, 1, TrustState::Active), line(Domain::Identity, 1, 2, TrustState::Active)];
    let two = org.forged(&org.first, &["ann"], |head, _| (head.version, head.trust) = (2, first.to_vec()));
    let mut home = org.replica();
    hear(&mut home, &two, 1);
    publish(&org, &mut home, (1, &["ann"]), &Wish::default());
    publish(&org, &mut home, (1, &["ann"]), &Wish::default());
    let told = vec![
        line(Domain::Endpoint, 1, 1, TrustState::Retired),
        line(Domain::Endpoint, 2, 3, TrustState::Active),
        line(Domain::Endpoint, 3, 4, TrustState::Staged),
        line(Domain::Identity, 1, 2, TrustState::Grace),
        line(Domain::Identity, 2, 5, TrustState::Active),
    ];
    let rival = org.forged(&two, &["bob"], |head, _| (head.version, head.trust) = (3, told));
    hear(&mut home, &rival, 2);
    let mut lines = home.ground(day(2)).unwrap().trust();
    lines.sort_by_key(|line| (line.domain, line.version));
    let rows: Vec<_> = lines.iter().map(|line| (line.domain, line.version, line.state)).collect();
    let endpoint = [(Domain::Endpoint, 1, TrustState::Retired), (Domain::Endpoint, 2, TrustState::Active)];
    assert_eq!(rows[..2], endpoint);
    assert_eq!(rows[2].0, Domain::Identity);
    assert_eq!((rows.len(), rows[2].1), (3, 1), "no identity root comes with it: {rows:?}");
}

#[test]
fn a_revocation_that_only_an_unreached_head_of_a_former_set_tells_is_the_same_for_all_whenever_they_saw_it() {
    let org = Org::new(1, &["ann", "bob"]);
    let (mut home, mut early, mut late) = (org.replica(), org.replica(), org.replica());
    let rival = publish(&org, &mut org.replica(), (1, &["bob"]), &revoking("ka"));
    install(&org, &mut home, 2, &org.later(2, 1, &["ann"]), (&["ann"], &["ann"]));
    hear(&mut early, &rival, 1);
    assert_nobody(&early, "alpha", 1);
    give(&home, &mut early, 4);
    give(&home, &mut late, 4);
    hear(&mut late, &rival, 5);
    assert_eq!(state(&early, 6), state(&late, 6));
    assert_holds(&late, "alpha", "ka", 6);
}

#[test]
fn an_install_that_knows_of_a_rivals_revocation_carries_it_over_the_change_of_signers() {
    let org = Org::new(1, &["ann", "bob"]);
    let mut home = org.replica();
    let rival = publish(&org, &mut org.replica(), (1, &["bob"]), &revoking("ka"));
    // Two heads of ann's are in force; bob's is a rival that her home has taken in when the set changes.
    publish(&org, &mut home, (1, &["ann"]), &Wish::default());
    publish(&org, &mut home, (1, &["ann"]), &Wish::default());
    hear(&mut home, &rival, 2);
    publish(&org, &mut home, (2, &["ann"]), &Wish::default());
    let (step, head) = install(&org, &mut home, 3, &org.later(2, 1, &["ann"]), (&["ann"], &["ann"]));
    let mut new = org.newcomer(None);
    hear_all(&mut new, &[step.into(), head], 4);
    assert_nobody(&new, "alpha", 4);
}

#[test]
fn an_old_head_that_a_replaced_set_forges_changes_nothing() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let two = publish(&org, &mut home, (1, &["ann"]), &Wish::default());
    install(&org, &mut home, 2, &org.later(2, 1, &["bob"]), (&["ann"], &["bob"]));
    let before = (state(&home, 3), home.ground(day(3)).unwrap().revoked);
    for version in [1, 2, 9, u64::MAX] {
        let old = org.forged(&two, &["ann"], |head, leaves| {
            head.version = version;
            head.revocations.node_keys.insert(key("ka"));
            leaves.insert(node("x"), leaf("x", "k-eve"));
        });
        hear(&mut home, &old, 3);
        assert_eq!((state(&home, 3), home.ground(day(3)).unwrap().revoked), before);
        assert_eq!(shows_leaf(&home, &old, "x", 3), Err(NotMember::TooOld));
    }
    // Not even the honest tool takes such a head in.
    assert_eq!(org.body(&publish(&org, &mut home, (4, &["bob"]), &Wish::default())).previous.len(), 1);
}

#[test]
fn numbers_begin_anew_under_a_new_set() {
    let org = Org::new(1, &["ann", "bob"]);
    let mut home = org.replica();
    let highest = org.forged(&org.first, &["bob"], |head, _| head.version = u64::MAX);
    hear(&mut home, &highest, 1);
    assert!(draft(&home, day(1), &Wish::default()).is_err(), "no number is left under this set");
    let ann = org.later(2, 1, &["ann"]);
    tell(&mut home, &org.succession(&org.set(), &ann, org.first.digest(), &["ann"]), 2);
    let next = publish(&org, &mut home, (3, &["ann"]), &Wish::default());
    assert_eq!(head_of(&home, 3), Some(next.digest()));
}

#[test]
fn a_slow_clock_dates_no_head_back() {
    let org = Org::new(1, &["ann"]);
    let (mut home, mut second) = (org.replica(), org.newcomer(None));
    let invite = org.invite("i", &["x"], &[("g2", 1)], (40, &["ann"]));
    tell(&mut home, &invite, 1);
    publish(&org, &mut home, (2, &["ann"]), &revoking("k"));
    let after = publish(&org, &mut home, (200, &["ann"]), &Wish::default());
    assert!(!org.body(&after).revocations.node_keys.contains(&key("k")), "nothing can let it in again");
    hear(&mut second, &after, 200);
    let slow = publish(&org, &mut second, (38, &["ann"]), &Wish::default());
    assert_eq!(org.body(&slow).issued_at, day(200));
    let mut new = org.newcomer(None);
    hear_all(&mut new, &[after, slow, invite.clone().into()], 202);
    let entry = admit(&org, &mut new, ("g2", 202), ("k", "x"), &invite);
    assert!(matches!(why(&new, &entry, 202), Some(crate::ledger::fold::Why::Judged(NotMember::Invite(_)))));
}

#[test]
fn an_abandoned_head_that_is_released_late_only_takes_away() {
    let org = Org::new(2, &["ann", "bob", "cid"]);
    let mut home = org.replica();
    let mut desk = org.replica();
    let invite = org.invite("i", &["x"], &[("g1", 1)], (50, &["ann", "bob"]));
    tell(&mut desk, &invite, 0);
    admit(&org, &mut desk, ("g1", 1), ("k1", "x"), &invite);
    let abandoned = publish(&org, &mut desk, (1, &["ann", "bob"]), &revoking("ka"));
    publish(&org, &mut home, (2, &["ann", "cid"]), &Wish::default());
    let three = publish(&org, &mut home, (3, &["bob", "cid"]), &Wish::default());
    hear(&mut home, &abandoned, 90);
    assert_eq!(head_of(&home, 90), Some(three.digest()));
    assert!(state(&home, 90).members.is_empty(), "the revocation counts, the leaf does not");
}

#[test]
fn a_gateway_that_never_acknowledges_a_head_holds_up_nobody() {
    let org = Org::new(1, &["ann"]);
    let (mut home, mut deaf, mut peer) = (org.replica(), org.replica(), org.replica());
    let invite = org.invite("i", &["x", "y"], &[("g1", 2)], (50, &["ann"]));
    for replica in [&mut home, &mut deaf, &mut peer] {
        tell(replica, &invite, 0);
    }
    let first = admit(&org, &mut deaf, ("g1", 1), ("k1", "x"), &invite);
    let head = publish(&org, &mut home, (2, &["ann"]), &revoking("ka"));
    hear(&mut peer, &head, 2);
    let second = admit(&org, &mut deaf, ("g1", 3), ("k2", "y"), &invite);
    hear_all(&mut peer, &[second.into(), first.into()], 4);
    assert_nobody(&peer, "alpha", 4);
    assert_holds(&peer, "x", "k1", 4);
    assert_holds(&peer, "y", "k2", 4);
}

#[test]
fn a_record_never_falls_below_a_rival_that_is_taken_in() {
    let org = Org::new(1, &["ann", "bob"]);
    let (mut ann, mut bob) = (org.replica(), org.replica());
    let invite = org.invite("i", &["x", "y"], &[("g1", 2)], (50, &["ann"]));
    tell(&mut bob, &invite, 0);
    admit(&org, &mut bob, ("g1", 1), ("k1", "x"), &invite);
    let of_bob = publish(&org, &mut bob, (1, &["bob"]), &Wish::default());
    publish(&org, &mut ann, (1, &["ann"]), &Wish::default());
    publish(&org, &mut ann, (1, &["ann"]), &Wish::default());
    // She has the rival, and not the entry that it recorded.
    hear(&mut ann, &of_bob, 2);
    let without = org.body(&publish(&org, &mut ann, (2, &["ann"]), &Wish::default()));
    let holds = |head: &Head, of: &Head| {
        of.record.iter().all(|(voice, at)| head.record.get(voice).is_some_and(|own| own.seq >= at.seq))
    };
    assert!(holds(&without, &org.body(&of_bob)) || !without.previous.contains(&of_bob.digest()));
    give(&bob, &mut ann, 3);
    let with = org.body(&publish(&org, &mut ann, (3, &["ann"]), &Wish::default()));
    assert!(with.previous.contains(&of_bob.digest()) && holds(&with, &org.body(&of_bob)));
    assert_holds(&ann, "x", "k1", 3);
}

#[test]
fn a_rivals_record_settles_a_fork_on_the_branch_that_its_maker_chose() {
    let org = Org::new(1, &["ann", "bob"]);
    let (mut ann, mut bob, mut twin) = (org.replica(), org.replica(), org.replica());
    let invite = org.invite("i", &["x", "y"], &[("g1", 2)], (50, &["ann"]));
    for replica in [&mut ann, &mut bob, &mut twin] {
        tell(replica, &invite, 0);
    }
    admit(&org, &mut bob, ("g1", 1), ("k1", "x"), &invite);
    let twin_entry = admit(&org, &mut twin, ("g1", 1), ("k2", "y"), &invite);
    let of_bob = publish(&org, &mut bob, (1, &["bob"]), &Wish::default());
    publish(&org, &mut ann, (1, &["ann"]), &Wish::default());
    publish(&org, &mut ann, (1, &["ann"]), &Wish::default());
    give(&bob, &mut ann, 2);
    give(&twin, &mut ann, 2);
    assert_waits(&ann, &twin_entry, 2, &NotMember::Forked);
    publish(&org, &mut ann, (2, &["ann"]), &Wish::default());
    assert_eq!(org.body(&of_bob).record, ann.ground(day(2)).unwrap().head.unwrap().head.record);
    assert_holds(&ann, "x", "k1", 2);
    assert_waits(&ann, &twin_entry, 2, &NotMember::NotLinked);
}

#[test]
fn a_drafts_maker_is_told_what_becomes_of_each_admission_that_its_record_passes() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x", "y"], &[("g1", 2)], (50, &["ann"]));
    tell(&mut home, &invite, 0);
    let leaf = admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    let revoked = admit(&org, &mut home, ("g1", 1), ("k2", "y"), &invite);
    let waits = admit(&org, &mut home, ("g1", 1), ("k3", "y"), &invite);
    let passed = draft(&home, day(2), &revoking("k2")).unwrap().passed;
    let fates: Vec<_> = [leaf, revoked, waits].iter().map(|entry| passed[&entry.digest]).collect();
    assert_eq!(fates, [Fate::Leaf, Fate::Revoked, Fate::Waits]);
}

#[test]
fn who_was_away_for_a_year_needs_the_signer_chain_and_the_head_in_force_and_nothing_between() {
    let org = Org::new(1, &["ann"]);
    let (mut home, mut away) = (org.replica(), org.replica());
    publish(&org, &mut home, (10, &["ann"]), &revoking("k9"));
    let (two, _) = install(&org, &mut home, 20, &org.later(2, 1, &["bob"]), (&["ann"], &["bob"]));
    publish(&org, &mut home, (30, &["bob"]), &Wish::default());
    let (three, _) = install(&org, &mut home, 40, &org.later(3, 1, &["cid"]), (&["bob"], &["cid"]));
    let now = publish(&org, &mut home, (365, &["cid"]), &Wish::default());
    hear_all(&mut away, &[two.into(), three.into(), now], 365);
    assert_eq!(in_force(&away, 365).set, in_force(&home, 365).set);
    assert_eq!(state(&away, 365), state(&home, 365));
}

#[test]
fn what_a_reached_head_of_a_former_set_took_back_counts_though_the_next_forgot_it() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let revokes = publish(&org, &mut home, (1, &["ann"]), &revoking("ka"));
    let bob = org.later(2, 1, &["bob"]);
    let step = org.succession(&org.set(), &bob, revokes.digest(), &["ann"]);
    let forgets = org.forged(&revokes, &["bob"], |head, leaves| {
        (head.version, head.signers, head.revocations) = (3, bob.as_ref(), Revocations::default());
        leaves.insert(node("alpha"), leaf("alpha", "ka"));
    });
    hear_all(&mut home, &[step.into(), forgets.clone()], 2);
    assert_eq!(head_of(&home, 2), Some(forgets.digest()));
    assert_nobody(&home, "alpha", 2);
}

#[test]
fn a_map_whose_leaves_are_filed_under_other_names_is_read_by_the_leaves() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let filed_wrong = org.first.map.clone().unwrap().into_values().map(|leaf| (node("elsewhere"), leaf)).collect();
    home.take_map(&filed_wrong);
    let invite = org.invite("i", &["alpha"], &[("g2", 9)], (50, &["ann"]));
    admit(&org, &mut home, ("g2", 1), ("k-eve", "alpha"), &invite);
    assert_holds(&home, "alpha", "ka", 1);
}
