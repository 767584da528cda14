//! The trusted roots, as an operator reads them: who has which, who would break, and what is retired.

mod list;
mod retire;
mod lying_gateway;

use serde_json::Value;
use trials::place::{Place, Running, stdout, until};

/// An org with a gateway `quay` and two nodes whose agents have said which roots they go by.
struct Scene {
    place: Place,
    agents: Vec<Running>,
    _gateway: Running,
}

impl Scene {
    fn new(extra: &[&str]) -> Self {
        let place = Place::founded(&[&["--node", "quay"], extra].concat());
        let gateway = place.serve();
        Self { place, agents: Vec::new(), _gateway: gateway }
    }

    fn with_nodes(extra: &[&str]) -> Self {
        let mut scene = Self::new(extra);
        for node in ["web-1", "web-2"] {
            scene.place.joined(node);
            scene.agents.push(scene.place.agent(node));
        }
        until("all have said what they go by", || {
            ["endpoint", "identity"].iter().all(|domain| scene.adopted(domain, 1) == ["quay", "web-1", "web-2"])
        });
        scene
    }

    /// The second node's machine is switched off.
    fn switch_off(&mut self) {
        self.agents.pop().unwrap().kill();
    }

    /// Who says of itself that it goes by a version.
    fn adopted(&self, domain: &str, version: u64) -> Vec<String> {
        let listed = self.place.facts(&["trust", "list"]);
        let adopted = row(&listed, domain, version)["adoption"]["adopted"].clone();
        adopted.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// What `trust plan` says, as data, whatever its exit code.
    fn plan(&self, words: &[&str]) -> (Value, Option<i32>) {
        let told = self.place.freehold(&[&["trust", "plan"], words, &["--json"]].concat());
        let plan = serde_json::from_slice(&told.stdout).unwrap_or_else(|why| panic!("{why}: {}", stdout(&told)));
        (plan, told.status.code())
    }

    /// Turns to a new version of a domain, without the second node, which is off.
    fn turned(&mut self, domain: &str) {
        self.switch_off();
        self.place.facts(&["trust", "publish", domain]);
        until("who is there has it", || self.adopted(domain, 2) == ["quay", "web-1"]);
        self.place.facts(&["trust", "activate", domain, "--anyway", "web-2", "--grace", "0s"]);
    }
}

fn row<'a>(listed: &'a Value, domain: &str, version: u64) -> &'a Value {
    let rows = listed.as_array().unwrap();
    let found = rows.iter().find(|row| row["domain"] == domain && row["trust_bundle_version"] == version);
    found.unwrap_or_else(|| panic!("no {domain} {version} in {listed}"))
}

/// Kinds and names of what would break.
fn broken(plan: &Value) -> Vec<(&str, &str)> {
    let all = plan["breaks"].as_array().unwrap();
    all.iter().map(|it| (it["kind"].as_str().unwrap(), it["name"].as_str().unwrap())).collect()
}
