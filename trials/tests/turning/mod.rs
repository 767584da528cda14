//! Turns of trust as an operator makes them: published, used, taken back, by one or by several.

mod steps;
mod roots;
mod together;
mod rotating;
mod stolen;
mod gateways;
mod away;
mod restoring;

use serde_json::Value;
use trials::place::Place;

/// The lines of the ledger about one domain's roots, as the audit tells them.
fn told(place: &Place, domain: &str) -> Vec<Value> {
    let lines = place.facts(&["audit"]);
    let about = |line: &&Value| {
        line["subject"] == domain
            && line["action"].as_str().is_some_and(|action| action.starts_with("bootstrap_trust."))
    };
    lines.as_array().unwrap().iter().filter(about).cloned().collect()
}

/// The versions of a domain with their states, oldest first.
fn states(place: &Place, domain: &str) -> Vec<(u64, String)> {
    let lines = place.facts(&["trust", "list"]);
    let rows = lines.as_array().or_else(|| lines["versions"].as_array()).unwrap().iter();
    let own = rows.filter(|row| row["domain"] == domain);
    own.map(|row| (row["trust_bundle_version"].as_u64().unwrap(), row["state"].as_str().unwrap().to_owned())).collect()
}

fn is(states: &[(u64, String)], expected: &[(u64, &str)]) {
    let found: Vec<_> = states.iter().map(|(version, state)| (*version, state.as_str())).collect();
    assert_eq!(found, expected);
}

/// The founder's machine, which is the gateway.
fn founder(place: &Place) -> String {
    place.facts(&["node", "list"])[0]["name"].as_str().unwrap().to_owned()
}
