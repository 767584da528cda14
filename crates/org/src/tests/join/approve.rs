//! A person's yes or no: whose counts, about what, and what becomes of an admission without one.

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::principal::glob::NameGlob;
use identity::time::{Seconds, Timestamp};

use crate::enroll::{Attempt, EnrollOutcome, consider};
use crate::invite::admission::{Claim, ClaimAuthority};
use crate::invite::approve::{Decision, Verdict as Said, Waiver};
use crate::invite::{Approval, InviteKind};
use crate::ledger::counts::NotCounted;
use crate::ledger::entry::{Action, SignedEntry};
use crate::ledger::fold::Why;
use crate::ledger::judge::NotMember;
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{FRESH, Org, claim, day, invite, key, machine, node};
use crate::refusal::Refusal;
use crate::state::Standing;
use crate::state::accept::NotAccepted;
use crate::state::consent::Consent;
use crate::tests::world::{HERE, Site, Turned, invite_id};

const BOTH: [&str; 2] = ["ann", "ben"];

/// So many of two signers are enough, and the invite `i`, under which so many must approve.
fn invited(threshold: usize, approvers: u8) -> (Org, Site) {
    let org = Org::new(threshold, &BOTH);
    let mut body = invite("i", &["*"], &[(HERE, 5)], 20);
    (body.approval, body.approvers) = (Approval::Human, approvers);
    let mut site = Site::of(&org);
    site.told(&org.seal(&body, &BOTH[..threshold]), 0);
    (org, site)
}

fn asks(org: &Org, site: &Site, key: &str) -> Envelope {
    org.claim((key, "web"), &site.invite("i").envelope, None)
}

fn word(org: &Org, about: Digest, verdict: Said, by: &[&str]) -> Envelope {
    org.seal(&Decision { about, verdict, until: Some(day(15)) }, by)
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Wait,
    Admit,
}

fn ask(org: &Org, site: &Site, key: &str) -> Result<Found, Refusal> {
    let body = claim(key, "web", ClaimAuthority::Invite(invite_id("i")));
    ask_at(site, &body, asks(org, site, key).digest(), day(1))
}

fn ask_at(site: &Site, claim: &Claim, claimed: Digest, now: Timestamp) -> Result<Found, Refusal> {
    let attempt = Attempt { claim, claimed, source: "10.0.0.1".parse().unwrap(), gateway: &node(HERE), now };
    match consider(&site.state, attempt)? {
        EnrollOutcome::Wait { .. } => Ok(Found::Wait),
        EnrollOutcome::Admit { approval: Some(_), .. } => Ok(Found::Admit),
        EnrollOutcome::Admit { approval: None, .. } => panic!("let in without a yes"),
        EnrollOutcome::Again { .. } => panic!("nobody joined yet"),
    }
}

/// As a gateway that cares for nothing would.
fn force(org: &Org, site: &mut Site, key: &str, approval: Option<Envelope>) -> SignedEntry {
    let (claim, invite) = (asks(org, site, key), Some(site.invite("i").envelope.clone()));
    site.force((HERE, 1), Action::NodeAdmit { claim, invite, approval })
}

#[test]
fn a_claim_waits_until_one_says_yes_and_only_that_claim() {
    let (org, mut site) = invited(1, 1);
    let signed = asks(&org, &site, "k1");
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Wait));
    assert_eq!(site.admit((HERE, 1), &signed), Err(Turned::Wait));
    site.told(&word(&org, signed.digest(), Said::Approve, &["ben"]), 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Admit));
    assert_eq!(ask(&org, &site, "k2"), Ok(Found::Wait), "another key under the same name");
    let other = claim("k1", "db", ClaimAuthority::Invite(invite_id("i")));
    assert_eq!(ask_at(&site, &other, org.seal(&other, &[]).digest(), day(1)), Ok(Found::Wait), "another name");
    site.admit((HERE, 1), &signed).unwrap();
    assert_eq!(site.standing("k1"), Some(Standing::Issued));
}

