//! What nodes make of a publish: real agents, and machines whose reports are made by hand.

use std::process::{Child, Output, Stdio};

use identity::envelope::Envelope;
use identity::head::{Head, SignedHead};
use identity::id::Digest;
use identity::key::Sign as _;
use identity::members::{Listing, Meant, NodeLeaf};
use identity::time::Seconds;
use manifest::stored::SCHEMA;
use org::report::{Applied, Mark, Report};
use org::state::consent::Consent;
use serde_json::Value;
use trials::attack::thief::Thief;
use trials::client::joiner::Joiner;
use trials::client::stranger::{Dial, Own};
use trials::place::{Place, ended, json, stderr, succeeded, until};
use wire::enroll::Issued;
use wire::permit::Ask;
use wire::sync::{SyncAnswer, SyncRequest};

use super::{QUAY, Scene, wiki_on};

/// A machine whose agent is the test: it says of itself whatever it likes.
pub struct Puppet {
    joiner: Joiner,
    own: Own,
    port: u16,
    schema: u32,
}

impl Puppet {
    fn join(place: &Place, name: &str) -> Self {
        Self::of(Joiner::join(&place.code(&[]), name, place.port), place.port)
    }

    pub fn of((joiner, issued): (Joiner, Issued), port: u16) -> Self {
        let own = joiner.own(&issued);
        Self { joiner, own, port, schema: SCHEMA }
    }

    pub fn sync(&self, report: Option<Report>, waits_for: Option<Digest>) -> SyncAnswer {
        let sealed = |report: Report| {
            Envelope::seal(Some(self.joiner.code.org), &report).unwrap().signed(&self.joiner.node_key).unwrap()
        };
        let request = SyncRequest {
            signers: 1,
            head: 0,
            digest: None,
            rivals: None,
            listed: 0,
            have: Vec::new(),
            waits_for,
            sighted: Vec::new(),
            suspended: None,
            tip: None,
            wait: Seconds(0),
            report: report.map(sealed),
        };
        let reply = Dial::to(self.port).with(&self.own).line().ask(Ask::Sync, &request).unwrap();
        assert_eq!(reply.code(), "ok", "{:?}", reply.body);
        serde_json::from_value(reply.body).unwrap()
    }

    /// The head in force, and the manifest that it gives this machine.
    fn offered(&self, place: &Place) -> (u64, Option<Digest>) {
        let answer = self.sync(None, None);
        let head: Head = SignedHead::open(&Thief::of(place).known().signers, &answer.head.unwrap()).unwrap().head;
        let manifest = match answer.listing {
            Some(Listing::Own { leaf: NodeLeaf { manifest: Meant::Own(digest), .. }, .. }) => Some(digest),
            Some(Listing::Own { class: Some(class), .. }) => Some(class.leaf.manifest),
            _ => None,
        };
        (head.version, manifest)
    }

    fn says(&self, version: u64, applied: Applied) {
        self.sync(
            Some(Report {
                node: self.joiner.name.clone(),
                node_key: self.joiner.node_key.public(),
                at: ground::clock::now(),
                head: Mark { version, digest: Digest([0; 32]) },
                schema: self.schema,
                applied,
                refused: None,
                agent: "0.1.0".to_owned(),
                trust: None,
                left: None,
                beside: None,
                programs: Vec::new(),
            }),
            None,
        );
    }

    /// Waits until a head newer than this is there, and says what came of it.
    fn meets(&self, place: &Place, after: u64, applied: impl Fn(Digest) -> Applied) {
        until("the head is published", || self.offered(place).0 > after);
        let (version, manifest) = self.offered(place);
        self.says(version, applied(manifest.unwrap()));
    }
}

fn settled(manifest: Digest) -> Applied {
    Applied::Settled { manifest }
}

fn on_trial(manifest: Digest) -> Applied {
    let deadline = ground::clock::now() + Seconds(300);
    Applied::OnTrial { manifest, previous: None, deadline, waits: vec!["an operator's word".to_owned()] }
}

/// `freehold publish` in the background; JSON comes at its end.
fn publishing(place: &Place, words: &[&str]) -> Child {
    let mut command = place.freehold_command(&[&["publish", "--yes", "--json"], words].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn output(publishing: Child) -> Output {
    publishing.wait_with_output().unwrap()
}

fn fate<'v>(told: &'v Value, node: &str) -> &'v Value {
    told["nodes"].as_array().unwrap().iter().find(|row| row["name"] == node).unwrap()
}

