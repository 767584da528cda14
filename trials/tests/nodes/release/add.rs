//! `freehold release add`: what is read from a file, what is signed, by how many, and what a cut leaves.

use std::process::Stdio;

use serde_json::{Value, json};
use trials::faults::{Fault, SmallDisk, inject};
use trials::place::{Place, ended, output, stderr, stdout, succeeded, text};

use super::{Curl, agent, digests, files, hash_of, mach_o, made_up, pe, stored};

fn platforms(release: &Value) -> Vec<String> {
    let told = |agent: &Value| format!("{} {} {}", text(agent, "os"), text(agent, "arch"), text(agent, "version"));
    release["agents"].as_array().unwrap().iter().map(told).collect()
}

#[test]
fn a_release_grows_by_platform_and_the_head_names_it() {
    let place = Place::founded(&[]);
    ended(&place.freehold(&["release", "show"]), 1, "there is no release yet");
    assert_eq!(place.facts(&["release", "list"]), json!([]));
    // Without a gateway process, and through one.
    let first = place.facts(&["release", "add", &agent()])["release"].clone();
    let own = format!("linux {} {}", std::env::consts::ARCH, env!("CARGO_PKG_VERSION"));
    assert_eq!(platforms(&first), [own.as_str()]);
    assert_eq!(first["agents"][0]["sha256"], hash_of(&agent()));
    let _gateway = place.serve();
    let (mac, windows) = (made_up(&place, "mac", &mach_o(), "0.1.0"), made_up(&place, "windows.exe", &pe(), "0.1.1"));
    succeeded(&place.freehold(&["release", "add", &mac, &windows]));
    let newer = made_up(&place, "newer", &mach_o(), "0.2.0");
    succeeded(&place.freehold(&["release", "add", &newer]));
    let shown = place.facts(&["release", "show"]);
    assert_eq!((shown["number"].as_u64(), shown["current"].as_bool()), (Some(3), Some(true)));
    assert_eq!(platforms(&shown), [own, "macos aarch64 0.2.0".to_owned(), "windows x86_64 0.1.1".to_owned()]);
    assert!(digests(&shown).iter().all(|digest| stored(&place, digest)));
    let list = Curl::new(&place, &text(&shown, "list")).get(&place.path("list")).1;
    let expected: Vec<String> = std::iter::once("freehold-agents 1".to_owned())
        .chain(shown["agents"].as_array().unwrap().iter().map(|agent| {
            let word = |name: &str| agent[name].as_str().unwrap().to_owned();
            format!("{} {} {} {} {}", word("os"), word("arch"), word("sha256"), agent["size"], word("version"))
        }))
        .collect();
    assert_eq!(String::from_utf8(list).unwrap(), format!("{}\n", expected.join("\n")));
    assert_eq!(place.facts(&["release", "show", "1"])["agents"], first["agents"]);
    ended(&place.freehold(&["release", "show", "9"]), 1, "there is no release 9");
    assert_eq!(place.facts(&["release", "list"]).as_array().unwrap().len(), 3);
    let audit = place.facts(&["audit"]);
    let published = audit.as_array().unwrap().iter().filter(|line| line["action"] == "release.publish").count();
    assert_eq!(published, 3);
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
    // Other heads keep it.
    succeeded(&place.freehold(&["refresh"]));
    assert_eq!(place.facts(&["release", "show"])["number"], 3);
}

