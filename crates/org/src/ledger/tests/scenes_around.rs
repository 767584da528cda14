//! Scenes of bad heads, and of operators who go round them.

use identity::bundle::Domain;
use identity::head::{Recorded, TrustLine, TrustState};
use identity::id::Digest;

use crate::ledger::draft::{Wish, draft};
use crate::ledger::judge::{Member, NotMember};
use crate::ledger::tests::replicas::{
    admit, assert_holds, give, head_of, hear, hear_all, publish, shows_leaf,
};
use crate::ledger::tests::world::{Org, Sent, day, leaf, node, voice};

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
    assert_eq!(shows_leaf(&home, &org.first, "alpha", 2), Ok(Member::Listed));
}
