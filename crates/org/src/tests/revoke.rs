//! Revocation, thresholds and freed names: what a state says when something is taken back.

use super::world::{HERE, Site, Turned, invite_id, said};
use crate::ledger::entry::Action;
use crate::ledger::fold::Why;
use crate::ledger::judge::NotMember;
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{Org, Sent, day, invite, key, node, voice};
use crate::refusal::Refusal;
use crate::state::Standing;

/// Any one of two signs; two gateways that know the invite `i`.
fn settled() -> (Org, Site, Site) {
    let org = Org::new(1, &["ann", "ben"]);
    let mut site = Site::of(&org);
    let made = org.seal(&invite("i", &["*"], &[(HERE, 5), ("g2", 5)], 30), &["ann"]);
    site.handed((HERE, 1), &made.into());
    let mut other = Site::of(&org);
    site.give(&mut other, 1);
    (org, site, other)
}

fn admit(org: &Org, site: &mut Site, gateway: &str, who: (&str, &str)) {
    let claim = org.claim(who, &site.invite("i").envelope, None);
    site.admit((gateway, 1), &claim).unwrap();
}

#[track_caller]
fn check(site: &Site, expected: &[(&str, Standing)]) {
    let found: Vec<_> = expected.iter().map(|(key, _)| (*key, site.standing(key).unwrap())).collect();
    assert_eq!(found, expected);
}

#[test]
fn whom_no_leaf_names_waits_when_its_invite_is_revoked() {
    let (org, mut site, mut other) = settled();
    admit(&org, &mut site, HERE, ("k1", "web"));
    admit(&org, &mut other, "g2", ("k2", "db"));
    // The operator has seen the one, and not the other.
    let sent = site.publish(&org, (2, &["ann"]), &Wish { revoke_invites: vec![invite_id("i")], ..Wish::default() });
    other.hear(&sent, 2);
    other.give(&mut site, 2);
    check(&site, &[("k1", Standing::Issued), ("k2", Standing::Waiting)]);
    site.give(&mut other, 2);
    assert_eq!(said(&site.state), said(&other.state));
    // Operators may still choose to list it.
    let admitted = site.member("k2").unwrap().admission.digest;
    site.publish(&org, (3, &["ann"]), &Wish { list: vec![admitted], ..Wish::default() });
    check(&site, &[("k2", Standing::Issued)]);
}

#[test]
fn whoever_came_in_beyond_a_closed_gateways_record_waits() {
    let (org, mut site, mut other) = settled();
    admit(&org, &mut other, "g2", ("k1", "web"));
    other.give(&mut site, 2);
    let mut lags = other.clone();
    site.publish(&org, (2, &["ann"]), &Wish { close: vec![voice("g2")], ..Wish::default() });
    admit(&org, &mut lags, "g2", ("k2", "db"));
    lags.give(&mut site, 3);
    check(&site, &[("k1", Standing::Issued), ("k2", Standing::Waiting)]);
    assert_eq!(site.why("k2"), Some(Why::Judged(NotMember::NoMandate)));
}

#[test]
fn a_revoked_node_is_revoked_even_if_it_is_let_in_elsewhere() {
    let (org, mut site, mut other) = settled();
    admit(&org, &mut site, HERE, ("k1", "web"));
    site.publish(&org, (2, &["ann"]), &Wish { revoke_keys: vec![key("k1")], ..Wish::default() });
    admit(&org, &mut other, "g2", ("k1", "db"));
    other.join(("g2", 1), ("k1", "db"));
    other.give(&mut site, 2);
    check(&site, &[("k1", Standing::Revoked)]);
    assert_eq!((site.holder("web"), site.holder("db")), (None, None));
}

type Make<'a> = &'a dyn Fn(&[&str]) -> Sent;
type Effect = fn(&Site) -> bool;