#[test]
fn what_is_no_agent_is_refused_with_a_reason() {
    let place = Place::founded(&[]);
    let written = |name: &str, bytes: &[u8]| {
        let path = place.path(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    };
    let elf = std::fs::read(agent()).unwrap();
    let library = mach_o().iter().enumerate().map(|(at, byte)| if at == 12 { 6 } else { *byte }).collect::<Vec<u8>>();
    for (file, why) in [
        (written("text", b"#!/bin/sh\necho hello\n"), "it is no program"),
        (written("empty", b""), "it is no program"),
        (written("cut", &elf[..48]), "it is cut off or damaged"),
        (written("fat", &[0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 2]), "split it first"),
        (written("library", &library), "it is a library"),
        (written("other", &mach_o()), "it does not say which version"),
        // Another program of ours: it knows how agents say their version, and says none.
        (trials::place::binary("freehold").to_string_lossy().into_owned(), "it does not say which version"),
        (place.path("nowhere").to_string_lossy().into_owned(), "No such file"),
    ] {
        let told = place.freehold(&["release", "add", &file]);
        assert_ne!(told.status.code(), Some(0), "{file}");
        assert!(stderr(&told).contains(why), "{file}: {}", stderr(&told));
    }
    let told = place.freehold(&["release", "add", &agent(), "--agent-version", "7.7.7"]);
    ended(&told, 2, "not 7.7.7");
    ended(&place.freehold(&["release", "add", &agent(), &agent()]), 2, "two of the files are for linux");
    assert_eq!(place.facts(&["release", "list"]), json!([]));
    let other = written("unmarked", &mach_o());
    let added = place.facts(&["release", "add", &other, "--agent-version", "0.9.0"]);
    assert_eq!(platforms(&added["release"]), ["macos aarch64 0.9.0"]);
}

#[test]
fn two_operators_sign_what_they_are_shown() {
    let place = Place::founded(&["--signers", "2-of-3", "--node", "quay"]);
    for (signer, home) in [("ann-2", "ben"), ("ann-3", "cat")] {
        let to = place.path(home).to_string_lossy().into_owned();
        succeeded(&place.freehold(&["signer", "hand-over", signer, "--to", &to]));
    }
    let _gateway = place.serve();
    let added = place.facts(&["release", "add", &agent()]);
    let file = text(&added["pending"], "file");
    assert_eq!(place.facts(&["release", "list"]), json!([]), "one alone publishes nothing");
    let shown = place.operator("ben", &["sign", "--show", &file]);
    for words in ["publishes release 1 of the agent", &hash_of(&agent()), "to name it"] {
        assert!(stderr(&shown).contains(words) || stdout(&shown).contains(words), "`{words}`: {}", stderr(&shown));
    }
    ended(&place.operator("ben", &["send", &file]), 5, "signatures and has 1");
    succeeded(&place.co_sign("ben", &file));
    succeeded(&place.operator("ben", &["send", &file]));
    assert_eq!(place.facts(&["release", "show"])["number"], 1);
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn what_was_given_up_before_it_was_sent_is_asked_for_again() {
    let place = Place::founded(&["--signers", "2-of-2"]);
    let added = place.facts(&["release", "add", &agent(), "--pending", "release.pending"]);
    assert!(added["pending"].is_null(), "both keys are here");
    let mac = made_up(&place, "mac", &mach_o(), "0.1.0");
    let to = place.path("ben").to_string_lossy().into_owned();
    succeeded(&place.freehold(&["signer", "hand-over", "ann-2", "--to", &to]));
    let _gateway = place.serve();
    let file = text(&place.facts(&["release", "add", &mac])["pending"], "file");
    succeeded(&place.co_sign("ben", &file));
    assert_eq!(place.facts(&["release", "prune", "--unused-for", "0s"])["files"], 2, "the agent and its list");
    let told = place.operator("ben", &["send", &file]);
    assert_ne!(told.status.code(), Some(0));
    assert!(stderr(&told).contains(&format!("file {}", hash_of(&mac))), "{}", stderr(&told));
    // Handed in again under the same hash, it can be sent.
    succeeded(&place.freehold(&["release", "add", &mac, "--pending", "again.pending"]));
    let list = text(&place.facts(&["release", "show"]), "list");
    assert!(stored(&place, &list));
    succeeded(&place.operator("ben", &["send", &file]));
    assert_eq!(place.facts(&["release", "show"])["number"], 2);
}

#[test]
fn an_upload_that_was_cut_goes_on_and_one_that_was_spoiled_begins_again() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let digest = hash_of(&agent());
    // The operator's tool dies while it sends.
    let mut command = place.freehold_command(&["release", "add", &agent()]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let part = files(&place).join(format!("{digest}.part"));
    trials::place::until("a part is there", || part.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!stored(&place, &digest));
    // So does the gateway, and a power cut spoils what it had.
    gateway.kill();
    let have = std::fs::metadata(&part).unwrap().len();
    assert!(have > 0);
    let mut bytes = std::fs::read(&part).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    let _gateway = place.serve();
    succeeded(&place.freehold(&["release", "add", &agent()]));
    assert!(stored(&place, &digest) && !part.exists());
    assert_eq!(hash_of(&files(&place).join(&digest).to_string_lossy()), digest);
}

#[test]
fn a_gateway_killed_at_any_write_of_a_file_keeps_none_that_is_wrong() {
    let place = Place::founded(&[]);
    let mac = made_up(&place, "mac", &mach_o(), "0.1.0");
    let digest = hash_of(&mac);
    let mut killed = 0;
    for (call, when) in [("rename", "1"), ("fsync", "1"), ("fsync", "2"), ("rename", "2"), ("openat", "60")] {
        let command = place.freehold_command(&["release", "add", &mac]);
        let ended = output(inject(&command, call, Fault::Kill, when));
        killed += usize::from(!ended.status.success());
        if stored(&place, &digest) {
            assert_eq!(hash_of(&files(&place).join(&digest).to_string_lossy()), digest);
        }
    }
    assert!(killed > 2, "only {killed} were killed");
    succeeded(&place.freehold(&["release", "add", &mac]));
    assert!(stored(&place, &digest));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn a_full_disk_is_told_and_what_fits_later_goes_in() {
    let place = Place::founded(&[]);
    std::fs::create_dir_all(files(&place)).unwrap();
    let disk = SmallDisk::at(files(&place), "8m");
    let large = place.path("large");
    let mut bytes = [mach_o(), b"freehold-node-version:0.1.0;".to_vec()].concat();
    bytes.resize(5 << 20, 7);
    std::fs::write(&large, bytes).unwrap();
    let large = large.to_string_lossy().into_owned();
    disk.leave(2 << 20);
    let told = place.freehold(&["release", "add", &large]);
    ended(&told, 1, "No space left on device");
    assert!(stderr(&told).contains("hint: "), "{}", stderr(&told));
    assert_eq!(place.facts(&["release", "list"]), json!([]));
    disk.make_room();
    succeeded(&place.freehold(&["release", "add", &large]));
    assert!(stored(&place, &hash_of(&large)));
}
