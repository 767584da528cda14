//! Backups: made under load, checked, damaged, restored, and what holds a restored gateway back.

mod created;
mod verified;
mod restored;
mod killed;
mod lost_roots;
mod reminder;

use std::path::{Path, PathBuf};
use std::process::Output;

use trials::place::{Place, output, succeeded};

const WORDS: &str = "correct horse";
/// For backups that are opened again and again: a passphrase costs a second each time. From the specification of age.
const IDENTITY: &str = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
const RECIPIENT: &str = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";

/// A backup of the place's org.
fn back_up(place: &Place, name: &str) -> PathBuf {
    let path = place.path(name);
    succeeded(&create(place, &path));
    path
}

/// One that the identity opens.
fn back_up_to(place: &Place, name: &str) -> PathBuf {
    let path = place.path(name);
    succeeded(&place.freehold(&["backup", "create", "--out", &path.to_string_lossy(), "--to", RECIPIENT]));
    path
}

/// The file with it.
fn identity(place: &Place) -> String {
    let path = place.passphrase("identity");
    std::fs::write(&path, IDENTITY).unwrap();
    path
}

fn create(place: &Place, path: &Path) -> Output {
    let passphrase = place.passphrase(WORDS);
    let words = ["backup", "create", "--out", &path.to_string_lossy(), "--backup-passphrase-file", &passphrase];
    place.freehold(&words)
}

fn verify(place: &Place, path: &Path, more: &[&str]) -> Output {
    let passphrase = place.passphrase(WORDS);
    let words = ["backup", "verify", &path.to_string_lossy(), "--backup-passphrase-file", &passphrase];
    place.freehold(&[&words, more].concat())
}

/// Restores into a home of its own.
fn restore(place: &Place, path: &Path, home: &Path, more: &[&str]) -> Output {
    let passphrase = place.passphrase(WORDS);
    let words = ["backup", "restore", &path.to_string_lossy(), "--backup-passphrase-file", &passphrase];
    at(home, &[&words, more].concat())
}

/// `freehold` with another home.
fn at(home: &Path, words: &[&str]) -> Output {
    let mut command = std::process::Command::new(trials::place::binary("freehold"));
    command.args(words).arg("--home").arg(home).stdin(std::process::Stdio::null()).env("USER", "ann");
    output(command)
}
