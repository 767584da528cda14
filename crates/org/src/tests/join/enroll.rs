//! Every refusal of a joiner, one at a time, and their order.

use std::net::IpAddr;

use identity::id::Digest;
use identity::time::{Seconds, Timestamp};

use crate::enroll::{Attempt, EnrollOutcome, check_name_is_free, consider};
use crate::invite::admission::{Claim, ClaimAuthority};
use crate::invite::approve::{Decision, Verdict as Word};
use crate::invite::{Invite, Right, Uses};
use crate::ledger::entry::Action;
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{Org, claim, day, invite, key, node, voice};
use crate::refusal::{Ceiling, Refusal};
use crate::tests::world::{HERE, Site, invite_id, invited};

const INSIDE: &str = "10.1.2.3";
const NOW: Timestamp = day(1);
const END: u64 = 5;

/// Under the invite `i`, unless another is named.
fn claims(key: &str, id: &str, name: &str) -> Claim {
    claim(key, name, ClaimAuthority::Invite(invite_id(id)))
}

/// One invite, for one use at `g1`, changed as the case wants it.
fn asked(change: impl FnOnce(&mut Invite)) -> (Org, Site) {
    let mut body = invite("i", &["*"], &[(HERE, 1)], END);
    change(&mut body);
    invited(&[body])
}

fn admit(org: &Org, site: &mut Site, (key, name): (&str, &str), id: &str) {
    let envelope = site.invite(id).envelope.clone();
    site.admit((HERE, 1), &org.claim((key, name), &envelope, None)).unwrap();
}

#[derive(Debug, PartialEq)]
enum Found {
    Admit,
    Again,
    Wait,
}

fn ask(site: &Site, claim: &Claim, (source, gateway): (&str, &str), now: Timestamp) -> Result<Found, Refusal> {
    let (source, claimed): (IpAddr, _) = (source.parse().unwrap(), Digest([0; 32]));
    let verdict = consider(&site.state, Attempt { claim, claimed, source, gateway: &node(gateway), now })?;
    assert_eq!(Some(verdict.invite().invite.id), claim.authority.invite());
    Ok(match verdict {
        EnrollOutcome::Admit { .. } => Found::Admit,
        EnrollOutcome::Wait { .. } => Found::Wait,
        EnrollOutcome::Again { member, .. } => {
            assert_eq!(member.claim(), claim);
            Found::Again
        }
    })
}

#[track_caller]
fn check(site: &Site, claim: &Claim, expected: &Result<Found, Refusal>, case: &str) {
    assert_eq!(&ask(site, claim, (INSIDE, HERE), NOW), expected, "{case}");
}

#[test]
fn refusals_come_one_by_one_in_their_order() {
    let end = day(END);
    let expected = [
        Err(Refusal::InviteUnknown { invite: invite_id("other") }),
        Err(Refusal::InviteRevoked),
        Err(Refusal::InviteOutdated),
        Err(Refusal::InviteExpired { at: end }),
        Err(Refusal::InviteNotHere),
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
        let (org, mut site) = asked(|invite| {
            invite.names = vec!["web-*".parse().unwrap(), "mail".parse().unwrap()];
            invite.networks = vec!["10.0.0.0/8".parse().unwrap()];
        });
        if wrong(5) {
            admit(&org, &mut site, ("k7", "web-7"), "i");
        }
        if wrong(1) {
            let wish = Wish { revoke_invites: vec![invite_id("i")], ..Wish::default() };
            site.publish(&org, (1, &["ann"]), &wish);
        }
        if wrong(2) {
            site.install(&org, 1, (2, &["bob"]), &["ann"]);
        }
        let mut claim = claims("k1", if wrong(0) { "other" } else { "i" }, if wrong(7) { "db" } else { "web-1" });
        if wrong(8) {
            claim.labels.insert("rack=3".parse().unwrap());
        }
        if wrong(9) {
            claim.roles.insert("admin".parse().unwrap());
        }
        let source = if wrong(6) { "192.0.2.1" } else { INSIDE };
        let gateway = if wrong(4) { "g2" } else { HERE };
        let now = if wrong(3) { end } else { NOW };
        assert_eq!(ask(&site, &claim, (source, gateway), now), expected, "{repaired} repaired");
    }
}

