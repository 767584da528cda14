//! One disk on two machines, and a disk put back from last week: the key is suspended, shown with evidence, and one
//! command cures it.

use std::process::{Command, Output};

use serde_json::Value;
use trials::faults::Clock;
use trials::place::{Place, Running, binary, ended, json, output, refused, stdout, succeeded, text, until};

use super::{agent, copy, counter, log_of, serve};

const CONFLICT: &str = "two machines use one node key, or a disk was restored";
const CURE: &str = "freehold node replace web-1";
/// Past half of an SVID's life, and before its end: the agent renews at once.
const LATER: &str = "+18h";

/// Renews once by a clock that runs ahead.
fn renewed(place: &Place, node: &str) {
    let before = counter(place, node);
    let clock = Clock::off(place.path("later"), LATER);
    let running = agent(place, node, &clock);
    until("it has renewed", || counter(place, node) > before);
    assert_eq!(running.stop(), Some(0));
}

fn problem(place: &Place, node: &str) -> String {
    place.status(node)["problem"].as_str().unwrap_or_default().to_owned()
}

fn shown(place: &Place) -> (Value, String) {
    (place.facts(&["node", "show", "web-1"]), stdout(&place.freehold(&["node", "show", "web-1"])))
}

#[test]
fn two_machines_with_one_disk_are_both_suspended_and_one_command_lets_one_go_on() {
    let place = Place::founded(&[]);
    let gateway = serve(&place, None);
    place.joined("web-1");
    copy(&place.root("web-1"), &place.root("copy"));
    renewed(&place, "web-1");
    let later = Clock::off(place.path("clock"), LATER);
    let clone = agent(&place, "copy", &later);
    until("the copy is told", || problem(&place, "copy").contains(CONFLICT));
    let original = place.agent("web-1");
    until("the original is told as well", || problem(&place, "web-1").contains(CONFLICT));
    for node in ["web-1", "copy"] {
        assert!(problem(&place, node).contains("freehold node replace NAME"), "{}", problem(&place, node));
    }
    check_evidence(&place);
    assert!(log_of(&place).contains(CONFLICT), "{}", log_of(&place));

    // It is on disk: another gateway process says the same.
    gateway.kill();
    let _gateway = serve(&place, None);
    for node in ["web-1", "copy"] {
        refused(&place.join(node, &place.code(&[])), CONFLICT);
    }

    let replaced = place.facts(&["node", "replace", "web-1", "--yes"]);
    assert!(text(&replaced, "line").ends_with("| freehold-node join --name web-1"), "{replaced}");
    for (node, running) in [("web-1", original), ("copy", clone)] {
        check_ended_as_revoked(node, running);
    }
    let code = text(&replaced, "code");
    succeeded(&run_line(&place, "web-1", &text(&replaced, "line")));
    // The other one has the same line and comes too late; nor does its old key help.
    refused(&place.node("copy", &["join", "--name", "web-1"], &code), "used up");
    let (node, words) = shown(&place);
    assert_eq!((text(&node, "state"), &node["alarm"]), ("member".to_owned(), &Value::Null), "{words}");
    let going_on = place.agent("web-1");
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    assert_eq!(place.status("web-1")["problem"], Value::Null);
    assert_eq!(going_on.stop(), Some(0));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

/// The line as it was printed, in a shell.
fn run_line(place: &Place, node: &str, line: &str) -> Output {
    let programs = binary("freehold-node");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).env("PATH", programs.parent().unwrap()).env("FREEHOLD_ROOT", place.root(node));
    output(shell)
}

