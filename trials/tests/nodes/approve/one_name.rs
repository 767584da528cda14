//! Two machines that were let in under one name: an operator says which of them it is.

use identity::key::Sign as _;
use org::ledger::entry::Action;
use serde_json::json;
use trials::attack::intruder::Intruder;
use trials::client::joiner::Joiner;
use trials::place::{Place, ended, json as facts, stderr, stdout, succeeded};

#[test]
fn of_two_keys_under_one_name_an_operator_chooses_by_the_key_and_nobody_guesses() {
    let place = Place::founded(&["--node", "quay"]);
    let code = place.code(&["--uses", "2"]);
    let gateway = place.serve();
    succeeded(&place.join("web-1", &code));
    gateway.kill();
    // The gateway lets another machine in under the same name.
    let intruder = Intruder::at(place.org().join("gateway"));
    let other = Joiner::new(&code, "web-1");
    let admitted = intruder.entries().into_iter().rev().find_map(|signed| match signed.entry.action {
        Action::NodeAdmit { invite: Some(invite), .. } => Some(invite),
        _ => None,
    });
    let claim = Action::NodeAdmit { claim: other.signed_claim(), invite: admitted, approval: None };
    intruder.put(&intruder.says(claim));
    let _gateway = place.serve();
    assert_eq!(place.state_of("web-1").as_deref(), Some("waiting"));
    let alarm = "`web-1`, let in by `quay`: another machine was let in under this name, or this one under another";
    assert!(stdout(&place.freehold(&["status"])).contains(alarm));

    let keys: Vec<String> =
        intruder.state().named(&other.name).map(|member| member.claim().node_key.digest().to_string()).collect();
    assert_eq!(keys.len(), 2);
    let unclear = place.freehold(&["node", "approve", "web-1", "--yes"]);
    ended(&unclear, 3, "2 machines were let in under this name");
    for key in &keys {
        assert!(stderr(&unclear).contains(key), "{key} in {}", stderr(&unclear));
    }
    let approve = |key: &str| place.freehold(&["node", "approve", "web-1", "--key", key, "--yes", "--json"]);
    ended(&approve("0000000000"), 3, "no such machine waits");
    ended(&approve("web"), 2, "8 to 64 hex digits");
    let own = keys.iter().find(|key| **key != other.node_key.public().digest().to_string()).unwrap();
    let told = facts(&approve(&own[..12]));
    assert_eq!((&told["name"], &told["pending"]), (&json!("web-1"), &json!(null)));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    succeeded(&place.node("web-1", &["sync"], ""));
}
