//! A machine that was reinstalled: its old key proves it, and its name changes hands with the next head.

use identity::key::Sign as _;

use super::world::{HERE, Site, Turned, invite_id, invited};
use crate::enroll::{EnrollOutcome, check_name_is_free};
use crate::invite::admission::{Claim, ClaimAuthority};
use crate::ledger::entry::Action;
use crate::ledger::fold::Why;
use crate::ledger::judge::NotMember;
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{Org, claim, invite, key, machine};
use crate::refusal::Refusal;
use crate::state::Standing;
use crate::state::take::NotTaken;

/// `k1` is listed as `web`; the invite `j` is there for whoever comes next.
fn settled() -> (Org, Site) {
    let (org, mut site) = invited(&["i", "j"].map(|id| invite(id, &["*"], &[(HERE, 4)], 20)));
    site.admit((HERE, 1), &org.claim(("k1", "web"), &site.invite("i").envelope, None)).unwrap();
    site.join((HERE, 1), ("k1", "web"));
    site.publish(&org, (1, &["ann"]), &Wish::default());
    (org, site)
}

fn body(new: &str, old: &str, name: &str) -> Claim {
    let replaces = Some(machine(old).public());
    Claim { replaces, ..claim(new, name, ClaimAuthority::Invite(invite_id("j"))) }
}

/// What the gateway says before and after the proof.
fn ask(org: &Org, site: &Site, claim: &Claim) -> Result<(), Refusal> {
    let listed = site.state.leaves().unwrap().get(&claim.name).map(|leaf| leaf.node_key);
    match site.ask((HERE, 1), claim, org.seal(claim, &[]).digest())? {
        EnrollOutcome::Admit { .. } => check_name_is_free(&site.state, claim, listed),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_old_key_hands_its_name_on_with_the_next_head_and_is_over() {
    let (org, mut site) = settled();
    assert_eq!(ask(&org, &site, &body("k2", "k1", "web")), Ok(()));
    let claim = org.claim(("k2", "web"), &site.invite("j").envelope, Some("k1"));
    site.admit((HERE, 1), &claim).unwrap();
    // Not before the operators' next head.
    assert_eq!((site.standing("k1"), site.standing("k2")), (Some(Standing::Member), Some(Standing::Waiting)));
    assert_eq!(site.holder("web"), Some(key("k1")));
    site.publish(&org, (2, &["ann"]), &Wish::default());
    assert_eq!((site.standing("k1"), site.standing("k2")), (Some(Standing::Revoked), Some(Standing::Issued)));
    assert_eq!(site.holder("web"), Some(key("k2")));
    assert!(site.state.is_gone(key("k1")));
    // The old key is dead in every way: it cannot be replaced again, and does not come back.
    assert_eq!(ask(&org, &site, &body("k3", "k1", "web")), Err(Refusal::KeyRevoked));
    let back = claim_of("k1", "web");
    assert_eq!(site.ask((HERE, 2), &back, org.seal(&back, &[]).digest()).map(drop), Err(Refusal::KeyRevoked));
}

fn claim_of(key: &str, name: &str) -> Claim {
    claim(key, name, ClaimAuthority::Invite(invite_id("j")))
}

#[test]
fn the_new_one_holds_the_name_on_a_gateway_that_hears_of_it_later() {
    let (org, mut site) = settled();
    let mut other = Site::of(&org);
    site.admit((HERE, 1), &org.claim(("k2", "web"), &site.invite("j").envelope, Some("k1"))).unwrap();
    site.publish(&org, (2, &["ann"]), &Wish::default());
    site.give(&mut other, 3);
    assert_eq!((other.holder("web"), other.standing("k2")), (Some(key("k2")), Some(Standing::Issued)));
    other.join(("g2", 3), ("k2", "web"));
    assert_eq!(other.standing("k2"), Some(Standing::Member));
}

#[test]
fn without_the_old_keys_word_nothing_is_replaced() {
    let (org, mut site) = settled();
    let invite = site.invite("j").envelope.clone();
    for hands in [&["k2"] as &[&str], &["k2", "k3"], &["k1"]] {
        let sealed = org.seal(&body("k2", "k1", "web"), &["j"]);
        let sign = |claim: identity::envelope::Envelope, hand: &&str| claim.signed(machine(hand).as_ref()).unwrap();
        let claim = hands.iter().fold(sealed, sign);
        let action = Action::NodeAdmit { claim, invite: Some(invite.clone()), approval: None };
        let refused = site.write((HERE, 1), action.clone());
        assert!(matches!(refused, Err(NotTaken::Waits(_))), "{hands:?}");
        let forced = site.clone().force((HERE, 1), action);
        site.hear(&forced.into(), 1);
        assert_eq!((site.standing("k1"), site.standing("k2")), (Some(Standing::Member), None), "{hands:?}");
    }
}

#[test]
fn a_key_hands_on_its_own_name_only_and_not_to_itself() {
    let (org, mut site) = settled();
    assert_eq!(ask(&org, &site, &body("k2", "k1", "db")), Err(Refusal::NotAdmitted), "another name");
    assert_eq!(ask(&org, &site, &body("k2", "k3", "web")), Err(Refusal::NotAdmitted), "a key that nobody knows");
    let invite = site.invite("j").envelope.clone();
    for (new, old) in [("k2", "k3"), ("k4", "k4")] {
        let claim = org.claim((new, "web"), &invite, Some(old));
        let action = Action::NodeAdmit { claim, invite: Some(invite.clone()), approval: None };
        let refused = site.write((HERE, 1), action);
        let taken = matches!(&refused, Err(NotTaken::Waits(Why::Judged(NotMember::NameOfAnother { .. }))));
        assert!(taken, "{new} {old}: {refused:?}");
    }
    assert_eq!(site.standing("k1"), Some(Standing::Member));
}

#[test]
fn a_key_that_is_over_or_waits_hands_on_nothing() {
    let (org, mut left) = settled();
    left.leave(&org, (HERE, 1), ("k1", "web"));
    assert_eq!(ask(&org, &left, &body("k2", "k1", "web")), Err(Refusal::KeyLeft));
    let (org, mut revoked) = settled();
    revoked.publish(&org, (1, &["ann"]), &Wish { revoke_keys: vec![key("k1")], ..Wish::default() });
    assert_eq!(ask(&org, &revoked, &body("k2", "k1", "web")), Err(Refusal::KeyRevoked));
    // Let in by a gateway that did not know yet that the invite was revoked.
    let (org, mut waiting) = invited(&["i", "j"].map(|id| invite(id, &["*"], &[(HERE, 4)], 20)));
    let envelope = waiting.invite("i").envelope.clone();
    waiting.publish(&org, (1, &["ann"]), &Wish { revoke_invites: vec![invite_id("i")], ..Wish::default() });
    let claim = org.claim(("k1", "web"), &envelope, None);
    assert_eq!(waiting.admit((HERE, 1), &claim), Err(Turned::Away(Refusal::InviteRevoked)));
    waiting.force((HERE, 1), Action::NodeAdmit { claim, invite: Some(envelope), approval: None });
    assert_eq!(waiting.standing("k1"), Some(Standing::Waiting));
    assert_eq!(ask(&org, &waiting, &body("k2", "k1", "web")), Err(Refusal::Waiting));
}
