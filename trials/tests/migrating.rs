//! A ledger file of the first version is brought up to date by today's program, killed or not; a newer one is refused.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rusqlite::Connection;
use trials::fixture;
use trials::place::{Place, binary, ended, json, mode, output, refused, stderr, stdout, succeeded, text};

/// What the fixture holds, as the program that made it said.
const ENTRIES: i64 = 11;
const CURRENT: i64 = 6;

#[test]
fn a_ledger_of_the_first_version_is_copied_and_brought_up_to_date() {
    let place = first_version();
    let kept = place.org().join("gateway/ledger.db.v1.bak");
    let nodes = place.facts(&["node", "list"]);
    assert_eq!(number(&ledger(&place), "PRAGMA user_version"), CURRENT);
    assert_eq!((number(&kept, "PRAGMA user_version"), number(&kept, COUNT)), (1, ENTRIES));
    assert_eq!(mode(&kept), 0o600);
    let named = |row: &serde_json::Value| format!("{} {}", text(row, "name"), text(row, "state"));
    let states: Vec<_> = nodes.as_array().unwrap().iter().map(named).collect();
    assert_eq!(states, ["gw-1 member", "web-1 member", "web-2 revoked"]);
    let verdict = place.facts(&["audit", "--verify"]);
    assert_eq!((&verdict["ok"], verdict["entries"].as_i64()), (&true.into(), Some(ENTRIES)), "{verdict}");
    // Once is enough.
    let copies = || std::fs::read_dir(place.org().join("gateway")).unwrap().filter(ends_bak).count();
    assert_eq!(copies(), 1);
    succeeded(&place.freehold(&["node", "list"]));
    assert_eq!(copies(), 1);
}

#[test]
fn what_held_a_gateway_back_holds_it_back_in_the_new_version_too() {
    let place = first_version();
    Connection::open(ledger(&place)).unwrap().execute("INSERT INTO meta VALUES ('behind', 'yes')", []).unwrap();
    refused(&place.freehold(&["invite", "create"]), "older than what was shown to it");
    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM marks WHERE name = 'behind'"), 1);
    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM meta WHERE key = 'behind'"), 0);
}

#[test]
fn a_ledger_of_the_first_version_is_backed_up_as_it_is() {
    let place = first_version();
    let passphrase = place.passphrase("correct horse");
    let out = place.path("backup").to_string_lossy().into_owned();
    succeeded(&place.freehold(&["backup", "create", "--out", &out, "--backup-passphrase-file", &passphrase]));
    assert_eq!(number(&ledger(&place), "PRAGMA user_version"), 1, "making a backup changes nothing");
    let report = json(&place.freehold(&["backup", "verify", &out, "--backup-passphrase-file", &passphrase, "--json"]));
    assert_eq!((report["entries"].as_i64(), &report["nodes"]), (Some(ENTRIES), &2.into()));
}

#[test]
fn a_newer_ledger_is_refused_and_left_alone() {
    let place = Place::founded(&[]);
    Connection::open(ledger(&place)).unwrap().pragma_update(None, "user_version", CURRENT + 1).unwrap();
    let before = std::fs::read(ledger(&place)).unwrap();
    for words in [&["serve"][..], &["node", "list"], &["audit", "--verify"], &["invite", "create"]] {
        let no = place.freehold(words);
        ended(&no, 1, "was written by a newer freehold");
        for words in ["ledger.db", &format!("version {}", CURRENT + 1), "upgrade freehold on this machine"] {
            assert!(stderr(&no).contains(words), "{}", stderr(&no));
        }
    }
    assert_eq!(std::fs::read(ledger(&place)).unwrap(), before);
    assert!(stdout(&place.freehold(&["org", "list"])).contains("harbor"), "the list goes on without the count");
}

/// Each of these changes something on disk; every STEP-th of them is the last that the process begins.
const CALLS: [(&str, usize); 6] =
    [("pwrite64", 3), ("fdatasync", 1), ("fsync", 1), ("rename", 1), ("unlink", 1), ("ftruncate", 1)];

#[test]
fn killed_at_any_step_the_ledger_is_of_the_old_version_or_of_the_new_one() {
    let (mut old, mut between, mut new) = (0, 0, 0);
    for (call, step) in CALLS {
        for number_of_call in (1..).step_by(step) {
            let place = first_version();
            if !killed(&place, call, number_of_call) {
                break;
            }
            for entry in std::fs::read_dir(place.org().join("gateway")).unwrap().filter(ends_bak) {
                let kept = entry.unwrap().path();
                assert_eq!((number(&kept, "PRAGMA user_version"), number(&kept, COUNT)), (1, ENTRIES), "{kept:?}");
            }
            match number(&ledger(&place), "PRAGMA user_version") {
                1 => {
                    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM sqlite_master WHERE name = 'marks'"), 0);
                    old += 1;
                }
                // Each step is whole, and the next one follows at the next start.
                2 => {
                    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM sqlite_master WHERE name = 'marks'"), 1);
                    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM sqlite_master WHERE name = 'blobs'"), 0);
                    between += 1;
                }
                3 => {
                    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM sqlite_master WHERE name = 'blobs'"), 1);
                    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM sqlite_master WHERE name = 'claims'"), 0);
                    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM sqlite_master WHERE name = 'reuses'"), 0);
                    between += 1;
                }
                4 => {
                    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM sqlite_master WHERE name = 'claims'"), 1);
                    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM sqlite_master WHERE name = 'issuers'"), 0);
                    between += 1;
                }
                5 => {
                    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM sqlite_master WHERE name = 'issuers'"), 1);
                    assert_eq!(number(&ledger(&place), "SELECT count(*) FROM sqlite_master WHERE name = 'sights'"), 0);
                    between += 1;
                }
                CURRENT => {
                    assert_eq!(number(&place.org().join("gateway/ledger.db.v1.bak"), COUNT), ENTRIES);
                    new += 1;
                }
                other => panic!("killed at {call} {number_of_call}: version {other}"),
            }
            assert_eq!(place.facts(&["audit", "--verify"])["ok"], true, "killed at {call} {number_of_call}");
            assert_eq!(number(&ledger(&place), "PRAGMA user_version"), CURRENT);
        }
    }
    assert!(
        old >= 5 && between >= 1 && new >= 1,
        "killed {old} times before, {between} between and {new} after the steps"
    );
}

/// True if it was killed; false if it got to its end before that call came so often.
fn killed(place: &Place, call: &str, number: usize) -> bool {
    let mut command = std::process::Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={number}")]);
    command.arg(binary("freehold")).args(["node", "list", "--home"]).arg(place.home());
    let output = output_quietly(command);
    assert!(output.status.success() || output.status.code().is_none_or(|code| code == 137), "{output:?}");
    !output.status.success()
}

fn output_quietly(mut command: std::process::Command) -> std::process::Output {
    command.stdin(Stdio::null());
    output(command)
}

const COUNT: &str = "SELECT count(*) FROM entries";

fn first_version() -> Place {
    let place = Place::new();
    fixture::copy_folder(&fixture::v1("home"), &place.home());
    assert_eq!(number(&ledger(&place), "PRAGMA user_version"), 1);
    place
}

fn ledger(place: &Place) -> PathBuf {
    place.org().join("gateway/ledger.db")
}

fn number(path: &Path, query: &str) -> i64 {
    let db = Connection::open(path).unwrap();
    db.query_row(query, [], |row| row.get(0)).unwrap()
}

fn ends_bak(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| entry.path().extension().is_some_and(|ending| ending == "bak"))
}
