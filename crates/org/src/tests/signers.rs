//! Who signs, as a state has it: successions, recoveries, freezes, and what becomes of what former signers made.

use std::collections::BTreeSet;

use identity::envelope::Envelope;
use identity::head::{BadHead, SignedHead};
use identity::time::Seconds;

use super::world::{HERE, Site, Turned, said};
use crate::audit;
use crate::ledger::entry::Action;
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{DELAY, Org, Sent, day, invite, key, node, signed, voice};
use crate::refusal::Refusal;
use crate::state::Standing;
use crate::state::accept::{NotAccepted, NotRecovered};
use crate::state::consent::Consent;
use crate::suspend::Suspension;
use crate::suspend::suspended::Suspensions;

const PHRASES: &[&str] = &["phrase-1", "phrase-2"];

/// Any one of two signs; `k1` is a member as `web`.
fn settled() -> (Org, Site) {
    let org = Org::new(1, &["ann", "ben"]);
    let mut site = Site::of(&org);
    let made = org.seal(&invite("i", &["*"], &[(HERE, 5), ("g2", 5)], 30), &["ann"]);
    site.handed((HERE, 1), &made.clone().into());
    site.admit((HERE, 1), &org.claim(("k1", "web"), &made, None)).unwrap();
    (org, site)
}

#[test]
fn a_recovered_set_takes_over_when_the_delay_is_over_and_not_before() {
    let (org, mut site) = settled();
    let zoe = org.later(2, 1, &["zoe"]);
    let recovery = org.recovery(&org.set(), &zoe, site.state.head().unwrap().digest, PHRASES);
    let entry = site.write((HERE, 2), Action::Take { envelope: recovery.clone() }).unwrap();
    let due = day(2 + DELAY);
    let open: Vec<_> = site.state.open_recoveries().iter().map(|(step, at)| (step.digest, *at)).collect();
    assert_eq!((open, site.state.turns_at()), (vec![(recovery.digest(), due)], Some(due)));
    assert_eq!(audit::line(&site.state, &entry).result, format!("waits until {due}"));
    site.state.conclude(due - Seconds(1));
    assert_eq!(site.state.signer_set(), &org.set());
    site.state.conclude(due);
    assert_eq!((site.state.signer_set(), site.state.turns_at(), site.state.is_frozen()), (&zoe, None, false));
    assert_eq!(site.state.signer_chain(1), [], "it is told of with the first head that it signs");
    assert_eq!(audit::line(&site.state, &entry).result, audit::DONE);
    // The head that it names stands in, and who had a leaf by it stays.
    assert_eq!(site.state.head().unwrap().digest, org.first.digest());
    assert_eq!(site.state.judged.fold.members[&node("alpha")].key, key("ka"));
}

#[test]
fn a_clock_that_is_set_while_a_recovery_waits_neither_ends_nor_prolongs_the_delay() {
    let (org, mut site) = settled();
    let zoe = org.later(2, 1, &["zoe"]);
    let recovery = org.recovery(&org.set(), &zoe, site.state.head().unwrap().digest, PHRASES);
    site.write((HERE, 2), Action::Take { envelope: recovery }).unwrap();
    let (due, jump) = (day(2 + DELAY), Seconds::DAY.times(30));
    assert!(!site.state.is_due(due - Seconds(1)) && site.state.is_due(due));
    // Put back by a month: what it says was judged by the clock of before.
    site.state.replica.ahead = -i64::try_from(jump.0).unwrap();
    assert!(site.state.is_due(due - jump - Seconds(1)));
    site.state.conclude(due - jump - Seconds(1));
    assert_eq!((site.state.signer_set(), site.state.turns_at()), (&org.set(), Some(due - jump)));
    // Set ahead by as much, and read a second later than the kernel is.
    site.state.replica.ahead = i64::try_from(jump.0).unwrap() + 1;
    assert!(site.state.is_due(due + jump - Seconds(60)));
    site.state.conclude(due + jump - Seconds(60));
    assert_eq!((site.state.signer_set(), site.state.turns_at()), (&org.set(), Some(due + jump + Seconds(1))));
    site.state.replica.ahead -= 1;
    assert!(!site.state.is_due(due + jump - Seconds(30)) && site.state.is_due(due + jump + Seconds(1)));
    site.state.conclude(due + jump);
    assert_eq!(site.state.signer_set(), &zoe);
}