/// Two of two sign for the org; a machine's yes takes as many as its invite asks for, and a no takes one.
#[test]
fn one_signer_of_two_and_an_invites_secret_let_in_whom_one_may_approve_and_nobody_else() {
    for (approvers, alone) in [(1, Found::Admit), (2, Found::Wait)] {
        let (org, mut site) = invited(2, approvers);
        let signed = asks(&org, &site, "k1");
        site.told(&word(&org, signed.digest(), Said::Approve, &["ben"]), 1);
        assert_eq!(ask(&org, &site, "k1").as_ref(), Ok(&alone), "{approvers}");
        let entered = site.admit((HERE, 1), &signed).map(drop);
        assert_eq!(entered, if alone == Found::Admit { Ok(()) } else { Err(Turned::Wait) });
        // A word to let in beforehand, or the invite itself, she does not sign alone.
        let own = invite("own", &["*"], &[(HERE, 5)], 20);
        site.told(&org.seal(&own, &["ben"]), 1);
        let body = claim("k3", "mail", ClaimAuthority::Invite(invite_id("own")));
        let claimed = org.seal(&body, &["own"]).digest();
        assert!(ask_at(&site, &body, claimed, day(1)).is_err(), "an invite of her own");
        site.told(&org.seal(&waiver("*", day(0), day(9)), &["ben"]), 1);
        assert_eq!(ask(&org, &site, "k2"), Ok(Found::Wait), "a waiver of her own");
    }
}

#[test]
fn one_signer_of_two_turns_away_whom_both_approved_until_the_next_head_lists_it() {
    let (org, mut site) = invited(2, 2);
    let signed = asks(&org, &site, "k1");
    site.told(&word(&org, signed.digest(), Said::Approve, &BOTH), 1);
    site.admit((HERE, 1), &signed).unwrap();
    assert_eq!(site.standing("k1"), Some(Standing::Issued));
    site.told(&word(&org, signed.digest(), Said::Deny, &["ben"]), 1);
    assert_eq!(site.why("k1"), Some(Why::Judged(NotMember::Denied)));
    let admission = site.member("k1").unwrap().admission.digest;
    site.publish(&org, (2, &BOTH), &Wish { list: vec![admission], ..Wish::default() });
    assert_eq!(site.standing("k1"), Some(Standing::Issued), "a leaf is the approval");
    site.told(&word(&org, signed.digest(), Said::Deny, &["ben"]), 3);
    assert_eq!(site.standing("k1"), Some(Standing::Issued));
}

#[test]
fn one_signer_of_two_consents_alone_and_a_stranger_does_not() {
    let (org, mut site) = invited(2, 1);
    let manifest = Digest([7; 32]);
    let word = |by: &[&str]| {
        let consent = Consent { node_key: key("k1"), name: node("web"), manifest, at: day(1) };
        org.seal(&consent, by)
    };
    site.told(&word(&["eve"]), 1);
    assert_eq!(site.state.objects.consent_to(key("k1"), manifest), None);
    site.told(&word(&["ben"]), 1);
    assert!(site.state.objects.consent_to(key("k1"), manifest).is_some());
    assert_eq!(site.state.objects.consent_to(key("k2"), manifest), None, "for another machine");
}

/// No secret is needed, and what network it comes from is the gateway's word.
#[test]
fn a_gateways_voice_and_one_signer_of_two_let_in_machines_of_their_own_by_a_pattern_alone_and_within_it() {
    let org = Org::new(2, &BOTH);
    let pattern = |approvers| {
        let mut body = invite("p", &["web-*"], &[(HERE, 2)], 20);
        (body.kind, body.key, body.approval, body.approvers) = (InviteKind::Pattern, None, Approval::Human, approvers);
        body.networks = vec!["10.0.0.0/8".parse().unwrap()];
        org.seal(&body, &BOTH)
    };
    let own = |key: &str, name: &str| {
        org.seal(&claim(key, name, ClaimAuthority::Pattern), &[]).signed(machine(key).as_ref()).unwrap()
    };
    let enters = |site: &mut Site, invite: &Envelope, claim: Envelope, yes: &[&str]| {
        let approval = Some(word(&org, claim.digest(), Said::Approve, yes));
        site.force((HERE, 1), Action::NodeAdmit { claim, invite: Some(invite.clone()), approval });
    };
    let (one, mut site) = (pattern(1), Site::of(&org));
    site.told(&one, 0);
    enters(&mut site, &one, own("k1", "db-1"), &["ben"]);
    assert_eq!(site.why("k1"), Some(Why::Judged(NotMember::BeyondInvite)));
    enters(&mut site, &one, own("k2", "web-2"), &[]);
    assert_eq!(site.why("k2"), Some(Why::Judged(NotMember::NotApproved)), "the voice alone, and it is a use");
    let mut site = Site::of(&org);
    site.told(&one, 0);
    for (key, name) in [("k3", "web-3"), ("k4", "web-4")] {
        enters(&mut site, &one, own(key, name), &["ben"]);
        assert_eq!(site.standing(key), Some(Standing::Issued));
        assert!(site.member(key).unwrap().claim().is_low());
    }
    enters(&mut site, &one, own("k5", "web-5"), &["ben"]);
    assert_eq!(site.why("k5"), Some(Why::Judged(NotMember::NoUsesLeft)));
    // Where two must say yes; and by an invite with a secret, which they do not have.
    let (two, mut site) = (pattern(2), Site::of(&org));
    site.told(&two, 0);
    enters(&mut site, &two, own("k6", "web-6"), &["ben"]);
    assert_eq!(site.why("k6"), Some(Why::Judged(NotMember::NotApproved)));
    let (_, mut site) = invited(2, 1);
    let proven = site.invite("i").envelope.clone();
    let body = claim("k7", "web-7", ClaimAuthority::Invite(invite_id("i")));
    let unproven = org.seal(&body, &[]).signed(machine("k7").as_ref()).unwrap();
    enters(&mut site, &proven, unproven, &["ben"]);
    assert_ne!(site.standing("k7"), Some(Standing::Issued));
}

