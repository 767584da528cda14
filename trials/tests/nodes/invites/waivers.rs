//! A yes beforehand: it spares a proof the person, adds up among signers, and lets no pattern in.

use trials::client::joiner::{Ground, Joiner};
use trials::client::stranger::Dial;
use trials::place::{Place, ended, succeeded, text};
use wire::permit::Ask;

use crate::nodes::invites::patterns::claims;

/// What the gateway answers to a machine that proves its invite.
fn proves(place: &Place, code: &str, name: &str) -> String {
    let joiner = Joiner::new(code, name);
    let mut line = Dial::to(place.port).line();
    let ground = Ground::on(&mut line);
    line.code(Ask::Enroll, &joiner.request(ground))
}

#[test]
fn a_waived_name_still_needs_a_proof() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = place.code(&["--approval", "human", "--uses", "3"]);
    let pattern = place.code(&["--pattern", "db-*", "--from", "127.0.0.0/8"]);
    assert_eq!(proves(&place, &code, "db-1"), "awaiting_approval");
    let waived = place.facts(&["invite", "approve", "db-*", "--ttl", "1h", "--yes"]);
    assert_eq!(waived["signed"], serde_json::json!(["ann"]));
    assert_eq!(proves(&place, &code, "web-1"), "awaiting_approval", "another name");
    assert_eq!(proves(&place, &code, "db-1"), "ok");
    assert_eq!(claims(&place, &pattern, "db-2"), "awaiting_approval", "a claimed name is not let in by it");
    let listed = place.facts(&["invite", "waivers"]);
    assert_eq!((listed[0]["id"].clone(), listed[0]["names"][0].clone()), (waived["id"].clone(), "db-*".into()));
    succeeded(&place.freehold(&["invite", "approve", "--end", &text(&waived, "id")[..12], "--yes"]));
    assert_eq!(proves(&place, &code, "db-3"), "awaiting_approval", "it was ended");
    assert_eq!(place.facts(&["invite", "waivers"]).as_array().map(Vec::len), Some(0));
    ended(&place.freehold(&["invite", "approve", "db-*", "--ttl", "40d", "--yes"]), 1, "a waiver lasts between");
    ended(&place.freehold(&["invite", "approve", "--join", "nope", "--yes"]), 1, "there is no waiver `nope`");
}

#[test]
fn two_approvers_add_up_when_they_sign_the_same_waiver() {
    let place = Place::founded(&["--signers", "1-of-2", "--node", "quay"]);
    let to = place.path("ben").to_string_lossy().into_owned();
    succeeded(&place.freehold(&["signer", "hand-over", "ann-2", "--to", &to]));
    let _gateway = place.serve();
    let code = place.code(&["--approval", "human", "--approvers", "2"]);
    let first = place.facts(&["invite", "approve", "db-*", "--yes"]);
    // Another waiver with the same words is another one.
    succeeded(&place.operator("ben", &["invite", "approve", "db-*", "--ttl", "2h", "--yes"]));
    assert_eq!(proves(&place, &code, "db-1"), "awaiting_approval");
    let joined = place.operator_facts("ben", &["invite", "approve", "--join", &text(&first, "id")[..8], "--yes"]);
    assert_eq!(joined["signed"].as_array().map(Vec::len), Some(2), "{joined}");
    assert_eq!(proves(&place, &code, "db-1"), "ok");
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}
