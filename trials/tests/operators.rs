//! Several operators, and copies of one operator's folder, at work at the same time.

use std::path::Path;
use std::process::{Command, Output};

use trials::place::{Place, binary, output, succeeded};

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
