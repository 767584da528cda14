//! All signers are lost: two of the three phrases, a delay, alarms everywhere, and the org goes on.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::Value;
use trials::faults::Clock;
use trials::place::{Place, Running, ended, json, output, refused, stderr, succeeded, text, until};

/// An org with three machines, and its phrases.
fn fleet(delay: &str) -> (Place, Running, Vec<Running>, Vec<String>) {
    let (place, phrases) = Place::with_phrases(&["--recovery-delay", delay]);
    let gateway = place.serve();
    let agents = ["web-1", "web-2", "web-3"].map(|node| {
        place.joined(node);
        place.agent(node)
    });
    succeeded(&place.freehold(&["org", "card", "--out", "harbor.card"]));
    (place, gateway, agents.into(), phrases)
}

/// A private file with these phrases.
pub fn paper(place: &Place, name: &str, phrases: &[String]) -> String {
    let path = place.path(name);
    std::fs::write(&path, phrases.join("\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_string_lossy().into_owned()
}

pub fn problem(place: &Place, node: &str) -> String {
    place.status(node)["problem"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn two_of_three_phrases_replace_lost_signers_after_the_delay_and_everybody_hears_of_it() {
    let (place, _gateway, _agents, phrases) = fleet("20s");
    // The operator's machine is gone. What is left: a card, and the phrases.
    place.copy(&place.org().join("operator"), &place.path("lost"));
    std::fs::remove_dir_all(place.org().join("operator")).unwrap();
    let begin = |paper: &str| {
        let words = ["recover", "--card", "harbor.card", "--signer", "zoe", "--unprotected", "--yes", "--json"];
        place.operator("zoe", &[&words[..], &["--phrases-file", paper]].concat())
    };
    refused(&begin(&paper(&place, "one", &phrases[..1])), "2 phrases are needed, 1 were given");
    let twice = [phrases[0].clone(), phrases[0].clone()];
    refused(&begin(&paper(&place, "twice", &twice)), "the same phrase was given twice");
    let wrong = [phrases[0].clone(), phrases[1].replacen(' ', " abandon ", 1)];
    refused(&begin(&paper(&place, "wrong", &wrong)), "not the twelve words");

    let waiting = json(&begin(&paper(&place, "two", &phrases[1..])));
    assert_eq!((&waiting["state"], &waiting["signers"]), (&"waiting".into(), &serde_json::json!(["zoe"])));
    // Every machine shouts.
    for node in ["web-1", "web-2", "web-3"] {
        until("it shouts", || problem(&place, node).contains("recovery"));
    }
    let early = place.operator("zoe", &["invite", "create"]);
    assert!(!early.status.success(), "zoe is nobody yet: {}", stderr(&early));
    // No head lists the machines yet: whoever takes them over sees them first.
    let asked = place.operator("zoe", &["recover", "--wait"]);
    ended(&asked, 2, "this needs a yes");
    let shown = stderr(&asked);
    let told = shown.lines().find(|line| line.starts_with("They take over what the lost signers let in"));
    assert!(told.is_some_and(|line| line.contains("web-1, web-2, web-3")), "{shown}");
    let done = place.operator_facts("zoe", &["recover", "--wait", "--yes"]);
    assert_eq!(done["state"], "done", "{done}");
    for node in ["web-1", "web-2", "web-3"] {
        until("it follows the new signers", || {
            place.status(node)["head"] == done["head"] && place.status(node)["problem"] == Value::Null
        });
    }
    // The org goes on; the lost key is worth nothing.
    let invite = place.operator_facts("zoe", &["invite", "create"]);
    succeeded(&place.join("web-4", &text(&invite, "code")));
    succeeded(&place.operator("zoe", &["node", "revoke", "web-1", "--yes"]));
    std::fs::create_dir_all(place.path("thief/harbor")).unwrap();
    place.copy(&place.path("lost"), &place.path("thief/harbor/operator"));
    let thief = place.operator("thief", &["node", "list"]);
    assert!(!thief.status.success(), "the old key still opens doors");
    assert_eq!(place.operator_facts("zoe", &["audit", "--verify"])["ok"], true);
}

/// The clocks of the gateway, a machine and an operator are set ahead by more than the delay, while they run and before they
/// start again.
#[test]
fn a_clock_that_jumps_ahead_ends_no_delay_at_a_gateway_or_a_machine() {
    let (place, gateway, agents, phrases) = fleet("10m");
    drop((gateway, agents));
    let clock = Clock::new(place.path("clock"));
    let serve = || {
        let words = ["serve", "--json", "--listen", &place.address()];
        let mut child = clock.under(place.freehold_command(&words)).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
        assert!(line.contains("\"ready\""), "{line}");
        Running(child)
    };
    let run = || {
        let mut command = clock.under(place.node_command("web-1", &["run", "--every", "1s"]));
        Running(command.stderr(Stdio::null()).spawn().unwrap())
    };
    let (gateway, agent) = (serve(), run());
    let paper = paper(&place, "stolen", &phrases[..2]);
    let words = ["recover", "--card", "harbor.card", "--signer", "eve", "--unprotected", "--yes", "--json"];
    let begun = json(&place.operator("eve", &[&words[..], &["--phrases-file", &paper]].concat()));
    assert_eq!(begun["state"], "waiting");
    until("the machine shouts", || problem(&place, "web-1").contains("recovery"));
    clock.set("+30m");
    let ann = |words: &[&str]| succeeded(&output(clock.under(place.freehold_command(words))));
    // Whatever is written has the gateway look at the time: it still goes by whoever signed before, and so does her home.
    ann(&["invite", "create"]);
    drop((gateway, agent));
    let (_gateway, _agent) = (serve(), run());
    ann(&["invite", "create"]);
    until("the machine still shouts", || problem(&place, "web-1").contains("recovery"));
    ann(&["recover", "--cancel", "--yes"]);
    until("the machine is calm again", || !problem(&place, "web-1").contains("recovery"));
}

#[test]
fn the_signers_who_are_not_lost_stop_a_recovery() {
    let (place, _gateway, _agents, phrases) = fleet("10m");
    let paper = paper(&place, "stolen", &phrases[..2]);
    let words = ["recover", "--card", "harbor.card", "--signer", "eve", "--unprotected", "--yes", "--json"];
    let begun = json(&place.operator("eve", &[&words[..], &["--phrases-file", &paper]].concat()));
    assert_eq!(begun["state"], "waiting");
    // Every operator is told, whatever they came for.
    let list = place.freehold(&["node", "list"]);
    assert!(stderr(&list).contains("RECOVERY"), "{}", stderr(&list));
    until("the machines shout", || problem(&place, "web-2").contains("recovery"));
    // Nor can she drown the alarm in others.
    for more in ["eve-2", "eve-3", "eve-4", "eve-5"] {
        let words = ["recover", "--card", "harbor.card", "--unprotected", "--yes", "--json", "--signer", more];
        let begun = place.operator(more, &[&words[..], &["--phrases-file", &paper]].concat());
        if more == "eve-5" {
            refused(&begun, "4 recoveries wait already");
        } else {
            succeeded(&begun);
        }
    }
    a_card_cannot_backdate_it(&place);
    // She cannot make it come sooner, nor do anything meanwhile.
    ended(&place.operator("eve", &["refresh"]), 1, "no key of a current signer is here");
    let cancelled = place.facts(&["recover", "--cancel", "--yes"]);
    assert_eq!(cancelled["state"], "cancelled");
    until("the machines are calm again", || place.status("web-2")["problem"].is_null());
    refused(&place.operator("eve", &["node", "list"]), "no operator's signature");
    let again = place.operator("eve", &["recover"]);
    assert!(!again.status.success(), "{}", stderr(&again));
    succeeded(&place.freehold(&["invite", "create"]));
    refused(&place.freehold(&["recover", "--cancel", "--yes"]), "no recovery waits");
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

/// Whoever starts from a card counts from their own first sight.
fn a_card_cannot_backdate_it(place: &Place) {
    succeeded(&place.freehold(&["org", "card", "--out", "alarmed.card"]));
    let path = place.path("alarmed.card");
    let mut card: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for seen in card["known"]["steps"].as_array_mut().unwrap() {
        seen["since"] = "2001-01-01T00:00:00Z".into();
    }
    std::fs::write(&path, serde_json::to_vec(&card).unwrap()).unwrap();
    let words = ["signer", "new", "late", "--unprotected", "--card", "alarmed.card"];
    succeeded(&place.operator("late", &words));
    let known: Value =
        serde_json::from_slice(&std::fs::read(place.path("late/harbor/operator/known.json")).unwrap()).unwrap();
    let seen = known["steps"].as_array().unwrap();
    assert!(!seen.is_empty(), "the alarm itself is heard");
    assert!(seen.iter().all(|recovery| text(recovery, "since").as_str() > "2002"), "{seen:?}");
}
