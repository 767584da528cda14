//! Twenty machines go through a rotation: some are off, one is killed, one has a full disk, one cannot reach the gateway.

mod twenty;
mod thieves;
mod stolen;
mod interrupted;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use trials::place::{Place, Running, json, output};

/// Starts the gateway, whose words are kept in a file.
fn serve(place: &Place) -> Running {
    let mut command = place.freehold_command(&["serve", "--json", "--listen", &place.address()]);
    let log = File::options().append(true).create(true).open(log_path(place, "gateway")).unwrap();
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"ready\""), "the gateway did not start: {}", log_of(place, "gateway"));
    Running(child)
}

/// Starts an agent whose words are kept in a file.
fn agent(place: &Place, node: &str) -> Running {
    started(place, node, place.node_command(node, &["run", "--every", "2s"]))
}

fn started(place: &Place, node: &str, mut command: Command) -> Running {
    let log = File::options().append(true).create(true).open(log_path(place, node)).unwrap();
    Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
}

fn log_path(place: &Place, node: &str) -> PathBuf {
    place.path(&format!("{node}.log"))
}

fn log_of(place: &Place, node: &str) -> String {
    fs::read_to_string(log_path(place, node)).unwrap_or_default()
}

/// What `freehold-node trust` says.
fn trust(place: &Place, node: &str) -> Value {
    json(&output(place.node_command(node, &["trust", "--json"])))
}

/// The versions that a node goes by, as it has them on its disk.
fn in_force(place: &Place, node: &str, domain: &str) -> Vec<u64> {
    numbers(&trust(place, node)[domain]["told"]["versions"])
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// The versions of a domain with their states, oldest first.
fn states(place: &Place, domain: &str) -> Vec<(u64, String)> {
    let rows = place.facts(&["trust", "list"]);
    let own = rows.as_array().unwrap().iter().filter(|row| row["domain"] == domain);
    own.map(|row| (row["trust_bundle_version"].as_u64().unwrap(), row["state"].as_str().unwrap().to_owned())).collect()
}

fn is(states: &[(u64, String)], expected: &[(u64, &str)]) {
    let found: Vec<_> = states.iter().map(|(version, state)| (*version, state.as_str())).collect();
    assert_eq!(found, expected);
}

/// How far a version has come, as operators read it.
fn adoption(place: &Place, domain: &str, version: u64) -> Value {
    let rows = place.facts(&["trust", "list"]);
    let own = |row: &&Value| row["domain"] == domain && row["trust_bundle_version"] == version;
    rows.as_array().unwrap().iter().find(own).unwrap()["adoption"].clone()
}

/// Names in a list of names, or of rows with one.
fn names(list: &Value) -> Vec<String> {
    let name = |it: &Value| it.as_str().or_else(|| it["name"].as_str()).map(str::to_owned);
    let mut names: Vec<_> = list.as_array().into_iter().flatten().filter_map(name).collect();
    names.sort();
    names
}

/// When each member was last heard of, as the gateway tells.
fn last_seen(place: &Place, node: &str) -> String {
    let nodes = place.facts(&["node", "list"]);
    let row = nodes.as_array().unwrap().iter().find(|row| row["name"] == node).unwrap();
    row["last_seen"].as_str().unwrap_or_default().to_owned()
}