#[test]
fn three_real_agents_take_a_fleet_in_and_the_publish_ends_well() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let names = ["web-1", "web-2", "web-3"];
    let _agents: Vec<_> = names
        .iter()
        .map(|name| {
            scene.place.joined(name);
            scene.place.agent(name)
        })
        .collect();
    scene.declare(&format!("{QUAY}\nclasses:\n  web:\n    match: web-*\n    labels:\n      site: rack-1"));
    let told = json(&output(publishing(&scene.place, &["--wait", "60s"])));
    for name in names {
        assert_eq!(fate(&told, name)["state"], "confirmed", "{told}");
    }
    // A revocation is confirmed by the others, each by its own word.
    let revoked = scene.place.facts(&["node", "revoke", "web-3", "--yes", "--wait", "60s"]);
    assert_eq!(revoked["revoked"], true);
    let confirmed = revoked["confirmed"].as_array().unwrap();
    assert!(confirmed.contains(&"web-1".into()) && confirmed.contains(&"web-2".into()), "{revoked}");
    assert!(!confirmed.contains(&"web-3".into()), "{revoked}");
}

#[test]
fn a_publish_is_watched_until_everybody_stays_and_one_that_goes_back_is_told() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let puppet = Puppet::join(&scene.place, "web-1");
    scene.declare(&wiki_on("web-1"));
    let first = publishing(&scene.place, &["--wait", "20s"]);
    puppet.meets(&scene.place, 1, settled);
    let told = json(&output(first));
    assert_eq!(fate(&told, "web-1")["state"], "confirmed", "{told}");

    scene.declare(&wiki_on("web-1").replace("8080", "9090"));
    let second = publishing(&scene.place, &["--wait", "20s"]);
    puppet.meets(&scene.place, told["head"].as_u64().unwrap(), on_trial);
    puppet.meets(&scene.place, told["head"].as_u64().unwrap(), |manifest| Applied::RolledBack {
        manifest,
        to: None,
        at: ground::clock::now(),
        why: "check `wiki` failed".to_owned(),
    });
    let ended_badly = output(second);
    ended(&ended_badly, 4, "did not stay on `web-1`");
    let told: Value = serde_json::from_slice(&ended_badly.stdout).unwrap();
    assert_eq!(fate(&told, "web-1")["why"], "check wiki failed");
}

#[test]
fn an_operator_confirms_what_a_node_says_it_has_on_trial_and_nothing_else() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let puppet = Puppet::join(&scene.place, "web-1");
    scene.declare(&wiki_on("web-1"));
    scene.publish();
    let confirm = || scene.place.freehold(&["confirm", "web-1", "--yes"]);
    ended(&confirm(), 1, "has not reported anything yet");
    let (version, manifest) = puppet.offered(&scene.place);
    let manifest = manifest.unwrap();
    puppet.says(version, settled(manifest));
    ended(&confirm(), 1, "has nothing on trial");
    puppet.says(version, on_trial(manifest));
    assert!(puppet.sync(None, Some(manifest)).consent.is_none());
    succeeded(&confirm());
    let consent = puppet.sync(None, Some(manifest)).consent.unwrap();
    let signers: Vec<_> = Thief::of(&scene.place).known().signers.quorum.keys().into_iter().collect();
    let consent: Consent = consent.open_signed_by(Some(puppet.joiner.code.org), &signers).unwrap();
    assert_eq!(consent.manifest, manifest);
}

#[test]
fn the_next_version_exceeds_the_marks_that_members_report_and_no_liar_uses_them_up() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let (honest, liar) = (Puppet::join(&scene.place, "web-1"), Puppet::join(&scene.place, "web-2"));
    let refresh = || scene.place.freehold(&["refresh"]);
    succeeded(&refresh());
    assert_eq!(scene.head().version, 2);
    honest.says(500, Applied::Nothing);
    succeeded(&refresh());
    assert_eq!(scene.head().version, 501);
    // A claim beyond all bounds is not heeded, and hides no other one.
    honest.says(600, Applied::Nothing);
    liar.says(u64::MAX, Applied::Nothing);
    let told = refresh();
    succeeded(&told);
    assert!(stderr(&told).contains("`web-2` says that it has head 18446744073709551615"), "{}", stderr(&told));
    assert_eq!(scene.head().version, 601);
    // Nobody heeds a machine that was revoked.
    honest.says(700, Applied::Nothing);
    succeeded(&scene.place.freehold(&["node", "revoke", "web-1", "--yes"]));
    let after = scene.head().version;
    succeeded(&refresh());
    assert_eq!(scene.head().version, after + 1);
    assert_eq!(after, 701);
}

