//! A root was stolen: no grace, a name is typed, mandates move to spare keys, and nodes come back by their node keys.

use std::fs;

use serde_json::Value;
use trials::place::{Place, ended, refused, stderr, stdout, succeeded, until};

use super::{is, states, told};

/// The issuing keys that the mandate of the founder's gateway names, as the audit's head has them.
fn mandate(place: &Place) -> Value {
    let known: Value = serde_json::from_slice(&fs::read(place.org().join("operator/known.json")).unwrap()).unwrap();
    let head = identity::envelope::Envelope::clone(&serde_json::from_value(known["head"].clone()).unwrap());
    let org = serde_json::from_value::<identity::id::OrgId>(place.facts(&["org", "list"])[0]["org_id"].clone()).ok();
    let head: identity::head::Head = head.peek(org).unwrap();
    let revoked: Vec<_> = head.revocations.issuing_keys.iter().map(ToString::to_string).collect();
    serde_json::json!({
        "identity": head.mandates[0].identity_issuer.to_string(),
        "endpoint": head.mandates[0].endpoint_issuer.to_string(),
        "revoked": revoked,
    })
}

#[test]
fn a_stolen_identity_root_is_gone_at_once_and_nodes_come_back_by_their_node_keys() {
    let place = Place::founded(&["--node", "laptop"]);
    let _gateway = place.serve();
    place.joined("web-1");
    let _agent = place.agent("web-1");
    let (serial, before) = (serial_of(&place, "web-1"), mandate(&place));

    ended(&place.freehold(&["rotate", "identity", "--compromised"]), 2, "add --confirm harbor");
    refused(&place.freehold(&["rotate", "identity", "--compromised", "--confirm", "haven"]), "is not the org's name");
    is(&states(&place, "identity"), &[(1, "active")]);
    assert!(!place.org().join("operator/identity-root-2.key").exists(), "what was not confirmed draws no root");

    let done = place.freehold(&["rotate", "identity", "--compromised", "--confirm", "harbor"]);
    succeeded(&done);
    assert!(stderr(&done).contains("retired, its key was stolen"), "it shows the plan: {}", stderr(&done));
    assert!(stdout(&done).contains("version 2 of `identity` is in use"), "{}", stdout(&done));
    is(&states(&place, "identity"), &[(1, "retired"), (2, "active")]);
    let after = mandate(&place);
    assert_ne!(after["identity"], before["identity"], "the mandate moved to the spare key");
    assert_eq!(after["endpoint"], before["endpoint"], "the other domain is not touched");
    assert!(after["revoked"].as_array().unwrap().contains(&before["identity"]), "{after}");

    until("the node has another certificate", || serial_of(&place, "web-1") != serial);
    let line = told(&place, "identity").pop().unwrap();
    let words = (&line["action"], &line["version"], &line["result"]);
    assert_eq!(words, (&"bootstrap_trust.retire".into(), &1.into(), &"done".into()));
    assert_eq!(line["stolen_replaced_by"], 2, "not any retirement: {line}");
    let audit = stdout(&place.freehold(&["audit"]));
    assert!(audit.contains("its root was STOLEN, version 2 took its place"), "{audit}");
    // There is nothing to go back to, and a next rotation is like any other.
    refused(&place.freehold(&["trust", "rollback", "identity"]), "nothing before it");
    place.joined("web-2");
    succeeded(&place.freehold(&["audit", "--verify"]));
}

#[test]
fn a_stolen_endpoint_root_strands_nobody_who_knows_the_org() {
    let place = Place::founded(&["--node", "laptop"]);
    let _gateway = place.serve();
    place.joined("web-1");
    let _agent = place.agent("web-1");
    let old = place.code(&["--name", "late"]);
    let before = mandate(&place);
    let done = place.facts(&["rotate", "endpoint", "--compromised", "--confirm", "harbor"]);
    assert_eq!((&done["done"], &done["missing"]), (&Value::from(vec!["replace"]), &Value::Array(Vec::new())), "{done}");
    let after = mandate(&place);
    assert_ne!(after["endpoint"], before["endpoint"]);
    // What pins the stolen root is of no use; a new code is.
    assert!(!place.join("late", &old).status.success());
    place.joined("late-2");
    let line = told(&place, "endpoint").pop().unwrap();
    assert!(line["waived"].as_array().unwrap().iter().any(|it| it.as_str().unwrap().starts_with("invite ")), "{line}");
}

fn serial_of(place: &Place, node: &str) -> Value {
    let nodes = place.facts(&["node", "list"]);
    nodes.as_array().unwrap().iter().find(|row| row["name"] == node).unwrap()["svid_serial"].clone()
}
