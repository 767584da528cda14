//! Twenty machines go through a rotation: some are off, one is killed, one has a full disk, one cannot reach the gateway.

mod twenty_machines;
mod old_roots_stolen;
mod identity_root_stolen;
mod interrupted;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use trials::place::{Place, Running};
use trials::versions::{in_force, is, last_seen, states, trust};

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
