//! A person's yes or no: whose counts, about what, and what becomes of an admission without one.

use identity::envelope::Envelope;
use identity::glob::NameGlob;
use identity::id::{Digest, InviteId};
use identity::key::Sign as _;
use identity::time::{Seconds, Timestamp};

use super::taking_back::settled;
use super::world::{NOW, World, ed, node, node_key, quorum};
use crate::admission::{Admission, BadAdmission, Claim};
use crate::approve::{Approved, Decision, Verdict as Said, Waiver};
use crate::enroll::{Attempt, Verdict, consider};
use crate::entry::Action;
use crate::invite::{Approval, InviteKind};
use crate::refusal::Refusal;
use crate::state::{Standing, State, Void};

const BOTH: [&str; 2] = ["ann", "ben"];

/// Two signers, of whom one is enough, and invite 1, under which so many must approve.
fn invited(approvers: u8) -> World {
    let mut world = World::new(1, &BOTH);
    let mut invite = world.invite_body("ann", 1, [5, 0]);
    (invite.approval, invite.approvers) = (Approval::Human, approvers);
    let invite = world.sealed(&invite, &["ann"]);
    world.invites.insert(1, invite.clone());
    world.append("ann", Action::InviteCreate { invite });
    world.share();
    world
}

fn claim(world: &World, n: u8) -> Envelope {
    let claim = world.sealed(&World::claim(n, 1, "web"), &["invite 1"]);
    claim.signed(&node_key(n)).unwrap()
}

fn say(world: &mut World, who: &str, about: Digest, verdict: Said) {
    let decision = world.sealed(&Decision { about, verdict }, &[who]);
    world.append(who, Action::NodeApprove { decision, name: node("web") });
    world.share();
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Wait,
    Admit,
}

fn ask(world: &World, n: u8) -> Result<Found, Refusal> {
    ask_at(&settled(world), &World::claim(n, 1, "web"), claim(world, n).digest(), NOW)
}

fn ask_at(state: &State, claim: &Claim, claimed: Digest, now: Timestamp) -> Result<Found, Refusal> {
    let attempt = Attempt { claim, claimed, source: "10.0.0.1".parse().unwrap(), gateway: &node("gw-1"), now };
    match consider(state, attempt)? {
        Verdict::Wait { .. } => Ok(Found::Wait),
        Verdict::Admit { approval: Some(_), .. } => Ok(Found::Admit),
        Verdict::Admit { approval: None, .. } => panic!("let in without a yes"),
        Verdict::Again { .. } => panic!("nobody joined yet"),
    }
}

/// Hands an admission of node `n` with this approval to the ledger, as a gateway that cares for nothing would.
fn admit(world: &mut World, n: u8, approval: Option<Envelope>) -> Option<Void> {
    let invite = Some(world.invites[&1].clone());
    let body = Admission { claim: claim(world, n), invite, approval, gateway: node("gw-1"), at: NOW };
    let admission = world.sealed(&body, &["gw-1"]);
    let entry = world.append("gw-1", Action::NodeAdmit { admission });
    settled(world).void.get(&entry.digest).cloned()
}

#[test]
fn a_claim_waits_until_one_says_yes_and_only_that_claim() {
    let mut world = invited(1);
    assert_eq!(ask(&world, 1), Ok(Found::Wait));
    let about = claim(&world, 1).digest();
    say(&mut world, "ben", about, Said::Approve);
    assert_eq!(ask(&world, 1), Ok(Found::Admit));
    assert_eq!(ask(&world, 2), Ok(Found::Wait), "another key under the same name");
    let other = World::claim(1, 1, "db");
    let digest = world.sealed(&other, &["invite 1"]).digest();
    assert_eq!(ask_at(&world.fold().state, &other, digest, NOW), Ok(Found::Wait), "the same key under another name");
}

#[test]
fn a_no_stands_whoever_said_yes_before_or_after() {
    for order in [[Said::Approve, Said::Deny], [Said::Deny, Said::Approve]] {
        let mut world = invited(1);
        let about = claim(&world, 1).digest();
        for (who, verdict) in BOTH.into_iter().zip(order) {
            say(&mut world, who, about, verdict);
        }
        assert_eq!(ask(&world, 1), Err(Refusal::Denied), "{order:?}");
        assert_eq!(ask(&world, 2), Ok(Found::Wait));
    }
}

#[test]
fn two_approvers_are_two_keys() {
    let mut world = invited(2);
    let about = claim(&world, 1).digest();
    say(&mut world, "ann", about, Said::Approve);
    say(&mut world, "ann", about, Said::Approve);
    assert_eq!(ask(&world, 1), Ok(Found::Wait), "one said it twice");
    say(&mut world, "ben", about, Said::Approve);
    assert_eq!(ask(&world, 1), Ok(Found::Admit));
}

