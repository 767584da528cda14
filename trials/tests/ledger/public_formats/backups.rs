//! Backups, with the tools `age` and `tar`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trials::place::{Place, ended, json, mode, output, stderr, stdout, succeeded};

use super::typed;

const WORDS: &str = "correct horse battery";

fn ran(program: &str, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    let done = output(command);
    succeeded(&done);
    done
}

/// A name as it is typed.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// An identity that `age-keygen` made, and its recipient.
fn key(place: &Place, name: &str) -> (String, String) {
    let path = text(&place.path(name));
    ran("age-keygen", &["-o", &path]);
    let recipient = stdout(&ran("age-keygen", &["-y", &path])).trim().to_owned();
    (path, recipient)
}

fn backup(place: &Place, name: &str, more: &[&str]) -> String {
    let path = text(&place.path(name));
    succeeded(&place.freehold(&[&["backup", "create", "--out", &path], more].concat()));
    path
}

fn verify(place: &Place, path: &str, more: &[&str]) -> Output {
    place.freehold(&[&["backup", "verify", path], more].concat())
}

/// Unpacks a tar, and holds what is in it against the list in it and the org's folder.
fn unpacked(place: &Place, tar: &str, name: &str) -> PathBuf {
    let folder = place.path(name);
    std::fs::create_dir(&folder).unwrap();
    let done = ran("tar", &["--extract", "--same-permissions", "--file", tar, "--directory", &text(&folder)]);
    assert_eq!(stderr(&done), "", "it complains about nothing");
    let list: Value = serde_json::from_slice(&std::fs::read(folder.join("contents.json")).unwrap()).unwrap();
    let sums = list["files"].as_array().unwrap().iter();
    let sums = sums.map(|item| format!("{}  {}\n", item["sha256"].as_str().unwrap(), item["path"].as_str().unwrap()));
    std::fs::write(folder.join("sums"), sums.collect::<String>()).unwrap();
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "--quiet", "sums"]).current_dir(&folder);
    succeeded(&output(check));
    for (path, private) in [("operator/signers/ann.key", true), ("operator/identity-root.pem", false)] {
        let (file, org) = (folder.join(path), place.org().join(path));
        assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(org).unwrap());
        assert_eq!(mode(&file), if private { 0o600 } else { 0o644 });
    }
    assert_eq!(mode(&folder.join("operator")), 0o700);
    assert_eq!(std::fs::read_link(folder.join("gateway/node/current")).unwrap(), Path::new("svids/1"));
    folder
}

#[test]
fn age_opens_a_backup_by_its_passphrase_and_tar_reads_what_is_in_it() {
    let place = Place::founded(&[]);
    let passphrase = place.passphrase(WORDS);
    let file = backup(&place, "harbor.tar.age", &["--backup-passphrase-file", &passphrase]);
    let tar = text(&place.path("harbor.tar"));
    typed(&format!("age --decrypt --output {tar} {file}"), &format!("{WORDS}\n"));
    let told = stdout(&ran("tar", &["--list", "--verbose", "--file", &tar]));
    assert!(told.starts_with("-rw------- 0/0") && told.lines().next().unwrap().ends_with(" contents.json"), "{told}");
    assert!(told.contains(" gateway/ledger.db") && told.contains(" operator/signers/ann.key"), "{told}");
    unpacked(&place, &tar, "unpacked");
}

#[test]
fn a_backup_to_recipients_opens_for_each_of_them_and_for_nobody_else() {
    let place = Place::founded(&[]);
    let [(first, to), (second, also), (third, later), (other, _)] = ["1", "2", "3", "4"].map(|name| key(&place, name));
    let list = place.path("recipients");
    std::fs::write(&list, format!("# ann's\n{also}\n\n# ben's, and the first again\n{later}\n{to}\n")).unwrap();
    let (list, out) = (text(&list), text(&place.path("harbor.tar.age")));
    let words = ["backup", "create", "--out", &out, "--to", &to, "--to-file", &list, "--json"];
    let told = json(&place.freehold(&words));
    assert_eq!(told["recipients"].as_array().unwrap().len(), 3, "{told}");
    for (name, identity) in [("a", &first), ("b", &second), ("c", &third)] {
        let tar = text(&place.path(&format!("{name}.tar")));
        ran("age", &["--decrypt", "--identity", identity, "--output", &tar, &out]);
        unpacked(&place, &tar, name);
        assert_eq!(json(&verify(&place, &out, &["--identity", identity, "--json"]))["roots"], true);
    }
    succeeded(&verify(&place, &out, &["--identity", &other, "--identity", &third]));
    ended(&verify(&place, &out, &["--identity", &other]), 1, "it is encrypted to others");
    let no = verify(&place, &out, &["--backup-passphrase-file", &place.passphrase(WORDS)]);
    ended(&no, 2, "it is encrypted to recipients, and no passphrase opens it");
    assert!(stderr(&no).contains("--identity FILE"), "{}", stderr(&no));
    let home = place.path("restored");
    let mut restore = Command::new(trials::place::binary("freehold"));
    restore.args(["backup", "restore", &out, "--identity", &second, "--home", &text(&home)]).stdin(Stdio::null());
    succeeded(&output(restore));
    assert!(home.join("harbor/gateway/ledger.db").exists());
}

