//! Gateways: one alone, behind carriers, under attack; several, of which one is added, moved to, stopped, removed.

mod serve;
mod carriers;
pub(crate) mod hostile;
mod adding;
mod moving;
mod agreeing;
mod attacked;
mod hasty;
mod smuggled;
mod varied;
pub(crate) mod restored;
mod apart;
mod rivals;
mod turned;
mod surviving;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;
use trials::place::{Place, Running, succeeded, until};

/// An org with its first gateway on the operator's machine, and a second machine `vps` that can be one.
pub struct Two {
    pub place: Place,
    /// Only its port is used.
    spare: Place,
}

impl Two {
    /// The second machine has joined.
    pub fn joined() -> (Self, Running) {
        let two = Self::founded(&[]);
        let laptop = two.place.serve();
        two.place.joined("vps");
        (two, laptop)
    }

    /// Nobody serves yet.
    pub fn founded(words: &[&str]) -> Self {
        Self { place: Place::founded(&[&["--node", "laptop"], words].concat()), spare: Place::new() }
    }

    /// The same, with the recovery phrases.
    pub fn with_phrases(words: &[&str]) -> (Self, Vec<String>) {
        let (place, phrases) = Place::with_phrases(&[&["--node", "laptop"], words].concat());
        (Self { place, spare: Place::new() }, phrases)
    }

    /// Where the second machine listens as a gateway.
    pub const fn port(&self) -> u16 {
        self.spare.port
    }

    /// The second machine serves, too.
    pub fn serving() -> (Self, Running, Running) {
        Self::founded(&[]).both_serve()
    }

    pub fn both_serve(self) -> (Self, Running, Running) {
        let laptop = self.place.serve();
        let vps = self.becomes("vps", &self.address());
        (self, laptop, vps)
    }

    /// Another machine joins, and serves here.
    pub fn becomes(&self, node: &str, address: &str) -> Running {
        let (request, grant) = (self.file(&format!("{node}.request")), self.file(&format!("{node}.grant")));
        self.place.joined(node);
        succeeded(&self.place.node(node, &["gateway", "request", "--address", address, "--out", &request], ""));
        succeeded(&self.place.freehold(&["gateway", "add", &request, "--out", &grant, "--yes"]));
        succeeded(&self.place.node(node, &["gateway", "install", &grant], ""));
        self.serve_at(node, address)
    }

    /// Where the second gateway answers.
    pub fn address(&self) -> String {
        self.spare.address()
    }

    pub fn request(&self) {
        let (file, address) = (self.file("vps.request"), self.address());
        succeeded(&self.place.node("vps", &["gateway", "request", "--address", &address, "--out", &file], ""));
    }

    pub fn install(&self) {
        succeeded(&self.place.node("vps", &["gateway", "install", &self.file("vps.grant")], ""));
    }

    pub fn file(&self, name: &str) -> String {
        self.place.path(name).to_string_lossy().into_owned()
    }

    /// Starts the second gateway and waits until it listens.
    pub fn serve_vps(&self) -> Running {
        self.serve_at("vps", &self.address())
    }

    pub fn serve_at(&self, node: &str, listen: &str) -> Running {
        let mut command = self.place.node_command(node, &["gateway", "serve", "--json", "--listen", listen]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
        assert!(line.contains("\"ready\""), "the gateway of `{node}` did not start: {line}");
        Running(child)
    }

    /// What a command says at one gateway.
    pub fn at(&self, address: &str, words: &[&str]) -> Value {
        self.place.facts(&[words, &["--gateway", address]].concat())
    }

    /// The state of a node as a gateway tells it.
    pub fn state_at(&self, address: &str, node: &str) -> Option<String> {
        // One that has not caught up with what was decided at the other refuses to be asked.
        let told = self.place.freehold(&["node", "list", "--json", "--gateway", address]);
        let nodes: Value = serde_json::from_slice(&told.stdout).ok()?;
        let named = nodes.as_array()?.iter().rfind(|row| row["name"] == node)?;
        named["state"].as_str().map(str::to_owned)
    }

    /// Waits until both gateways have the same entries.
    pub fn settle(&self) {
        let even = |address: &str| {
            // One that has not heard of the operator's last word yet is not asked: it would be taken for an old copy.
            let told = self.place.freehold(&["gateway", "list", "--json", "--gateway", address]);
            let listed: Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
            listed.as_array().is_some_and(|rows| {
                rows.iter().all(|row| {
                    row["asked"] == true
                        || (row["behind"] == 0 && row["ahead"] == 0 && row["last_exchange"].is_string())
                })
            })
        };
        until("the gateways have exchanged everything", || even(&self.place.address()) && even(&self.address()));
    }
}

/// Stops a process where it stands, as a closed lid does; `CONT` lets it go on.
pub fn signal(running: &Running, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(pid, signal).unwrap();
}
