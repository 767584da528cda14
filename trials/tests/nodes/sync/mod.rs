//! A node takes what is published when its owner says so: from a gateway, from a stick, from a web server.

mod command;
mod trees;
mod roots;
mod trust_files;
mod web;
mod placements;

use serde_json::Value;
use trials::place::{json, stderr};

use crate::publishing::Scene;

/// A machine of its own, with these lines of its entry in the fleet.
pub fn machine(name: &str, lines: &[&str]) -> String {
    let quay = "nodes:\n  quay:\n    address: \"@PEERS@\"\n    relay: true".to_owned();
    let name = format!("  {name}:");
    let lines = lines.iter().map(|line| format!("    {line}"));
    [quay, name].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

/// What `sync` says if it ends well.
pub fn synced(scene: &Scene, node: &str, words: &[&str]) -> Value {
    json(&scene.place.node(node, &[&["sync", "--json"], words].concat(), ""))
}

/// What `sync` says before it ends with this code.
pub fn not_synced(scene: &Scene, node: &str, words: &[&str], exit: i32) -> (Value, String) {
    let told = scene.place.node(node, &[&["sync", "--json"], words].concat(), "");
    assert_eq!(told.status.code(), Some(exit), "{}", stderr(&told));
    (serde_json::from_slice(&told.stdout).unwrap_or_default(), stderr(&told))
}
