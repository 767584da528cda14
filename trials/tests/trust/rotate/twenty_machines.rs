//! Both roots are rotated with twenty machines: two are off, one is killed in the middle, one has a full disk, one cannot
//! reach the gateway under the new roots. Nobody is lost, and the rotation waits for each by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use trials::faults::{Clock, SmallDisk};
use trials::network::forwarder::Forwarder;
use trials::place::{Place, Running, ended, openssl, output, stderr, succeeded, text, until};

use super::{adoption, agent, in_force, is, last_seen, log_of, names, started, states, trust};

const WELL: [&str; 14] = [
    "web-01", "web-02", "web-03", "web-04", "web-05", "web-06", "web-07", "web-08", "web-09", "web-10", "web-11",
    "web-12", "web-13", "web-14",
];
const OFF: [&str; 2] = ["off-1", "off-2"];
const FULL: &str = "No space left on device";
const LOST: &str = "could not check in";

/// Nineteen machines and the gateway's own. Ends in the order of its fields.
struct Twenty {
    agents: BTreeMap<&'static str, Running>,
    _gateway: Running,
    /// The only ways of `killed` and of `shut`.
    killed: Forwarder,
    shut: Forwarder,
    /// The disk of `full`.
    disk: SmallDisk,
    /// The clock of `web-01`.
    clock: Clock,
    place: Place,
}

impl Twenty {
    fn new() -> Self {
        let place = Place::founded(&["--node", "quay"]);
        let gateway = place.serve();
        let disk = SmallDisk::at(place.root("full"), "1m");
        let code = place.code(&["--uses", "19"]);
        let all: Vec<_> = WELL.into_iter().chain(OFF).chain(["killed", "full", "shut"]).collect();
        std::thread::scope(|scope| {
            let (place, code) = (&place, &code);
            for some in all.chunks(7) {
                scope.spawn(move || {
                    for node in some {
                        succeeded(&place.join(node, code));
                    }
                });
            }
        });
        let (killed, shut) = (Forwarder::to(place.port), Forwarder::to(place.port));
        let clock = Clock::new(place.path("clock"));
        let mut twenty = Self { agents: BTreeMap::new(), _gateway: gateway, killed, shut, disk, clock, place };
        for node in &all {
            twenty.start(node);
        }
        twenty.shorten_the_trials_of_shut();
        until("all have said which roots they go by", || twenty.adopted("endpoint", 1).len() == 20);
        twenty
    }

    fn start(&mut self, node: &'static str) {
        let place = &self.place;
        let command = place.node_command(node, &["run", "--every", "2s"]);
        let running = match node {
            "killed" => started(place, node, self.killed.behind(&command)),
            "shut" => started(place, node, self.shut.behind(&command)),
            "web-01" => started(place, node, self.clock.under(command)),
            _ => agent(place, node),
        };
        self.agents.insert(node, running);
    }

    fn kill(&mut self, node: &str) {
        self.agents.remove(node).unwrap().kill();
    }

