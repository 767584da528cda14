//! `freehold-node sync` beside an agent and without one.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use org::report::{Applied, Report};
use trials::attack::thief::Thief;
use trials::client::stranger::Dial;
use trials::place::{Running, ended, mode, until};
use wire::control::{Call, ControlAnswer};

use super::{machine, not_synced, synced};
use crate::publishing::Scene;

const GOOD: &[&str] = &["labels: {site: rack-1}"];
const BAD: &[&str] = &["apply: {deadline: 3s}", "checks: {never: {command: [/bin/false], timeout: 1s}}"];

/// What nodes told the gateway that they are settled with.
fn reported(scene: &Scene) -> Vec<String> {
    let thief = Thief::of(&scene.place);
    let reply = thief.call(&mut Dial::to(scene.place.port).line(), &Call::Reports { after: 0 });
    let ControlAnswer::Reports { reports, .. } = serde_json::from_value(reply.body).unwrap() else {
        panic!("no reports");
    };
    let told = reports.iter().map(|view| view.report.peek::<Report>(Some(thief.known().org())).unwrap());
    let settled = told.filter_map(|report| match report.applied {
        Applied::Settled { manifest } if report.node.as_str() == "web-1" => Some(manifest.to_string()),
        _ => None,
    });
    settled.collect()
}

#[test]
fn without_an_agent_it_tries_confirms_goes_back_and_tries_again() {
    let scene = Scene::new();
    let gateway = scene.place.serve();
    scene.place.joined("web-1");
    scene.declare(&machine("web-1", GOOD));
    scene.publish();

    // A look changes nothing but the head that is known.
    let before = scene.place.status("web-1");
    let look = synced(&scene, "web-1", &["--dry-run"]);
    assert_eq!((&look["outcome"], &look["trial"]["confirm"]), (&"on_trial".into(), &"auto".into()), "{look}");
    assert!(look["changes"].to_string().contains("site"), "{look}");
    let after = scene.place.status("web-1");
    assert_eq!(after["applied"], before["applied"]);
    assert!(after["head"].as_u64() > before["head"].as_u64(), "the ratchet stays: {after}");

    let told = synced(&scene, "web-1", &[]);
    assert_eq!((&told["outcome"], &told["manifest"]), (&"settled".into(), &look["manifest"]), "{told}");
    assert_eq!(synced(&scene, "web-1", &["--dry-run"])["outcome"], "same");
    // The operators heard of it, although nobody stays to tell them.
    assert_eq!(reported(&scene), [told["manifest"].as_str().unwrap()]);

    scene.declare(&machine("web-1", BAD));
    scene.publish();
    let (back, why) = not_synced(&scene, "web-1", &[], 4);
    assert_eq!((&back["outcome"], &back["manifest"]), (&"went_back".into(), &told["manifest"]), "{back}");
    assert!(why.contains("never") && why.contains("--now"), "{why}");
    let failed = back["rolled_back"]["at"].clone();
    // Not by itself, and again when a person wants it.
    assert_eq!(synced(&scene, "web-1", &["--dry-run"])["outcome"], "not_again");
    assert_eq!(not_synced(&scene, "web-1", &[], 4).0["rolled_back"]["at"], failed);
    assert_eq!(synced(&scene, "web-1", &["--dry-run", "--now"])["outcome"], "on_trial");
    assert_ne!(not_synced(&scene, "web-1", &["--now"], 4).0["rolled_back"]["at"], failed);

    drop(gateway);
    ended(&scene.place.node("web-1", &["sync"], ""), 1, "cannot reach the gateway");
}

#[test]
fn beside_an_agent_it_asks_that_and_the_person_sets_the_time() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.place.joined("web-1");
    let _agent = scene.place.agent("web-1");
    scene.declare(&machine("web-1", GOOD));
    scene.publish();
    let good = synced(&scene, "web-1", &[]);
    assert_eq!(good["outcome"], "settled", "{good}");
    assert_eq!(scene.place.status("web-1")["running"], true, "the agent goes on");
    assert_eq!(synced(&scene, "web-1", &["--dry-run"])["outcome"], "same");

    scene.declare(&machine("web-1", BAD));
    scene.publish();
    let (back, _) = not_synced(&scene, "web-1", &[], 4);
    assert_eq!(back["manifest"], good["manifest"], "{back}");
    // Once more, with another time; what the person waits for is what the agent shows.
    let mut command = scene.place.node_command("web-1", &["sync", "--commit-timeout", "7m"]);
    let mut waiting = command.spawn().unwrap();
    let within = || {
        let trial = scene.place.status("web-1")["applied"]["trial"].clone();
        let time = |field: &str| trial[field].as_str().and_then(|at| at.parse::<identity::time::Timestamp>().ok());
        Some(time("deadline")?.since(time("started")?).0)
    };
    until("it is on trial for seven minutes", || within().is_some_and(|span| (415..=425).contains(&span)));
    // What was good comes back from the operators, and ends the wait.
    scene.declare(&machine("web-1", GOOD));
    scene.publish();
    assert!(waiting.wait().unwrap().success());
    assert_eq!(scene.place.status("web-1")["applied"]["confirmed"], good["manifest"]);
}

#[test]
fn whoever_says_nothing_on_the_socket_is_told_the_status() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.place.joined("web-1");
    let _agent = scene.place.agent("web-1");
    let path = scene.place.scope("web-1").join("agent.sock");
    until("the agent answers", || scene.place.status("web-1")["running"] == true);
    assert_eq!(mode(&path), 0o600);
    let told = |said: &[u8]| {
        use std::io::Write as _;
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(said).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    // As before there were lines; a line that is no request; one without an end; and a request.
    for said in [&b""[..], b"\n", b"{\"sync\":{\"how\":1}}\n", &[b'x'; 4096]] {
        assert_eq!(told(said)["name"], "web-1");
    }
    let answer = told(b"{\"sync\":{\"now\":true,\"within\":300}}\n");
    assert_eq!((&answer["failed"], &answer["status"]["name"]), (&serde_json::Value::Null, &"web-1".into()));
}

#[test]
fn whoever_breaks_off_leaves_a_trial_and_is_told_who_ends_it() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.place.joined("web-1");
    scene.declare(&machine("web-1", &["checks: {never: {command: [/bin/false], timeout: 1s}}"]));
    scene.publish();
    let mut command = scene.place.node_command("web-1", &["sync"]);
    let waiting = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let on_trial = || !scene.place.status("web-1")["applied"]["trial"].is_null();
    until("it is on trial", on_trial);
    // While one waits, another asks the same agent, which is in the first.
    assert_eq!(synced(&scene, "web-1", &["--dry-run"])["outcome"], "same");
    let pid = rustix::process::Pid::from_child(&waiting.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let (exit, told) = waiting.end();
    assert_eq!(exit, Some(1), "{told}");
    assert!(told.contains("nothing takes it back while no agent runs"), "{told}");
    assert!(on_trial(), "it waits on the disk");
    let (back, _) = not_synced(&scene, "web-1", &["--commit-timeout", "2s"], 4);
    assert!(!back["rolled_back"].is_null() && !on_trial(), "{back}");
}
