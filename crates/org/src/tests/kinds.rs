//! Each kind of invite: what proves it, what it refuses, and what it can never be used for.

use identity::envelope::Envelope;
use identity::id::{Digest, InviteId};
use identity::key::{PublicKey, Sign};
use identity::time::Seconds;

use super::world::{NOW, PATTERN, World, ed, node, node_key};
use crate::admission::{Admission, BadAdmission, Claim, ClaimAuthority, open_invite};
use crate::approve::Waiver;
use crate::enroll::{Attempt, Verdict, consider};
use crate::entry::Action;
use crate::grant::{KnownInvite, ProvenClaim};
use crate::invite::{Approval, Invite, InviteKind};
use crate::refusal::Refusal;
use crate::state::{Standing, Void};

const INSIDE: &str = "10.1.2.3";

fn with(change: impl FnOnce(&mut Invite), number: u8) -> World {
    let mut world = World::new(1, &["ann"]);
    let mut invite = world.invite_body("ann", number, [3, 3]);
    change(&mut invite);
    let invite = world.sealed(&invite, &["ann"]);
    world.invites.insert(number, invite.clone());
    world.append("ann", Action::InviteCreate { invite });
    world.share();
    world
}

fn of_kind(kind: InviteKind) -> World {
    let key = match kind {
        InviteKind::Token | InviteKind::Key | InviteKind::Bundle => Some(ed("invite 1").public()),
        InviteKind::Machine => Some(node_key(1).public()),
        InviteKind::Pattern => None,
    };
    let number = if kind == InviteKind::Pattern { PATTERN } else { 1 };
    with(|invite| (invite.kind, invite.key) = (kind, key), number)
}

fn consider_as(world: &World, claim: &Claim, source: &str) -> Result<&'static str, Refusal> {
    let state = world.fold().state;
    let source = source.parse().unwrap();
    let attempt = Attempt { claim, claimed: Digest([0; 32]), source, gateway: &node("gw-1"), now: NOW };
    consider(&state, attempt).map(|verdict| match verdict {
        Verdict::Admit { .. } => "admit",
        Verdict::Again { .. } => "again",
        Verdict::Wait { .. } => "wait",
    })
}

fn signed(world: &World, claim: &Claim, hands: &[&dyn Sign]) -> Envelope {
    let mut envelope = Envelope::seal(Some(world.founding.id), claim).unwrap();
    for hand in hands {
        envelope.sign(*hand).unwrap();
    }
    envelope
}

fn admission(world: &World, claim: Envelope, invite: u8) -> Result<Claim, BadAdmission> {
    let invite = Some(world.invites[&invite].clone());
    let body = Admission { claim, invite, approval: None, gateway: node("gw-1"), at: NOW };
    let sets = [world.signers("gw-1").clone()];
    let envelope = world.sealed(&body, &["gw-1"]);
    Admission::check(&envelope, world.founding.id, ed("gw-1").public(), &sets).map(|admitted| admitted.claim)
}

#[test]
fn each_kind_is_proven_by_its_own_keys() {
    let (invite, own, other) = (ed("invite 1"), node_key(1), node_key(2));
    let both: &[&dyn Sign] = &[&invite, &own];
    let alone: &[&dyn Sign] = &[&own];
    for (kind, hands, holds) in [
        (InviteKind::Token, both, true),
        (InviteKind::Token, alone, false),
        (InviteKind::Key, both, true),
        (InviteKind::Key, alone, false),
        (InviteKind::Bundle, both, true),
        (InviteKind::Bundle, &[&invite], false),
        (InviteKind::Machine, alone, true),
        (InviteKind::Machine, &[&other], false),
        (InviteKind::Pattern, alone, true),
        (InviteKind::Pattern, &[&other], false),
    ] {
        let (world, number) = (of_kind(kind), if kind == InviteKind::Pattern { PATTERN } else { 1 });
        let claim = World::claim(1, number, "web");
        assert_eq!(consider_as(&world, &claim, INSIDE), Ok("admit"), "{kind}");
        let envelope = signed(&world, &claim, hands);
        let state = world.fold().state;
        let record = state.invites.values().next().unwrap();
        let known = KnownInvite::from(&Verdict::Admit { invite: record, approval: None });
        let proven = ProvenClaim::check(envelope.clone(), world.founding.id, &known);
        assert_eq!(proven.is_ok(), holds, "{kind}");
        assert_eq!(admission(&world, envelope, number).is_ok(), holds, "{kind}");
    }
}

