//! Each kind of invite: what proves it, what it refuses, and what it can never be used for.

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::{PublicKey, Sign};
use identity::time::Seconds;

use crate::enroll::{Attempt, EnrollOutcome, consider};
use crate::invite::admission::{Claim, ClaimAuthority};
use crate::invite::approve::Waiver;
use crate::invite::{Approval, Invite, InviteKind};
use crate::ledger::entry::Action;
use crate::ledger::evidence::{BadEvidence, Evidence, Parts};
use crate::ledger::tests::world::{Org, claim, day, ed, invite, machine, node, voice};
use crate::refusal::Refusal;
use crate::state::Standing;
use crate::state::grant::{KnownInvite, ProvenClaim};
use crate::tests::world::{HERE, Site, invite_id, invited};

const INSIDE: &str = "10.1.2.3";

fn with(change: impl FnOnce(&mut Invite)) -> (Org, Site) {
    let mut body = invite("i", &["*"], &[(HERE, 3)], 20);
    change(&mut body);
    invited(&[body])
}

fn of_kind(kind: InviteKind) -> (Org, Site) {
    let key = match kind {
        InviteKind::Token | InviteKind::Key | InviteKind::Bundle => Some(ed("i").public()),
        InviteKind::Machine => Some(machine("k1").public()),
        InviteKind::Pattern => None,
    };
    with(|invite| (invite.kind, invite.key) = (kind, key))
}

fn claims(key: &str, kind: InviteKind, name: &str) -> Claim {
    let authority = match kind {
        InviteKind::Pattern => ClaimAuthority::Pattern,
        _ => ClaimAuthority::Invite(invite_id("i")),
    };
    claim(key, name, authority)
}

fn ask(site: &Site, claim: &Claim, source: &str) -> Result<&'static str, Refusal> {
    let (source, claimed) = (source.parse().unwrap(), Digest([0; 32]));
    let attempt = Attempt { claim, claimed, source, gateway: &node(HERE), now: day(1) };
    consider(&site.state, attempt).map(|verdict| match verdict {
        EnrollOutcome::Admit { .. } => "admit",
        EnrollOutcome::Again { .. } => "again",
        EnrollOutcome::Wait { .. } => "wait",
    })
}

fn signed(org: &Org, claim: &Claim, hands: &[&dyn Sign]) -> Envelope {
    let mut envelope = org.seal(claim, &[]);
    for hand in hands {
        envelope.sign(*hand).unwrap();
    }
    envelope
}

/// What anybody reads out of an admission that is shown.
fn read(org: &Org, claim: &Envelope, invite: &Envelope) -> Result<Claim, BadEvidence> {
    let (digest, voice) = (Digest([0; 32]), voice(HERE));
    let parts = Parts { digest, voice, claim, invite: Some(invite), approval: None };
    Evidence::read(org.founding.id, parts).map(|evidence| evidence.claim)
}

const KINDS: [InviteKind; 5] =
    [InviteKind::Token, InviteKind::Key, InviteKind::Bundle, InviteKind::Machine, InviteKind::Pattern];

#[test]
fn each_kind_is_proven_by_its_own_keys() {
    let (secret, own, other) = (ed("i"), machine("k1"), machine("k2"));
    let both: &[&dyn Sign] = &[&secret, own.as_ref()];
    let alone: &[&dyn Sign] = &[own.as_ref()];
    let others: &[&dyn Sign] = &[other.as_ref()];
    for (kind, hands, holds) in [
        (InviteKind::Token, both, true),
        (InviteKind::Token, alone, false),
        (InviteKind::Key, both, true),
        (InviteKind::Key, alone, false),
        (InviteKind::Bundle, both, true),
        (InviteKind::Bundle, &[&secret], false),
        (InviteKind::Machine, alone, true),
        (InviteKind::Machine, others, false),
        (InviteKind::Pattern, alone, true),
        (InviteKind::Pattern, others, false),
    ] {
        let ((org, site), claim) = (of_kind(kind), claims("k1", kind, "web"));
        assert_eq!(ask(&site, &claim, INSIDE), Ok("admit"), "{kind}");
        let envelope = signed(&org, &claim, hands);
        let record = site.invite("i");
        let known = KnownInvite::from(&EnrollOutcome::Admit { invite: record, approval: None });
        assert_eq!(ProvenClaim::check(envelope.clone(), org.founding.id, &known).is_ok(), holds, "{kind}");
        assert_eq!(read(&org, &envelope, &record.envelope).is_ok(), holds, "{kind}");
    }
}

#[test]
fn an_invite_whose_kind_and_key_do_not_fit_is_none() {
    let (ed, p256): (Option<PublicKey>, _) = (Some(ed("i").public()), Some(machine("k1").public()));
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
        let (org, site) = with(|invite| (invite.kind, invite.key) = (kind, key));
        assert!(site.state.invites.is_empty(), "{kind} {key:?}");
        let invite = site.state.replica.objects.values().next().unwrap();
        let claim = signed(&org, &claims("k1", kind, "web"), &[machine("k1").as_ref()]);
        assert_eq!(read(&org, &claim, invite), Err(BadEvidence::BadInvite));
    }
    assert!(with(|invite| invite.approvers = 0).1.state.invites.is_empty());
}

