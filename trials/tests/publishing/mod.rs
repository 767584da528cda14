//! A fleet on its way to the nodes, from the operator's side: planned, published, watched, taken back.

mod declare;
mod compile;
mod plain;
mod agreeing;
mod weighing;
mod watching;
mod listing;
mod agents;
mod people;
mod lying;
mod tree;
mod attacked;
mod alone;
mod observing;

use std::process::{Command, Stdio};

use serde_json::Value;
use trials::place::{Place, Running, output, succeeded};

/// A founded org with a fleet's folder.
pub struct Scene {
    pub place: Place,
}

impl Scene {
    pub fn new() -> Self {
        Self::founded(&["--node", "quay"])
    }

    pub fn founded(words: &[&str]) -> Self {
        Self::at(Place::founded(words))
    }

    pub fn at(place: Place) -> Self {
        std::fs::create_dir(place.path("fleet")).unwrap();
        Self { place }
    }

    /// It serves, these machines have joined, and a fleet is published with the wiki on the first of them.
    pub fn with_wiki(nodes: &[&str]) -> (Self, Running) {
        let scene = Self::new();
        let gateway = scene.place.serve();
        for node in nodes {
            scene.place.joined(node);
        }
        scene.declare(&wiki_on(nodes[0]));
        scene.publish();
        (scene, gateway)
    }

    /// Writes the fleet: an org whose founder is `ann` on `quay`, and this.
    pub fn declare(&self, more: &str) {
        self.declare_org("", more);
    }

    pub fn declare_org(&self, org: &str, more: &str) {
        let id = self.place.facts(&["org", "list"])[0]["org_id"].clone();
        let text = format!("org:\n  name: harbor\n  id: {id}\n{org}\n{PEOPLE}\n{more}\n");
        self.place.write_fleet(&text);
    }

    pub fn git(&self, words: &[&str]) -> String {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.place.path("fleet")).args(["-c", "user.name=ann", "-c", "user.email=ann@harbor"]);
        command.args(words).stdin(Stdio::null());
        let told = output(command);
        succeeded(&told);
        trials::place::stdout(&told).trim().to_owned()
    }

    /// Publishes without watching.
    pub fn publish(&self) -> Value {
        self.place.facts(&["publish", "--yes", "--no-wait"])
    }

    /// The head in force, as the operator's home knows it.
    pub fn head(&self) -> identity::head::Head {
        trials::attack::thief::Thief::of(&self.place).known().head.head
    }
}

const PEOPLE: &str = "users:
  ann:
    roles: operator
    nodes: quay
roles:
  operator:
    allow: pages
groups:
  pages:
    about: what people read";

/// A service on a node, which then must be within reach.
pub fn wiki_on(node: &str) -> String {
    format!(
        "nodes:
  quay:
    address: \"@PEERS@\"
    relay: true
  {node}:
services:
  wiki:
    at: {node}
    addr: 127.0.0.1:8080
    groups: pages"
    )
}

pub const QUAY: &str = "nodes:
  quay:
    address: \"@PEERS@\"
    relay: true
services:
  wiki:
    at: quay
    addr: 127.0.0.1:8080
    groups: pages";

pub fn lines(value: &Value) -> String {
    value.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}