#[test]
fn an_invite_dies_at_its_expiry_second() {
    let (_, site) = asked(|_| {});
    let (claim, end) = (claims("k1", "i", "web"), day(END));
    let at = |now| ask(&site, &claim, (INSIDE, HERE), now);
    assert_eq!(at(end - Seconds(1)), Ok(Found::Admit));
    assert_eq!(at(end), Err(Refusal::InviteExpired { at: end }));
    assert_eq!(at(end + Seconds(1)), Err(Refusal::InviteExpired { at: end }));
}

#[test]
fn an_invite_counts_only_where_a_right_names_the_voice() {
    let (_, site) = asked(|invite| {
        // The right of `g2` names a voice that nobody has.
        invite.rights.push(Right { gateway: node("g2"), voice: voice("g2 of old"), uses: Uses::Limited(1) });
    });
    let claim = claims("k1", "i", "web");
    for gateway in ["g2", "g3", "nobody"] {
        assert_eq!(ask(&site, &claim, (INSIDE, gateway), NOW), Err(Refusal::InviteNotHere), "{gateway}");
    }
}

#[test]
fn what_a_former_voice_spent_takes_nothing_from_the_right_of_the_next() {
    let (org, mut site) = asked(|invite| {
        invite.rights.push(Right { gateway: node(HERE), voice: voice("g1 anew"), uses: Uses::Limited(1) });
    });
    admit(&org, &mut site, ("k1", "web"), "i");
    let wish = Wish { mandate: vec![crate::ledger::tests::world::mandate(HERE, "g1 anew")], ..Wish::default() };
    site.publish(&org, (1, &["ann"]), &wish);
    check(&site, &claims("k2", "i", "db"), &Ok(Found::Admit), "its own right is whole");
    assert_eq!(site.invite("i").uses_left(&node(HERE)), Some(1));
}

#[test]
fn a_network_is_a_network_however_the_socket_writes_it() {
    let (_, site) = asked(|invite| {
        invite.networks = vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    });
    let claim = claims("k1", "i", "web");
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
        assert_eq!(ask(&site, &claim, (source, HERE), NOW), expected, "{source}");
    }
}

#[test]
fn a_joiner_takes_what_the_invite_gives_and_no_more() {
    let (_, site) = asked(|invite| {
        invite.labels = ["rack=3".parse().unwrap()].into();
        invite.roles = ["web".parse().unwrap()].into();
    });
    let claim = |labels: &[&str], roles: &[&str]| Claim {
        labels: labels.iter().map(|label| label.parse().unwrap()).collect(),
        roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
        ..claims("k1", "i", "web")
    };
    let beyond = |what, value: &str| Err(Refusal::BeyondCeiling { what, value: value.into() });
    check(&site, &claim(&[], &[]), &Ok(Found::Admit), "nothing");
    check(&site, &claim(&["rack=3"], &["web"]), &Ok(Found::Admit), "everything");
    check(&site, &claim(&["rack=3", "rack=4"], &["web"]), &beyond(Ceiling::Label, "rack=4"), "a label too many");
    check(&site, &claim(&["rack=3"], &["db", "web"]), &beyond(Ceiling::Role, "db"), "a role too many");
}

#[test]
fn the_same_key_and_claim_get_the_same_admission_again() {
    let (org, mut site) = asked(|invite| invite.networks = vec!["10.0.0.0/8".parse().unwrap()]);
    admit(&org, &mut site, ("k1", "web"), "i");
    let claim = claims("k1", "i", "web");
    let taken = |name| Err(Refusal::NameTaken { name: node(name) });
    check(&site, &claim, &Ok(Found::Again), "although the invite is used up");
    assert_eq!(ask(&site, &claim, ("192.0.2.1", "g2"), day(50)), Ok(Found::Again), "late, elsewhere, from elsewhere");
    check(&site, &claims("k1", "i", "db"), &taken("web"), "one key, one node");
    site.told(&org.invite("j", &["*"], &[(HERE, 1)], (END, &["ann"])), 1);
    check(&site, &claims("k1", "j", "web"), &taken("web"), "under another invite");
    // A leaf outlives its invite.
    site.publish(&org, (1, &["ann"]), &Wish::default());
    site.publish(&org, (1, &["ann"]), &Wish { revoke_invites: vec![invite_id("i")], ..Wish::default() });
    check(&site, &claim, &Ok(Found::Again), "the invite was revoked afterwards");
}

