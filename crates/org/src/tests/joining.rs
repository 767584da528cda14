//! Every refusal of a joiner, one at a time, and their order.

use std::net::IpAddr;

use identity::id::Digest;
use identity::id::InviteId;
use identity::time::{Seconds, Timestamp};

use super::world::{NOW, World, node};
use crate::admission::{Claim, ClaimAuthority};
use crate::enroll::{Attempt, Verdict, check_name_is_free, consider};
use crate::entry::Action;
use crate::invite::Invite;
use crate::refusal::{Ceiling, Refusal};

const INSIDE: &str = "10.1.2.3";

/// One invite, number 1, for `gw-1` and one use, changed as the case wants it.
fn invited(change: impl FnOnce(&mut Invite)) -> World {
    let mut world = World::new(1, &["ann"]);
    let mut invite = world.invite_body("ann", 1, [1, 0]);
    change(&mut invite);
    let invite = world.sealed(&invite, &["ann"]);
    world.invites.insert(1, invite.clone());
    world.append("ann", Action::InviteCreate { invite });
    world.share();
    world
}

#[derive(Debug, PartialEq)]
enum Found {
    Admit,
    Again,
    Wait,
}

fn ask(world: &World, claim: &Claim, (source, gateway): (&str, &str), now: Timestamp) -> Result<Found, Refusal> {
    let source: IpAddr = source.parse().unwrap();
    let state = world.fold().state;
    let verdict = consider(&state, Attempt { claim, claimed: Digest([0; 32]), source, gateway: &node(gateway), now })?;
    let ClaimAuthority::Invite(id) = claim.authority else { panic!("only invites get so far") };
    assert_eq!(verdict.invite().invite.id, id);
    Ok(match verdict {
        Verdict::Admit { .. } => Found::Admit,
        Verdict::Wait { .. } => Found::Wait,
        Verdict::Again { member, .. } => {
            assert_eq!(member.claim(), claim);
            Found::Again
        }
    })
}

fn check(world: &World, claim: &Claim, expected: &Result<Found, Refusal>, case: &str) {
    assert_eq!(&ask(world, claim, (INSIDE, "gw-1"), NOW), expected, "{case}");
}

#[test]
fn refusals_come_one_by_one_in_their_order() {
    let end = NOW + Seconds::DAY;
    let expected = [
        Err(Refusal::InviteUnknown { invite: InviteId([9; 16]) }),
        Err(Refusal::InviteRevoked),
        Err(Refusal::InviteExpired { at: end }),
        Err(Refusal::InviteUsedUp { uses: 1 }),
        Err(Refusal::NetworkNotAllowed),
        Err(Refusal::NameNotAllowed { name: node("db"), allowed: "web-*, mail".into() }),
        Err(Refusal::BeyondCeiling { what: Ceiling::Label, value: "rack=3".into() }),
        Err(Refusal::BeyondCeiling { what: Ceiling::Role, value: "admin".into() }),
        Ok(Found::Admit),
    ];
    // Everything is wrong at first; each round repairs one thing more, and the next shows itself.
    for (repaired, expected) in expected.into_iter().enumerate() {
        let wrong = |fault: usize| repaired <= fault;
        let mut world = invited(|invite| {
            invite.names = vec!["web-*".parse().unwrap(), "mail".parse().unwrap()];
            invite.networks = vec!["10.0.0.0/8".parse().unwrap()];
        });
        if wrong(3) {
            world.admit("gw-1", 7, 1, "web-7");
            world.share();
        }
        if wrong(1) {
            world.revoke_invite("ann", 1);
        }
        let mut claim = World::claim(1, if wrong(0) { 9 } else { 1 }, if wrong(5) { "db" } else { "web-1" });
        if wrong(6) {
            claim.labels.insert("rack=3".parse().unwrap());
        }
        if wrong(7) {
            claim.roles.insert("admin".parse().unwrap());
        }
        let source = if wrong(4) { "192.0.2.1" } else { INSIDE };
        let now = if wrong(2) { end } else { NOW };
        assert_eq!(ask(&world, &claim, (source, "gw-1"), now), expected, "{repaired} repaired");
    }
}

#[test]
fn an_invite_dies_at_its_expiry_second() {
    let world = invited(|_| {});
    let (claim, end) = (World::claim(1, 1, "web"), NOW + Seconds::DAY);
    let at = |now| ask(&world, &claim, (INSIDE, "gw-1"), now);
    assert_eq!(at(end - Seconds(1)), Ok(Found::Admit));
    assert_eq!(at(end), Err(Refusal::InviteExpired { at: end }));
    assert_eq!(at(end + Seconds(1)), Err(Refusal::InviteExpired { at: end }));
}

#[test]
fn an_invite_counts_only_at_the_gateways_that_hold_a_right() {
    let world = invited(|_| {});
    let claim = World::claim(1, 1, "web");
    for gateway in ["gw-2", "gw-3"] {
        assert_eq!(ask(&world, &claim, (INSIDE, gateway), NOW), Err(Refusal::InviteNotHere), "{gateway}");
    }
}

