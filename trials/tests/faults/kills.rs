//! SIGKILL at every step that changes what the disk says: founding, inviting, joining, renewing, revoking, restoring.
//! Running the command again ends it well.
//!
//! A killed process leaves what it wrote: the page cache outlives it. So the steps are the calls that change what
//! others see: `rename` puts a file or folder in place, `symlink` and `mkdir` make what is renamed or filled next,
//! `unlink` ends a secret, and `pwrite64` is SQLite's only way to its files. Killed before each of them, a command has
//! been stopped after each step that comes before it; a write into a draft is covered by the `rename` that follows.
//! strace counts per call and per thread: files are written by the main thread, the store by the ledger's.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use trials::client::joiner::Joiner;
use trials::faults::{Clock, Fault, inject, kill_at_each};
use trials::place::{Place, Running, below, json, output, stderr, succeeded, text, until};

use super::{agent, copy, counter, serve, start};

/// What calls change in a folder of files.
const STEPS: [&str; 4] = ["rename", "symlink", "mkdir", "unlink"];

fn found(place: &Place) -> Command {
    let address = place.address();
    place.freehold_command(&["found", "harbor", "--unprotected", "--advertise", &address])
}

/// Not every step: all but the last lie in a folder that nobody looks at, and a run that was killed there differs from
/// another only in how much of it is swept away.
#[test]
fn founding_killed_at_any_step_founds_nothing_or_all() {
    let mut kills = 0;
    for (call, step) in [("rename", 5), ("pwrite64", 11), ("mkdir", 5)] {
        let places = std::cell::RefCell::new(Vec::new());
        let begin = |_| {
            places.borrow_mut().push(Place::new());
            found(&places.borrow()[places.borrow().len() - 1])
        };
        kills += kill_at_each((call, step), begin, |when| {
            let place = places.borrow_mut().pop().unwrap();
            // The folder is the org only after the last rename.
            assert!(!place.org().exists(), "{call} {when}");
            succeeded(&output(found(&place)));
            check_founded(&place, call, when);
        });
    }
    assert!(kills > 15, "killed only {kills} times");
}

/// The steps at the very end, where the org comes into being.
#[test]
fn founding_killed_at_its_last_steps_founds_nothing_or_all() {
    let place = Place::new();
    let counted = count(&found(&place), "rename");
    for when in counted - 3..=counted {
        let place = Place::new();
        let killed = output(inject(&found(&place), "rename", Fault::Kill, &when.to_string()));
        assert!(!killed.status.success(), "not killed at rename {when}");
        assert!(!place.org().exists(), "it is not there before the last rename");
        succeeded(&output(found(&place)));
        check_founded(&place, "rename", when);
    }
}

fn check_founded(place: &Place, call: &str, when: usize) {
    let orgs: Vec<_> = std::fs::read_dir(place.home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let orgs: Vec<_> = orgs.iter().filter(|name| !name.to_string_lossy().ends_with(".lock")).collect();
    assert_eq!(orgs, ["harbor"], "{call} {when}: something half made is left");
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true, "{call} {when}");
    check_no_drafts(&place.home(), call, when);
}

/// How often a command makes this call in its main thread.
fn count(command: &Command, call: &str) -> usize {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-qq", "--seccomp-bpf", "-f", "-e"]).arg(format!("trace={call}")).arg("-o").arg(log.path()).arg("--");
    strace.arg(command.get_program()).args(command.get_args());
    strace.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    succeeded(&output(strace));
    std::fs::read_to_string(log.path()).unwrap().lines().filter(|line| line.contains(&format!(" {call}("))).count()
}

fn check_no_drafts(folder: &Path, call: &str, when: usize) {
    let is_left = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".draft") || name.contains(".wiped.")
    };
    let left: Vec<_> = below(folder).into_iter().filter(|path| is_left(path)).collect();
    assert!(left.is_empty(), "{call} {when}: left behind: {left:?}");
}