#[test]
fn what_only_some_of_the_threshold_signed_has_no_effect() {
    let org = Org::new(2, &["ann", "ben", "cat"]);
    let first = |by: &[&str]| {
        org.forged(&org.first, by, |head, _| {
            head.version = 2;
            head.revocations.node_keys.insert(key("k1"));
        })
    };
    let invite = |by: &[&str]| Sent::from(org.seal(&invite("i", &["*"], &[(HERE, 1)], 30), by));
    let step = |by: &[&str]| Sent::from(org.succession(&org.set(), &org.later(2, 1, &["dan"]), org.first.digest(), by));
    let word = |by: &[&str]| {
        let action = Action::NodeAdmit { claim: org.word(("k2", "web"), 30, by), invite: None, approval: None };
        Sent::from(Site::of(&org).draft((HERE, 1), action))
    };
    let cases: [(&str, Make<'_>, Effect); 4] = [
        ("head", &first, |site| site.state.is_gone(key("k1"))),
        ("invite", &invite, |site| !site.state.invites.is_empty()),
        ("signers", &step, |site| site.state.signer_set().version == 2),
        ("claim", &word, |site| site.standing("k2") == Some(Standing::Issued)),
    ];
    for (case, make, effect) in cases {
        for (by, counts) in
            [(&["ann"][..], false), (&["ann", "eve"], false), (&["ann", "ben"], true), (&["ben", "cat"], true)]
        {
            let mut site = Site::of(&org);
            site.hear(&make(by), 1);
            assert_eq!(effect(&site), counts, "{case} by {by:?}");
        }
        // One by one, they add up.
        let mut site = Site::of(&org);
        if case != "claim" {
            site.hear_all(&[make(&["cat"]), make(&["ann"])], 1);
            assert!(effect(&site), "{case}");
        }
    }
}

#[test]
fn two_heads_of_one_version_both_take_away_and_are_both_shown() {
    let (org, mut site, mut other) = settled();
    let revokes = |name| Wish { revoke_keys: vec![key(name)], ..Wish::default() };
    site.publish(&org, (2, &["ann"]), &revokes("k1"));
    let rival = other.publish(&org, (2, &["ben"]), &revokes("k2"));
    site.hear(&rival, 2);
    assert_eq!(site.state.heads().filter(|head| head.version() == 2).count(), 2);
    assert!([key("k1"), key("k2")].iter().all(|key| site.state.is_gone(*key)), "remove wins");
    site.publish(&org, (3, &["ann"]), &Wish::default());
    let head = &site.state.head().unwrap().head;
    assert_eq!((head.previous.len(), head.revocations.node_keys.len()), (2, 2), "the next names both");
}

#[test]
fn of_two_machines_that_race_for_a_name_none_holds_it_until_operators_choose() {
    let (org, mut site, mut other) = settled();
    admit(&org, &mut site, HERE, ("k1", "web"));
    admit(&org, &mut other, "g2", ("k2", "web"));
    other.give(&mut site, 1);
    site.give(&mut other, 1);
    check(&site, &[("k1", Standing::Waiting), ("k2", Standing::Waiting)]);
    assert_eq!(said(&site.state), said(&other.state));
    // A third is refused at the door.
    let third = org.claim(("k3", "web"), &site.invite("i").envelope, None);
    assert_eq!(site.admit((HERE, 1), &third), Err(Turned::Away(Refusal::NameTaken { name: node("web") })));
    let chosen = site.member("k2").unwrap().admission.digest;
    site.publish(&org, (2, &["ann"]), &Wish { list: vec![chosen], ..Wish::default() });
    assert_eq!(site.holder("web"), Some(key("k2")));
    check(&site, &[("k1", Standing::Waiting), ("k2", Standing::Issued)]);
}

#[test]
fn a_freed_name_is_free_at_once_for_everybody_who_heard() {
    for by_leave in [true, false] {
        let (org, mut site, mut other) = settled();
        admit(&org, &mut site, HERE, ("k1", "web"));
        site.publish(&org, (2, &["ann"]), &Wish::default());
        site.give(&mut other, 2);
        if by_leave {
            site.leave(&org, (HERE, 2), ("k1", "web"));
        } else {
            site.publish(&org, (2, &["ann"]), &Wish { revoke_keys: vec![key("k1")], ..Wish::default() });
        }
        assert_eq!(site.holder("web"), None);
        let claim = org.claim(("k2", "web"), &site.invite("i").envelope, None);
        assert!(other.admit(("g2", 2), &claim).is_err(), "g2 has not heard of it");
        site.give(&mut other, 2);
        other.admit(("g2", 2), &claim).unwrap();
        check(&other, &[("k1", Standing::Revoked), ("k2", Standing::Issued)]);
        assert_eq!(other.holder("web"), Some(key("k2")));
        other.publish(&org, (3, &["ann"]), &Wish::default());
        check(&other, &[("k1", Standing::Revoked), ("k2", Standing::Issued)]);
        assert_eq!(other.state.leaves().unwrap()[&node("web")].node_key, key("k2"));
    }
}

#[test]
fn a_key_that_left_is_gone_and_its_use_stays_spent() {
    let (org, mut site, _) = settled();
    site.told(&org.invite("once", &["*"], &[(HERE, 1)], (30, &["ann"])), 1);
    let once = site.invite("once").envelope.clone();
    site.admit((HERE, 1), &org.claim(("k1", "web"), &once, None)).unwrap();
    site.leave(&org, (HERE, 1), ("k1", "web"));
    let claim = org.claim(("k2", "db"), &once, None);
    let action = Action::NodeAdmit { claim, invite: Some(once), approval: None };
    assert!(site.write((HERE, 1), action).is_err());
    assert_eq!(site.invite("once").spent_at[&voice(HERE)], 1);
}

#[test]
fn a_machine_that_asked_twice_is_one_member_and_spends_at_both() {
    let (org, mut site, mut other) = settled();
    // The first reply was lost, and the second gateway has not heard of it.
    admit(&org, &mut site, HERE, ("k1", "web"));
    admit(&org, &mut other, "g2", ("k1", "web"));
    let given = [&site, &other].map(|site| site.member("k1").unwrap().admission.digest);
    other.give(&mut site, 1);
    let member = site.member("k1").unwrap();
    assert_eq!((member.standing, member.others.len()), (Standing::Issued, 1));
    assert!(given.iter().all(|digest| member.was_given(*digest)));
    let record = site.invite("i");
    assert_eq!([HERE, "g2"].map(|gateway| record.spent_at[&voice(gateway)]), [1, 1]);
    site.publish(&org, (2, &["ann"]), &Wish::default());
    check(&site, &[("k1", Standing::Issued)]);
    assert_eq!(site.state.judged.as_of, day(2));
}

#[test]
fn a_key_that_left_before_any_head_listed_it_never_returns_either() {
    let (org, mut site, _) = settled();
    admit(&org, &mut site, HERE, ("k1", "web"));
    site.leave(&org, (HERE, 1), ("k1", "web"));
    check(&site, &[("k1", Standing::Revoked)]);
    site.publish(&org, (2, &["ann"]), &Wish::default());
    check(&site, &[("k1", Standing::Revoked)]);
    // The head has settled what the machine said of itself; a gateway that lies lets it in once more.
    let invite = site.invite("i").envelope.clone();
    let claim = org.claim(("k1", "db"), &invite, None);
    site.force(("g2", 3), Action::NodeAdmit { claim, invite: Some(invite), approval: None });
    check(&site, &[("k1", Standing::Revoked)]);
    assert_eq!(site.holder("db"), None);
}
