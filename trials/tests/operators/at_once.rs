//! Several operators, and copies of one operator's folder, at work at the same time.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use trials::place::{Place, binary, output, stderr, stdout, succeeded, until};

#[test]
fn two_operators_publish_at_once_and_nobody_is_accused() {
    let place = Place::founded(&["--signers", "1-of-2"]);
    let other = place.path("other-home");
    copy(&place.home().join("harbor/operator"), &other.join("harbor/operator"));
    std::fs::remove_file(place.home().join("harbor/operator/signers/ann-2.key")).unwrap();
    std::fs::remove_file(other.join("harbor/operator/signers/ann.key")).unwrap();
    check_at_once(&place, &[&place.home(), &other]);
    let actors = place.facts(&["audit"]);
    for actor in ["signer/ann", "signer/ann-2"] {
        let count = actors.as_array().unwrap().iter().filter(|line| line["actor"] == actor).count();
        assert!(count >= ROUNDS, "{actor} wrote {count} entries");
    }
}

#[test]
fn copies_of_one_operators_folder_work_side_by_side() {
    let place = Place::founded(&[]);
    let other = place.path("other-home");
    copy(&place.home().join("harbor/operator"), &other.join("harbor/operator"));
    check_at_once(&place, &[&place.home(), &other]);
}

const ROUNDS: usize = 6;

/// Every home refreshes and invites again and again; every command succeeds, and the history holds.
fn check_at_once(place: &Place, homes: &[&Path]) {
    let _gateway = place.serve();
    std::thread::scope(|scope| {
        for home in homes {
            for words in [&["refresh"][..], &["invite", "create"]] {
                scope.spawn(move || (0..ROUNDS).for_each(|_| succeeded(&run(place, home, words))));
            }
        }
    });
    // Two who sign the very same head in the same second have signed one head.
    let heads = usize::try_from(place.facts(&["refresh"])["head"].as_u64().unwrap()).unwrap();
    assert!((ROUNDS + 2..=homes.len() * ROUNDS + 2).contains(&heads), "{heads} heads");
    succeeded(&place.freehold(&["audit", "--verify"]));
}

