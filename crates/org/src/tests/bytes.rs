//! Arbitrary bytes where a code, an envelope or an entry should be: refused, never a panic.

use identity::envelope::Envelope;
use identity::id::{Correlation, Digest, sha256};
use identity::signers::{Signer, Succession};
use identity::text::base64url;
use proptest::prelude::{ProptestConfig, Strategy, any, prop, proptest};

use super::world::{HERE, Site};
use crate::invite::Invite;
use crate::invite::admission::{Claim, Leave};
use crate::invite::code::InviteCode;
use crate::ledger::entry::{Action, Entry, SignedEntry, Stamp, Under};
use crate::ledger::tests::world::{Org, Sent, day, ed, invite, voice};
use crate::state::take::NotTaken;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

/// One of everything that a ledger can hold.
struct Ledger {
    org: Org,
    site: Site,
    log: Vec<Sent>,
}

fn whole_ledger() -> &'static Ledger {
    static LEDGER: std::sync::OnceLock<Ledger> = std::sync::OnceLock::new();
    LEDGER.get_or_init(|| {
        let org = Org::new(1, &["ann"]);
        let mut site = Site::of(&org);
        let made = org.seal(&invite("i", &["*"], &[(HERE, 2)], 20), &["ann"]);
        site.handed((HERE, 1), &made.clone().into());
        site.admit((HERE, 1), &org.claim(("k1", "web"), &made, None)).unwrap();
        site.join((HERE, 1), ("k1", "web"));
        site.leave(&org, (HERE, 1), ("k1", "web"));
        for sent in site.clone().install(&org, 1, (2, &["bob"]), &["ann"]) {
            site.handed((HERE, 1), &sent);
        }
        Ledger { org, log: site.holdings(), site }
    })
}

fn open_as_anything(envelope: &Envelope) {
    let org = Some(whole_ledger().org.founding.id);
    let _ = envelope.peek::<Entry>(org);
    let _ = envelope.peek::<Invite>(org);
    let _ = envelope.peek::<Claim>(org);
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
        assert!(SignedEntry::open(whole_ledger().org.founding.id, envelope).is_err());
    }

    #[test]
    fn a_mutated_entry_is_refused_or_is_the_same_entry(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let world = whole_ledger();
        let good = &world.log[which.index(world.log.len())].envelope;
        let mut json = serde_json::to_vec(good).unwrap();
        for (at, value) in edits {
            let at = at.index(json.len());
            json[at] = value;
        }
        if let Ok(envelope) = serde_json::from_slice::<Envelope>(&json) {
            open_as_anything(&envelope);
            let opened = SignedEntry::open(world.org.founding.id, envelope.clone());
            assert!(opened.is_err() || opened.is_ok_and(|opened| opened.digest == good.digest()));
            let mut state = world.site.state.clone();
            let _ = state.take(&envelope, day(9));
            state.conclude(day(9));
        }
    }
}

#[test]
fn the_audit_tells_of_every_entry_even_of_a_senseless_one() {
    let org = Org::new(1, &["ann"]);
    let (mut site, quorum) = (Site::of(&org), org.set().quorum);
    let senseless = Succession { version: 0, previous: org.set().id, also: Vec::new(), quorum, head: None };
    let signed = site.handed((HERE, 1), &org.seal(&senseless, &["ann"]).into());
    let line = crate::audit::line(&site.state, &signed);
    assert_eq!((line.version, line.replaces), (Some(0), None));
    assert!(line.result.starts_with("void: "), "{}", line.result);
    let unreadable = site.handed((HERE, 1), &org.seal(&senseless, &[]).into());
    assert!(!crate::audit::line(&site.state, &unreadable).subject.is_empty());
}

#[test]
fn nothing_follows_the_last_place_that_a_chain_can_have() {
    let org = Org::new(1, &["ann"]);
    let mut state = Site::of(&org).state;
    let last = identity::head::Recorded { seq: u64::MAX, digest: Digest([1; 32]) };
    state.frontier.0.insert(voice(HERE), last);
    let (under, when) =
        (Under { version: 1, digest: Digest([0; 32]) }, Stamp { at: day(1), correlation: Correlation([0; 8]) });
    let action = Action::Take { envelope: org.first.envelope.clone() };
    let written = SignedEntry::write(org.founding.id, Some(last), &ed(HERE), under, when, action).unwrap();
    assert_eq!(state.take_own(&written, None, day(1)), Err(NotTaken::OutOfTurn));
}
