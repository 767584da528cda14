//! Arbitrary bytes where a code, an envelope or an entry should be: refused, never a panic.

use std::collections::BTreeSet;

use identity::bundle::{Bundle, Identity};
use identity::envelope::Envelope;
use identity::id::{Correlation, sha256};
use identity::signers::{Signer, Succession};
use identity::text::base64url;
use proptest::prelude::{ProptestConfig, Strategy, any, prop, proptest};

use super::world::{NOW, World, author, ed};
use crate::admission::{Admission, Claim, Leave};
use crate::code::InviteCode;
use crate::derived::{restore, rows};
use crate::entry::{Action, Cause, Entry, SignedEntry};
use crate::fold::fold;
use crate::invite::Invite;
use crate::state::Unfit;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

/// One of everything that a ledger can hold.
fn whole_ledger() -> &'static World {
    static WORLD: std::sync::OnceLock<World> = std::sync::OnceLock::new();
    WORLD.get_or_init(|| {
        let mut world = World::new(1, &["ann"]);
        world.invite("ann", 1, [1, 1]);
        let install = world.install("ann", world.founding.record.signers.clone(), &["ann"], &["ann"]);
        world.append("ann", install);
        world.publish("ann", Cause::Refresh, |_| {});
        world.share();
        world.admit("gw-1", 1, 1, "web");
        world.join("gw-1", 1);
        world.leave("gw-1", 1);
        world
    })
}

