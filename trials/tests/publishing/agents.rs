//! Real agents that do not stay with what they were given, and one that waits for a person.

use std::process::Stdio;

use serde_json::Value;
use trials::place::{Place, Running, ended, json, succeeded, until};

use super::{QUAY, Scene};

const NAMES: [&str; 3] = ["web-1", "web-2", "web-3"];

fn with_agents(scene: &Scene) -> Vec<Running> {
    NAMES
        .iter()
        .map(|name| {
            scene.place.joined(name);
            scene.place.agent(name)
        })
        .collect()
}

fn class(more: &str) -> String {
    format!("{QUAY}\nclasses:\n  web:\n    match: web-*\n{more}")
}

fn states(told: &Value) -> Vec<String> {
    let rows = told["nodes"].as_array().unwrap().iter();
    rows.filter(|row| row["name"] != "quay").map(|row| row["state"].as_str().unwrap().to_owned()).collect()
}

fn publish(place: &Place) -> std::process::Output {
    place.freehold(&["publish", "--yes", "--json", "--wait", "80s"])
}

#[test]
fn three_agents_go_back_by_themselves_the_publish_says_so_and_a_revocation_stays() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let _agents = with_agents(&scene);
    scene.declare(&class("    labels:\n      site: rack-1"));
    let good = publish(&scene.place);
    succeeded(&good);
    assert_eq!(states(&json(&good)).iter().filter(|state| *state == "confirmed").count(), 3);
    scene.place.joined("lost");
    succeeded(&scene.place.freehold(&["node", "revoke", "lost", "--yes", "--wait", "60s"]));

    // A check that cannot pass.
    let bad = "    apply:\n      deadline: 10s\n    checks:\n      never:\n        command: [/bin/false]\n        timeout: 1s";
    scene.declare(&class(bad));
    let told = publish(&scene.place);
    ended(&told, 4, "did not stay on `web-1`, `web-2`, `web-3`");
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(states(&told), ["rolled_back"; 3]);
    // What the same line of heads revokes is not taken back with it.
    assert_eq!(scene.head().revocations.node_keys.len(), 1);
    assert_eq!(scene.place.state_of("lost").unwrap(), "revoked");
    // A deliberate step back ends well.
    let back = scene.place.freehold(&["rollback", "--yes", "--json", "--wait", "80s"]);
    succeeded(&back);
    assert_eq!(states(&json(&back)), ["confirmed"; 3]);
}

#[test]
fn an_agent_that_waits_for_a_person_stays_when_one_says_so() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let _agents = with_agents(&scene);
    scene.declare(&class("    apply:\n      deadline: 5m\n      confirm: operator"));
    let mut command = scene.place.freehold_command(&["publish", "--yes", "--json", "--wait", "80s"]);
    let publishing = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for name in NAMES {
        until("it is on trial", || scene.place.freehold(&["confirm", name, "--yes"]).status.success());
    }
    let told = json(&publishing.wait_with_output().unwrap());
    assert_eq!(states(&told), ["confirmed"; 3], "{told}");
}
