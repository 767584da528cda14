//! Versions of the trusted roots, as operators read them and as machines have them.

#![expect(clippy::indexing_slicing, reason = "a trial fails by panicking")]

use serde_json::Value;

use crate::place::{Place, json, output};

/// The versions of a domain with their states, oldest first.
pub fn states(place: &Place, domain: &str) -> Vec<(u64, String)> {
    let rows = place.facts(&["trust", "list"]);
    let own = rows.as_array().into_iter().flatten().filter(|row| row["domain"] == domain);
    let state = |row: &Value| Some((row["trust_bundle_version"].as_u64()?, row["state"].as_str()?.to_owned()));
    own.filter_map(state).collect()
}

pub fn is(states: &[(u64, String)], expected: &[(u64, &str)]) {
    let found: Vec<_> = states.iter().map(|(version, state)| (*version, state.as_str())).collect();
    assert_eq!(found, expected);
}

/// What `freehold-node trust` says.
pub fn trust(place: &Place, node: &str) -> Value {
    json(&output(place.node_command(node, &["trust", "--json"])))
}

/// The versions that a node goes by, as it has them on its disk.
pub fn in_force(place: &Place, node: &str, domain: &str) -> Vec<u64> {
    let told = trust(place, node);
    told[domain]["told"]["versions"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// The founder's machine, which is the gateway.
pub fn founder(place: &Place) -> String {
    crate::place::text(&place.facts(&["node", "list"])[0], "name")
}

/// When a node was last heard of, as the gateway tells.
pub fn last_seen(place: &Place, node: &str) -> String {
    let nodes = place.facts(&["node", "list"]);
    let row = nodes.as_array().into_iter().flatten().find(|row| row["name"] == node);
    let row = row.unwrap_or_else(|| panic!("no `{node}` in {nodes}"));
    row["last_seen"].as_str().unwrap_or_default().to_owned()
}
