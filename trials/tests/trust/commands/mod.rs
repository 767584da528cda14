//! Turns of trust as an operator makes them: published, used, taken back, by one or by several.

mod steps;
mod root_keys;
mod cosign;
mod rotate;
mod stolen_root;
mod gateways;
mod gateway_off;
mod older_copy;

use serde_json::Value;
use trials::place::Place;
use trials::versions::{founder, is, states};

/// The lines of the ledger about one domain's roots, as the audit tells them.
fn told(place: &Place, domain: &str) -> Vec<Value> {
    let lines = place.facts(&["audit"]);
    let about = |line: &&Value| {
        line["subject"] == domain
            && line["action"].as_str().is_some_and(|action| action.starts_with("bootstrap_trust."))
    };
    lines.as_array().unwrap().iter().filter(about).cloned().collect()
}
