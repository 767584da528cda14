//! Killed while it makes a backup or restores one, at one system call after the other: there is nothing, or all of it.

use std::path::Path;
use std::process::{Command, Stdio};

use trials::place::{Place, binary, json, output, succeeded};

use super::{RECIPIENT, at, back_up_to, identity};

/// Each of these changes something on disk; every STEP-th of them is the last that the process begins.
const CALLS: [(&str, usize); 7] =
    [("rename", 1), ("mkdir", 3), ("fsync", 17), ("fdatasync", 1), ("symlink", 2), ("unlink", 2), ("pwrite64", 15)];

#[test]
fn a_restore_that_is_killed_leaves_nothing_or_all_of_it() {
    let place = Place::founded(&[]);
    let (backup, identity) = (back_up_to(&place, "backup"), identity(&place));
    let home = place.path("restored");
    let (mut nothing, mut everything) = (0, 0);
    for (call, step) in CALLS {
        for number in (1..).step_by(step) {
            // What the dead one before left is in nobody's way.
            let words = ["restore", &backup.to_string_lossy(), "--identity", &identity];
            if !killed(&home, &words, (call, number)) {
                break;
            }
            if home.join("harbor").exists() {
                everything += 1;
                check_whole(&home);
                std::fs::remove_dir_all(&home).unwrap();
            } else {
                nothing += 1;
            }
        }
        check_whole(&home);
        std::fs::remove_dir_all(&home).unwrap();
    }
    assert!(nothing >= 20, "it was killed only {nothing} times before its end, and {everything} times after");
}

#[test]
fn a_backup_whose_making_is_killed_is_not_there_or_whole() {
    let place = Place::founded(&[]);
    let (backup, identity) = (place.path("backup"), identity(&place));
    let holds = || {
        succeeded(&place.freehold(&["backup", "verify", &backup.to_string_lossy(), "--identity", &identity]));
        std::fs::remove_file(&backup).unwrap();
    };
    let (mut nothing, mut everything) = (0, 0);
    for (call, step) in [("fsync", 1), ("linkat", 1), ("unlink", 1), ("rename", 1), ("write", 2), ("pwrite64", 11)] {
        for number in (1..).step_by(step) {
            let words = ["create", "--out", &backup.to_string_lossy(), "--to", RECIPIENT];
            if !killed(&place.home(), &words, (call, number)) {
                break;
            }
            if backup.exists() {
                everything += 1;
                holds();
            } else {
                nothing += 1;
            }
        }
        holds();
    }
    assert!(nothing >= 8 && everything >= 1, "{nothing} left nothing, {everything} left all");
    back_up_to(&place, "last");
    let left: Vec<_> = std::fs::read_dir(place.home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "the org and two locks: {left:?}");
}

/// True if it was killed; false if it got to its end before that call came so often.
fn killed(home: &Path, words: &[&str], (call, number): (&str, usize)) -> bool {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={number}")]);
    command.arg(binary("freehold")).arg("backup").args(words).arg("--home").arg(home);
    command.stdin(Stdio::null());
    let output = output(command);
    assert!(output.status.success() || output.status.code().is_none_or(|code| code == 137), "{output:?}");
    !output.status.success()
}

fn check_whole(home: &Path) {
    assert_eq!(json(&at(home, &["audit", "--verify", "--json"]))["ok"], true);
    let mark = rusqlite::Connection::open(home.join("harbor/gateway/ledger.db")).unwrap();
    let count: i64 =
        mark.query_row("SELECT count(*) FROM marks WHERE name = 'restored'", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1, "a restored ledger that does not know that it was");
    assert!(home.join("harbor/operator/signers/ann.key").exists());
}
