//! One command from the first step to the last: it waits, names who is missing, goes on, goes back, and loses nobody.

use std::process::Stdio;

use identity::bundle::{Identity, Roots};
use identity::certificate;
use identity::verifier::leads_to;
use serde_json::Value;
use trials::place::{Place, Running, ended, json, refused, stderr, stdout, succeeded, until};
use trials::versions::last_seen;

use super::{is, states, told};

/// An org that serves, and nodes with agents.
fn peopled(nodes: &[&str]) -> (Place, Running, Vec<Running>) {
    let place = Place::founded(&["--node", "laptop"]);
    let gateway = place.serve();
    let agents = nodes.iter().map(|node| {
        place.joined(node);
        place.agent(node)
    });
    let agents = agents.collect();
    (place, gateway, agents)
}

#[test]
fn an_endpoint_root_is_rotated_from_the_first_step_to_the_last_and_nobody_is_lost() {
    let (place, _gateway, _agents) = peopled(&["web-1", "web-2", "web-3"]);
    let done = place.facts(&["rotate", "endpoint", "--grace", "0s"]);
    assert_eq!(done["done"], Value::from(vec!["publish", "activate", "retire"]), "{done}");
    assert_eq!((&done["stands"], &done["trust_bundle_version"]), (&"settled".into(), &2.into()));
    is(&states(&place, "endpoint"), &[(1, "retired"), (2, "active")]);
    // They go on under the new root alone, and so does the operator.
    for node in ["web-1", "web-2", "web-3", "laptop"] {
        let before = last_seen(&place, node);
        until(&format!("`{node}` is heard of again"), || last_seen(&place, node) > before);
    }
    place.joined("web-4");
    assert_eq!(place.state_of("web-4").as_deref(), Some("member"));
    let lines = told(&place, "endpoint");
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines.iter().all(|line| line["result"] == "done"), "{lines:?}");
    // The same words once more would begin another: that takes a yes. The other domain has nothing to do with it.
    let again = place.freehold(&["rotate", "endpoint"]);
    ended(&again, 2, "the last rotation finished at");
    ended(&again, 2, "with version 2, and this would begin another");
    ended(&again, 2, "if you mean it: freehold rotate endpoint --yes");
    is(&states(&place, "endpoint"), &[(1, "retired"), (2, "active")]);
    let meant = place.freehold(&["rotate", "endpoint", "--yes", "--no-wait"]);
    assert!(stderr(&meant).contains("with version 2; this begins another"), "{}", stderr(&meant));
    is(&states(&place, "endpoint")[2..], &[(3, "staged")]);
    let other = place.freehold(&["rotate", "identity", "--no-wait"]);
    ended(&other, 5, "not every node has version 2 yet");
}

#[test]
fn an_identity_root_waits_until_every_certificate_leads_to_it() {
    let (place, _gateway, _agents) = peopled(&["web-1"]);
    let root = place.org().join("operator/identity-root-2.pem");
    let rotated = place.freehold(&["rotate", "identity", "--grace", "0s", "--wait", "5m"]);
    succeeded(&rotated);
    assert!(
        stderr(&rotated).contains("waiting until their certificates lead to its root, too"),
        "{}",
        stderr(&rotated)
    );
    is(&states(&place, "identity"), &[(1, "retired"), (2, "active")]);
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    let chain = certificate::from_pem(&read(&place.scope("web-1").join("svid.pem"))).unwrap();
    let root = Roots::<Identity>::from_pem(&read(&root)).unwrap();
    assert_eq!(leads_to(&chain, &root, ground::clock::now()).len(), 1, "the new root alone is enough for it");
}

#[test]
fn a_node_that_is_off_is_waited_for_by_name_and_the_rotation_goes_on_when_it_is_back() {
    let (place, _gateway, mut agents) = peopled(&["web-1", "web-2"]);
    until("both have said which roots they go by", || {
        let rows = place.facts(&["trust", "list"]);
        let own = rows.as_array().unwrap().iter().find(|row| row["domain"] == "endpoint").unwrap().clone();
        own["adoption"]["adopted"].as_array().is_some_and(|adopted| adopted.len() == 3)
    });
    agents.pop().unwrap().kill();
    let waits = place.freehold(&["rotate", "endpoint", "--wait", "3s", "--grace", "0s"]);
    ended(&waits, 5, "`web-2`");
    assert!(!stderr(&waits).split("error:").nth(1).unwrap().contains("`web-1`"), "{}", stderr(&waits));
    is(&states(&place, "endpoint"), &[(1, "active"), (2, "staged")]);
    // Killed in the middle of its wait.
    let mut child = place.freehold_command(&["rotate", "endpoint", "--grace", "0s"]);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stderr.take().unwrap()), &mut line);
    assert!(line.contains("version 2 is handed out beside version 1"), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
    is(&states(&place, "endpoint"), &[(1, "active"), (2, "staged")]);
    agents.push(place.agent("web-2"));
    let done = place.facts(&["rotate", "endpoint", "--continue", "--grace", "0s"]);
    assert_eq!(done["done"], Value::from(vec!["activate", "retire"]), "{done}");
    refused(&place.freehold(&["rotate", "endpoint", "--continue"]), "nothing is under way");
}

