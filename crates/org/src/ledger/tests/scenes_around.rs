//! Scenes of bad heads, and of operators who go round them.

use identity::bundle::Domain;
use identity::head::{Recorded, TrustLine, TrustState};
use identity::id::Digest;

use crate::ledger::fold::Leaves;
use crate::ledger::judge::{Membership, NotMember};
use crate::ledger::onward::Recent;
use crate::ledger::replica::Replica;
use crate::ledger::tests::drafting::{Wish, draft};
use crate::ledger::tests::replicas::{
    admit, assert_holds, assert_nobody, give, head_of, hear, hear_all, publish, shows_leaf, tell,
};
use crate::ledger::tests::world::{Org, Sent, day, key, leaf, mandate, node, voice};

fn following(head: &Sent) -> Wish {
    Wish { around: Some(head.digest()), ..Wish::default() }
}

#[test]
fn operators_go_round_a_bad_head_and_everybody_follows() {
    let org = Org::new(1, &["ann", "bob"]);
    let (mut home, mut peer) = (org.replica(), org.replica());
    let invite = org.invite("i", &["x"], &[("g1", 1)], (50, &["ann"]));
    let bad = org.forged(&org.first, &["bob"], |head, leaves| {
        head.version = 7;
        head.record.insert(voice("g1"), Recorded { seq: 1_000_000_000, digest: Digest([3; 32]) });
        head.trust.push(TrustLine::new(Domain::Identity, 1, Digest([7; 32]), TrustState::Active));
        leaves.insert(node("alpha"), leaf("alpha", "k-eve"));
    });
    hear_all(&mut home, &[bad.clone(), invite.clone().into()], 1);
    hear(&mut peer, &bad, 1);
    let good = publish(&org, &mut home, (2, &["ann"]), &following(&org.first));
    hear_all(&mut peer, &[good.clone(), invite.clone().into()], 2);
    assert_eq!(head_of(&peer, 2), Some(good.digest()), "it is higher than the one that they left");
    assert_eq!(org.body(&good).trust, [], "nor does it bring a root along");
    admit(&org, &mut peer, ("g1", 3), ("k1", "x"), &invite);
    assert_holds(&peer, "x", "k1", 3);
    assert_holds(&peer, "alpha", "ka", 3);
    // The next head does not fall for the record that nobody can follow.
    give(&peer, &mut home, 4);
    let next = publish(&org, &mut home, (4, &["ann"]), &Wish::default());
    hear(&mut peer, &next, 4);
    assert_eq!(org.body(&next).record[&voice("g1")].seq, 1);
    assert_holds(&peer, "x", "k1", 4);
    assert_holds(&peer, "alpha", "ka", 4);
}

#[test]
fn a_head_whose_map_is_lost_is_not_named_among_the_recent() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let two = org.forged(&org.first, &["ann"], |head, leaves| {
        head.version = 2;
        leaves.insert(node("beta"), leaf("beta", "k1"));
    });
    hear(&mut home, &two, 1);
    home.maps.remove(&org.body(&two).members.unwrap());
    assert!(draft(&home, day(2), &Wish::default()).is_err(), "nobody is listed or left out blindly");
    let three = publish(&org, &mut home, (2, &["ann"]), &following(&org.first));
    assert_eq!(org.body(&three).recent, [org.first.digest()]);
    assert_eq!(shows_leaf(&home, &two, "beta", 2), Err(NotMember::TooOld));
    assert_eq!(shows_leaf(&home, &org.first, "alpha", 2), Ok(Membership::Listed));
}