#[test]
fn an_invite_whose_kind_and_key_do_not_fit_is_none() {
    let (ed, p256): (Option<PublicKey>, _) = (Some(ed("invite 1").public()), Some(node_key(1).public()));
    for (kind, key) in [
        (InviteKind::Token, None),
        (InviteKind::Token, p256),
        (InviteKind::Key, None),
        (InviteKind::Bundle, p256),
        (InviteKind::Machine, ed),
        (InviteKind::Machine, None),
        (InviteKind::Pattern, ed),
        (InviteKind::Pattern, p256),
    ] {
        let world = with(|invite| (invite.kind, invite.key) = (kind, key), 1);
        let state = world.fold().state;
        assert!(state.invites.is_empty(), "{kind} {key:?}");
        assert!(state.void.values().any(|why| matches!(why, Void::BadObject(_))));
        let sets = [world.signers("ann").clone()];
        let opened = open_invite(&world.invites[&1], world.founding.id, &sets);
        assert_eq!(opened, Err(BadAdmission::BadInvite));
    }
    assert!(with(|invite| invite.approvers = 0, 1).fold().state.invites.is_empty());
}

#[test]
fn a_machine_s_invite_is_for_that_machine_alone() {
    let world = of_kind(InviteKind::Machine);
    assert_eq!(consider_as(&world, &World::claim(2, 1, "web"), INSIDE), Err(Refusal::OtherMachine));
    let claim = World::claim(2, 1, "web");
    let found = admission(&world, signed(&world, &claim, &[&node_key(2), &node_key(1)]), 1);
    assert_eq!(found, Err(BadAdmission::BeyondInvite), "not even with the right key beside its own");
}

#[test]
fn a_pattern_asks_for_network_name_and_host() {
    let world = with(
        |invite| {
            invite.networks = vec!["10.0.0.0/8".parse().unwrap()];
            invite.hosts = vec!["*.web.example.com".parse().unwrap()];
        },
        PATTERN,
    );
    let claim = |name: &str, host: Option<&str>| Claim {
        host: host.map(|host| host.parse().unwrap()),
        ..World::claim(1, PATTERN, name)
    };
    let fits = Some("web-1.web.example.com");
    assert_eq!(consider_as(&world, &claim("web-1", fits), INSIDE), Ok("admit"));
    for (name, host, source) in [
        ("web-1", fits, "192.0.2.1"),
        ("web-2", fits, INSIDE),
        ("web-1", None, INSIDE),
        ("web-1", Some("web-1.example.com"), INSIDE),
        ("web-1", Some("web-1.web.example.com.evil.example"), INSIDE),
    ] {
        assert_eq!(
            consider_as(&world, &claim(name, host), source),
            Err(Refusal::NoPattern),
            "{name} {host:?} {source}"
        );
    }
}

#[test]
fn an_invite_that_names_hosts_says_which() {
    let world = with(|invite| invite.hosts = vec!["*.example.com".parse().unwrap()], 1);
    let refused =
        |host: &str| Err(Refusal::HostNotAllowed { host: host.to_owned(), allowed: "*.example.com".to_owned() });
    assert_eq!(consider_as(&world, &World::claim(1, 1, "web"), INSIDE), refused(""));
    for (host, expected) in [("web.example.com", Ok("admit")), ("web.example.org", refused("web.example.org"))] {
        let claim = Claim { host: Some(host.parse().unwrap()), ..World::claim(1, 1, "web") };
        assert_eq!(consider_as(&world, &claim, INSIDE), expected);
    }
}