/// Both numbers, both keys, both times, where they came from, and what to do.
fn check_evidence(place: &Place) {
    let (node, words) = shown(place);
    let (known, presented) = (&node["conflict"]["known"], &node["conflict"]["presented"]);
    assert_eq!((&known["counter"], &presented["counter"]), (&2.into(), &2.into()), "{node}");
    assert_ne!(text(known, "request"), text(presented, "request"), "each asked for a key of its own");
    for sighting in [known, presented] {
        assert_eq!(text(sighting, "source"), "127.0.0.1");
        for field in ["request", "at"] {
            assert!(words.contains(&text(sighting, field)), "`{field}` of {sighting} is not in: {words}");
        }
    }
    assert!(node["conflict"]["since"]["127.0.0.1"].is_string(), "{node}");
    assert!(words.contains("suspended") && words.contains(CURE), "{words}");
    let list = stdout(&place.freehold(&["node", "list"]));
    let row = list.lines().find(|line| line.starts_with("web-1")).unwrap();
    assert!(row.contains("suspended") && row.contains("ALARM"), "{list}");
}

fn check_ended_as_revoked(node: &str, running: Running) {
    let (exit, told) = running.end();
    assert_eq!(exit, Some(3), "{node}: {told}");
    assert!(told.contains("this machine's key was revoked"), "{node}: {told}");
}

#[test]
fn a_disk_put_back_from_last_week_is_noticed_at_the_next_renewal_and_cured_on_the_spot() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let invite = place.code(&["--give-label", "rack=3", "--give-role", "web"]);
    succeeded(&place.node("web-1", &["join", "--name", "web-1", "--label", "rack=3", "--role", "web"], &invite));
    copy(&place.root("web-1"), &place.path("last-week"));
    renewed(&place, "web-1");
    renewed(&place, "web-1");
    std::fs::remove_dir_all(place.root("web-1")).unwrap();
    std::fs::rename(place.path("last-week"), place.root("web-1")).unwrap();

    let clock = Clock::off(place.path("clock"), LATER);
    let restored = agent(&place, "web-1", &clock);
    until("the machine is told", || problem(&place, "web-1").contains(CONFLICT));
    let (node, words) = shown(&place);
    let (known, presented) = (node["conflict"]["known"]["counter"].as_u64(), &node["conflict"]["presented"]["counter"]);
    assert!(known >= Some(3) && *presented == 2, "{node}");
    assert!(words.contains(CURE), "{words}");
    refused(&place.join("web-1", &invite), CONFLICT);

    // The agent still runs when the line is run: it is waited for.
    let replaced = place.facts(&["node", "replace", "web-1", "--yes"]);
    let words = ["join", "--name", "web-1", "--label", "rack=3", "--role", "web"];
    succeeded(&place.node("web-1", &words, &text(&replaced, "code")));
    check_ended_as_revoked("web-1", restored);
    let node = place.facts(&["node", "show", "web-1"]);
    assert_eq!((text(&node, "state"), node["labels"][0].as_str()), ("member".to_owned(), Some("rack=3")));
    renewed(&place, "web-1");
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn replacing_works_again_after_it_broke_off_and_spares_the_gateway() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = serve(&place, None);
    refused(&place.freehold(&["node", "replace", "quay", "--yes"]), "is a gateway with a mandate");
    ended(&place.freehold(&["node", "replace", "web-1", "--yes"]), 1, "there is no node `web-1`");
    place.joined("web-1");
    ended(&place.freehold(&["node", "replace", "web-1"]), 2, "needs a yes");
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    // As if the first run had been cut off before it could show the line.
    succeeded(&place.freehold(&["node", "replace", "web-1", "--yes"]));
    let again = json(&place.freehold(&["node", "replace", "web-1", "--yes", "--json"]));
    assert_eq!(again["head"], Value::Null, "it was revoked before");
    succeeded(&place.node("web-1", &["join", "--name", "web-1"], &text(&again, "code")));
    assert_eq!(text(&place.facts(&["node", "show", "web-1"]), "state"), "member");
    // A fresh code alone wipes nobody: only a signed revocation does.
    let key = std::fs::read(place.scope("web-1").join("node.key")).unwrap();
    succeeded(&place.join("web-1", &place.code(&[])));
    assert_eq!(std::fs::read(place.scope("web-1").join("node.key")).unwrap(), key);
}