#[test]
fn inviting_killed_at_any_step_loses_no_invite_and_blocks_nobody() {
    let place = Place::founded(&[]);
    let mut kills = 0;
    // Every second write: a page goes with its header, and both or one of them without a commit are the same to SQLite.
    for (call, step) in [("rename", 1), ("pwrite64", 2)] {
        let create = |_| place.freehold_command(&["invite", "create", "--label", "rack 3"]);
        kills += kill_at_each((call, step), create, |when| {
            let made = place.facts(&["invite", "create", "--label", "again"]);
            let shown = place.facts(&["invite", "show", &text(&made, "id")]);
            assert_eq!((&shown["state"], &shown["spent"]), (&"open".into(), &0.into()), "{call} {when}");
        });
    }
    assert!(kills > 20, "killed only {kills} times");
    check_whole(&place);
    check_no_drafts(&place.home(), "all", 0);
    // What was signed before a kill was sent by the command that came next: each label once per run at most.
    let invites = place.facts(&["invite", "list"]);
    let mut labels: BTreeMap<String, usize> = BTreeMap::new();
    for invite in invites.as_array().unwrap() {
        *labels.entry(text(invite, "label")).or_default() += 1;
    }
    assert_eq!(labels["again"], kills, "{labels:?}");
    assert!(labels["rack 3"] <= kills + 2, "{labels:?}");
}

#[test]
fn revoking_killed_at_any_step_revokes_once_and_others_stay() {
    let place = Place::founded(&[]);
    let gateway = serve(&place, None);
    place.joined("stays");
    let code = place.code(&["--uses", "unlimited"]);
    for number in 0..90 {
        Joiner::join(&code, &format!("web-{number}"), place.port);
    }
    // Alone with the folder, so that the store is written by the process that is killed.
    assert_eq!(gateway.stop(), Some(0));
    let next = std::cell::Cell::new(0);
    let name = || format!("web-{}", next.get());
    let mut kills = 0;
    for (call, step) in [("rename", 1), ("pwrite64", 6)] {
        let revoke = |_| {
            next.set(next.get() + 1);
            place.freehold_command(&["node", "revoke", &name(), "--yes"])
        };
        kills += kill_at_each((call, step), revoke, |when| {
            // Again, as a person would: done by then, or done now.
            let again = place.freehold(&["node", "revoke", &name(), "--yes"]);
            let done = again.status.success() || stderr(&again).contains("already revoked");
            assert!(done, "{call} {when}: {}", stderr(&again));
        });
    }
    assert!(kills > 20, "killed only {kills} times");
    let nodes = place.facts(&["node", "list"]);
    let revoked = nodes.as_array().unwrap().iter().filter(|node| node["state"] == "revoked").count();
    assert_eq!(revoked, kills + 2, "each that was named, and nobody else");
    assert_eq!(place.state_of("stays").as_deref(), Some("member"));
    check_whole(&place);
    check_no_drafts(&place.home(), "all", 0);
}

#[test]
fn joining_killed_at_any_step_spends_one_use_and_ends_as_one_member() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let invite = place.invite(&["--uses", "200"]);
    let code_file = place.path("code");
    std::fs::write(&code_file, text(&invite, "code")).unwrap();
    let mut names = Vec::new();
    for call in STEPS {
        for when in 1.. {
            let name = format!("{call}-{when}");
            let words = ["join", "--name", &name, "--invite-file", code_file.to_str().unwrap()];
            let killed = output(inject(&place.node_command(&name, &words), call, Fault::Kill, &when.to_string()));
            names.push(name.clone());
            if killed.status.success() {
                break;
            }
            succeeded(&output(place.node_command(&name, &words)));
            assert_eq!(place.status(&name)["state"], "member", "{call} {when}");
            check_no_drafts(&place.scope(&name), call, when);
        }
    }
    assert!(names.len() > 40, "killed only {} times", names.len() - STEPS.len());
    check_members(&place, &text(&invite, "id"), &names);
}