#[test]
fn a_node_that_is_gone_is_left_behind_by_name() {
    let (place, _gateway, _agents) = peopled(&["web-1"]);
    place.joined("web-2");
    let waits = place.freehold(&["rotate", "endpoint", "--no-wait", "--json"]);
    ended(&waits, 5, "web-2");
    // It says what is true, and how to go on.
    let waits = place.freehold(&["rotate", "endpoint", "--no-wait", "--grace", "1d"]);
    ended(&waits, 5, "go on when they are there: freehold rotate endpoint --continue --grace 1d");
    refused(&place.freehold(&["rotate", "endpoint", "--anyway", "web-22"]), "no node is called `web-22`");
    refused(&place.freehold(&["trust", "activate", "endpoint", "--anyway", "web-22"]), "no node is called `web-22`");
    assert!(!stderr(&waits).contains("waiting until"), "{}", stderr(&waits));
    assert_eq!(stderr(&waits).matches("`web-2`").count(), 1, "{}", stderr(&waits));
    let done = place.facts(&["rotate", "endpoint", "--anyway", "web-2"]);
    assert_eq!((&done["done"], &done["stands"]), (&Value::from(vec!["activate"]), &"grace".into()), "{done}");
    assert_eq!(told(&place, "endpoint").pop().unwrap()["waived"], Value::from(vec!["web-2"]));
}

#[test]
fn the_old_root_stays_for_its_grace_and_goes_when_somebody_comes_back_to_it() {
    let (place, _gateway, _agents) = peopled(&["web-1"]);
    let first = place.facts(&["rotate", "endpoint", "--grace", "30d"]);
    assert_eq!((&first["stands"], &first["trust_bundle_version"]), (&"grace".into(), &2.into()), "{first}");
    let again = place.facts(&["rotate", "endpoint"]);
    assert_eq!((&again["done"], &again["grace_until"]), (&Value::Array(Vec::new()), &first["grace_until"]));
    is(&states(&place, "endpoint"), &[(1, "grace"), (2, "active")]);
    refused(&place.freehold(&["rotate", "identity", "--back"]), "version 1 has nothing before it");
}

#[test]
fn what_is_over_is_retired_by_the_next_run() {
    let (place, _gateway, _agents) = peopled(&["web-1"]);
    let old = place.invite(&["--name", "late"])["id"].as_str().unwrap().to_owned();
    let first = place.facts(&["rotate", "endpoint", "--grace", "2s"]);
    assert_eq!(first["stands"], "grace", "{first}");
    // Who would break is named, and named once.
    let held = || place.freehold(&["rotate", "endpoint", "--continue"]);
    until("the grace is over", || held().status.code() == Some(5));
    let held = held();
    ended(&held, 5, &format!("invite {old}: its code pins the root"));
    assert_eq!([stdout(&held), stderr(&held)].concat().matches(&old).count(), 1, "{}", stderr(&held));
    succeeded(&place.freehold(&["invite", "revoke", &old, "--yes"]));
    until("the grace is over, and the old root goes", || {
        let again = place.facts(&["rotate", "endpoint", "--continue"]);
        again["done"] == Value::from(vec!["retire"])
    });
    is(&states(&place, "endpoint"), &[(1, "retired"), (2, "active")]);
}

#[test]
fn it_goes_back_in_the_middle_and_nodes_follow() {
    let (place, _gateway, _agents) = peopled(&["web-1"]);
    place.joined("web-2");
    ended(&place.freehold(&["rotate", "endpoint", "--wait", "1s"]), 5, "`web-2`");
    let back = place.freehold(&["rotate", "endpoint", "--back"]);
    succeeded(&back);
    assert!(stderr(&back).contains("version 2 is trusted no more"), "{}", stderr(&back));
    assert!(stdout(&back).contains("version 3 of `endpoint` is in use"), "{}", stdout(&back));
    is(&states(&place, "endpoint"), &[(1, "retired"), (2, "retired"), (3, "active")]);
    until("the node goes by version 3", || {
        let rows = place.facts(&["trust", "list"]);
        let row = rows.as_array().unwrap().iter().find(|row| row["trust_bundle_version"] == 3).unwrap().clone();
        row["adoption"]["adopted"].as_array().is_some_and(|adopted| adopted.contains(&"web-1".into()))
    });
    // In use already, it goes back as well.
    succeeded(&place.freehold(&["rotate", "endpoint", "--anyway", "web-2"]));
    is(&states(&place, "endpoint")[3..], &[(4, "active")]);
    let told = json(&place.freehold(&["rotate", "endpoint", "--back", "--grace", "1d", "--json"]));
    assert_eq!((&told["stands"], &told["trust_bundle_version"]), (&"grace".into(), &5.into()), "{told}");
    is(&states(&place, "endpoint")[2..], &[(3, "retired"), (4, "grace"), (5, "active")]);
    let before = last_seen(&place, "web-1");
    until("the node is heard of again", || last_seen(&place, "web-1") > before);
}

#[test]
fn without_a_gateway_that_serves_nobody_is_waited_for() {
    let place = Place::founded(&["--node", "laptop"]);
    let waits = place.freehold(&["rotate", "identity"]);
    ended(&waits, 5, "`laptop`");
    assert!(stderr(&waits).contains("no gateway serves here"), "{}", stderr(&waits));
    assert!(!stderr(&waits).contains("waiting until"), "{}", stderr(&waits));
}