#[test]
fn a_key_that_was_revoked_or_left_never_returns() {
    for (leaves, expected) in [(true, Refusal::KeyLeft), (false, Refusal::KeyRevoked)] {
        let (org, mut site) = asked(|_| {});
        site.told(&org.invite("j", &["*"], &[(HERE, 5)], (END, &["ann"])), 1);
        admit(&org, &mut site, ("k1", "web"), "i");
        if leaves {
            site.leave(&org, (HERE, 1), ("k1", "web"));
        } else {
            site.publish(&org, (1, &["ann"]), &Wish { revoke_keys: vec![key("k1")], ..Wish::default() });
        }
        for (case, claim) in [("its own", claims("k1", "i", "web")), ("a fresh", claims("k1", "j", "db"))] {
            check(&site, &claim, &Err(expected.clone()), case);
        }
    }
    let (org, mut site) = asked(|_| {});
    site.publish(&org, (1, &["ann"]), &Wish { revoke_keys: vec![key("k1")], ..Wish::default() });
    check(&site, &claims("k1", "i", "web"), &Err(Refusal::KeyRevoked), "revoked before it ever joined");
    check(&site, &claims("k1", "other", "web"), &Err(Refusal::KeyRevoked), "even with an unknown invite");
    // Somebody else's gateway let it in, and it left there; only its own word came here.
    let (org, mut site) = asked(|_| {});
    site.leave(&org, ("g2", 1), ("k1", "web"));
    check(&site, &claims("k1", "i", "web"), &Err(Refusal::KeyLeft), "left before it was known here");
}

#[test]
fn a_machine_whose_invite_was_revoked_before_the_next_head_waits() {
    let (org, mut site) = asked(|_| {});
    let invite = site.invite("i").envelope.clone();
    let wish = Wish { revoke_invites: vec![invite_id("i")], ..Wish::default() };
    site.publish(&org, (1, &["ann"]), &wish);
    let claim = org.claim(("k1", "web"), &invite, None);
    site.force((HERE, 1), Action::NodeAdmit { claim, invite: Some(invite), approval: None });
    check(&site, &claims("k1", "i", "web"), &Err(Refusal::Waiting), "let in by who did not know");
}

#[test]
fn signers_authority_is_not_for_joiners() {
    let claim = claim("k1", "web", ClaimAuthority::Signers);
    check(&asked(|_| {}).1, &claim, &Err(Refusal::NotPermitted { needed: "signer".into() }), "a founder's claim");
}

#[test]
fn a_no_counts_also_where_nobody_need_say_yes() {
    let (org, mut site) = asked(|_| {});
    let signed = org.claim(("k1", "web"), &site.invite("i").envelope, None);
    let no = Decision { about: signed.digest(), verdict: Word::Deny, until: Some(day(9)) };
    site.told(&org.seal(&no, &["ann"]), 1);
    let denied = site.ask((HERE, 1), &claims("k1", "i", "web"), signed.digest()).map(drop);
    assert_eq!(denied, Err(Refusal::Denied));
}

#[test]
fn a_key_that_the_operators_list_takes_no_other_name() {
    // `ka` is listed as `alpha`; whoever let it in is not known here.
    let (_, site) = asked(|_| {});
    check(&site, &claims("ka", "i", "web"), &Err(Refusal::NameTaken { name: node("alpha") }), "listed");
}

#[test]
fn a_name_in_use_is_refused_and_a_freed_one_is_free() {
    let (org, mut site) = asked(|_| {});
    let claim = |name| claims("k9", "i", name);
    let free = |site: &Site, published| check_name_is_free(&site.state, &claim("web"), published);
    let taken = |name| Err(Refusal::NameTaken { name: node(name) });
    assert_eq!(free(&site, None), Ok(()));
    admit(&org, &mut site, ("k1", "web"), "i");
    assert_eq!(free(&site, None), taken("web"));
    site.leave(&org, (HERE, 1), ("k1", "web"));
    assert_eq!(free(&site, None), Ok(()));
    // A mandate goes by the name: nobody new takes a gateway's.
    assert_eq!(check_name_is_free(&site.state, &claim("g1"), None), taken("g1"));
    // The operators published the name: for a machine that this ledger never heard of, or for the one that left.
    assert_eq!(free(&site, Some(Digest([9; 32]))), taken("web"));
    assert_eq!(free(&site, Some(key("k1"))), Ok(()));
}