fn open_as_anything(envelope: &Envelope) {
    let org = Some(whole_ledger().founding.id);
    let _ = envelope.peek::<Entry>(org);
    let _ = envelope.peek::<Invite>(org);
    let _ = envelope.peek::<Claim>(org);
    let _ = envelope.peek::<Admission>(org);
    let _ = envelope.peek::<Leave>(org);
    let _ = envelope.peek::<Succession>(org);
    let _ = crate::founding::Founding::open(envelope.clone());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_invite_code_of_arbitrary_text_is_refused(text in any::<String>(), bytes in bytes()) {
        assert!(text.parse::<InviteCode>().is_err());
        assert!(format!("fh1_{text}").parse::<InviteCode>().is_err());
        // With a right checksum, so that the parser behind it is reached.
        for first in [bytes.first().copied().unwrap_or_default(), 1] {
            let mut body = bytes.clone();
            body.insert(0, first);
            let check = sha256(&body);
            body.extend_from_slice(&check[..4]);
            let _ = format!("fh1_{}", base64url(&body)).parse::<InviteCode>();
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_envelope_and_no_entry(bytes in bytes()) {
        assert!(serde_json::from_slice::<Envelope>(&bytes).is_err());
        assert!(serde_json::from_slice::<Entry>(&bytes).is_err());
        assert!(serde_json::from_slice::<Signer>(&bytes).is_err());
    }

    #[test]
    fn an_envelope_around_arbitrary_bytes_opens_as_nothing(bytes in bytes(), kind in "(entry|invite|claim|[a-z]{0,9})") {
        let json = serde_json::json!({
            "payloadType": format!("application/vnd.freehold.{kind}+json"),
            "payload": identity::text::base64(&bytes),
            "signatures": [],
        });
        let envelope: Envelope = serde_json::from_value(json).unwrap();
        open_as_anything(&envelope);
        assert!(SignedEntry::open(whole_ledger().founding.id, envelope).is_err());
    }

    #[test]
    fn a_mutated_entry_is_refused_or_is_the_same_entry(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let world = whole_ledger();
        let good = &world.log[which.index(world.log.len())];
        let mut json = serde_json::to_vec(&good.envelope).unwrap();
        for (at, value) in edits {
            let at = at.index(json.len());
            json[at] = value;
        }
        if let Ok(envelope) = serde_json::from_slice::<Envelope>(&json) {
            open_as_anything(&envelope);
            let opened = SignedEntry::open(world.founding.id, envelope.clone());
            assert!(opened.is_err() || opened.is_ok_and(|opened| opened.digest == good.digest));
            let _ = fold(&world.founding, [envelope]);
        }
    }
}

#[test]
fn the_audit_tells_of_every_entry_even_of_a_senseless_one() {
    let mut world = World::new(1, &["ann"]);
    let quorum = world.founding.record.signers.clone();
    let senseless = Succession { version: 0, previous: world.log[0].digest, also: Vec::new(), quorum, head: None };
    let signers = world.sealed(&senseless, &["ann"]);
    let install = world.with_head("ann", signers, &["ann"]);
    let signed = world.append("ann", install);
    let line = crate::audit::line(&world.fold().state, &signed);
    assert_eq!((line.version, line.replaces), (Some(0), None));
    assert!(line.result.starts_with("void: "), "{}", line.result);
}

#[test]
fn a_row_that_lies_under_anothers_key_is_refused() {
    let mut world = World::new(1, &["ann"]);
    let (name, pem) = (&world.founding.record.name, "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n");
    let bundle = Bundle::<Identity>::draft((1, None), name, Vec::new(), pem, NOW).unwrap();
    world.append("ann", Action::TrustPublish { bundle: world.sealed(&bundle, &["ann"]), head: None });
    world.invite("ann", 1, [2, 2]);
    let install = world.install("ann", world.founding.record.signers.clone(), &["ann"], &["ann"]);
    world.append("ann", install);
    world.share();
    world.admit("gw-1", 1, 1, "web");
    let (founding, rows) = (world.founding.clone(), rows(world.view("gw-1")));
    assert_eq!(restore(&founding, &rows).as_ref(), Ok(world.view("gw-1")));
    let other = |key: &str| key.replacen(|c: char| c.is_ascii_digit(), "a", 1).replacen('0', "7", 1);
    let mut checked = BTreeSet::new();
    for ((table, key), value) in &rows {
        if ["signers", "heads", "bundles", "invites", "members"].contains(&table.as_str()) {
            let mut moved = rows.clone();
            moved.remove(&(table.clone(), key.clone()));
            let wrong =
                if table == "heads" { key.replacen("001 ", "007 ", 1).replacen("002 ", "008 ", 1) } else { other(key) };
            moved.insert((table.clone(), wrong.clone()), value.clone());
            let found = restore(&founding, &moved).map_err(|bad| bad.table);
            assert!(found.as_ref().is_err_and(|bad| bad == table || bad == "spends"), "{table} {wrong}");
            checked.insert(table.as_str());
        }
    }
    assert_eq!(checked.len(), 5, "{checked:?}");
}

#[test]
fn a_row_that_says_something_else_than_the_signed_object_in_it_is_refused() {
    let mut world = World::new(1, &["ann"]);
    world.invite("ann", 1, [2, 2]);
    world.share();
    let rows = rows(world.view("gw-1"));
    for (table, said, instead) in [
        ("invites", r#""uses":"2""#, r#""uses":"9""#),
        ("invites", "01010101010101010101010101010101", "02010101010101010101010101010101"),
        ("heads", r#""names":["*"]"#, r#""names":["*a"]"#),
    ] {
        let mut changed = rows.clone();
        for ((_, _), value) in changed.iter_mut().filter(|((at, _), _)| at == table) {
            assert!(value.contains(said), "{table} does not say {said}");
            *value = value.replacen(said, instead, 1);
        }
        assert!(restore(&world.founding, &changed).is_err_and(|bad| bad.table == table), "{table}: {instead}");
    }
}

#[test]
fn nothing_follows_the_last_place_that_a_chain_can_have() {
    let world = World::new(1, &["ann"]);
    let mut state = world.view("ann").clone();
    let place = state.frontier.0.get_mut(&author("ann")).unwrap();
    place.seq = u64::MAX;
    let action = Action::OrgFound { founding: world.founding.envelope.clone() };
    let moment = (NOW, Correlation([0; 8]));
    let written =
        SignedEntry::write(world.founding.id, (&state.frontier, 1), (author("ann"), &ed("ann")), moment, action)
            .unwrap();
    let before = state.clone();
    assert!(matches!(state.apply(&written), Err(Unfit::OutOfTurn { known: u64::MAX, .. })));
    assert_eq!(state, before);
}
