//! Who counts as a member: the SVID and the admission together, never one alone.

use identity::id::Serial;
use identity::key::Sign as _;
use identity::signers::{Quorum, Signer, SignerSet};
use identity::verifier::BelievedSvid;

use crate::ledger::judge::NotMember;
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{Org, Sent, day, ed, invite, key, leaf, machine, node};
use crate::member::Member;
use crate::refusal::Refusal;
use crate::state::Standing;
use crate::tests::world::{HERE, Site, invited};

fn svid(key: &str, name: &str) -> BelievedSvid {
    BelievedSvid {
        principal: format!("spiffe://harbor/node/{name}").parse().unwrap(),
        node: node(name),
        node_key: machine(key).public(),
        serial: Serial([1; 16]),
        not_after: day(9),
        issued_by: node(HERE),
    }
}

fn recognized(site: &Site, key: &str, name: &str) -> Result<(), Refusal> {
    Member::recognize(&site.state, svid(key, name)).map(drop)
}

/// `k1` is `web-1` and `k2` is `web-2`.
fn settled() -> (Org, Site) {
    let (org, mut site) = invited(&[invite("i", &["*"], &[(HERE, 9)], 20)]);
    for (key, name) in [("k1", "web-1"), ("k2", "web-2")] {
        site.admit((HERE, 1), &org.claim((key, name), &site.invite("i").envelope, None)).unwrap();
    }
    (org, site)
}

#[test]
fn a_member_is_an_svid_and_an_admission_of_one_node() {
    assert_eq!(recognized(&settled().1, "k1", "web-1"), Ok(()));
}

#[test]
fn a_member_with_a_stolen_issuing_key_cannot_take_anothers_name() {
    // The SVID names web-1 and is bound by a node key that really is admitted, but as web-2.
    assert_eq!(recognized(&settled().1, "k2", "web-1"), Err(Refusal::NotAdmitted));
}

#[test]
fn an_svid_without_an_admission_is_nobody() {
    assert_eq!(recognized(&settled().1, "k7", "web-7"), Err(Refusal::NotAdmitted));
}

#[test]
fn a_revoked_machine_is_no_member_and_neither_is_one_that_left_or_waits() {
    let (org, mut site) = settled();
    site.publish(&org, (1, &["ann"]), &Wish { revoke_keys: vec![key("k1")], ..Wish::default() });
    assert_eq!(recognized(&site, "k1", "web-1"), Err(Refusal::KeyRevoked));
    site.leave(&org, (HERE, 1), ("k2", "web-2"));
    assert_eq!(recognized(&site, "k2", "web-2"), Err(Refusal::KeyLeft));
    let (org, mut site) = settled();
    let id = crate::tests::world::invite_id("i");
    // By a head whose maker had heard of one of them.
    let like = Sent { envelope: site.state.head().unwrap().envelope.clone(), map: site.state.leaves().cloned() };
    let sent = org.forged(&like, &["ann"], |head, leaves| {
        head.version += 1;
        head.revocations.invites.insert(id);
        leaves.insert(node("web-2"), leaf("web-2", "k2"));
    });
    site.hear(&sent, 1);
    assert_eq!(recognized(&site, "k1", "web-1"), Err(Refusal::Waiting));
    assert_eq!(recognized(&site, "k2", "web-2"), Ok(()), "it has a leaf");
}

/// The operators' next head gives a name to a key, by an admission that is not here.
fn published(org: &Org, site: &mut Site, (name, key_name): (&str, &str), recorded: bool) {
    let newest = site.state.head().unwrap();
    let like = Sent { envelope: newest.envelope.clone(), map: site.state.leaves().cloned() };
    let record = site.state.frontier.0.clone();
    let sent = org.forged(&like, &["ann"], |head, leaves| {
        head.version += 1;
        leaves.insert(node(name), leaf(name, key_name));
        if recorded {
            head.record = record;
        }
    });
    site.hear(&sent, 2);
}

#[test]
fn a_leaf_makes_its_key_a_member_by_whatever_admission_this_ledger_has() {
    let (org, mut site) = settled();
    published(&org, &mut site, ("web-1", "k1"), true);
    assert_eq!(recognized(&site, "k1", "web-1"), Ok(()));
    assert_eq!(site.member("k1").and_then(|member| site.state.alarm(member)), None);
}

#[test]
fn a_leaf_under_one_name_makes_its_key_nobody_under_another() {
    for recorded in [false, true] {
        let (org, mut site) = settled();
        published(&org, &mut site, ("web-9", "k1"), recorded);
        assert_eq!(recognized(&site, "k1", "web-1"), Err(Refusal::Waiting), "recorded: {recorded}");
        assert_eq!(site.standing("k1"), Some(Standing::Waiting));
    }
}

#[test]
fn a_name_that_operators_gave_to_another_key_alarms_where_it_is_used() {
    for recorded in [false, true] {
        let (org, mut site) = settled();
        published(&org, &mut site, ("web-1", "k7"), recorded);
        assert_eq!(recognized(&site, "k1", "web-1"), Err(Refusal::Waiting), "recorded: {recorded}");
        let alarm = site.member("k1").and_then(|member| site.state.alarm(member));
        let (name, published, presented) = (node("web-1"), key("k7"), key("k1"));
        assert_eq!(alarm, Some(&NotMember::NameOfAnother { name, published, presented }), "recorded: {recorded}");
        assert_eq!(recognized(&site, "k2", "web-2").is_ok(), !recorded, "it has no leaf");
    }
}

#[test]
fn a_signers_name_stands_for_one_key_for_ever() {
    let (org, mut site) = settled();
    site.install(&org, 1, (2, &["ben"]), &["ann"]);
    let signer = |name: &str, key: &str| Signer { name: name.parse().unwrap(), key: ed(key).public() };
    let next = |signers: Vec<Signer>| SignerSet::later(org.founding.id, 3, Quorum::new(1, signers).unwrap());
    let renamed = next(vec![signer("ann", "somebody else"), signer("ben", "ben")]);
    assert_eq!(site.state.name_taken(&renamed).map(ToString::to_string).as_deref(), Some("ann"));
    assert_eq!(site.state.name_taken(&next(vec![signer("ben", "ben"), signer("cat", "cat")])), None);
}