#[test]
fn only_a_signer_of_today_counts() {
    let mut world = invited(1);
    let about = claim(&world, 1).digest();
    // A signature of somebody who is none, carried in by a signer.
    let decision = world.sealed(&Decision { about, verdict: Said::Approve }, &["eve"]);
    let entry = world.append("ann", Action::NodeApprove { decision, name: node("web") });
    assert!(settled(&world).void.contains_key(&entry.digest));
    say(&mut world, "ben", about, Said::Approve);
    assert_eq!(ask(&world, 1), Ok(Found::Admit));
    // Ben leaves the signers, and his word with him; the invite was signed by Ann, who stays.
    let install = world.install("ann", quorum(1, &["ann"]), &["ann"], &["ann"]);
    world.append("ann", install);
    world.share();
    assert_eq!(ask(&world, 1), Ok(Found::Wait));
    say(&mut world, "ann", about, Said::Approve);
    assert_eq!(ask(&world, 1), Ok(Found::Admit));
}

/// Whoever has nothing but the admission, as a peer or an operator's tool, knows every set there ever was.
#[test]
fn a_former_signer_s_yes_is_worth_nothing_under_a_later_invite() {
    let mut world = World::new(1, &BOTH);
    let install = world.install("ann", quorum(1, &["ann"]), &["ann"], &["ann"]);
    world.append("ann", install);
    world.share();
    let mut invite = world.invite_body("ann", 1, [5, 0]);
    invite.approval = Approval::Human;
    let invite = world.sealed(&invite, &["ann"]);
    let claim = claim(&world, 1);
    let state = settled(&world);
    let sets: Vec<_> = std::iter::once(&state.first).chain(state.later.iter().map(|it| &it.set)).cloned().collect();
    assert_eq!(sets.len(), 2);
    for (who, expected) in [("ben", Some(BadAdmission::NotApproved)), ("ann", None)] {
        let approval = world.sealed(&Decision { about: claim.digest(), verdict: Said::Approve }, &[who]);
        let (approval, invite) = (Some(approval), Some(invite.clone()));
        let body = Admission { claim: claim.clone(), invite, approval, gateway: node("gw-1"), at: NOW };
        let admission = world.sealed(&body, &["gw-1"]);
        let checked = Admission::check(&admission, world.founding.id, ed("gw-1").public(), &sets);
        assert_eq!(checked.err(), expected, "{who}");
    }
}

#[test]
fn an_admission_without_its_yes_is_void_in_every_fold() {
    let mut world = invited(1);
    let yes = |world: &World, n, who| {
        let about = claim(world, n).digest();
        world.sealed(&Decision { about, verdict: Said::Approve }, &[who])
    };
    let no = world.sealed(&Decision { about: claim(&world, 1).digest(), verdict: Said::Deny }, &["ann"]);
    let (another, stranger) = (yes(&world, 2, "ann"), yes(&world, 1, "eve"));
    for (why, approval) in [
        ("none", None),
        ("of another claim", Some(another)),
        ("a no", Some(no)),
        ("nobody's", Some(stranger)),
        ("an invite", Some(world.invites[&1].clone())),
    ] {
        assert!(admit(&mut world, 1, approval).is_some(), "{why}");
        assert_eq!(world.standing(1), None, "{why}");
    }
    let good = yes(&world, 1, "ben");
    assert_eq!(admit(&mut world, 1, Some(good)), None);
    assert_eq!(world.standing(1), Some(Standing::Issued));
}

#[test]
fn whoever_was_let_in_before_a_no_was_heard_of_waits_again() {
    let mut world = invited(1);
    let about = claim(&world, 1).digest();
    let yes = world.sealed(&Decision { about, verdict: Said::Approve }, &["ben"]);
    assert_eq!(admit(&mut world, 1, Some(yes)), None);
    assert_eq!(world.standing(1), Some(Standing::Issued));
    say(&mut world, "ann", about, Said::Deny);
    assert_eq!(world.standing(1), Some(Standing::Waiting));
    settled(&world);
    // Also when she who said it signs no more.
    let install = world.install("ben", quorum(1, &["ben"]), &["ben"], &["ben"]);
    world.append("ben", install);
    world.share();
    assert_eq!(world.standing(1), Some(Standing::Waiting));
}

#[test]
fn one_signer_s_no_ends_a_waiver() {
    let mut world = invited(1);
    let waived = world.sealed(&waiver("web*", NOW, NOW + Seconds::HOUR), &["ann"]);
    let id = waived.digest();
    world.append("ann", Action::InviteApprove { waiver: waived });
    world.share();
    assert_eq!(ask(&world, 1), Ok(Found::Admit));
    let no = world.sealed(&Decision { about: id, verdict: Said::Deny }, &["ben"]);
    world.append("ben", Action::InviteApprove { waiver: no });
    world.share();
    assert_eq!(ask(&world, 1), Ok(Found::Wait));
    assert_eq!(settled(&world).open_waivers().count(), 0);
}