#[test]
fn nobody_recovers_without_the_recovery_keys() {
    let (org, mut site) = settled();
    let zoe = org.later(2, 1, &["zoe"]);
    for by in [&["ann", "ben"][..], &["phrase-1"], &["phrase-1", "eve"]] {
        site.told(&org.recovery(&org.set(), &zoe, org.first.digest(), by), 2);
        site.state.conclude(day(90));
        assert_eq!((site.state.signer_set(), site.state.open_recoveries().len()), (&org.set(), 0), "{by:?}");
    }
}

#[test]
fn a_recovery_begins_where_it_would_follow_whatever_it_was_made_for() {
    let (org, site) = settled();
    let head = org.first.digest();
    let (two, three) = (org.later(2, 1, &["zoe"]), org.later(3, 1, &["zoe"]));
    let begins = |recovery: &Envelope| site.state.check_recovery(recovery, day(2));
    assert_eq!(begins(&org.recovery(&org.set(), &two, head, PHRASES)), Ok(()));
    // A way out of a freeze that is none here waits like any other.
    let out = org.way_out(&org.set(), &three, head, PHRASES);
    assert_eq!(begins(&out), Ok(()));
    let mut taken = site.clone();
    taken.told(&out, 2);
    assert_eq!(taken.state.open_recoveries().len(), 1);
    let not_a_successor = |found| Err(NotRecovered::NotASuccessor { known: 1, found });
    assert_eq!(begins(&org.way_out(&org.set(), &two, head, PHRASES)), not_a_successor(2));
    assert_eq!(begins(&org.recovery(&org.set(), &three, head, PHRASES)), not_a_successor(3));
    assert_eq!(begins(&org.recovery(&two, &org.later(3, 1, &["kim"]), head, PHRASES)), not_a_successor(3));
    for by in [&["phrase-1"][..], &["ann", "ben"], &[]] {
        let alone = begins(&org.recovery(&org.set(), &two, head, by));
        assert!(matches!(alone, Err(NotRecovered::NotSigned(_))), "{by:?}");
    }
    let succession = begins(&org.succession(&org.set(), &two, head, PHRASES));
    assert!(matches!(succession, Err(NotRecovered::NotSigned(_))));
}

#[test]
fn the_set_that_is_not_lost_cancels_a_recovery_by_signing_its_own_successor() {
    let (org, mut site) = settled();
    site.told(&org.recovery(&org.set(), &org.later(2, 1, &["zoe"]), org.first.digest(), PHRASES), 2);
    site.install(&org, 3, (2, &["ann", "cat"]), &["ann"]);
    assert_eq!(site.state.open_recoveries().len(), 0);
    site.state.conclude(day(90));
    assert_eq!(site.state.signer_set(), &org.later(2, 1, &["ann", "cat"]));
}

/// What those signed who were in force here for a while is nobody's once the set's own successor has won.
#[test]
fn what_a_recovered_set_made_is_forgotten_where_the_sets_own_successor_wins_after_all() {
    let (org, mut site) = settled();
    let recovery = org.recovery(&org.set(), &org.later(2, 1, &["zoe"]), org.first.digest(), PHRASES);
    site.told(&recovery, 2);
    site.state.conclude(day(2 + DELAY));
    let (node_key, name, manifest) = (key("k1"), node("web"), identity::id::Digest([5; 32]));
    let consent = org.seal(&Consent { node_key, name, manifest, at: day(1) }, &["zoe"]);
    site.told(&consent, 2 + DELAY);
    site.told(&org.invite("of zoe", &["*"], &[(HERE, 1)], (90, &["zoe"])), 2 + DELAY);
    assert_eq!((site.state.invites.len(), site.state.objects.consents.len()), (2, 1));
    site.told(&org.succession(&org.set(), &org.later(2, 1, &["ann"]), org.first.digest(), &["ann"]), 3 + DELAY);
    assert_eq!(site.state.signer_set(), &org.later(2, 1, &["ann"]));
    assert_eq!((site.state.invites.len(), site.state.objects.consents.len()), (1, 0));
    let things = site.holdings();
    let backwards: Vec<Sent> = things.iter().rev().cloned().collect();
    assert_eq!(said(&site.afresh(&org.founding, &backwards, 3 + DELAY)), said(&site.state));
}