    /// Nobody waits five minutes for one that goes back.
    fn shorten_the_trials_of_shut(&self) {
        let id = self.place.facts(&["org", "list"])[0]["org_id"].clone();
        let fleet = format!(
            "org: {{name: harbor, id: {id}}}
users: {{ann: {{roles: operator, nodes: quay}}}}
roles: {{operator: {{allow: pages}}}}
groups: [pages]
nodes:
  quay: {{address: \"@PEERS@\", relay: true}}
  shut: {{apply: {{deadline: 8s}}}}
services: {{wiki: {{at: quay, addr: \"127.0.0.1:8080\", groups: pages}}}}
"
        );
        self.place.write_fleet(&fleet);
        let head = self.place.facts(&["publish", "--yes", "--no-wait"])["head"].clone();
        until("`shut` has settled", || {
            let applied = self.place.status("shut")["applied"].clone();
            applied["head"] == head && applied["trial"].is_null()
        });
    }

    fn adopted(&self, domain: &str, version: u64) -> Vec<String> {
        names(&adoption(&self.place, domain, version)["adopted"])
    }

    /// The command without waiting: it ends with 5, and what it says of who is missing.
    fn waits(&self, domain: &str) -> String {
        let told = self.place.freehold(&["rotate", domain, "--grace", "0s", "--no-wait"]);
        ended(&told, 5, "the rotation is not finished");
        stderr(&told).split("error:").nth(1).unwrap().to_owned()
    }

    /// The file that other programs on a machine read.
    fn pem(&self, node: &str, domain: &str) -> String {
        let scope = if node == "quay" { self.place.org().join("gateway/node") } else { self.place.scope(node) };
        fs::read_to_string(scope.join(format!("trust/{domain}.pem"))).unwrap()
    }

    fn root(&self, domain: &str) -> PathBuf {
        self.place.org().join(format!("operator/{domain}-root-2.pem"))
    }

    /// A new root is handed out on the worst of days.
    fn begin(&mut self, domain: &str) {
        for node in OFF {
            self.kill(node);
        }
        self.killed.shut();
        self.shut.shut();
        self.disk.leave(0);
        let before = self.pem("full", domain);
        self.waits(domain);
        is(&states(&self.place, domain), &[(1, "active"), (2, "staged")]);
        let mut told = Value::Null;
        until("each is where it can be", || {
            told = adoption(&self.place, domain, 2);
            let of = |field: &str| names(&told[field]);
            of("adopted").len() == 15 && of("went_back") == ["shut"] && of("trying") == ["killed"]
        });
        assert_eq!(names(&told["missing"]), ["full", "off-1", "off-2"], "{told}");
        assert!(text(&told["went_back"][0], "why").contains("not confirmed in time"), "{told}");

        let said = self.waits(domain);
        for who in
            ["`shut` went back at", "`killed` tries it", "`full`: not yet", "`off-1`: not yet", "`off-2`: not yet"]
        {
            assert!(said.contains(who), "`{who}` is missing: {said}");
        }
        assert!(said.contains("not confirmed in time") && !said.contains("web-"), "{said}");
        is(&states(&self.place, domain), &[(1, "active"), (2, "staged")]);
        // What each has, it has from before.
        assert_eq!(in_force(&self.place, "shut", domain), [1]);
        assert!(self.shut.sent_away() > 0 && self.killed.sent_away() > 0);
        assert_eq!((in_force(&self.place, "full", domain), self.pem("full", domain)), (vec![1], before));
        until("`full` says so", || {
            self.place.status("full")["problem"].as_str().is_some_and(|problem| problem.contains(FULL))
        });
        // One that cannot come anew is still heard on the line that it has.
        let seen = last_seen(&self.place, "shut");
        until("`shut` is heard of", || last_seen(&self.place, "shut") > seen);
    }

    /// What was wrong is put right, one thing after the other.
    fn end(&mut self, domain: &str) {
        self.kill("killed");
        self.killed.open();
        self.start("killed");
        for node in OFF {
            self.start(node);
        }
        self.disk.make_room();
        let mut told = Value::Null;
        until("all but one have it", || {
            told = adoption(&self.place, domain, 2);
            names(&told["adopted"]).len() == 19
        });
        assert_eq!(names(&told["went_back"]), ["shut"], "{told}");
        // What went back stays so until somebody wants it.
        self.shut.open();
        let said = self.waits(domain);
        assert!(said.contains("`shut` went back at") && !said.contains("killed") && !said.contains("off-"), "{said}");
        succeeded(&output(self.place.node_command("shut", &["sync", "--now"])));
        let done = self.place.facts(&["rotate", domain, "--grace", "0s"]);
        assert_eq!(done["done"], json!(["activate", "retire"]), "{done}");
        assert_eq!((&done["stands"], &done["missing"]), (&"settled".into(), &json!([])), "{done}");
        is(&states(&self.place, domain), &[(1, "retired"), (2, "active")]);
        assert_eq!(self.adopted(domain, 2).len(), 20);
    }

    /// Everywhere the new root, and nothing else.
    fn is_everywhere(&self, domain: &str) {
        let root = fs::read_to_string(self.root(domain)).unwrap();
        for node in self.agents.keys().copied().chain(["quay"]) {
            until(&format!("`{node}` has the new `{domain}` root alone"), || {
                self.pem(node, domain).trim() == root.trim()
            });
        }
    }
}

#[test]
fn both_roots_are_rotated_with_twenty_machines_on_the_worst_of_days_and_nobody_is_lost() {
    let mut twenty = Twenty::new();
    for domain in ["endpoint", "identity"] {
        twenty.begin(domain);
        twenty.end(domain);
    }
    for domain in ["endpoint", "identity"] {
        twenty.is_everywhere(domain);
    }
    let Twenty { place, agents, clock, .. } = &twenty;
    let root = twenty.root("identity").to_string_lossy().into_owned();
    let print = openssl(&place.path(""), &["x509", "-in", &root, "-noout", "-fingerprint", "-sha256"]);
    let print = print.split('=').next_back().unwrap().trim().replace(':', "").to_lowercase();
    for node in agents.keys() {
        let svids = trust(place, node)["svids"].clone();
        assert_eq!(svids[0]["roots"], json!([print]), "`{node}`: {svids}");
        // A program of somebody else agrees.
        let words = ["verify", "-purpose", "any", "-CAfile", &root, "-untrusted", "svid.pem", "svid.pem"];
        assert!(openssl(&place.scope(node), &words).contains("OK"));
        let seen = last_seen(place, node);
        until(&format!("`{node}` is heard of"), || last_seen(place, node) > seen);
    }
    // Who was never hindered was never without a gateway.
    for node in WELL {
        assert!(!log_of(place, node).contains(LOST), "`{node}`: {}", log_of(place, node));
    }
    assert!(log_of(place, "full").contains(LOST), "it is said when it is so");
    place.joined("late");
    assert_eq!(place.state_of("late").as_deref(), Some("member"));
    let svid = || fs::read(place.scope("web-01").join("svid.pem")).unwrap();
    let before = svid();
    clock.set("+18h");
    until("`web-01` renews", || svid() != before);
    succeeded(&place.freehold(&["audit", "--verify"]));
}