#[test]
fn what_age_and_tar_made_is_checked_as_what_we_made() {
    let place = Place::founded(&[]);
    let (identity, to) = key(&place, "key");
    let file = backup(&place, "harbor.tar.age", &["--to", &to]);
    let tar = text(&place.path("harbor.tar"));
    ran("age", &["--decrypt", "--identity", &identity, "--output", &tar, &file]);
    let folder = unpacked(&place, &tar, "unpacked");
    // The same content, under a passphrase of now and to somebody else.
    let again = text(&place.path("again.age"));
    typed(&format!("age --encrypt --passphrase --output {again} {tar}"), &format!("{WORDS}\n{WORDS}\n"));
    let passphrase = place.passphrase(WORDS);
    succeeded(&verify(&place, &again, &["--backup-passphrase-file", &passphrase]));
    let no = verify(&place, &again, &["--identity", &identity]);
    ended(&no, 2, "it is encrypted with a passphrase, and no identity opens it");
    // Put together anew by `tar`, in both of its formats.
    for format in ["gnu", "pax", "ustar"] {
        let (tar, out) = (text(&place.path(&format!("{format}.tar"))), text(&place.path(&format!("{format}.age"))));
        let (form, from) = (format!("--format={format}"), text(&folder));
        let words = ["--create", &form, "--file", &tar, "--directory", &from, "contents.json", "gateway", "operator"];
        ran("tar", &words);
        ran("age", &["--encrypt", "--recipient", &to, "--output", &out, &tar]);
        let report = json(&verify(&place, &out, &["--identity", &identity, "--json"]));
        assert_eq!((&report["org"], &report["roots"]), (&"harbor".into(), &true.into()), "{format}");
    }
    // With something in it that the list does not name; and without the list.
    for (name, words, why) in [
        ("more", &["contents.json", "gateway", "operator", "sums"][..], "`sums` is in the backup, but not in its list"),
        ("less", &["contents.json", "gateway"], "is in the list, but not in the backup"),
        ("last", &["gateway", "operator", "contents.json"], "`contents.json` is not the first file in it"),
    ] {
        let (tar, out) = (text(&place.path(&format!("{name}.tar"))), text(&place.path(&format!("{name}.age"))));
        ran("tar", &[&["--create", "--file", &tar, "--directory", &text(&folder)], words].concat());
        ran("age", &["--encrypt", "--recipient", &to, "--output", &out, &tar]);
        ended(&verify(&place, &out, &["--identity", &identity]), 1, why);
    }
    let armored = text(&place.path("armored.age"));
    ran("age", &["--encrypt", "--armor", "--recipient", &to, "--output", &armored, &tar]);
    ended(&verify(&place, &armored, &["--identity", &identity]), 1, "in its armor");
}

#[test]
fn keys_that_are_none_are_named_and_a_secret_is_not_shown() {
    let place = Place::founded(&[]);
    let (identity, to) = key(&place, "key");
    let secret = std::fs::read_to_string(&identity).unwrap();
    let secret = secret.lines().find(|line| line.starts_with("AGE-SECRET-KEY-1")).unwrap();
    let out = text(&place.path("out"));
    let create = |more: &[&str]| place.freehold(&[&["backup", "create", "--out", &out], more].concat());
    ended(&create(&["--to", &to[..61]]), 2, "or it is mistyped");
    let shown = create(&["--to", secret]);
    ended(&shown, 2, "that is an identity, which is secret");
    assert!(!stderr(&shown).contains(&secret[20..]), "{}", stderr(&shown));
    ended(&create(&["--to-file", &identity]), 2, "line 3");
    assert!(!place.path("out").exists());
    let file = backup(&place, "harbor.tar.age", &["--to", &to]);
    std::fs::set_permissions(&identity, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let open = verify(&place, &file, &["--identity", &identity]);
    ended(&open, 2, "");
    assert!(stderr(&open).contains("chmod 600"), "{}", stderr(&open));
    let list = place.passphrase("not a key");
    ended(&verify(&place, &file, &["--identity", &list]), 2, "line 1 is not an identity");
}
