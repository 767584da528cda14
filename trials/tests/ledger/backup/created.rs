//! Making a backup.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::Value;
use trials::place::{Place, Running, below, ended, json, mode, succeeded, text, until};

use super::{at, back_up, create, restore, verify};

const MACHINES: usize = 40;

#[test]
fn a_backup_made_while_machines_join_holds_and_has_everyone_who_was_in() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code_file = place.path("code");
    std::fs::write(&code_file, place.code(&["--uses", &MACHINES.to_string()])).unwrap();
    let mut waiting: Vec<String> = (1..=MACHINES).map(|number| format!("web-{number}")).collect();
    let (mut joining, mut joined) = (Vec::new(), BTreeSet::new());
    let mut backups = Vec::new();
    until("all have joined", || {
        while joining.len() < 6
            && let Some(node) = waiting.pop()
        {
            let words = ["join", "--name", &node, "--invite-file", &code_file.to_string_lossy()];
            let mut command = place.node_command(&node, &words);
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            joining.push((node, Running(child)));
        }
        if joined.len() >= 8 * (backups.len() + 1) && joining.len() == 6 {
            let sure = joined.clone();
            backups.push((back_up(&place, &format!("backup-{}", backups.len())), sure));
        }
        for (node, mut child) in std::mem::take(&mut joining) {
            match child.0.try_wait().unwrap() {
                None => joining.push((node, child)),
                Some(status) => assert!(status.success() && joined.insert(node)),
            }
        }
        joined.len() == MACHINES
    });
    assert!(backups.len() >= 3, "only {} backups were made under load", backups.len());
    for (number, (backup, sure)) in backups.iter().enumerate() {
        let report = json(&verify(&place, backup, &["--json"]));
        assert!(report["nodes"].as_u64().unwrap() > sure.len() as u64, "{report}");
        let home = place.path(&format!("restored-{number}"));
        succeeded(&restore(&place, backup, &home, &[]));
        assert_eq!(json(&at(&home, &["audit", "--verify", "--json"]))["ok"], true);
        let nodes = json(&at(&home, &["node", "list", "--json"]));
        let names: BTreeSet<String> = nodes.as_array().unwrap().iter().map(|row| text(row, "name")).collect();
        assert!(names.is_superset(sure), "{names:?} lacks some of {sure:?}");
    }
}

#[test]
fn a_backup_made_while_operators_work_has_all_that_they_had_seen() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                succeeded(&place.freehold(&["invite", "create"]));
            }
        });
        let backups: Vec<_> = (0..6).map(|number| create(&place, &place.path(&format!("backup-{number}")))).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        backups.iter().for_each(succeeded);
    });
    for number in 0..6 {
        succeeded(&verify(&place, &place.path(&format!("backup-{number}")), &[]));
    }
}

#[test]
fn a_backup_is_made_with_the_gateway_running_stopped_and_killed() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    place.joined("web-1");
    let entries = |name: &str| json(&verify(&place, &back_up(&place, name), &["--json"]))["entries"].clone();
    let running = entries("running");
    gateway.kill();
    assert_eq!(entries("killed"), running);
    assert_eq!(place.serve().stop(), Some(0));
    assert_eq!(entries("stopped"), running);
}

#[test]
fn nothing_in_it_can_be_read_without_the_passphrase_and_nobody_else_may_try() {
    let place = Place::founded(&["--node", "quay"]);
    place.invite(&["--label", "for the lighthouse"]);
    let backup = back_up(&place, "backup");
    assert_eq!(mode(&backup), 0o600);
    let bytes = std::fs::read(&backup).unwrap();
    let voice = std::fs::read(place.org().join("gateway/voice.key")).unwrap();
    let root = std::fs::read(place.org().join("operator/identity-root.key")).unwrap();
    let plain: [&[u8]; 8] =
        [b"harbor", b"quay", b"lighthouse", b"BEGIN", b"spiffe", b"SQLite format", &voice[..12], &root[60..90]];
    for words in plain {
        assert!(!bytes.windows(words.len()).any(|window| window == words), "`{}`", String::from_utf8_lossy(words));
    }
    assert!(bytes.starts_with(b"age-encryption.org/v1\n"), "people and `file` can see what it is");
}

