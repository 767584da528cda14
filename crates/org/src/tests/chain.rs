//! What a gateway may write at the end of its own chain: only where it goes on for everybody, and what would count.

use identity::envelope::Envelope;

use super::world::{HERE, Site, invited, said};
use crate::ledger::entry::{Action, SignedEntry};
use crate::ledger::fold::Why;
use crate::ledger::judge::NotMember;
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{Org, Sent, day, invite, key, voice};
use crate::state::Standing;
use crate::state::take::NotTaken;

/// Three machines came in, one by one.
fn settled() -> (Org, Site, Envelope, Vec<SignedEntry>) {
    let (org, mut site) = invited(&[invite("i", &["*"], &[(HERE, 9)], 30)]);
    let made = site.invite("i").envelope.clone();
    let admit = |key: &str| site.admit((HERE, 1), &org.claim((key, key), &made, None)).unwrap();
    let entries = ["k1", "k2", "k3"].map(admit).into();
    (org, site, made, entries)
}

fn asks(org: &Org, made: &Envelope, key: &str) -> Action {
    Action::NodeAdmit { claim: org.claim((key, key), made, None), invite: Some(made.clone()), approval: None }
}

fn waits(why: NotMember) -> Result<SignedEntry, NotTaken> {
    Err(NotTaken::Waits(Why::Judged(why)))
}

#[test]
fn a_gateway_needs_no_judging_in_between() {
    let (_, site, _, entries) = settled();
    assert_eq!(site.state.frontier.place_of(&voice(HERE)), Some(entries[2].place()));
    assert_eq!(["k1", "k2", "k3"].map(|key| site.standing(key)), [Some(Standing::Issued); 3]);
    assert_eq!(site.invite("i").spent_at[&voice(HERE)], 3);
}

/// It was restored from nothing, and has not asked others for its own yet: the head knows of more.
#[test]
fn a_gateway_that_lost_what_a_head_recorded_writes_nobody_down() {
    let (org, mut site, made, _) = settled();
    let head = site.publish(&org, (2, &["ann"]), &Wish::default());
    let mut lost = Site::of(&org);
    lost.hear_all(&[made.clone().into(), head], 3);
    let before = said(&lost.state);
    assert_eq!(lost.write((HERE, 3), asks(&org, &made, "k4")), waits(NotMember::NotLinked));
    assert_eq!(said(&lost.state), before);
    // Others hand it over, and it goes on.
    site.give(&mut lost, 3);
    lost.write((HERE, 3), asks(&org, &made, "k4")).unwrap();
    assert_eq!(lost.standing("k4"), Some(Standing::Issued));
}

#[test]
fn a_gateway_that_knows_of_a_later_place_of_its_own_writes_nobody_down_before_it() {
    let (org, _, made, entries) = settled();
    let mut torn = Site::of(&org);
    let things = [&entries[0], &entries[2]].map(|signed| Sent::from(signed.clone()));
    torn.hear_all(&things, 2);
    assert_eq!(torn.write((HERE, 2), asks(&org, &made, "k4")), waits(NotMember::NotLinked));
    torn.hear(&entries[1].clone().into(), 2);
    torn.write((HERE, 2), asks(&org, &made, "k4")).unwrap();
}

#[test]
fn a_gateway_whose_chain_forks_stops_and_still_takes_what_operators_hand_in() {
    let (org, mut site, made, entries) = settled();
    let mut restored = Site::of(&org);
    restored.hear_all(&entries[..2].iter().cloned().map(Sent::from).collect::<Vec<_>>(), 2);
    let other = restored.write((HERE, 2), asks(&org, &made, "k4")).unwrap();
    site.hear(&other.into(), 2);
    assert_eq!(site.write((HERE, 2), asks(&org, &made, "k5")), waits(NotMember::Forked));
    assert_eq!(
        ["k3", "k4"].map(|key| site.why(key)),
        [Some(Why::Judged(NotMember::Forked)), Some(Why::Judged(NotMember::Forked))]
    );
    // Beyond the fork nobody is heard to have joined either; but a head comes through.
    site.join((HERE, 2), ("k1", "k1"));
    assert_eq!(site.standing("k1"), Some(Standing::Issued));
    let head = site.clone().publish(&org, (3, &["ann"]), &Wish { revoke_keys: vec![key("k1")], ..Wish::default() });
    site.handed((HERE, 3), &head);
    assert_eq!(site.standing("k1"), Some(Standing::Revoked));
    assert_eq!(said(&site.afresh(&org.founding, &site.holdings(), 3)), said(&site.state));
}

#[test]
fn an_entry_out_of_turn_is_not_taken() {
    let (org, mut site, made, entries) = settled();
    let mut behind = Site::of(&org);
    behind.hear_all(&[made.clone().into(), entries[0].clone().into()], 1);
    let second = behind.draft((HERE, 1), asks(&org, &made, "k4"));
    let before = said(&site.state);
    for signed in [&second, &entries[2]] {
        assert_eq!(site.state.take_own(signed, None, day(1)), Err(NotTaken::OutOfTurn));
    }
    assert_eq!(said(&site.state), before);
}

/// Its admission is in a chain that is not here; the map names it.
#[test]
fn a_listed_machine_that_asks_at_another_gateway_stays_the_one_that_is_listed() {
    let (org, mut site, made, _) = settled();
    let claim = org.claim(("ka", "alpha"), &made, None);
    site.write((HERE, 1), Action::NodeAdmit { claim, invite: Some(made), approval: None }).unwrap();
    assert_eq!((site.standing("ka"), site.holder("alpha")), (Some(Standing::Issued), Some(key("ka"))));
    site.join((HERE, 1), ("ka", "alpha"));
    assert_eq!(site.standing("ka"), Some(Standing::Member));
    assert_eq!(said(&site.afresh(&org.founding, &site.holdings(), 1)), said(&site.state));
}

#[test]
fn what_an_entry_carries_is_filed_whichever_way_it_came() {
    let (org, site, ..) = settled();
    let made = org.invite("j", &["*"], &[(HERE, 1)], (30, &["ann"]));
    let signed = site.draft((HERE, 1), Action::Take { envelope: made });
    let mut ways = [site.state.clone(), site.state.clone(), site.state.clone()];
    ways[0].take(&signed.envelope, day(1)).unwrap();
    ways[1].take_entry(&signed, day(1));
    ways[2].take_own(&signed, None, day(1)).unwrap();
    let [one, two, three] = ways.map(|mut state| {
        state.conclude(day(1));
        assert!(state.invite(super::world::invite_id("j")).is_some());
        said(&state)
    });
    assert!(one == two && two == three);
}