/// The machine of a node that was replaced: its old keys go, and new ones come.
#[test]
fn coming_back_with_a_new_key_killed_at_any_step_ends_as_one_member() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let mut kills = 0;
    // Every fifth: the wipe of about eight secrets comes first, then a join like any other, which has a walk above.
    let prepare = |when| {
        let name = format!("web-{when}");
        place.joined(&name);
        let replaced = place.facts(&["node", "replace", &name, "--yes"]);
        std::fs::write(place.path(&name).join("code"), text(&replaced, "code")).unwrap();
        again(&place, &name)
    };
    kills += kill_at_each(("rename", 5), prepare, |when| {
        let name = format!("web-{when}");
        succeeded(&output(again(&place, &name)));
        let nodes = place.facts(&["node", "list"]);
        let states = nodes.as_array().unwrap().iter().filter(|node| node["name"] == *name);
        let mut states: Vec<String> = states.map(|node| text(node, "state")).collect();
        states.sort();
        assert_eq!(states, ["member", "revoked"], "rename {when}");
        check_no_drafts(&place.root(&name), "rename", when);
        assert!(!place.root(&name).join(".harbor.wiping").exists(), "rename {when}");
    });
    assert!(kills >= 4, "killed only {kills} times");
    check_whole(&place);
}

fn again(place: &Place, name: &str) -> Command {
    let code = place.path(name).join("code");
    place.node_command(name, &["join", "--name", name, "--invite-file", code.to_str().unwrap()])
}

#[test]
fn replacing_a_node_killed_at_any_step_is_done_by_the_next_run() {
    let place = Place::founded(&[]);
    let gateway = serve(&place, None);
    let code = place.code(&["--uses", "unlimited"]);
    for number in 1..=40 {
        Joiner::join(&code, &format!("web-{number}"), place.port);
    }
    assert_eq!(gateway.stop(), Some(0));
    let kills = kill_at_each(
        ("rename", 2),
        |when| place.freehold_command(&["node", "replace", &format!("web-{when}"), "--yes"]),
        |when| {
            let name = format!("web-{when}");
            let replaced = place.facts(&["node", "replace", &name, "--yes"]);
            assert_eq!(place.state_of(&name).as_deref(), Some("revoked"), "rename {when}");
            let invite = place.facts(&["invite", "show", &text(&replaced, "invite")]);
            assert_eq!((&invite["state"], &invite["names"][0]), (&"open".into(), &name.into()), "rename {when}");
        },
    );
    assert!(kills > 8, "killed only {kills} times");
    check_whole(&place);
}

#[test]
fn renewing_killed_at_any_step_raises_no_alarm_and_renews_later() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    place.joined("web-1");
    let clock = Clock::off(place.path("clock"), "+18h");
    let mut kills = 0;
    for call in STEPS {
        for when in 1..=40 {
            let before = counter(&place, "web-1");
            // It runs on once it has renewed: a later renewal is a step like any other, so only the first counts.
            let mut run = inject(
                &clock.under(place.node_command("web-1", &["run", "--every", "1s"])),
                call,
                Fault::Kill,
                &when.to_string(),
            );
            let mut child = Running(run.stderr(Stdio::null()).spawn().unwrap());
            let renewed = || counter(&place, "web-1") > before && !place.scope("web-1").join("pending.key").exists();
            until("it is killed or has renewed", || !matches!(child.0.try_wait(), Ok(None)) || renewed());
            let killed = !matches!(child.0.try_wait(), Ok(None));
            drop(child);
            let node = place.facts(&["node", "show", "web-1"]);
            assert!(node["alarm"].is_null(), "{call} {when}: {node}");
            if !killed {
                break;
            }
            kills += 1;
        }
        let before = counter(&place, "web-1");
        let running = agent(&place, "web-1", &clock);
        until("it renews when it is let", || counter(&place, "web-1") > before);
        assert_eq!(running.stop(), Some(0));
        check_no_drafts(&place.scope("web-1"), call, 0);
    }
    assert!(kills > 10, "killed only {kills} times");
    assert_eq!(place.facts(&["node", "list"]).as_array().unwrap().len(), 2);
    check_whole(&place);
}

