//! Real repositories.

use std::path::Path;

use super::*;

fn run(folder: &Path, words: &[&str]) {
    let who = ["-c", "user.name=ann", "-c", "user.email=ann@harbor.example"];
    let done = Command::new("git").arg("-C").arg(folder).args(who).args(words).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn commit_tree_and_changes_are_those_of_the_folder() {
    let repo = tempfile::tempdir().unwrap();
    let fleet = repo.path().join("fleet");
    std::fs::create_dir(&fleet).unwrap();
    assert!(!look(&fleet).unwrap().versioned);

    run(repo.path(), &["init", "-q"]);
    std::fs::write(fleet.join("org.yaml"), "org: harbor\n").unwrap();
    let unborn = look(&fleet).unwrap();
    assert!(unborn.versioned && unborn.fleet.dirty && unborn.fleet.commit.is_none(), "{unborn:?}");

    run(repo.path(), &["add", "."]);
    run(repo.path(), &["commit", "-q", "-m", "first"]);
    let clean = look(&fleet).unwrap();
    assert!(!clean.fleet.dirty, "{clean:?}");
    let (commit, tree) = (clean.fleet.commit.unwrap(), clean.fleet.tree.unwrap());
    let asked = |revision: &str| words(&git(repo.path(), &["rev-parse", revision]).unwrap().stdout);
    assert_eq!(commit.to_string(), asked("HEAD"));
    assert_eq!(tree.to_string(), asked("HEAD:fleet"));
    assert_ne!(tree.to_string(), asked("HEAD^{tree}"));

    // What lies beside the folder is not its business; what lies in it is.
    std::fs::write(repo.path().join("notes"), "x").unwrap();
    assert!(!look(&fleet).unwrap().fleet.dirty);
    std::fs::write(fleet.join("more.yaml"), "nodes: {}\n").unwrap();
    assert_eq!(look(&fleet).unwrap().changed, ["fleet/more.yaml"]);
    // An ignored file is no change, unless it is read as a part of the fleet.
    std::fs::write(repo.path().join(".gitignore"), "more.yaml\n*.log\n").unwrap();
    run(repo.path(), &["add", ".gitignore"]);
    run(repo.path(), &["commit", "-q", "-m", "second"]);
    std::fs::write(fleet.join("x.log"), "x").unwrap();
    assert_eq!(look(&fleet).unwrap().changed, ["fleet/more.yaml"]);
    std::fs::remove_file(fleet.join("more.yaml")).unwrap();
    assert!(!look(&fleet).unwrap().fleet.dirty);
}
