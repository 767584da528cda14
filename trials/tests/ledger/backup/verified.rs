//! Checking a backup, whole and damaged.

use trials::place::{Place, ended, json, stderr, stdout, text};

use super::{back_up, back_up_to, identity, restore, verify};

#[test]
fn a_check_says_what_would_come_back() {
    let place = Place::founded(&["--signers", "1-of-2"]);
    let open = place.invite(&["--uses", "3", "--label", "lab"]);
    let closed = text(&place.invite(&[]), "id");
    let gateway = place.serve();
    let used_up = place.code(&[]);
    assert!(place.join("web-1", &used_up).status.success());
    assert!(place.freehold(&["invite", "revoke", &closed, "--yes"]).status.success());
    assert_eq!(gateway.stop(), Some(0));
    let backup = back_up(&place, "backup");
    let report = json(&verify(&place, &backup, &["--json"]));
    assert_eq!(report["org_id"], place.facts(&["org", "list"])[0]["org_id"]);
    assert_eq!((&report["head"], &report["nodes"], &report["roots"]), (&2.into(), &2.into(), &true.into()));
    assert_eq!(report["entries"], place.facts(&["audit", "--verify"])["entries"]);
    assert_eq!(report["signers"].as_array().unwrap().len(), 2);
    assert_eq!(report["open_invites"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!((&report["open_invites"][0]["id"], &report["open_invites"][0]["uses_left"]), (&open["id"], &3.into()));
    let told = stdout(&verify(&place, &backup, &[]));
    for words in ["backup of `harbor`, made at", "head      2", "2 nodes, 1 open invites", "all of it holds"] {
        assert!(told.contains(words), "{told}");
    }
}

fn flipped(whole: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    bytes[at] ^= 0x10;
    bytes
}

/// Another letter, where a letter stands.
fn swapped(whole: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
    bytes
}

#[test]
fn every_damage_of_its_beginning_is_named_and_nothing_is_restored_from_it() {
    let place = Place::founded(&[]);
    let backup = back_up(&place, "backup");
    let whole = std::fs::read(&backup).unwrap();
    let damaged = place.path("damaged");
    let home = place.path("restored");
    let check = |bytes: &[u8], words: &str| {
        std::fs::write(&damaged, bytes).unwrap();
        ended(&verify(&place, &damaged, &[]), 1, words);
        ended(&restore(&place, &damaged, &home, &[]), 1, words);
        assert!(!home.join("harbor").exists());
    };
    check(b"", "not a backup of freehold");
    check(&whole[..40], "not a backup of freehold");
    check(&flipped(&whole, 3), "not a backup of freehold");
    check(&flipped(&whole, 20), "newer freehold");
    check(&flipped(&whole, 56), "its header is malformed");
    // The salt, and the wrapped key.
    for at in [40, 60] {
        check(&swapped(&whole, at), "the passphrase is wrong, or the beginning of the file was changed");
    }
    // The MAC.
    check(&swapped(&whole, 120), "the beginning of the file was changed");
    assert!(verify(&place, &backup, &[]).status.success(), "the whole one still holds");
}

#[test]
fn every_damage_is_named_and_nothing_is_restored_from_it() {
    let place = Place::founded(&[]);
    let (backup, identity) = (back_up_to(&place, "backup"), identity(&place));
    let whole = std::fs::read(&backup).unwrap();
    let damaged = place.path("damaged");
    let home = place.path("restored");
    let check = |bytes: &[u8], words: &str| {
        std::fs::write(&damaged, bytes).unwrap();
        for doing in ["verify", "restore"] {
            let file = damaged.to_string_lossy();
            ended(&super::at(&home, &["backup", doing, &file, "--identity", &identity]), 1, words);
        }
        assert!(!home.join("harbor").exists());
    };
    // Version, stanza and MAC are 168 bytes of text; then the nonce.
    check(&flipped(&whole, 170), "the part from byte 184 on is damaged");
    check(&flipped(&whole, 200), "the part from byte 184 on is damaged");
    check(&flipped(&whole, 70_000), "the part from byte 65736 on is damaged");
    check(&flipped(&whole, whole.len() - 1), "on is damaged");
    check(&whole[..180], "the part from byte 168 on is damaged");
    check(&whole[..184], "the part from byte 184 on is damaged");
    check(&whole[..65_736], "on is damaged");
    check(&whole[..whole.len() - 1], "on is damaged");
    check(&[&whole[..], b"more"].concat(), "on is damaged");
    let holds = ["backup", "verify", &backup.to_string_lossy(), "--identity", &identity];
    assert!(place.freehold(&holds).status.success(), "the whole one still holds");
}

#[test]
fn a_wrong_passphrase_opens_nothing() {
    let place = Place::founded(&[]);
    let backup = back_up(&place, "backup").to_string_lossy().into_owned();
    let wrong = place.passphrase("battery staple");
    for words in ["verify", "restore"] {
        let home = place.path("elsewhere");
        let output = super::at(&home, &["backup", words, &backup, "--backup-passphrase-file", &wrong]);
        ended(&output, 1, "the passphrase is wrong");
        assert!(stderr(&output).contains("try the passphrase again"), "{}", stderr(&output));
        assert!(!home.exists());
    }
}

#[test]
fn a_ledger_that_does_not_hold_is_named_although_every_sum_is_right() {
    let place = Place::founded(&[]);
    place.invite(&[]);
    let ledger = rusqlite::Connection::open(place.org().join("gateway/ledger.db")).unwrap();
    ledger.execute("DELETE FROM entries WHERE id = 3", []).unwrap();
    drop(ledger);
    let backup = back_up(&place, "cut");
    ended(&verify(&place, &backup, &[]), 1, "the ledger in the backup does not hold: entry 3");
    ended(&restore(&place, &backup, &place.path("restored"), &[]), 1, "the ledger in the backup does not hold");
    assert!(!place.path("restored").join("harbor").exists());
}

#[test]
fn keys_that_are_not_keys_and_an_older_ledger_are_named() {
    let place = Place::founded(&[]);
    let ledger = place.org().join("gateway/ledger.db");
    std::fs::copy(&ledger, place.path("old")).unwrap();
    place.invite(&[]);
    std::fs::copy(place.path("old"), &ledger).unwrap();
    let backup = back_up(&place, "set-back");
    ended(&verify(&place, &backup, &[]), 1, "entries are missing that the operator had seen");
    let place = Place::founded(&[]);
    for (name, words) in [
        ("gateway/voice.key", "`gateway/voice.key` in the backup is damaged"),
        ("operator/signers/ann.key", "`operator/signers/ann.key` in the backup is damaged"),
        ("operator/known.json", "`operator/known.json` in the backup is damaged"),
    ] {
        let path = place.org().join(name);
        let kept = std::fs::read(&path).unwrap();
        // Cut in the middle, as a full disk would.
        let backup = place.path(&name.replace('/', "-"));
        if name == "operator/known.json" {
            // Without it no backup can be made at all.
            std::fs::write(&path, &kept[..kept.len() / 2]).unwrap();
            ended(&super::create(&place, &backup), 1, "is damaged");
        } else {
            std::fs::write(&path, &kept[..kept.len() / 2]).unwrap();
            assert!(super::create(&place, &backup).status.success());
            ended(&verify(&place, &backup, &[]), 1, words);
        }
        std::fs::write(&path, kept).unwrap();
    }
}