#[test]
fn an_invite_dies_with_the_signers_who_made_it_and_lives_on_by_new_signatures() {
    let (org, mut site) = settled();
    site.install(&org, 2, (2, &["ben", "ann", "cat"]), &["ben"]);
    let made = site.invite("i").envelope.clone();
    site.admit((HERE, 2), &org.claim(("k2", "db"), &made, None)).unwrap();
    site.install(&org, 3, (3, &["ben"]), &["ben"]);
    let claim = org.claim(("k3", "mail"), &made, None);
    assert_eq!(site.admit((HERE, 3), &claim), Err(Turned::Away(Refusal::InviteOutdated)));
    site.told(&signed(made, &["ben"]), 3);
    site.admit((HERE, 3), &claim).unwrap();
    assert_eq!(site.standing("k3"), Some(Standing::Issued));
}

#[test]
fn one_successor_that_two_installed_is_no_conflict_and_two_freeze() {
    let (org, site) = settled();
    let head = site.state.head().unwrap().digest;
    let to = |third: &str| org.later(2, 1, &["ann", "ben", third]);
    let step = |third: &str, by: &str| org.succession(&org.set(), &to(third), head, &[by]);
    let mut agreed = site.clone();
    agreed.told(&step("cat", "ann"), 2);
    agreed.told(&step("cat", "ben"), 2);
    assert_eq!((agreed.state.is_frozen(), agreed.state.signer_set()), (false, &to("cat")));
    let mut frozen = site;
    frozen.told(&step("cat", "ann"), 2);
    frozen.told(&step("dan", "ben"), 2);
    assert_eq!((frozen.state.is_frozen(), frozen.state.signer_set()), (true, &org.set()));
    assert_eq!(frozen.state.signer_chain(1), []);
    // Growing one branch does not heal it.
    let on = org.succession(&to("cat"), &org.later(3, 1, &["eve"]), head, &["cat"]);
    frozen.told(&on, 3);
    assert_eq!((frozen.state.is_frozen(), frozen.state.signer_set()), (true, &org.set()));
}

#[test]
fn the_steps_to_both_rivals_are_told_with_what_settles_between_them() {
    let (org, mut site) = settled();
    let (head, zoe) = (site.state.head().unwrap().digest, org.later(3, 1, &["zoe"]));
    let to = |third: &str| org.later(2, 1, &["ann", third]);
    let rivals = ["cat", "dan"].map(|third| org.succession(&org.set(), &to(third), head, &["ben"]));
    for step in &rivals {
        site.told(step, 2);
    }
    let way = org.way_out(&org.set(), &zoe, head, PHRASES);
    site.told(&way, 3);
    let told = |steps: Vec<Envelope>| steps.iter().map(Envelope::digest).collect::<BTreeSet<_>>();
    let all: BTreeSet<_> = rivals.iter().chain([&way]).map(Envelope::digest).collect();
    assert_eq!((told(site.state.told_steps(1)), told(site.state.signer_chain(1))), (all.clone(), BTreeSet::new()));
    site.state.conclude(day(3 + DELAY));
    assert_eq!(site.state.signer_set(), &zoe);
    assert!(
        site.state.contested_sets().eq([&to("cat"), &to("dan")])
            || site.state.contested_sets().eq([&to("dan"), &to("cat")])
    );
    site.publish(&org, (3 + DELAY, &["zoe"]), &Wish::default());
    // Also to who followed one of them, and as the last that which settles it.
    for version in [1, 2] {
        let chain = site.state.signer_chain(version);
        assert_eq!(chain.last().map(Envelope::digest), Some(way.digest()));
        assert_eq!(told(chain), all);
    }
    assert_eq!(site.state.signer_chain(3), []);
}

