//! A gateway that was taken over lies to real agents. Each lie is refused or survived, each has a name of its own.

mod flood;
mod named;
mod second_key;
mod patient;
mod withheld;

use std::sync::{Arc, Mutex};

use identity::envelope::Envelope;
use identity::id::Digest;
use org::report::Report;
use serde_json::Value;
use trials::attack::liar::{Liar, Lie, Loot, Told};
use trials::place::{Place, Running, as_fact, until};
use wire::control::{Call, ControlAnswer};

/// An org with a published fleet, and two members.
pub struct Scene {
    pub place: Place,
}

impl Scene {
    pub fn new(members: &[&str]) -> (Self, Running) {
        let place = Place::founded(&["--node", "quay"]);
        let gateway = place.serve();
        for member in members {
            place.joined(member);
        }
        (Self { place }, gateway)
    }

    /// Writes the fleet: `org` is about all nodes, `web` about web-1 and its like. Publishes it, without watching.
    pub fn publish(&self, org: &str, web: &str) -> u64 {
        self.declare(org, web);
        self.place.facts(&["publish", "--yes", "--no-wait"])["head"].as_u64().unwrap()
    }

    pub fn declare(&self, org: &str, web: &str) {
        let id = self.place.facts(&["org", "list"])[0]["org_id"].clone();
        let text = format!(
            "org: {{name: harbor, id: {id}, {org}}}
users: {{ann: {{roles: operator, nodes: quay}}}}
roles: {{operator: {{allow: pages}}}}
groups: [pages]
nodes:
  quay: {{address: \"@PEERS@\", relay: true}}
classes: {{web: {{match: web-*, {web}}}}}
services: {{wiki: {{at: quay, addr: \"127.0.0.1:8080\", groups: pages}}}}
"
        );
        self.place.write_fleet(&text);
    }

    pub fn until_settled(&self, node: &str, head: u64) {
        until(&format!("`{node}` has settled under head {head}"), || {
            let status = self.place.status(node);
            status["head"] == head && status["applied"]["head"] == head && status["applied"]["trial"].is_null()
        });
    }

    pub fn problem(&self, node: &str) -> Option<String> {
        self.place.status(node)["problem"].as_str().map(str::to_owned)
    }

    pub fn until_problem(&self, node: &str, why: &str) {
        let mut last = None;
        let so = || {
            last = self.problem(node);
            last.as_ref().is_some_and(|problem| problem.contains(&as_fact(why)))
        };
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(why, so)));
        assert!(held.is_ok(), "`{node}` says {last:?} instead of `{why}`");
    }

    pub fn until_well(&self, node: &str) {
        let mut last = None;
        let so = || {
            last = self.problem(node);
            last.is_none()
        };
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until("all is well", so)));
        assert!(held.is_ok(), "`{node}` still says {last:?}");
    }

    /// Kills the gateway, and puts a liar with its keys in its place.
    pub fn take_over(&self, gateway: Running, lie: impl Lie) -> Liar {
        gateway.kill();
        Liar::serve(self.place.port, Loot::of(&self.place), lie)
    }

    /// What the real gateway has of a node's reports, checked.
    pub fn report(&self, node: &str) -> Option<Report> {
        let thief = trials::attack::thief::Thief::of(&self.place);
        let mut line = trials::client::stranger::Dial::to(self.place.port).line();
        let body = thief.call(&mut line, &Call::Reports { after: 0 }).body;
        let Ok(ControlAnswer::Reports { reports, .. }) = serde_json::from_value(body) else { panic!("no reports") };
        let opened = reports.iter().map(|view| open(&thief.known(), &view.report));
        opened.into_iter().find(|report| report.node.as_str() == node)
    }
}

fn open(known: &wire::known::Known, report: &Envelope) -> Report {
    let named: Report = report.peek(Some(known.org())).unwrap();
    report.open_signed_by(Some(known.org()), &[named.node_key]).unwrap()
}

/// Tells the truth about the newest head, and keeps what it is told.
pub fn honest(heard: Arc<Mutex<Vec<Report>>>) -> impl Lie {
    move |loot, name, request| {
        let reports = request.report.iter().map(|report| open(&loot.thief.known(), report));
        heard.lock().unwrap().extend(reports);
        loot.truth(loot.newest(), name, request).into()
    }
}

/// What the head says that a node should be, and whether the agent has it.
pub fn confirmed(status: &Value) -> Option<Digest> {
    status["applied"]["confirmed"].as_str().map(|digest| digest.parse().unwrap())
}

/// The same words, whoever says them.
pub fn stripped(envelope: &Envelope) -> Envelope {
    let mut json = serde_json::to_value(envelope).unwrap();
    json["signatures"] = Value::Array(Vec::new());
    serde_json::from_value(json).unwrap()
}

pub fn silence() -> impl Lie {
    |_: &Loot, _: &_, _: &_| Told::Silence
}
