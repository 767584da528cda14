//! Four machines on a network: the laptop's lid is closed and its cable pulled, and nobody notices.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use trials::network::lan::Lan;
use trials::place::{Place, Running, json, output, succeeded, text, until};

use super::signal;

struct Office {
    lan: Lan,
    place: Place,
}

impl Office {
    fn operator(&self, words: &[&str]) -> Output {
        output(self.lan.on("laptop", &self.place.freehold_command(words)))
    }

    fn facts(&self, words: &[&str]) -> Value {
        json(&self.operator(&[words, &["--json"]].concat()))
    }

    fn node(&self, machine: &str, words: &[&str], stdin: &str) -> Output {
        let mut command = self.lan.on(machine, &self.place.node_command(machine, words));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        child.wait_with_output().unwrap()
    }

    fn join(&self, machine: &str, code: &str) {
        succeeded(&self.node(machine, &["join", "--name", machine], code));
    }

    fn status(&self, machine: &str) -> Value {
        json(&self.node(machine, &["status", "--json"], ""))
    }

    fn code(&self, machine: &str) -> String {
        text(&self.facts(&["invite", "create", "--name", machine]), "code")
    }

    fn address(&self, machine: &str) -> String {
        format!("{}:7443", self.lan.address(machine))
    }
}

/// Until it says that it listens.
fn serving(mut command: Command) -> Running {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
    assert!(line.contains("\"ready\""), "it does not serve: {line}");
    Running(child)
}

#[test]
fn a_closed_lid_and_a_pulled_cable_harm_nobody_after_the_move() {
    let office = Office { lan: Lan::new(&["laptop", "vps", "web", "late"]), place: Place::new() };
    let (lan, place) = (&office.lan, &office.place);
    let (a, b) = (office.address("laptop"), office.address("vps"));
    let found = ["found", "harbor", "--unprotected", "--node", "laptop", "--svid-ttl", "15s", "--advertise", &a];
    succeeded(&office.operator(&found));
    let listen = ["--json", "--listen", "0.0.0.0:7443"];
    let laptop = serving(lan.on("laptop", &place.freehold_command(&[&["serve"], &listen[..]].concat())));
    // The VPS becomes a gateway, with keys that were made there.
    office.join("vps", &office.code("vps"));
    let file = |name: &str| place.path(name).to_string_lossy().into_owned();
    let (request, grant) = (file("vps.request"), file("vps.grant"));
    succeeded(&office.node("vps", &["gateway", "request", "--address", &b, "--out", &request], ""));
    succeeded(&office.operator(&["gateway", "add", &request, "--out", &grant, "--yes"]));
    succeeded(&office.node("vps", &["gateway", "install", &grant], ""));
    let words = [&["gateway", "serve"], &listen[..]].concat();
    let _vps = serving(lan.on("vps", &place.node_command("vps", &words)));
    office.join("web", &office.code("web"));
    let agent = lan.on("web", &place.node_command("web", &["run", "--every", "1s"])).stderr(Stdio::null()).spawn();
    let _agent = Running(agent.unwrap());
    succeeded(&office.operator(&["gateway", "move", "vps", "--wait", "60s"]));
    let code = office.code("late");

    signal(&laptop, Signal::STOP);
    lan.plug("laptop", false);
    let serial = || std::fs::read(place.scope("web").join("svid.pem")).unwrap();
    let mut seen = serial();
    for _ in 0..2 {
        until("the node renews without the laptop", || serial() != seen);
        seen = serial();
    }
    until("it has nothing to complain of", || {
        let status = office.status("web");
        status["problem"].is_null() && status["gateways"][0] == b.as_str()
    });
    office.join("late", &code);

    // The lid is opened again: the laptop hears of it all, and the operator goes on.
    lan.plug("laptop", true);
    signal(&laptop, Signal::CONT);
    until("the laptop has caught up", || {
        let told = office.operator(&["node", "list", "--json", "--gateway", &a]);
        let nodes: Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
        nodes.as_array().is_some_and(|nodes| nodes.iter().any(|row| row["name"] == "late" && row["state"] == "member"))
    });
    succeeded(&office.operator(&["node", "revoke", "late", "--yes"]));
}