#[test]
fn a_no_stands_whoever_said_yes_before_or_after() {
    for order in [[Said::Approve, Said::Deny], [Said::Deny, Said::Approve]] {
        let (org, mut site) = invited(1, 1);
        let about = asks(&org, &site, "k1").digest();
        for (who, verdict) in BOTH.into_iter().zip(order) {
            site.told(&word(&org, about, verdict, &[who]), 1);
        }
        assert_eq!(ask(&org, &site, "k1"), Err(Refusal::Denied), "{order:?}");
        assert_eq!(ask(&org, &site, "k2"), Ok(Found::Wait));
    }
}

#[test]
fn two_approvers_are_two_keys() {
    let (org, mut site) = invited(1, 2);
    let about = asks(&org, &site, "k1").digest();
    for _ in 0..2 {
        site.told(&word(&org, about, Said::Approve, &["ann"]), 1);
        assert_eq!(ask(&org, &site, "k1"), Ok(Found::Wait), "one said it, and once more");
    }
    site.told(&word(&org, about, Said::Approve, &["ben"]), 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Admit));
}

#[test]
fn only_a_signer_of_today_counts() {
    let (org, mut site) = invited(1, 1);
    let about = asks(&org, &site, "k1").digest();
    for verdict in [Said::Approve, Said::Deny] {
        site.told(&word(&org, about, verdict, &["eve"]), 1);
        assert_eq!(ask(&org, &site, "k1"), Ok(Found::Wait), "a stranger says {verdict:?}");
    }
    site.told(&word(&org, about, Said::Approve, &["ben"]), 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Admit));
    // Ben leaves the signers, and his word with him; the invite was signed by Ann, who stays.
    site.install(&org, 1, (2, &["ann"]), &["ann"]);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Wait));
    site.told(&word(&org, about, Said::Deny, &["ben"]), 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Wait), "nor does his no");
    site.told(&word(&org, about, Said::Approve, &["ann"]), 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Admit));
}

#[test]
fn an_admission_without_its_yes_waits_for_everybody() {
    let (org, site) = invited(1, 1);
    let claims = |key| asks(&org, &site, key).digest();
    let yes = |key, by: &str| word(&org, claims(key), Said::Approve, &[by]);
    for (why, approval) in [
        ("none", None),
        ("of another claim", Some(yes("k2", "ann"))),
        ("a no that nobody signed", Some(word(&org, claims("k1"), Said::Deny, &[]))),
        ("nobody's", Some(yes("k1", "eve"))),
        ("an invite", Some(site.invite("i").envelope.clone())),
    ] {
        let mut site = site.clone();
        let (claim, invite) = (asks(&org, &site, "k1"), Some(site.invite("i").envelope.clone()));
        let refused = site.write((HERE, 1), Action::NodeAdmit { claim, invite, approval: approval.clone() });
        assert!(refused.is_err(), "{why}");
        force(&org, &mut site, "k1", approval);
        assert_eq!(site.standing("k1"), Some(Standing::Waiting), "{why}");
        assert_eq!(site.why("k1"), Some(Why::Judged(NotMember::NotApproved)), "{why}");
    }
    let mut site = site.clone();
    let good = yes("k1", "ben");
    force(&org, &mut site, "k1", Some(good));
    assert_eq!(site.standing("k1"), Some(Standing::Issued));
}