#[test]
fn a_network_is_a_network_however_the_socket_writes_it() {
    let world = invited(|invite| {
        invite.networks = vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    });
    let claim = World::claim(1, 1, "web");
    for (source, allowed) in [
        ("10.255.0.1", true),
        ("::ffff:10.1.2.3", true),
        ("2001:db8::1", true),
        ("11.0.0.1", false),
        ("::ffff:11.0.0.1", false),
        ("2001:db9::1", false),
        ("::10.1.2.3", false),
    ] {
        let expected = if allowed { Ok(Found::Admit) } else { Err(Refusal::NetworkNotAllowed) };
        assert_eq!(ask(&world, &claim, (source, "gw-1"), NOW), expected, "{source}");
    }
}

#[test]
fn a_joiner_takes_what_the_invite_gives_and_no_more() {
    let world = invited(|invite| {
        invite.labels = ["rack=3".parse().unwrap()].into();
        invite.roles = ["web".parse().unwrap()].into();
    });
    let claim = |labels: &[&str], roles: &[&str]| Claim {
        labels: labels.iter().map(|label| label.parse().unwrap()).collect(),
        roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
        ..World::claim(1, 1, "web")
    };
    let beyond = |what, value: &str| Err(Refusal::BeyondCeiling { what, value: value.into() });
    check(&world, &claim(&[], &[]), &Ok(Found::Admit), "nothing");
    check(&world, &claim(&["rack=3"], &["web"]), &Ok(Found::Admit), "everything");
    check(&world, &claim(&["rack=3", "rack=4"], &["web"]), &beyond(Ceiling::Label, "rack=4"), "a label too many");
    check(&world, &claim(&["rack=3"], &["db", "web"]), &beyond(Ceiling::Role, "db"), "a role too many");
}

#[test]
fn the_same_key_and_claim_get_the_same_admission_again() {
    let mut world = invited(|invite| invite.networks = vec!["10.0.0.0/8".parse().unwrap()]);
    world.admit("gw-1", 1, 1, "web");
    let claim = World::claim(1, 1, "web");
    check(&world, &claim, &Ok(Found::Again), "although the invite is used up");
    let late = NOW + Seconds::DAY.times(2);
    assert_eq!(ask(&world, &claim, ("192.0.2.1", "gw-2"), late), Ok(Found::Again), "late, elsewhere, from elsewhere");
    let other = World::claim(1, 1, "db");
    check(&world, &other, &Err(Refusal::NameTaken { name: node("web") }), "one key, one node");
    world.share();
    world.invite("ann", 2, [1, 1]);
    let under_another = World::claim(1, 2, "web");
    check(&world, &under_another, &Err(Refusal::NameTaken { name: node("web") }), "under another invite");
    // Revoking the invite behind an admission that stands changes nothing for it.
    world.revoke_invite("ann", 1);
    check(&world, &claim, &Ok(Found::Again), "the invite was revoked afterwards");
}

#[test]
fn a_key_that_was_revoked_or_left_never_returns() {
    let claims = [("its own", World::claim(1, 1, "web")), ("a fresh", World::claim(1, 2, "db"))];
    for (leaves, expected) in [(true, Refusal::KeyLeft), (false, Refusal::KeyRevoked)] {
        let mut world = invited(|_| {});
        world.invite("ann", 2, [5, 5]);
        world.share();
        world.admit("gw-1", 1, 1, "web");
        if leaves {
            world.leave("gw-1", 1)
        } else {
            world.revoke_node("ann", 1)
        };
        for (case, claim) in &claims {
            check(&world, claim, &Err(expected.clone()), case);
        }
    }
    let mut world = invited(|_| {});
    world.revoke_node("ann", 1);
    check(&world, &claims[0].1, &Err(Refusal::KeyRevoked), "revoked before it ever joined");
    check(&world, &World::claim(1, 9, "web"), &Err(Refusal::KeyRevoked), "even with an unknown invite");
}

#[test]
fn a_machine_whose_admission_was_cut_waits() {
    let mut world = invited(|_| {});
    world.revoke_invite("ann", 1);
    world.admit("gw-1", 1, 1, "web");
    check(&world, &World::claim(1, 1, "web"), &Err(Refusal::Waiting), "beyond the frontier");
}

#[test]
fn signers_authority_is_not_for_joiners() {
    let claim = Claim { authority: ClaimAuthority::Signers, ..World::claim(1, 1, "web") };
    check(&invited(|_| {}), &claim, &Err(Refusal::NotPermitted { needed: "signer".into() }), "a founder's claim");
}

#[test]
fn a_name_in_use_is_refused_and_a_freed_one_is_free() {
    let mut world = invited(|_| {});
    let free = |world: &World| check_name_is_free(&world.fold().state, &World::claim(9, 1, "web"), None);
    assert_eq!(free(&world), Ok(()));
    world.admit("gw-1", 1, 1, "web");
    assert_eq!(free(&world), Err(Refusal::NameTaken { name: node("web") }));
    world.leave("gw-1", 1);
    assert_eq!(free(&world), Ok(()));
    // A mandate goes by the name: nobody new takes a gateway's.
    let gateways = check_name_is_free(&world.fold().state, &World::claim(9, 1, "gw-1"), None);
    assert_eq!(gateways, Err(Refusal::NameTaken { name: node("gw-1") }));
    // The operators published the name: for a machine that this ledger never heard of, or for the one that left.
    let state = world.fold().state;
    let published = |key| check_name_is_free(&state, &World::claim(9, 1, "web"), Some(key));
    assert_eq!(published(Digest([9; 32])), Err(Refusal::NameTaken { name: node("web") }));
    let left = *state.members.keys().next().unwrap();
    assert_eq!(published(left), Ok(()));
}