#[test]
fn whoever_came_in_by_a_pattern_is_of_low_assurance_for_ever() {
    let mut world = of_kind(InviteKind::Pattern);
    world.admit("gw-1", 1, PATTERN, "web");
    world.join("gw-1", 1);
    assert_eq!(world.standing(1), Some(Standing::Member));
    let state = world.fold().state;
    let member = state.member(&node_key(1).public()).unwrap();
    assert!(member.claim().is_low());
    assert_eq!(member.admission.invite(), Some(InviteId([PATTERN; 16])), "its lineage is known");
    // A proven invite does not change it: one key, one node.
    world.invite("ann", 1, [1, 1]);
    let again = World::claim(1, 1, "web");
    assert_eq!(consider_as(&world, &again, INSIDE), Err(Refusal::NameTaken { name: node("web") }));
    assert_eq!(consider_as(&world, &World::claim(1, PATTERN, "web"), INSIDE), Ok("again"));
}

#[test]
fn a_pattern_is_no_invite_and_an_invite_no_pattern() {
    let world = of_kind(InviteKind::Pattern);
    let named = Claim { authority: ClaimAuthority::Invite(InviteId([PATTERN; 16])), ..World::claim(1, 1, "web") };
    let unknown = Refusal::InviteUnknown { invite: InviteId([PATTERN; 16]) };
    assert_eq!(consider_as(&world, &named, INSIDE), Err(unknown));
    let found = admission(&world, signed(&world, &named, &[&node_key(1)]), PATTERN);
    assert_eq!(found, Err(BadAdmission::BeyondInvite));

    for kind in [InviteKind::Token, InviteKind::Key, InviteKind::Bundle, InviteKind::Machine] {
        let world = of_kind(kind);
        let claim = World::claim(1, PATTERN, "web");
        assert_eq!(consider_as(&world, &claim, INSIDE), Err(Refusal::NoPattern), "{kind}");
        let found = admission(&world, signed(&world, &claim, &[&ed("invite 1"), &node_key(1)]), 1);
        assert_eq!(found, Err(BadAdmission::BeyondInvite), "{kind}");
    }
}

#[test]
fn a_waiver_spares_a_proof_the_person_and_lets_no_pattern_in() {
    for (kind, number, after) in [(InviteKind::Key, 1, "admit"), (InviteKind::Pattern, PATTERN, "wait")] {
        let key = (kind == InviteKind::Key).then(|| ed("invite 1").public());
        let mut world =
            with(|invite| (invite.kind, invite.key, invite.approval) = (kind, key, Approval::Human), number);
        let claim = World::claim(1, number, "db-1");
        assert_eq!(consider_as(&world, &claim, INSIDE), Ok("wait"), "{kind}");
        let waiver = |names: &str, span| Waiver { names: vec![names.parse().unwrap()], from: NOW, until: NOW + span };
        let other = world.sealed(&waiver("web-*", Seconds::HOUR), &["ann"]);
        world.append("ann", Action::InviteApprove { waiver: other });
        assert_eq!(consider_as(&world, &claim, INSIDE), Ok("wait"), "{kind}: of other names");
        let fits = world.sealed(&waiver("db-*", Seconds::HOUR), &["ann"]);
        world.append("ann", Action::InviteApprove { waiver: fits });
        assert_eq!(consider_as(&world, &claim, INSIDE), Ok(after), "{kind}");
    }
}

#[test]
fn two_approvers_must_have_signed_the_same_waiver() {
    let mut world = World::new(1, &["ann", "ben"]);
    let mut invite = world.invite_body("ann", 1, [1, 1]);
    (invite.approval, invite.approvers) = (Approval::Human, 2);
    let invite = world.sealed(&invite, &["ann"]);
    world.append("ann", Action::InviteCreate { invite });
    world.share();
    let body = |until| Waiver { names: vec!["*".parse().unwrap()], from: NOW, until };
    let (one, other) = (body(NOW + Seconds::HOUR), body(NOW + Seconds::MINUTE));
    let claim = World::claim(1, 1, "web");
    world.append("ann", Action::InviteApprove { waiver: world.sealed(&one, &["ann"]) });
    world.append("ben", Action::InviteApprove { waiver: world.sealed(&other, &["ben"]) });
    assert_eq!(consider_as(&world, &claim, INSIDE), Ok("wait"), "two different waivers do not add up");
    world.append("ben", Action::InviteApprove { waiver: world.sealed(&one, &["ben"]) });
    assert_eq!(consider_as(&world, &claim, INSIDE), Ok("admit"));
}