#[test]
fn a_yes_is_over_when_it_says_so_for_a_gateway_by_its_clock_and_for_everybody_by_the_head() {
    let (org, mut site) = invited(1, 1);
    let about = asks(&org, &site, "k1").digest();
    let said = |verdict, until| org.seal(&Decision { about, verdict, until }, &["ann"]);
    let at = |site: &Site, on| {
        let body = claim("k1", "web", ClaimAuthority::Invite(invite_id("i")));
        ask_at(site, &body, about, day(on))
    };
    let (endless, week) = (said(Said::Approve, None), said(Said::Approve, Some(day(7))));
    site.told(&endless, 1);
    assert_eq!(at(&site, 1), Ok(Found::Wait), "one without an end is none");
    assert_eq!(site.state.check_taken(&endless), Err(NotAccepted::NotCounted(NotCounted::NoEnd)));
    site.told(&week, 1);
    assert_eq!((at(&site, 6), at(&site, 7)), (Ok(Found::Admit), Ok(Found::Wait)));
    // Later somebody says yes anew: the word that is over is in nobody's way.
    let mut again = site.clone();
    again.told(&said(Said::Approve, Some(day(9))), 8);
    assert_eq!(at(&again, 8), Ok(Found::Admit));
    // Who was let in meanwhile stays with the next head; by one whose maker did not hear of it in time it waits.
    let mut unheard = site.clone();
    force(&org, &mut site, "k1", Some(week.clone()));
    assert_eq!(site.standing("k1"), Some(Standing::Issued));
    let mut listed = site.clone();
    listed.publish(&org, (8, &["ann"]), &Wish::default());
    assert_eq!(listed.standing("k1"), Some(Standing::Issued));
    let head = unheard.publish(&org, (8, &["ann"]), &Wish::default());
    site.hear(&head, 8);
    assert_eq!(site.why("k1"), Some(Why::Judged(NotMember::ApprovalOver { until: day(7) })));
    let over = Err(NotAccepted::NotCounted(NotCounted::Over { until: day(7) }));
    assert_eq!(site.state.check_taken(&week), over);
}

#[test]
fn a_no_ends_too_and_not_before_the_invite_can_let_nobody_in() {
    let (org, mut site) = invited(1, 1);
    let about = asks(&org, &site, "k1").digest();
    let no = |until| org.seal(&Decision { about, verdict: Said::Deny, until }, &["ben"]);
    site.told(&no(None), 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Wait), "one without an end is none");
    site.told(&no(Some(day(3))), 1);
    assert_eq!(ask(&org, &site, "k1"), Err(Refusal::Denied));
    site.publish(&org, (3, &["ann"]), &Wish::default());
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Wait));
    let invite = site.invite("i").invite.clone();
    let said = Decision::no(about, invite.expires_at, Seconds::DAY.times(FRESH));
    assert!(said.until.unwrap() > invite.expires_at + Seconds::DAY.times(FRESH));
}

#[test]
fn whoever_says_yes_on_one_day_says_the_same_and_no_longer_than_the_invite() {
    let (org, site) = invited(1, 2);
    let (about, invite) = (asks(&org, &site, "k1").digest(), site.invite("i").invite.clone());
    let yes = |now| Decision::yes(about, &invite, now);
    let (morning, night) = (day(1), day(1) + Seconds::HOUR.times(15));
    assert_eq!(yes(morning), yes(night));
    assert_ne!(yes(morning), yes(day(2)));
    assert_eq!(yes(day(19)).until, Some(invite.expires_at));
    assert!(yes(morning).is_yes_to(about, night), "another signs it, too");
    let far = Decision { until: Some(day(1000)), ..yes(morning) };
    assert!(!far.is_yes_to(about, morning), "nobody signs what lasts longer than a tool would say");
}

#[test]
fn whoever_was_let_in_before_a_no_was_heard_of_waits_until_operators_list_it() {
    let (org, mut site) = invited(1, 1);
    let about = asks(&org, &site, "k1").digest();
    let admitted = {
        let yes = word(&org, about, Said::Approve, &["ben"]);
        force(&org, &mut site, "k1", Some(yes))
    };
    assert_eq!(site.standing("k1"), Some(Standing::Issued));
    site.told(&word(&org, about, Said::Deny, &["ann"]), 1);
    assert_eq!(site.standing("k1"), Some(Standing::Waiting));
    assert_eq!(site.why("k1"), Some(Why::Judged(NotMember::Denied)));
    // The next head leaves it waiting, until one lists it by name.
    site.publish(&org, (2, &["ben"]), &Wish::default());
    assert_eq!((site.standing("k1"), site.why("k1")), (Some(Standing::Waiting), Some(Why::Passed)));
    site.publish(&org, (2, &["ben"]), &Wish { list: vec![admitted.digest], ..Wish::default() });
    assert_eq!(site.standing("k1"), Some(Standing::Issued));
}

