//! Files that others can read, that are half there, or in which a byte flipped: refused by name, with a cure, and
//! never served.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trials::place::{Place, ended, json, output, stderr, stdout, succeeded, until};

use super::{copy, serve};

/// An org with a member and a stopped gateway.
fn scene() -> Place {
    let place = Place::founded(&[]);
    let gateway = serve(&place, None);
    place.joined("web-1");
    assert_eq!(gateway.stop(), Some(0));
    place
}

/// A key file, and a command that needs it.
fn keys(place: &Place) -> Vec<(PathBuf, Vec<&'static str>)> {
    let org = place.org();
    let serve = || vec!["freehold", "serve"];
    let run = || vec!["freehold-node", "run"];
    vec![
        (org.join("gateway/voice.key"), serve()),
        (org.join("gateway/identity-issuer.key"), serve()),
        (org.join("gateway/endpoint-issuer.key"), serve()),
        (org.join("operator/signers/ann.key"), vec!["freehold", "refresh"]),
        (place.scope("web-1").join("node.key"), run()),
        (place.scope("web-1").join("svids/1/svid.key"), run()),
    ]
}

fn run(place: &Place, words: &[&str]) -> std::process::Output {
    match words.split_first() {
        Some((&"freehold-node", words)) => output(place.node_command("web-1", words)),
        Some((_, words)) => output(place.freehold_command(words)),
        None => unreachable!("a command has words"),
    }
}

#[test]
fn a_key_that_others_can_read_is_refused_with_the_line_that_makes_it_private() {
    let place = scene();
    for (path, words) in keys(&place) {
        for mode in [0o644, 0o640, 0o604] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let told = run(&place, &words);
            let shown = format!("chmod 600 {}", path.display());
            ended(&told, 1, &shown);
            assert!(stderr(&told).contains(&format!("(mode {mode:o})")), "{}", stderr(&told));
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
    check_well(&place);
}

#[test]
fn a_key_that_is_half_there_is_named_and_nothing_is_done_with_it() {
    let place = scene();
    // One of an SVID is worth as much as none, and another is asked for: see `tunnel::services::surviving`.
    for (path, words) in keys(&place).into_iter().filter(|(path, _)| !path.ends_with("svid.key")) {
        let whole = std::fs::read(&path).unwrap();
        for half in [whole.len() / 2, 0] {
            std::fs::write(&path, &whole[..half]).unwrap();
            let told = run(&place, &words);
            // A signer's key is named by its folder.
            let named = if words.contains(&"refresh") { path.parent().unwrap() } else { &path };
            ended(&told, 1, &named.display().to_string());
            assert!(stderr(&told).contains("damaged"), "{}", stderr(&told));
            assert!(stderr(&told).contains("hint: "), "{}", stderr(&told));
            assert_eq!(std::fs::read(&path).unwrap(), whole[..half], "it is left as it is, for evidence");
        }
        std::fs::write(&path, whole).unwrap();
    }
    check_well(&place);
}

fn check_well(place: &Place) {
    let _gateway = serve(place, None);
    succeeded(&place.freehold(&["refresh"]));
    let running = place.agent("web-1");
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    assert_eq!(running.stop(), Some(0));
}

#[test]
fn a_store_that_was_cut_short_is_not_served() {
    let place = scene();
    let ledger = place.org().join("gateway/ledger.db");
    let whole = std::fs::read(&ledger).unwrap();
    let page = 4096;
    assert!(whole.len() > 8 * page);
    for left in [0, 100, page, whole.len() / 2, whole.len() - page, whole.len() - 1] {
        std::fs::write(&ledger, &whole[..left]).unwrap();
        let told = output(place.freehold_command(&["serve", "--listen", &place.address()]));
        assert_eq!(told.status.code(), Some(1), "{left} bytes: {}{}", stdout(&told), stderr(&told));
        let words = stderr(&told);
        assert!(words.contains("the ledger"), "{left} bytes: {words}");
        assert!(words.contains("put the newest good copy of it in its place"), "{left} bytes: {words}");
    }
    std::fs::write(&ledger, whole).unwrap();
    for side in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(place.org().join(format!("gateway/ledger.db{side}")));
    }
    check_well(&place);
}

/// What the gateway says to the world, apart from when it says it.
fn said(place: &Place) -> (Value, Value, Value) {
    let mut nodes = place.facts(&["node", "list"]);
    for node in nodes.as_array_mut().unwrap() {
        let fields = node.as_object_mut().unwrap();
        fields.retain(|name, _| {
            !["last_seen", "online_since", "svid_expires_at", "svid_serial", "report"].contains(&name.as_str())
        });
    }
    (place.facts(&["audit"]), nodes, place.facts(&["invite", "list"]))
}

#[test]
fn a_byte_that_flipped_in_the_store_is_noticed_or_harmless_and_never_served() {
    let place = scene();
    let truth = said(&place);
    let ledger = place.org().join("gateway/ledger.db");
    let whole = std::fs::read(&ledger).unwrap();
    let (mut refused, mut harmless) = (0, 0);
    // All over the file, by a step that is no divisor of anything: headers, cells, JSON, free space.
    let anywhere = (0..whole.len()).step_by(whole.len() / 64 + 13);
    for at in anywhere {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x04;
        let case = place.path(&format!("case-{at}"));
        std::fs::create_dir(&case).unwrap();
        copy(&place.home(), &case.join("home"));
        std::fs::write(case.join("home/harbor/gateway/ledger.db"), &bytes).unwrap();
        match serve_elsewhere(&place, &case) {
            Err(told) => {
                assert!(told.contains("the ledger") && told.contains("hint: "), "byte {at}: {told}");
                refused += 1;
            }
            Ok(told) => {
                assert_eq!(told, truth, "byte {at}: it serves what is not so");
                harmless += 1;
            }
        }
        std::fs::remove_dir_all(case).unwrap();
    }
    assert!(refused > 5, "{refused} refused, {harmless} harmless");
}

/// Serves a copy of the home for a moment: what it says, or why it does not.
fn serve_elsewhere(place: &Place, case: &Path) -> Result<(Value, Value, Value), String> {
    let home = case.join("home");
    let at = |words: &[&str]| {
        let mut command = std::process::Command::new(trials::place::binary("freehold"));
        command.args(words).arg("--home").arg(&home).env("USER", "ann").stdin(std::process::Stdio::null());
        command
    };
    let (mut running, ready) = super::start(place, at(&["serve", "--json", "--listen", &place.address()]));
    if !ready {
        let _ = running.0.wait();
        return Err(stderr(&output(at(&["serve", "--listen", &place.address()]))));
    }
    let told = |words: &[&str]| json(&output(at(&[words, &["--json"]].concat())));
    let mut nodes = told(&["node", "list"]);
    for node in nodes.as_array_mut().unwrap() {
        let fields = node.as_object_mut().unwrap();
        fields.retain(|name, _| {
            !["last_seen", "online_since", "svid_expires_at", "svid_serial", "report"].contains(&name.as_str())
        });
    }
    Ok((told(&["audit"]), nodes, told(&["invite", "list"])))
}