fn waiver(names: &str, from: Timestamp, until: Timestamp) -> Waiver {
    Waiver { names: vec![names.parse::<NameGlob>().unwrap()], from, until }
}

#[test]
fn a_waiver_says_yes_beforehand_within_its_names_and_its_time() {
    let mut world = invited(1);
    let end = NOW + Seconds::HOUR;
    let waived = world.sealed(&waiver("web*", NOW, end), &["ann"]);
    world.append("ann", Action::InviteApprove { waiver: waived });
    world.share();
    let state = settled(&world);
    let at = |name: &str, now| {
        let claim = World::claim(1, 1, name);
        ask_at(&state, &claim, world.sealed(&claim, &["invite 1"]).digest(), now)
    };
    assert_eq!(at("web", NOW), Ok(Found::Admit));
    assert_eq!(at("db", NOW), Ok(Found::Wait));
    assert_eq!(at("web", NOW - Seconds(1)), Ok(Found::Wait));
    assert_eq!(at("web", end), Ok(Found::Wait));
    let long = world.sealed(&waiver("*", NOW, NOW + Seconds::DAY.times(32)), &["ann"]);
    let entry = world.append("ann", Action::InviteApprove { waiver: long });
    assert!(settled(&world).void.contains_key(&entry.digest), "nobody waives for longer than a month");
}

#[test]
fn a_waiver_gives_nothing_to_a_claimed_host_name() {
    let world = invited(1);
    let waived = world.sealed(&waiver("*", NOW, NOW + Seconds::HOUR), &["ann"]);
    let sets = [world.signers("ann").clone()];
    let about = claim(&world, 1).digest();
    let mut invite = world.invite_body("ann", 1, [5, 0]);
    let check = |invite: &_| Approved::check(&waived, (invite, about), &node("web"), NOW, &sets);
    for kind in [InviteKind::Token, InviteKind::Key, InviteKind::Bundle, InviteKind::Machine] {
        invite.kind = kind;
        assert_eq!(check(&invite), Some(Approved::Name), "{kind}");
    }
    invite.kind = InviteKind::Pattern;
    assert_eq!(check(&invite), None);
}

/// A node that was admitted beyond the point up to which its invite is good.
fn cut_off(threshold: usize) -> (World, Digest) {
    let mut world = World::new(threshold, &BOTH);
    let invite = world.sealed(&world.invite_body("ann", 1, [5, 0]), &BOTH);
    world.invites.insert(1, invite.clone());
    world.append("ann", Action::InviteCreate { invite });
    world.share();
    world.admit("gw-1", 1, 1, "web");
    let mut head = world.next_head("ann");
    let seen = world.view("ann").frontier.cuts();
    head.revocations.invites.insert(identity::head::InviteCut { invite: InviteId([1; 16]), seen });
    let head = world.sealed(&head, &BOTH);
    let cause = crate::entry::Cause::InviteRevoke { invite: InviteId([1; 16]) };
    world.append("ann", Action::HeadPublish { head, cause });
    world.share();
    assert_eq!(world.standing(1), Some(Standing::Waiting));
    let digest = world.fold().state.members[&identity::key::Sign::public(&node_key(1)).digest()].admission.digest;
    (world, digest)
}

#[test]
fn the_threshold_lets_a_cut_off_member_stay_unless_one_says_no() {
    let (mut world, about) = cut_off(2);
    say(&mut world, "ann", about, Said::Approve);
    assert_eq!(world.standing(1), Some(Standing::Waiting), "one of two");
    say(&mut world, "ann", about, Said::Approve);
    assert_eq!(world.standing(1), Some(Standing::Waiting), "one of two, twice");
    say(&mut world, "ben", about, Said::Approve);
    assert_eq!(world.standing(1), Some(Standing::Issued));
    settled(&world);
    say(&mut world, "ben", about, Said::Deny);
    assert_eq!(world.standing(1), Some(Standing::Waiting), "a no stands");
}

#[test]
fn a_yes_to_the_claim_is_none_to_the_admission() {
    let (mut world, about) = cut_off(1);
    let claimed = claim(&world, 1).digest();
    say(&mut world, "ann", claimed, Said::Approve);
    assert_eq!(world.standing(1), Some(Standing::Waiting));
    say(&mut world, "ann", about, Said::Approve);
    assert_eq!(world.standing(1), Some(Standing::Issued));
}