fn run(place: &Place, home: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(binary("freehold"));
    command.args(words).arg("--home").arg(home).arg("--gateway").arg(place.address());
    output(command)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A command that only looks has its keys opened when a gateway is there to ask, and not before.
#[test]
fn who_only_looks_types_no_passphrase_where_no_gateway_answers() {
    let place = Place::new();
    let (address, passphrase) = (place.address(), place.passphrase("correct horse"));
    let founded = ["found", "harbor", "--advertise", &address, "--node", "laptop", "--passphrase-file", &passphrase];
    succeeded(&place.freehold(&founded));
    let home = place.path("laptop");
    copy(&place.home().join("harbor/operator"), &home.join("harbor/operator"));
    // Neither a terminal nor a file to read a passphrase from.
    let told = |words: &[&str]| {
        let mut command = Command::new(binary("freehold"));
        command.args(words).arg("--home").arg(&home).stdin(std::process::Stdio::null());
        output(command)
    };
    let gateway = place.serve();
    let asked = told(&["node", "list"]);
    assert_eq!(asked.status.code(), Some(2), "a gateway that answers hears a signature: {}", stderr(&asked));
    succeeded(&told(&["node", "list", "--passphrase-file", &passphrase]));
    drop(gateway);
    for words in [&["node", "list"][..], &["node", "show", "laptop"], &["status"], &["audit", "--verify"]] {
        let alone = told(words);
        succeeded(&alone);
        assert!(stderr(&alone).contains("no gateway answers: this is what this home knew at "), "{}", stderr(&alone));
    }
    assert_eq!(told(&["refresh"]).status.code(), Some(2), "whoever signs opens the key");
}

/// The operator's machine is another one than the gateway's, and the gateway is off.
#[test]
fn a_home_tells_what_it_knew_when_no_gateway_answers() {
    let place = Place::founded(&["--node", "laptop"]);
    let home = place.path("laptop");
    copy(&place.home().join("harbor/operator"), &home.join("harbor/operator"));
    let gateway = place.serve();
    place.joined("web-1");
    let told = |words: &[&str]| {
        let mut command = Command::new(binary("freehold"));
        command.args(words).arg("--home").arg(&home).arg("--json");
        output(command)
    };
    let names = |told: &Output| -> Vec<(String, String)> {
        succeeded(told);
        let nodes: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        let text = |node: &serde_json::Value, what: &str| node[what].as_str().unwrap().to_owned();
        nodes.as_array().unwrap().iter().map(|node| (text(node, "name"), text(node, "state"))).collect()
    };
    let fact = |words: &[&str]| trials::place::json(&told(words));
    let while_it_answers = told(&["node", "list"]);
    // What a gateway saw is its word, and told as that.
    let (shown, status) = (fact(&["node", "show", "web-1"]), fact(&["status"]));
    for told in [&shown, &status, &fact(&["node", "list"])[0]] {
        assert_eq!((&told["according_to"], &told["as_of"]), (&"laptop".into(), &serde_json::Value::Null), "{told}");
    }
    let in_words = place.freehold(&["node", "list"]);
    assert!(stdout(&in_words).lines().next().unwrap().contains("ONLINE*"), "{}", stdout(&in_words));
    assert!(stdout(&in_words).ends_with("\n* says the gateway `laptop`\n"), "{}", stdout(&in_words));
    let in_words = stdout(&place.freehold(&["node", "show", "web-1"]));
    for line in ["offline    last seen ", "svid       until "] {
        assert!(in_words.lines().any(|it| it.starts_with(line) && it.ends_with(", says `laptop`")), "{in_words}");
    }
    assert!(stdout(&place.freehold(&["status", "web-1"])).contains(", says `laptop`"));
    // Who is there, since when, and who is not.
    let online =
        || fact(&["node", "list"]).as_array().unwrap().iter().map(|node| node["online_since"].clone()).collect();
    let before: Vec<Value> = online();
    let agent = place.agent("web-1");
    until("it is online", || fact(&["node", "show", "web-1"])["online_since"].is_string());
    assert_eq!(fact(&["status"])["online"], 2, "the gateway's own node, too");
    let line = stdout(&place.freehold(&["node", "list"]));
    assert!(line.lines().any(|line| line.starts_with("web-1") && line.contains("  since 20")), "{line}");
    drop(agent);
    until("it is offline", || online() == before);
    assert!(!stderr(&while_it_answers).contains("no gateway answers"), "{}", stderr(&while_it_answers));
    drop(gateway);
    let alone = told(&["node", "list"]);
    assert!(stderr(&alone).contains("no gateway answers: this is what this home knew at "), "{}", stderr(&alone));
    assert_eq!(names(&alone), names(&while_it_answers));
    // Whoever reads JSON reads as of when.
    let (shown, status) = (fact(&["node", "show", "web-1"]), fact(&["status"]));
    for told in [&shown, &status, &fact(&["node", "list"])[0]] {
        assert!(told["according_to"].is_null() && told["as_of"].is_string(), "{told}");
    }
    for words in [&["status"][..], &["node", "show", "web-1"], &["invite", "list"], &["audit"], &["audit", "--verify"]]
    {
        succeeded(&told(words));
    }
    // Nothing is decided without one, and what takes one says so.
    let refused = told(&["node", "revoke", "web-1", "--yes"]);
    assert!(!refused.status.success() && stderr(&refused).contains("freehold serve"), "{}", stderr(&refused));
    // A copy that is damaged is made anew from any gateway.
    std::fs::write(home.join("harbor/operator/replica/ledger.db"), "not a ledger").unwrap();
    assert!(!told(&["node", "list"]).status.success(), "nothing is known without a copy");
    let _gateway = place.serve();
    place.joined("web-2");
    assert_eq!(names(&told(&["node", "list"])).len(), 3);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(home.join("harbor/operator/replica/ledger.db")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}