fn waiver(names: &str, from: Timestamp, until: Timestamp) -> Waiver {
    Waiver { names: vec![names.parse::<NameGlob>().unwrap()], from, until }
}

#[test]
fn one_signers_no_ends_a_waiver_for_everybody() {
    let (org, mut site) = invited(1, 1);
    let waived = org.seal(&waiver("web*", day(1), day(2)), &["ann"]);
    site.told(&waived, 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Admit));
    site.told(&word(&org, waived.digest(), Said::Deny, &["ben"]), 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Wait));
    assert_eq!(site.state.open_waivers().count(), 0);
    // A gateway that lets somebody in by it all the same lets nobody in.
    force(&org, &mut site, "k1", Some(waived));
    assert_eq!(site.why("k1"), Some(Why::Judged(NotMember::NotApproved)));
}

#[test]
fn a_waiver_says_yes_beforehand_within_its_names_and_its_time() {
    let (org, mut site) = invited(1, 1);
    let end = day(1) + Seconds::HOUR;
    site.told(&org.seal(&waiver("web*", day(1), end), &["ann"]), 1);
    let at = |name: &str, now| {
        let body = claim("k1", name, ClaimAuthority::Invite(invite_id("i")));
        ask_at(&site, &body, org.seal(&body, &[]).digest(), now)
    };
    assert_eq!(at("web", day(1)), Ok(Found::Admit));
    assert_eq!(at("db", day(1)), Ok(Found::Wait));
    assert_eq!(at("web", day(1) - Seconds(1)), Ok(Found::Wait));
    assert_eq!(at("web", end), Ok(Found::Wait));
    let mut site = invited(1, 1).1;
    site.told(&org.seal(&waiver("*", day(1), day(33)), &["ann"]), 1);
    assert_eq!(
        (site.state.objects.waivers.len(), ask(&org, &site, "k1")),
        (0, Ok(Found::Wait)),
        "no longer than a month"
    );
}

#[test]
fn a_waiver_needs_the_threshold_of_those_in_force_and_as_many_as_the_invite_asks_for() {
    // Two approvers must have signed the same one.
    let (org, mut site) = invited(1, 2);
    let (one, other) = (waiver("*", day(1), day(2)), waiver("*", day(1), day(3)));
    site.told(&org.seal(&one, &["ann"]), 1);
    site.told(&org.seal(&other, &["ben"]), 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Wait), "two different waivers do not add up");
    site.told(&org.seal(&one, &["ben"]), 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Admit));
    // Both had signed; now it takes two, and one of them is gone.
    let (org, mut site) = invited(2, 1);
    site.told(&org.seal(&one, &BOTH), 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Admit));
    let (head, to) = (site.state.head().unwrap().digest, org.later(2, 2, &["ann", "cat"]));
    site.told(&org.succession(&org.set(), &to, head, &BOTH), 1);
    site.told(&crate::ledger::tests::world::signed(site.invite("i").envelope.clone(), &["ann", "cat"]), 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Wait), "what would not count does not spare the person");
}

#[test]
fn a_waiver_gives_nothing_to_a_claimed_host_name() {
    let (org, mut site) = invited(1, 1);
    site.told(&org.seal(&waiver("*", day(1), day(2)), &["ann"]), 1);
    let about = asks(&org, &site, "k1").digest();
    let mut invite = site.invite("i").invite.clone();
    let is_waived = |invite: &_| site.state.approval_of(invite, about, &node("web"), day(1)).is_some();
    for kind in [InviteKind::Token, InviteKind::Key, InviteKind::Bundle, InviteKind::Machine] {
        invite.kind = kind;
        assert!(is_waived(&invite), "{kind}");
    }
    invite.kind = InviteKind::Pattern;
    assert!(!is_waived(&invite));
}

/// A gateway that was taken over has the word of one, where two must look.
#[test]
fn what_an_honest_gateway_would_not_go_by_lets_nobody_in_elsewhere() {
    let (org, mut site) = invited(1, 2);
    let waived = org.seal(&waiver("*", day(1), day(2)), &["ann"]);
    site.told(&waived, 1);
    assert_eq!(ask(&org, &site, "k1"), Ok(Found::Wait));
    force(&org, &mut site, "k1", Some(waived));
    assert_eq!(site.why("k1"), Some(Why::Judged(NotMember::NotApproved)));
}