#[test]
fn machines_that_are_away_hold_nobody_up_for_ever_and_are_named() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.place.joined("web-1");
    scene.declare(&wiki_on("web-1"));
    let told = scene.place.facts(&["publish", "--yes", "--wait", "1s"]);
    assert_eq!(fate(&told, "web-1")["state"], "not_reached", "{told}");
}

#[test]
fn a_node_with_an_older_agent_holds_the_schema_back_and_is_named() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let mut old = Puppet::join(&scene.place, "web-1");
    old.schema = 1;
    old.says(1, Applied::Nothing);
    // Reports are written within a second.
    let reported = || scene.place.facts(&["node", "show", "web-1"])["report"]["schema"] == 1;
    until("the report is there", reported);
    let files = "    files:\n      motd:\n        content: hello";
    scene.declare(&format!("{QUAY}\nclasses:\n  web:\n    match: web-*\n{files}"));
    let told = scene.place.freehold(&["publish", "--yes", "--no-wait"]);
    ended(&told, 3, "held back by `web-1`");
    assert!(stderr(&told).contains("schema 1") && stderr(&told).contains("motd"), "{}", stderr(&told));
    assert_eq!(scene.head().version, 1, "nothing was published");
    // Without files it goes out in the words that the old one reads, and says who holds it back.
    scene.declare(&format!("{QUAY}\nclasses:\n  web:\n    match: web-*"));
    let told = scene.place.freehold(&["publish", "--yes", "--no-wait"]);
    succeeded(&told);
    assert!(stderr(&told).contains("web-1"), "{}", stderr(&told));
    let answer = old.sync(None, None);
    let manifest: Value = serde_json::from_slice(&answer.manifest.unwrap().0).unwrap();
    assert_eq!(manifest["schema"], 1);
}

#[test]
fn an_agent_without_tunnels_holds_back_what_is_said_of_them_and_keeps_its_words() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let mut old = Puppet::join(&scene.place, "web-1");
    old.schema = 2;
    old.says(1, Applied::Nothing);
    until("the report is there", || scene.place.facts(&["node", "show", "web-1"])["report"]["schema"] == 2);
    // It concerns another machine, and would be lost there.
    scene.declare(&format!(
        "{QUAY}\nclasses:\n  web:\n    match: web-*\n  lab:\n    match: lab-*\n    tunnel: {{socks: off}}"
    ));
    let told = scene.place.freehold(&["publish", "--yes", "--no-wait"]);
    ended(&told, 3, "held back by `web-1`");
    let words = stderr(&told);
    assert!(words.contains("it is said how tunnels behave on class `lab`, which takes manifest schema 3"), "{words}");
    assert!(words.contains("take `tunnel` out of the fleet"), "{words}");
    assert_eq!(scene.head().version, 1, "nothing was published");
    scene.declare(&format!("{QUAY}\nclasses:\n  web:\n    match: web-*"));
    std::fs::write(scene.place.path("fleet/more.yaml"), "roles: {node: {allow: pages}}\n").unwrap();
    succeeded(&scene.place.freehold(&["publish", "--yes", "--no-wait"]));
    let bytes = old.sync(None, None).manifest.unwrap().0;
    let manifest: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((&manifest["schema"], &manifest["access"]["targets"]["wiki"]["node"]), (&2.into(), &true.into()));
    assert!(manifest["access"]["targets"]["wiki"].get("port").is_none(), "{manifest}");
}

#[test]
fn a_manifest_that_is_too_large_for_one_call_arrives_whole() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let puppet = Puppet::join(&scene.place, "web-1");
    std::fs::create_dir_all(scene.place.path("fleet/files")).unwrap();
    let parts = (0..4).map(|n| {
        let name = format!("fleet/files/part-{n}");
        std::fs::write(scene.place.path(&name), vec![b'a' + n; 250 << 10]).unwrap();
        format!("      part-{n}:\n        from: files/part-{n}\n")
    });
    let files = parts.collect::<Vec<_>>().concat();
    scene.declare(&format!("{QUAY}\nclasses:\n  web:\n    match: web-*\n    files:\n{files}"));
    scene.publish();
    let answer = puppet.sync(None, None);
    let (bytes, Some(Listing::Own { class: Some(class), .. })) = (answer.manifest.unwrap().0, answer.listing) else {
        panic!("it is not listed");
    };
    assert!(bytes.len() > 1 << 20, "{}", bytes.len());
    assert_eq!(Digest::of(&bytes), class.leaf.manifest);
}