/// What runs, runs: neither the last set, which anybody may hold by now, nor a rival changes anything.
#[test]
fn whoever_is_frozen_takes_no_head() {
    let (org, mut site) = settled();
    let known = site.publish(&org, (1, &["ann"]), &Wish::default());
    for third in ["cat", "dan"] {
        let to = org.later(2, 1, &["ann", third]);
        site.told(&org.succession(&org.set(), &to, known.digest(), &["ben"]), 2);
    }
    assert!(site.state.is_frozen());
    let before = said(&site.state);
    assert_eq!((site.state.head().unwrap().digest, site.standing("k1")), (known.digest(), Some(Standing::Issued)));
    let forged = org.forged(&known, &["ben"], |head, leaves| {
        head.version = 50;
        head.revocations.node_keys.insert(key("ka"));
        leaves.clear();
    });
    let of_rival = org.forged(&known, &["cat"], |head, leaves| {
        (head.version, head.signers) = (51, org.later(2, 1, &["ann", "cat"]).as_ref());
        leaves.clear();
    });
    site.hear_all(&[forged, of_rival], 3);
    assert_eq!(said(&site.state), before);
}

#[test]
fn what_the_first_of_two_sets_revoked_while_it_was_alone_stays_revoked_in_a_freeze() {
    let (org, mut site) = settled();
    let known = site.publish(&org, (1, &["ann"]), &Wish::default());
    let (cat, dan) = (org.later(2, 1, &["cat"]), org.later(2, 1, &["dan"]));
    site.told(&org.succession(&org.set(), &cat, known.digest(), &["ann"]), 2);
    site.publish(&org, (2, &["cat"]), &Wish { revoke_keys: vec![key("k1")], ..Wish::default() });
    assert_eq!(site.standing("k1"), Some(Standing::Revoked));
    let both = org.succession(&org.set(), &dan, known.digest(), &["ben"]);
    let mut at_once = Site::of(&org);
    let told: Vec<Sent> = site.holdings().into_iter().chain([both.clone().into()]).collect();
    at_once.hear_all(&told, 2);
    site.told(&both, 2 + DELAY);
    assert!(site.state.is_frozen() && at_once.state.is_frozen());
    assert_eq!(site.standing("k1"), Some(Standing::Revoked), "what runs, runs");
    assert_eq!(at_once.standing("k1"), Some(Standing::Issued), "who heard both at once went by neither");
}

#[test]
fn whoever_is_frozen_suspends_nobody() {
    let (org, mut site) = settled();
    let known = site.publish(&org, (1, &["ann"]), &Wish::default());
    let stop = |reason: &str| {
        let (at, until) = (day(2), day(2) + Seconds::DAY);
        org.seal(&Suspension { node_key: key("k1"), name: node("web"), at, until, reason: reason.to_owned() }, &["ben"])
    };
    let mut running = site.clone();
    running.told(&stop("odd"), 2);
    assert!(running.state.objects.suspended(key("k1"), day(2)).is_some());
    for third in ["cat", "dan"] {
        let to = org.later(2, 1, &["ann", third]);
        site.told(&org.succession(&org.set(), &to, known.digest(), &["ben"]), 2);
    }
    site.told(&stop("odd"), 2);
    assert!(site.state.is_frozen() && site.state.objects.suspensions.is_empty());
    assert_eq!(site.state.check_taken(&stop("very odd")), Err(NotAccepted::Frozen));
}

#[test]
fn a_signer_suspends_a_machine_once_while_a_set_is_in_force_and_again_under_the_next() {
    let (org, mut site) = settled();
    let stop = |by: &[&str], on: u64| {
        let (at, until) = (day(on), day(on) + Seconds::HOUR);
        org.seal(&Suspension { node_key: key("k1"), name: node("web"), at, until, reason: "odd".to_owned() }, by)
    };
    let mut all = Suspensions::default();
    let (first, second) = (stop(&["ann"], 1), stop(&["ann"], 3));
    site.told(&first, 1);
    all.take(std::slice::from_ref(&first), site.state.signer_set(), day(1));
    let repeats = |site: &Site, all: &Suspensions, object: &Envelope| all.repeats(object, site.state.signer_set());
    assert!(!repeats(&site, &all, &first) && repeats(&site, &all, &second));
    assert!(!repeats(&site, &all, &stop(&["ben"], 3)) && !repeats(&site, &all, &stop(&["ann", "ben"], 3)));
    assert!(!repeats(&site, &all, &stop(&["eve"], 3)), "nobody's word repeats nothing");
    // Ben goes; ann stays, and may say it once more.
    site.install(&org, 2, (2, &["ann", "cat"]), &["ann"]);
    assert!(!repeats(&site, &all, &second));
    site.told(&second, 3);
    assert_eq!(site.state.check_taken(&second), Ok(()));
    assert!(all.take(std::slice::from_ref(&second), site.state.signer_set(), day(3)));
    assert!(repeats(&site, &all, &stop(&["ann"], 4)));
}