#[test]
fn wiping_a_scope_killed_at_any_step_is_finished_by_the_next_run() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let invite = place.code(&["--uses", "unlimited"]);
    let mut kills = 0;
    for call in ["rename", "unlink", "unlinkat"] {
        let leave = |when| {
            let name = format!("{call}-{when}");
            succeeded(&place.join(&name, &invite));
            place.node_command(&name, &["leave", "--local", "--yes"])
        };
        kills += kill_at_each((call, 3), leave, |when| {
            let name = format!("{call}-{when}");
            succeeded(&place.node(&name, &["leave", "--local", "--yes"], ""));
            let left = below(&place.root(&name));
            let left: Vec<_> = left.iter().filter(|path| !path.ends_with(".harbor.joining")).collect();
            assert!(left.is_empty(), "{call} {when}: {left:?}");
            trials::place::ended(&place.node(&name, &["status"], ""), 1, "no org was joined");
        });
    }
    assert!(kills > 5, "killed only {kills} times");
    // A machine that does not come back to leave, but to join, finishes it too.
    succeeded(&place.join("web-1", &invite));
    let leave = place.node_command("web-1", &["leave", "--local", "--yes"]);
    output(inject(&leave, "rename", Fault::Kill, "2"));
    assert!(place.root("web-1").join(".harbor.wiping").exists() && !place.scope("web-1").exists());
    succeeded(&place.node("web-1", &["join", "--name", "web-2"], &invite));
    assert!(!place.root("web-1").join(".harbor.wiping").exists());
}

/// The gateway dies at each step of a commit, while a machine joins and another renews.
#[test]
fn a_gateway_killed_at_any_step_of_a_commit_opens_again_and_knows_who_joined() {
    let place = Place::founded(&[]);
    let invite = place.invite(&["--uses", "100"]);
    let code_file = place.path("code");
    std::fs::write(&code_file, text(&invite, "code")).unwrap();
    let ended = |running: &mut Running| !matches!(running.0.try_wait(), Ok(None));
    let mut names = Vec::new();
    let mut kills = 0;
    // A join is two commits of about 16 writes each, and a check-in is one of about 3; what its start writes comes
    // first. Every third covers each kind of place: header, page, last page.
    for when in (1..=60).step_by(3) {
        let listen = place.address();
        let command = place.freehold_command(&["serve", "--json", "--listen", &listen]);
        let (mut gateway, ready) = start(&place, inject(&command, "pwrite64", Fault::Kill, &when.to_string()));
        let name = format!("web-{when}");
        let code_file = code_file.to_str().unwrap();
        let words = ["join", "--name", &name, "--invite-file", code_file];
        let mut join = Running(place.node_command(&name, &words).stderr(Stdio::null()).spawn().unwrap());
        // It is killed amid the join, or the join is done before its number comes up.
        until("one of them ends", || ended(&mut gateway) || ended(&mut join));
        kills += usize::from(ended(&mut gateway) || !ready);
        drop(gateway);
        // The join goes on by itself with the gateway that comes.
        let gateway = serve(&place, None);
        assert_eq!(join.end().0, Some(0), "pwrite64 {when}");
        names.push(name);
        assert_eq!(gateway.stop(), Some(0));
    }
    assert!(kills >= 10, "killed only {kills} times");
    check_members(&place, &text(&invite, "id"), &names);
}

