//! Roots, as machines take them: tried, taken, gone back from; and who was off meanwhile comes home by itself.

mod offline;
mod reports;
mod trial;
mod impostors;

use serde_json::Value;
use trials::place::{Place, succeeded, text, until};
use trials::versions::{founder, in_force, trust};

/// A new version of a domain's roots takes the place of the old one, and whoever was off is left behind.
fn rotate(place: &Place, domain: &str, old: u64, off: &[&str]) {
    succeeded(&place.freehold(&["trust", "publish", domain]));
    let own = founder(place);
    until("the gateway's own machine has taken it", || versions(place, domain, &own).contains(&(old + 1)));
    let mut words = vec!["trust", "activate", domain, "--grace", "0s"];
    for name in off {
        words.extend(["--anyway", name]);
    }
    succeeded(&place.freehold(&words));
    let version = old.to_string();
    until("what is in grace is retired", || {
        // Whoever would break by it is left to come home.
        let plan = place.freehold(&["trust", "plan", "retire", domain, &version, "--json"]);
        let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
        let broken: Vec<String> = plan["breaks"].as_array().unwrap().iter().map(|it| text(it, "name")).collect();
        let mut words = vec!["trust", "retire", domain, &version, "--yes"];
        for name in &broken {
            words.extend(["--waive", name]);
        }
        place.freehold(&words).status.success()
    });
}

/// The versions that a node says it goes by, as operators read it.
fn versions(place: &Place, domain: &str, node: &str) -> Vec<u64> {
    let told = place.facts(&["node", "show", node]);
    let found = find(&told, "trust").and_then(|trust| trust[domain]["versions"].as_array().cloned());
    found.unwrap_or_default().iter().filter_map(Value::as_u64).collect()
}

fn find(value: &Value, name: &str) -> Option<Value> {
    match value {
        Value::Object(fields) => fields
            .get(name)
            .filter(|found| found.is_object())
            .cloned()
            .or_else(|| fields.values().find_map(|inner| find(inner, name))),
        Value::Array(items) => items.iter().find_map(|inner| find(inner, name)),
        _ => None,
    }
}