#[test]
fn a_head_by_the_next_set_is_newer_whatever_its_number() {
    let (org, mut site) = settled();
    let last = org.forged(&org.first, &["ann"], |head, _| head.version = u64::MAX);
    site.hear(&last, 1);
    let bob = org.later(2, 1, &["bob"]);
    site.told(&org.succession(&org.set(), &bob, last.digest(), &["ann"]), 2);
    assert_eq!(site.state.head().unwrap().digest, last.digest());
    let first = org.forged(&last, &["bob"], |head, _| (head.version, head.signers) = (1, bob.as_ref()));
    let shown = |made: &Sent| SignedHead { head: org.body(made), digest: made.digest() };
    assert!(site.state.is_older_than(&shown(&first)) && site.state.lacks(&shown(&first)));
    assert_eq!(site.state.check_follows(&first.envelope, day(2)), Ok(()));
    site.hear(&first, 2);
    assert_eq!(site.state.head().unwrap().digest, first.digest());
    assert!(!site.state.is_older_than(&shown(&last)));
}

#[test]
fn a_gateway_takes_only_a_head_that_follows_the_one_in_force() {
    let (org, mut site) = settled();
    let known = site.publish(&org, (2, &["ann"]), &Wish { revoke_keys: vec![key("k9")], ..Wish::default() });
    let follows = |site: &Site, change: &dyn Fn(&mut identity::head::Head)| {
        let next = org.forged(&known, &["ann"], |head, _| {
            head.version += 1;
            change(head);
        });
        site.state.check_follows(&next.envelope, day(3))
    };
    assert_eq!(follows(&site, &|_| {}), Ok(()));
    assert!(matches!(follows(&site, &|head| head.version = 1), Err(BadHead::Regression { .. })));
    assert!(matches!(follows(&site, &|head| head.version = 2), Err(BadHead::Forked { .. })));
    let forgets = |head: &mut identity::head::Head| head.revocations.node_keys.clear();
    assert!(matches!(follows(&site, &forgets), Err(BadHead::ForgetsRevocations { .. })));
    let early = |head: &mut identity::head::Head| head.issued_at = day(1);
    assert!(matches!(follows(&site, &early), Err(BadHead::DraftedEarlier { .. })));
    // Also what only a rival took away.
    let rival = org.forged(&org.first, &["ben"], |head, _| {
        (head.version, head.issued_at) = (2, day(2));
        head.revocations.node_keys.insert(key("k8"));
        head.revocations.node_keys.insert(key("k9"));
    });
    let at_least = site.state.head().unwrap().digest;
    site.hear(&rival, 2);
    if site.state.head().unwrap().digest == at_least {
        assert!(matches!(follows(&site, &|_| {}), Err(BadHead::ForgetsRevocations { .. })));
    }
    assert!(site.state.revoked().node_keys.contains(&key("k8")), "whichever of the two is in force");
}

#[test]
fn a_head_that_nobody_entitled_signed_is_found_by_nobody() {
    let (org, mut site) = settled();
    let forged = org.forged(&org.first, &["eve"], |head, _| head.version = 9);
    site.hear(&forged, 1);
    assert!(site.state.head_named(forged.digest()).is_none() && site.state.heads().all(|head| head.version() != 9));
    assert!(site.state.head_named(org.first.digest()).is_some());
    assert!(site.state.open_shown(&forged.envelope).is_none());
}

/// A rival's mandates give nothing: they do not even rename a gateway.
#[test]
fn a_voice_is_called_as_the_head_in_force_calls_it() {
    let (org, site) = settled();
    let named = |threshold: u64| {
        let rival = org.forged(&org.first, &["ben"], |head, _| {
            (head.version, head.reverts) = (1, Some(threshold));
            head.mandates.iter_mut().for_each(|mandate| mandate.gateway = node("another"));
        });
        let mut site = site.clone();
        site.publish(&org, (1, &["ann"]), &Wish::default());
        site.hear(&rival, 1);
        site.state.judged.voices[&voice(HERE)].clone()
    };
    assert!((0..8).all(|nonce| named(nonce) == node(HERE)));
}
