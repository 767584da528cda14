//! Several operators, and copies of one operator's folder, at work at the same time.

use std::path::Path;
use std::process::{Command, Output};

use trials::place::{Place, binary, output, stderr, succeeded};

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

/// The operator's machine is another one than the gateway's, and the gateway is off.
#[test]
fn a_home_tells_what_it_knew_when_no_gateway_answers() {
    let place = Place::founded(&[]);
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
    let while_it_answers = told(&["node", "list"]);
    assert!(!stderr(&while_it_answers).contains("no gateway answers"), "{}", stderr(&while_it_answers));
    drop(gateway);
    let alone = told(&["node", "list"]);
    assert!(stderr(&alone).contains("no gateway answers: this is what this home knew at "), "{}", stderr(&alone));
    assert_eq!(names(&alone), names(&while_it_answers));
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