#[test]
fn no_head_is_named_that_is_too_old_or_shows_a_key_under_a_name_that_it_has_no_longer() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let two = org.forged(&org.first, &["ann"], |head, leaves| {
        head.version = 2;
        leaves.insert(node("beta"), leaf("beta", "k1"));
    });
    hear(&mut home, &two, 1);
    let sets = home.ground(day(1)).unwrap().sets;
    let may_name = |home: &Replica, name: &str, at| {
        let lists = Leaves::from([(node(name), leaf(name, "k1"))]);
        Recent::of(home, &sets, day(at), &lists).may_name(home.heads.held(&two.digest()).unwrap())
    };
    assert_eq!(may_name(&home, "beta", 2), Some(true));
    assert_eq!(may_name(&home, "gamma", 2), Some(false), "the key has another name by then");
    assert_eq!(may_name(&home, "beta", 99), Some(false), "its time is over");
    home.maps.remove(&org.body(&two).members.unwrap());
    assert_eq!(may_name(&home, "gamma", 2), None, "nobody guesses what a map says that is not here");
}

#[test]
fn whom_only_a_bad_head_lists_is_revoked_and_stays_out_when_the_next_head_takes_the_bad_one_in() {
    let org = Org::new(1, &["ann", "bob"]);
    let mut home = org.replica();
    let bad = org.forged(&org.first, &["bob"], |head, leaves| {
        head.version = 2;
        head.mandates.push(mandate("g4", "g4"));
        leaves.insert(node("x"), leaf("x", "k-eve"));
    });
    hear(&mut home, &bad, 1);
    let good = org.body(&publish(&org, &mut home, (2, &["ann"]), &following(&org.first)));
    assert!(good.revocations.node_keys.contains(&key("k-eve")));
    assert!(good.revocations.voices.contains(&voice("g4")) && good.mandate_for_voice(voice("g4")).is_none());
    assert_nobody(&home, "x", 2);
    let next = org.body(&publish(&org, &mut home, (3, &["ann"]), &Wish::default()));
    assert!(next.previous.contains(&bad.digest()));
    assert_nobody(&home, "x", 3);
    assert_holds(&home, "alpha", "ka", 3);
}

#[test]
fn who_joined_since_the_followed_head_is_listed_by_its_rules_though_the_bad_head_recorded_it() {
    let org = Org::new(1, &["ann", "bob"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x", "y"], &[("g1", 2)], (50, &["ann"]));
    tell(&mut home, &invite, 0);
    admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    publish(&org, &mut home, (1, &["bob"]), &Wish::default());
    admit(&org, &mut home, ("g1", 1), ("k2", "y"), &invite);
    let good = draft(&home, day(2), &following(&org.first)).unwrap();
    let keys: Vec<Digest> = good.leaves.values().map(|leaf| leaf.node_key).collect();
    assert_eq!(keys, [key("ka"), key("k1"), key("k2")]);
    assert_eq!((good.head.record[&voice("g1")].seq, good.head.version), (2, 3));
    assert!(good.head.revocations.node_keys.is_empty());
}

#[test]
fn a_root_that_a_bad_head_brought_stays_on_record_as_retired() {
    let org = Org::new(1, &["ann", "bob"]);
    let line = |version: u64, state| {
        TrustLine::new(Domain::Identity, version, Digest([u8::try_from(version).unwrap(); 32]), state)
    };
    let first = org.forged(&org.first, &["ann"], |head, _| {
        (head.version, head.trust) = (2, vec![line(1, TrustState::Active)]);
    });
    let bad = org.forged(&first, &["bob"], |head, _| {
        (head.version, head.trust) = (3, vec![line(1, TrustState::Grace), line(2, TrustState::Active)]);
    });
    let mut home = org.replica();
    hear_all(&mut home, &[first.clone(), bad], 1);
    publish(&org, &mut home, (2, &["ann"]), &following(&first));
    let wanted = vec![line(1, TrustState::Active), line(2, TrustState::Retired)];
    assert_eq!(home.ground(day(2)).unwrap().trust(), wanted);
    let next = publish(&org, &mut home, (3, &["ann"]), &Wish::default());
    assert_eq!(org.body(&next).trust, wanted, "also once the bad one is taken in");
}