#[test]
fn a_machines_invite_is_for_that_machine_alone() {
    let (org, mut site) = of_kind(InviteKind::Machine);
    let other = claims("k2", InviteKind::Machine, "web");
    assert_eq!(ask(&site, &other, INSIDE), Err(Refusal::OtherMachine));
    // Not even with the right key beside its own.
    let claim = signed(&org, &other, &[machine("k2").as_ref(), machine("k1").as_ref()]);
    let invite = Some(site.invite("i").envelope.clone());
    site.force((HERE, 1), Action::NodeAdmit { claim, invite, approval: None });
    assert_eq!(site.standing("k2"), Some(Standing::Waiting));
}

#[test]
fn a_pattern_asks_for_network_name_and_host() {
    let (_, site) = with(|invite| {
        (invite.kind, invite.key) = (InviteKind::Pattern, None);
        invite.networks = vec!["10.0.0.0/8".parse().unwrap()];
        invite.hosts = vec!["*.web.example.com".parse().unwrap()];
    });
    let claim = |name: &str, host: Option<&str>| Claim {
        host: host.map(|host| host.parse().unwrap()),
        ..claims("k1", InviteKind::Pattern, name)
    };
    let fits = Some("web-1.web.example.com");
    assert_eq!(ask(&site, &claim("web-1", fits), INSIDE), Ok("admit"));
    for (name, host, source) in [
        ("web-1", fits, "192.0.2.1"),
        ("web-2", fits, INSIDE),
        ("web-1", None, INSIDE),
        ("web-1", Some("web-1.example.com"), INSIDE),
        ("web-1", Some("web-1.web.example.com.evil.example"), INSIDE),
    ] {
        assert_eq!(ask(&site, &claim(name, host), source), Err(Refusal::NoPattern), "{name} {host:?} {source}");
    }
}

#[test]
fn an_invite_that_names_hosts_says_which() {
    let (_, site) = with(|invite| invite.hosts = vec!["*.example.com".parse().unwrap()]);
    let refused =
        |host: &str| Err(Refusal::HostNotAllowed { host: host.to_owned(), allowed: "*.example.com".to_owned() });
    assert_eq!(ask(&site, &claims("k1", InviteKind::Token, "web"), INSIDE), refused(""));
    for (host, expected) in [("web.example.com", Ok("admit")), ("web.example.org", refused("web.example.org"))] {
        let claim = Claim { host: Some(host.parse().unwrap()), ..claims("k1", InviteKind::Token, "web") };
        assert_eq!(ask(&site, &claim, INSIDE), expected);
    }
}

#[test]
fn whoever_came_in_by_a_pattern_is_of_low_assurance_for_ever() {
    let (org, mut site) = of_kind(InviteKind::Pattern);
    let claim = claims("k1", InviteKind::Pattern, "web");
    site.admit((HERE, 1), &signed(&org, &claim, &[machine("k1").as_ref()])).unwrap();
    site.join((HERE, 1), ("k1", "web"));
    assert_eq!(site.standing("k1"), Some(Standing::Member));
    let member = site.member("k1").unwrap();
    assert!(member.claim().is_low());
    assert_eq!(member.admission.invite, Some(invite_id("i")), "its lineage is known");
    // A proven invite does not change it: one key, one node.
    site.told(&org.invite("j", &["*"], &[(HERE, 1)], (20, &["ann"])), 1);
    let proven = Claim { authority: ClaimAuthority::Invite(invite_id("j")), ..claim.clone() };
    assert_eq!(ask(&site, &proven, INSIDE), Err(Refusal::NameTaken { name: node("web") }));
    assert_eq!(ask(&site, &claim, INSIDE), Ok("again"));
}

#[test]
fn a_pattern_is_no_invite_and_an_invite_no_pattern() {
    let (org, site) = of_kind(InviteKind::Pattern);
    let named = claims("k1", InviteKind::Token, "web");
    assert_eq!(ask(&site, &named, INSIDE), Err(Refusal::InviteUnknown { invite: invite_id("i") }));
    let found = read(&org, &signed(&org, &named, &[machine("k1").as_ref()]), &site.invite("i").envelope);
    assert_eq!(found, Err(BadEvidence::NoAuthority));
    for kind in KINDS.into_iter().filter(|kind| kind.is_proven()) {
        let ((org, site), claim) = (of_kind(kind), claims("k1", InviteKind::Pattern, "web"));
        assert_eq!(ask(&site, &claim, INSIDE), Err(Refusal::NoPattern), "{kind}");
        let claim = signed(&org, &claim, &[&ed("i"), machine("k1").as_ref()]);
        assert_eq!(read(&org, &claim, &site.invite("i").envelope), Err(BadEvidence::NoAuthority), "{kind}");
    }
}

#[test]
fn a_waiver_spares_a_proof_the_person_and_lets_no_pattern_in() {
    for (kind, after) in [(InviteKind::Key, "admit"), (InviteKind::Pattern, "wait")] {
        let key = (kind == InviteKind::Key).then(|| ed("i").public());
        let (org, mut site) = with(|invite| (invite.kind, invite.key, invite.approval) = (kind, key, Approval::Human));
        let claim = claims("k1", kind, "db-1");
        assert_eq!(ask(&site, &claim, INSIDE), Ok("wait"), "{kind}");
        let (from, until) = (day(1), day(1) + Seconds::HOUR);
        let waiver = |names: &str| Waiver { names: vec![names.parse().unwrap()], from, until };
        site.told(&org.seal(&waiver("web-*"), &["ann"]), 1);
        assert_eq!(ask(&site, &claim, INSIDE), Ok("wait"), "{kind}: of other names");
        site.told(&org.seal(&waiver("db-*"), &["ann"]), 1);
        assert_eq!(ask(&site, &claim, INSIDE), Ok(after), "{kind}");
    }
}