#[test]
fn what_is_in_it_is_what_was_there_and_no_locks_or_sockets() {
    let place = Place::founded(&[]);
    std::fs::write(place.org().join("gateway/serve.toml"), "# mine\n").unwrap();
    let _gateway = place.serve();
    let spare = |domain: &str| place.org().join(format!("gateway/{domain}-issuer.spare.key"));
    until("it has drawn the keys that it keeps ready", || {
        ["identity", "endpoint"].iter().all(|one| spare(one).exists())
    });
    let backup = back_up(&place, "backup");
    let home = place.path("restored");
    succeeded(&restore(&place, &backup, &home, &[]));
    let inside = |folder: &std::path::Path| -> BTreeSet<String> {
        let org = folder.join("harbor");
        below(&org).iter().map(|path| path.strip_prefix(&org).unwrap().to_string_lossy().into_owned()).collect()
    };
    let (before, after) = (inside(&place.home()), inside(&home));
    // What strangers download is left to whoever released it.
    let lost = before.difference(&after).filter(|name| !name.starts_with("gateway/files"));
    // The gateway's own node writes down which roots it has taken, and its place in the org, when it first checks in.
    let lost = lost.filter(|name| !name.starts_with("gateway/node/trust/") && *name != "gateway/node/listing.json");
    let lost: Vec<_> = lost.map(String::as_str).collect();
    let passing = ["gateway/ledger.db-shm", "gateway/ledger.db-wal", "gateway/lock", "gateway/node/agent.sock"];
    let passing = [&passing[..], &["gateway/node/lock", "gateway/serving.json", "operator/files.lock"]].concat();
    // The next voice: one that is in no copy cannot be used from one.
    let passing = [&passing[..], &["gateway/voice.spare.key"]].concat();
    // Nothing is published, so these are empty folders.
    let passing = [&passing[..], &["gateway/node/state", "gateway/node/state/manifests"]].concat();
    assert!(lost.iter().all(|name| passing.contains(name)), "{lost:?}");
    assert!(after.is_subset(&before), "{:?}", after.difference(&before));
    assert!(after.contains("gateway/serve.toml") && after.contains("operator/signers/ann.key"));
    // The gateway's own node may have checked in since.
    let passing_on = ["gateway/ledger.db", "gateway/node/tip.json", "operator/backup.json"];
    for name in after {
        let (old, new) = (place.org().join(&name), home.join("harbor").join(&name));
        assert_eq!(mode(&old), mode(&new), "{name}");
        if new.is_symlink() {
            assert_eq!(std::fs::read_link(&old).unwrap(), std::fs::read_link(&new).unwrap(), "{name}");
        } else if new.is_file() && !passing_on.contains(&name.as_str()) {
            assert_eq!(std::fs::read(&old).unwrap(), std::fs::read(&new).unwrap(), "{name}");
        }
    }
}

#[test]
fn each_half_can_be_backed_up_where_it_is() {
    let place = Place::founded(&[]);
    let away = place.path("away");
    std::fs::rename(place.org().join("operator"), &away).unwrap();
    let gateway = json(&verify(&place, &back_up(&place, "gateway"), &["--json"]));
    assert_eq!(
        (&gateway["operator"], &gateway["gateway"], &gateway["nodes"]),
        (&false.into(), &true.into(), &1.into())
    );
    std::fs::rename(place.org().join("gateway"), place.path("gateway-away")).unwrap();
    std::fs::rename(&away, place.org().join("operator")).unwrap();
    let operator = json(&verify(&place, &back_up(&place, "operator"), &["--json"]));
    assert_eq!((&operator["operator"], &operator["gateway"]), (&true.into(), &false.into()));
    assert_eq!(
        (&operator["roots"], &operator["signers"][0], &operator["nodes"]),
        (&true.into(), &"ann".into(), &Value::Null)
    );
    succeeded(&restore(&place, &place.path("operator"), &place.path("restored"), &[]));
    assert!(!place.path("restored").join("harbor/gateway").exists());
}

#[test]
fn a_backup_is_never_written_over_a_file_or_without_a_passphrase() {
    let place = Place::founded(&[]);
    let backup = back_up(&place, "backup");
    let kept = std::fs::read(&backup).unwrap();
    ended(&create(&place, &backup), 2, "there already is a file");
    assert_eq!(std::fs::read(&backup).unwrap(), kept);
    let out = place.path("other").to_string_lossy().into_owned();
    ended(&place.freehold(&["backup", "create", "--out", &out]), 2, "no terminal to ask at");
    let empty = place.passphrase("empty");
    std::fs::write(&empty, "\n").unwrap();
    let no = place.freehold(&["backup", "create", "--out", &out, "--backup-passphrase-file", &empty]);
    ended(&no, 2, "empty");
    assert!(!place.path("other").exists());
    std::os::unix::fs::symlink("/etc/hostname", place.org().join("operator/out")).unwrap();
    ended(&create(&place, &place.path("other")), 1, "leads out of the org's folder");
    assert!(!place.path("other").exists());
    let left = below(&place.home())
        .into_iter()
        .filter(|path| path.to_string_lossy().contains("ledger.db.") || path.to_string_lossy().contains("draft"));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_person_types_the_passphrase_twice_and_may_not_leave_it_empty() {
    let place = Place::founded(&[]);
    let out = place.path("typed");
    let typed = |words: &str| {
        let (binary, home) = (trials::place::binary("freehold"), place.home());
        let line = format!("{} backup create --out {} --home {}", binary.display(), out.display(), home.display());
        let mut command = std::process::Command::new("script");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), words.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), trials::place::stdout(&output))
    };
    for (words, why) in [("one\ntwo\n", "the two passphrases differ"), ("\n", "an empty passphrase protects nothing")] {
        let (exit, told) = typed(words);
        assert_eq!(exit, Some(2), "{told}");
        assert!(told.contains(why) && !out.exists(), "{told}");
    }
    let (exit, told) = typed("correct horse\ncorrect horse\n");
    assert_eq!(exit, Some(0), "{told}");
    succeeded(&verify(&place, &out, &[]));
}
