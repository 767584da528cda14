//! Disks that are full, fail or cannot be written, at each commit: a clean error, nothing half written, and all works
//! again when there is room.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use trials::faults::{Clock, Fault, SmallDisk, inject};
use trials::place::{Place, Running, below, ended, json, stderr, succeeded, text, until};

use super::{agent, copy, counter, listening, log_of, serve};

/// What tmpfs gives: a file takes whole pages.
const PAGE: u64 = 4096;
const FULL: &str = "No space left on device";

/// A folder that is there already, moved to a small disk.
fn onto_a_small_disk(folder: &Path, size: &str) -> SmallDisk {
    let aside = folder.with_extension("aside");
    std::fs::rename(folder, &aside).unwrap();
    let disk = SmallDisk::at(folder.to_owned(), size);
    copy(&aside.join("."), folder);
    disk
}

#[test]
fn founding_on_a_full_disk_leaves_nothing_and_works_when_there_is_room() {
    let place = Place::new();
    let disk = SmallDisk::at(place.home(), "6m");
    let address = place.address();
    let found = || place.freehold(&["found", "harbor", "--unprotected", "--advertise", &address]);
    let mut failed = 0;
    for pages in (0..).step_by(12) {
        disk.leave(pages * PAGE);
        let told = found();
        if told.status.success() {
            break;
        }
        failed += 1;
        assert_eq!(told.status.code(), Some(1), "{pages}: {}", stderr(&told));
        let full = [FULL, "disk is full"].iter().any(|full| stderr(&told).contains(full));
        assert!(full && stderr(&told).contains("hint: "), "{pages}: {}", stderr(&told));
        let left = below(&place.home());
        let left: Vec<_> = left.iter().filter(|path| path.extension().is_none_or(|ending| ending != "lock")).collect();
        assert!(left.iter().all(|path| path.ends_with(".ballast")), "{pages}: {left:?}");
    }
    assert!(failed > 5, "it failed only {failed} times");
    // The home's own copy of the ledger wants room, too.
    disk.leave(2 << 20);
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn a_gateway_whose_disk_is_full_lets_nobody_in_and_goes_on_when_there_is_room() {
    let place = Place::founded(&[]);
    let disk = onto_a_small_disk(&place.org().join("gateway"), "6m");
    let gateway = serve(&place, None);
    let invite = place.invite(&["--uses", "2"]);
    succeeded(&place.join("web-1", &text(&invite, "code")));
    let before = place.facts(&["audit"]);
    disk.leave(0);
    let told = place.join("web-2", &text(&invite, "code"));
    ended(&told, 1, "the gateway could not do it");
    assert!(stderr(&told).contains("disk is full"), "{}", stderr(&told));
    assert!(log_of(&place).contains("could not be written; nothing of it was acknowledged"), "{}", log_of(&place));
    // With room for a part of a commit: what does not fit as a whole is not there at all.
    for pages in [0, 1, 2, 4] {
        disk.leave(pages * PAGE);
        let told = place.freehold(&["node", "revoke", "web-1", "--yes"]);
        ended(&told, 1, "disk is full");
        assert!(stderr(&told).contains("hint: "), "{}", stderr(&told));
    }
    disk.make_room();
    assert_eq!(place.facts(&["audit"]), before, "what was not acknowledged is not there");
    succeeded(&place.join("web-2", &text(&invite, "code")));
    assert_eq!(place.spent(&text(&invite, "id")), 2);
    // What was signed in vain is nowhere: it is signed again.
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    assert_eq!(place.state_of("web-1").as_deref(), Some("revoked"));
    let revoked = place.facts(&["audit", "--subject", "web-1"]);
    let revoked = revoked.as_array().unwrap().iter().filter(|line| line["action"] == "node.revoke").count();
    assert_eq!(revoked, 1);
    assert_eq!(gateway.stop(), Some(0));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn a_batch_that_the_disk_refuses_is_undone_as_a_whole() {
    let place = Place::founded(&[]);
    let invite = place.invite(&["--uses", "12"]);
    let code_file = place.path("code");
    std::fs::write(&code_file, text(&invite, "code")).unwrap();
    let listen = place.address();
    // One write in fifty fails: amid joins, whatever comes to be in a batch. The first twenty are its start.
    let command = place.freehold_command(&["serve", "--json", "--listen", &listen]);
    let gateway = listening(&place, inject(&command, "pwrite64", Fault::Fail("EIO"), "20+50"));
    let names: Vec<String> = (0..12).map(|number| format!("web-{number}")).collect();
    let join = |name: &String| {
        let words = ["join", "--name", name, "--invite-file", code_file.to_str().unwrap()];
        Running(place.node_command(name, &words).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    };
    let running: Vec<Running> = names.iter().map(join).collect();
    let joined: Vec<bool> = running.into_iter().map(|running| running.end().0 == Some(0)).collect();
    assert!(log_of(&place).contains("nothing of it was acknowledged"), "the disk did not fail: {}", log_of(&place));
    // What was acknowledged is on the disk, also for a process that starts anew; the others are not half in.
    gateway.kill();
    let _gateway = serve(&place, None);
    for (name, joined) in names.iter().zip(&joined) {
        if *joined {
            assert_eq!(place.state_of(name).as_deref(), Some("member"), "`{name}` was told that it is in");
        }
        succeeded(&place.join(name, &text(&invite, "code")));
    }
    let nodes = place.facts(&["node", "list"]);
    let rows = nodes.as_array().unwrap().iter().filter(|row| row["invite"] == invite["id"]);
    let ok = |row: &&Value| row["state"] == "member" && row["alarm"].is_null();
    assert_eq!((rows.filter(ok).count(), place.spent(&text(&invite, "id"))), (12, 12), "{nodes}");
    let verdict = json(&place.freehold(&["audit", "--verify", "--json"]));
    assert_eq!((&verdict["ok"], &verdict["void"]), (&true.into(), &0.into()), "{verdict}");
}

#[test]
fn a_machine_whose_disk_is_full_at_any_point_of_its_join_finishes_it_when_there_is_room() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let invite = place.invite(&["--uses", "unlimited"]);
    let mut members = 0;
    for pages in 0.. {
        let name = format!("web-{pages}");
        let disk = SmallDisk::at(place.root(&name), "400k");
        disk.leave(pages * PAGE);
        let told = place.join(&name, &text(&invite, "code"));
        members += 1;
        if told.status.success() {
            break;
        }
        ended(&told, 1, FULL);
        assert!(stderr(&told).contains("make room on that disk"), "{}", stderr(&told));
        disk.make_room();
        succeeded(&place.join(&name, &text(&invite, "code")));
        assert_eq!(place.status(&name)["state"], "member");
        let drafts = below(&place.root(&name)).into_iter().filter(|path| path.to_string_lossy().ends_with(".draft"));
        assert_eq!(drafts.count(), 0, "{pages}");
    }
    assert!(members > 8, "it failed only {} times", members - 1);
    assert_eq!(place.spent(&text(&invite, "id")), members);
    let nodes = place.facts(&["node", "list"]);
    assert!(nodes.as_array().unwrap().iter().all(|node| node["alarm"].is_null()), "{nodes}");
}

#[test]
fn a_machine_whose_disk_is_full_when_it_renews_says_so_and_renews_when_there_is_room() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    place.joined("web-1");
    let disk = onto_a_small_disk(&place.root("web-1"), "400k");
    let clock = Clock::new(place.path("clock"));
    let running = agent(&place, "web-1", &clock);
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    // With room for less than an SVID each time: at the key, at the certificate, at the link.
    for (pages, by) in [(0, "+18h"), (1, "+14h"), (2, "+22h"), (3, "+16h")] {
        let before = counter(&place, "web-1");
        disk.leave(pages * PAGE);
        clock.set(by);
        until("it says so, or has renewed", || {
            let told = place.status("web-1")["problem"].as_str().unwrap_or_default().to_owned();
            told.contains(FULL) || counter(&place, "web-1") > before
        });
        disk.make_room();
        until("it has renewed", || counter(&place, "web-1") > before);
        clock.set("+0");
        until("all is well", || place.status("web-1")["problem"].is_null());
    }
    assert_eq!(running.stop(), Some(0));
    let node = place.facts(&["node", "show", "web-1"]);
    assert!(node["alarm"].is_null(), "{node}");
}

#[test]
fn an_operator_whose_disk_is_full_signs_nothing_that_is_forgotten() {
    let place = Place::founded(&[]);
    let disk = onto_a_small_disk(&place.org().join("operator"), "4m");
    let mut failed = 0;
    for pages in (0..48).step_by(4) {
        let before = place.facts(&["invite", "list"]).as_array().unwrap().len();
        disk.leave(pages * PAGE);
        let told = place.freehold(&["invite", "create"]);
        disk.make_room();
        if told.status.success() {
            break;
        }
        failed += 1;
        assert_eq!(told.status.code(), Some(1), "{}", stderr(&told));
        let full = [FULL, "disk is full", "disk I/O error"].iter().any(|full| stderr(&told).contains(full));
        assert!(full && stderr(&told).contains("make room on that disk"), "{}", stderr(&told));
        succeeded(&place.freehold(&["invite", "create"]));
        let after = place.facts(&["invite", "list"]).as_array().unwrap().len();
        assert!((1..=2).contains(&(after - before)), "{pages}: {before} invites became {after}");
    }
    assert!(failed >= 2, "it failed only {failed} times");
    let verdict = json(&place.freehold(&["audit", "--verify", "--json"]));
    assert_eq!((&verdict["ok"], &verdict["void"]), (&true.into(), &0.into()), "{verdict}");
}

#[test]
fn a_folder_that_cannot_be_written_is_said_to_be_so() {
    let place = Place::founded(&[]);
    let gateway = serve(&place, None);
    place.joined("web-1");
    assert_eq!(gateway.stop(), Some(0));
    let home = onto_a_small_disk(&place.home(), "8m");
    let root = onto_a_small_disk(&place.root("web-1"), "1m");
    home.read_only(true);
    root.read_only(true);
    for words in [&["serve"][..], &["invite", "create"], &["found", "second", "--unprotected", "--another", "--yes"]] {
        let told = place.freehold(words);
        ended(&told, 1, "Read-only file system");
        assert!(stderr(&told).contains("mounted read-only"), "{words:?}: {}", stderr(&told));
    }
    let told = place.node("web-1", &["run"], "");
    ended(&told, 1, "Read-only file system");
    assert!(stderr(&told).contains("mounted read-only"), "{}", stderr(&told));
    assert_eq!(place.status("web-1")["state"], "member", "looking needs no writing");
    home.read_only(false);
    root.read_only(false);
    let _gateway = serve(&place, None);
    succeeded(&place.freehold(&["invite", "create"]));
    let running = place.agent("web-1");
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    assert_eq!(running.stop(), Some(0));
}
