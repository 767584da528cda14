//! A machine waits until a person has looked at it: yes, no, too late, and whatever goes wrong meanwhile.

mod decide;
mod killed;
mod mistakes;
mod lying_gateway;
mod flood;
mod passed_over;
mod one_name;

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;
use trials::place::{Place, Running, text, until};

/// A code under which somebody must look at each machine.
pub fn human(place: &Place, words: &[&str]) -> String {
    place.code(&[&["--approval", "human"], words].concat())
}

/// Begins to join as `name`, in the folder of `node`; what it says is kept for `Running::end`.
pub fn begin(place: &Place, node: &str, name: &str, code: &str) -> Running {
    let mut command = place.node_command(node, &["join", "--name", name]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|why| panic!("no node: {why}"));
    child.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
    Running(child)
}

/// What a machine says of itself while it waits.
pub fn status(place: &Place, node: &str) -> Option<Value> {
    let output = place.node(node, &["status", "--json"], "");
    let told: Value = serde_json::from_slice(&output.stdout).ok()?;
    (told["state"] == "waiting").then_some(told)
}

/// Those that wait, as the operator sees them.
pub fn waiting(place: &Place) -> Vec<Value> {
    place.facts(&["node", "waiting"]).as_array().unwrap().clone()
}

/// Until a machine waits, and has told of itself: its words.
pub fn words(place: &Place, node: &str) -> String {
    let mut words = String::new();
    until(&format!("`{node}` waits"), || {
        words = status(place, node).map(|told| text(&told, "words")).unwrap_or_default();
        waiting(place).iter().any(|row| row["words"] == *words && row["hostname"].is_string())
    });
    words
}

/// Says yes with all the words.
pub fn approve(place: &Place, words: &str) -> Value {
    place.facts(&["node", "approve", words, "--yes"])
}

/// It ended well, and is a member.
pub fn joined(place: &Place, join: Running, name: &str) {
    let (exit, told) = join.end();
    assert_eq!(exit, Some(0), "{told}");
    assert_eq!(place.state_of(name).as_deref(), Some("member"));
}

/// It ended with a refusal that says this.
pub fn turned_away(join: Running, why: &str) {
    let (exit, told) = join.end();
    assert_eq!(exit, Some(3), "{told}");
    assert!(told.contains(why), "`{why}` in {told}");
}
