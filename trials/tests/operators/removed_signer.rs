//! A signer who was removed, with a key that still signs: what it says now counts for nothing, and nobody signs it again.

use ground::sealed::{self, SealError};
use identity::envelope::Envelope;
use identity::head::Cause;
use identity::id::InviteId;
use identity::key::EdKey;
use org::ledger::entry::Action;
use trials::attack::intruder::Intruder;
use trials::attack::thief::Thief;
use trials::place::{Place, stderr, succeeded, text};

/// Ben signs with Ann for a while, each alone, and is removed again. His key.
fn removed(place: &Place) -> EdKey {
    succeeded(&place.freehold(&["org", "card", "--out", "harbor.card"]));
    let made = place.operator_facts("ben", &["signer", "new", "ben", "--card", "harbor.card", "--unprotected"]);
    succeeded(&place.freehold(&["signer", "add", "ben", "--key", &text(&made, "key"), "--yes"]));
    let file = std::fs::read(place.path("ben/harbor/operator/signers/ben.key")).unwrap();
    let seed: Result<_, SealError> = sealed::open(&file, "freehold signer ben", || Err(SealError::Kdf));
    EdKey::from_seed(seed.unwrap().as_slice().try_into().unwrap())
}

#[test]
fn a_refresh_does_not_sign_what_a_removed_signer_revokes_and_status_shows_it() {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = place.serve();
    place.joined("web-1");
    let ben = removed(&place);
    let old = Thief::of(&place).known();
    let before = Intruder::at(place.org().join("gateway")).state();
    succeeded(&place.freehold(&["signer", "remove", "ben", "--yes"]));
    assert_eq!(gateway.stop(), Some(0));

    // A year later: a head as of the day before he went, among the gateway's rows.
    let intruder = Intruder::at(place.org().join("gateway"));
    let web = before.named(&"web-1".parse().unwrap()).next().unwrap().claim().node_key.digest();
    let mut head = old.head.head.clone();
    head.version += 1;
    head.previous = vec![old.head.digest];
    head.cause = Cause::NodeRevoke { node_key: web, name: "web-1".parse().unwrap() };
    head.revocations.node_keys.insert(web);
    let head = Envelope::seal(Some(old.org()), &head).unwrap().signed(&ben).unwrap();
    intruder.put(&intruder.says(Action::Take { envelope: head }));

    let _gateway = place.serve();
    let told = place.freehold(&["refresh"]);
    succeeded(&told);
    let revoked = Thief::of(&place).known().head.head.revocations;
    assert!(!revoked.node_keys.contains(&web), "it was signed: {revoked:?}");
    assert!(!stderr(&told).contains("web-1"), "only `status` tells of it: {}", stderr(&told));
    let status = place.facts(&["status"]);
    let alarms = status["alarms"].to_string();
    for words in ["signer set 2", "web-1", "counts for nothing"] {
        assert!(alarms.contains(words), "`{words}` in {alarms}");
    }
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    // Whoever agrees says so themselves.
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    assert!(!place.facts(&["status"])["alarms"].to_string().contains("counts for nothing"));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn an_invite_that_a_removed_signer_makes_later_is_not_offered_to_be_carried_over() {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = place.serve();
    let ben = removed(&place);
    place.invite(&[]);
    let org = Thief::of(&place).known().org();
    succeeded(&place.freehold(&["signer", "remove", "ben", "--yes"]));
    assert_eq!(gateway.stop(), Some(0));

    let intruder = Intruder::at(place.org().join("gateway"));
    let mut invite = intruder.state().invites.values().next().unwrap().invite.clone();
    invite.id = InviteId([7; 16]);
    let later = Envelope::seal(Some(org), &invite).unwrap().signed(&ben).unwrap();
    intruder.put(&intruder.says(Action::Take { envelope: later }));

    let _gateway = place.serve();
    let seen = place.facts(&["invite", "list"]);
    assert!(seen.as_array().unwrap().iter().any(|it| it["id"] == invite.id.to_string()), "it is here: {seen}");
    assert_eq!(place.facts(&["sign", "--over", "--yes"])["over"], serde_json::json!([]));
}