/// A backup of an org with one member and one open invite, and the command that brings it back into the place's home.
fn lost(place: &Place) -> impl Fn() -> Command {
    let gateway = serve(place, None);
    succeeded(&place.join("web-1", &place.code(&["--uses", "9", "--label", "open"])));
    assert_eq!(gateway.stop(), Some(0));
    let (backup, passphrase) = (place.path("backup"), place.passphrase("correct horse"));
    let backup = backup.to_string_lossy().into_owned();
    let with = ["--backup-passphrase-file".to_owned(), passphrase];
    succeeded(&place.freehold(&["backup", "create", "--out", &backup, &with[0], &with[1]]));
    std::fs::remove_dir_all(place.home()).unwrap();
    move || place.freehold_command(&["backup", "restore", &backup, &with[0], &with[1]])
}

/// The other chain has begun, once; the invite is good in it.
fn check_begun(place: &Place, case: &str) {
    let audit = place.facts(&["audit"]).to_string();
    assert_eq!(audit.matches("\"gateway.reopen\"").count(), 1, "{case}: {audit}");
    assert_eq!(place.facts(&["invite", "show", "open"])["state"], "open", "{case}");
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"), "{case}");
    check_whole(place);
    check_no_drafts(&place.home(), case, 0);
}

/// `ledger::backup::killed` looks at every step; here the command is run again, and what comes next follows.
#[test]
fn restoring_killed_at_any_step_is_done_by_the_next_run() {
    let place = Place::founded(&["--node", "quay"]);
    let restore = lost(&place);
    let mut kills = 0;
    for (call, step) in [("rename", 3), ("mkdir", 4), ("unlink", 5), ("pwrite64", 25)] {
        kills += kill_at_each(
            (call, step),
            |_| restore(),
            |when| {
                if !place.org().exists() {
                    succeeded(&output(restore()));
                }
                assert_eq!(place.facts(&["gateway", "reopen", "quay", "--yes"])["restored"], true, "{call} {when}");
                check_begun(&place, &format!("{call} {when}"));
                std::fs::remove_dir_all(place.home()).unwrap();
            },
        );
        std::fs::remove_dir_all(place.home()).unwrap();
    }
    assert!(kills > 12, "killed only {kills} times");
}

#[test]
fn reopening_killed_at_any_step_begins_another_chain_once() {
    let place = Place::founded(&["--node", "quay"]);
    succeeded(&output(lost(&place)()));
    std::fs::rename(place.home(), place.path("restored")).unwrap();
    let mut kills = 0;
    for (call, step) in [("rename", 1), ("pwrite64", 2)] {
        let begin = |_| {
            let _ = std::fs::remove_dir_all(place.home());
            copy(&place.path("restored"), &place.home());
            place.freehold_command(&["gateway", "reopen", "quay", "--yes"])
        };
        kills += kill_at_each((call, step), begin, |when| {
            let again = place.freehold(&["gateway", "reopen", "quay", "--yes"]);
            // Done by then and known to be, or done now.
            let done = again.status.success() || stderr(&again).contains("nothing is wrong with `quay`");
            assert!(done, "{call} {when}: {}", stderr(&again));
            check_begun(&place, &format!("{call} {when}"));
        });
    }
    assert!(kills > 10, "killed only {kills} times");
}

/// Each name is one member without an alarm, and each spent one use.
fn check_members(place: &Place, invite: &str, names: &[String]) {
    let nodes = place.facts(&["node", "list"]);
    let rows: Vec<&Value> = nodes.as_array().unwrap().iter().filter(|row| row["invite"] == invite).collect();
    for name in names {
        let of: Vec<_> = rows.iter().filter(|row| row["name"] == *name).collect();
        assert!(of.len() == 1 && of[0]["state"] == "member" && of[0]["alarm"].is_null(), "`{name}`: {of:?}");
    }
    assert_eq!((rows.len(), place.spent(invite)), (names.len(), names.len() as u64));
    check_whole(place);
}

fn check_whole(place: &Place) {
    let verdict = json(&place.freehold(&["audit", "--verify", "--json"]));
    assert_eq!((&verdict["ok"], &verdict["void"]), (&true.into(), &0.into()), "{verdict}");
}
