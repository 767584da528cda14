//! Restoring, and what holds a restored gateway back.

use std::process::Stdio;

use trials::place::{Place, Running, below, ended, json, refused, stderr, stdout, succeeded, text, until};

use super::{at, back_up, restore};

/// What the gateway's own machine is called.
fn name(place: &Place) -> String {
    let about = std::fs::read(place.org().join("gateway/gateway.json")).unwrap();
    text(&serde_json::from_slice(&about).unwrap(), "node")
}

#[test]
fn a_restored_gateway_issues_nothing_and_says_why() {
    let place = Place::founded(&[]);
    let code = place.code(&["--uses", "5", "--label", "lab"]);
    let gateway = place.serve();
    succeeded(&place.join("web-1", &code));
    let backup = back_up(&place, "backup");
    succeeded(&place.join("web-2", &code));
    assert_eq!(gateway.stop(), Some(0));
    std::fs::rename(place.home(), place.path("burnt")).unwrap();
    let told = stdout(&restore(&place, &backup, &place.home(), &[]));
    for words in ["is not in it", "NOT revoked here", "lab", "begin another chain"] {
        assert!(told.contains(words), "{told}");
    }
    let gateway = place.serve();
    let why = "the gateway was restored from a backup: it issues nothing until operators have it begin another chain";
    refused(&place.join("web-3", &code), why);
    assert!(!place.scope("web-3").exists());
    refused(&place.join("web-1", &code), why);
    // A machine that it does not know any more shows it its future; it stays what it was: restored.
    assert!(!place.join("web-2", &code).status.success());
    refused(&place.join("web-3", &code), why);
    refused(&place.freehold(&["invite", "create"]), "");
    assert_eq!(gateway.stop(), Some(0));
    // Also after a restart, which says where it came from; and it can be looked at.
    let log = place.path("log");
    let mut command = place.freehold_command(&["serve", "--listen", &place.address()]);
    let child = command.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let _gateway = Running(child);
    until("the gateway says so", || {
        let said = std::fs::read_to_string(&log).unwrap();
        said.contains("the gateway issues nothing") && said.contains(&*backup.to_string_lossy())
    });
    refused(&place.join("web-3", &code), why);
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn after_everything_was_lost_a_backup_and_another_chain_bring_the_org_back() {
    let place = Place::founded(&[]);
    let invite = place.invite(&["--uses", "5", "--label", "lab"]);
    let code = text(&invite, "code");
    let gateway = place.serve();
    succeeded(&place.join("web-1", &code));
    let backup = back_up(&place, "backup");
    succeeded(&place.join("web-2", &code));
    assert_eq!(gateway.stop(), Some(0));
    std::fs::remove_dir_all(place.home()).unwrap();
    let told = stdout(&restore(&place, &backup, &place.home(), &[]));
    let next = format!("Next: freehold gateway reopen {} --home {}", name(&place), place.home().display());
    assert!(told.trim_end().ends_with(&next), "{told}");
    let _gateway = place.serve();
    let join = place.join("web-3", &code);
    refused(&join, "the gateway was restored from a backup");
    assert!(stderr(&join).contains("freehold gateway reopen"), "{}", stderr(&join));

    let done = place.facts(&["gateway", "reopen", &name(&place), "--yes"]);
    assert_eq!((&done["restored"], &done["invites"][0]["uses"]), (&true.into(), &"4".into()), "{done}");
    assert_eq!(done["invites"][0]["id"], invite["id"]);
    succeeded(&place.join("web-3", &code));
    // Who was in the backup goes on; who came later comes again.
    succeeded(&place.join("web-1", &code));
    succeeded(&place.node("web-2", &["leave", "--local", "--yes"], ""));
    succeeded(&place.join("web-2", &code));
    for node in ["web-1", "web-2", "web-3"] {
        assert_eq!(place.state_of(node).as_deref(), Some("member"), "{node}");
    }
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn nothing_is_ever_restored_over_an_org() {
    let place = Place::founded(&[]);
    let backup = back_up(&place, "backup");
    let picture = || -> Vec<_> {
        let files = below(&place.home()).into_iter().filter(|path| path.is_file());
        files.map(|path| (std::fs::read(&path).unwrap(), path)).collect()
    };
    let before = picture();
    let again = restore(&place, &backup, &place.home(), &[]);
    refused(&again, "there already is an org `harbor`");
    assert!(stderr(&again).contains("--home DIR"), "{}", stderr(&again));
    assert_eq!(picture(), before);
    let home = place.path("elsewhere");
    succeeded(&restore(&place, &backup, &home, &[]));
    refused(&restore(&place, &backup, &home, &[]), "there already is an org `harbor`");
    let left: Vec<_> = std::fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "only the org and the lock: {left:?}");
}

#[test]
fn one_half_can_be_brought_back_alone() {
    let place = Place::founded(&[]);
    let backup = back_up(&place, "backup");
    let home = place.path("look");
    let told = json(&restore(&place, &backup, &home, &["--only", "operator", "--json"]));
    assert_eq!((&told["awaits_reopening"], &told["halves"][0]), (&serde_json::Value::Null, &"operator".into()));
    assert!(!home.join("harbor/gateway").exists());
    assert_eq!(text(&told, "folder"), home.join("harbor").to_string_lossy());
    // An operator's half works from there with the gateway where it always was.
    let _gateway = place.serve();
    succeeded(&at(&home, &["invite", "create", "--gateway", &place.address()]));
    ended(&restore(&place, &backup, &place.path("x"), &["--only", "moon"]), 2, "invalid value");
}
