//! A passphrase that is typed at a terminal: wrong ones may be typed again, and a weak one is told.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use trials::place::{Place, binary, ended, stderr, stdout, succeeded};

/// At a terminal, with this typed ahead.
fn typed(place: &Place, words: &str, keys: &str) -> Output {
    let line = format!("exec {} {words} --home {}", binary("freehold").display(), place.home().display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn founded(place: &Place, passphrase: &str) -> Output {
    let (file, address) = (place.passphrase(passphrase), place.address());
    place.freehold(&["found", "harbor", "--advertise", &address, "--passphrase-file", &file])
}

#[test]
fn a_wrong_passphrase_may_be_typed_three_times() {
    let place = Place::new();
    succeeded(&founded(&place, "sea"));
    let third = typed(&place, "invite create", "see\nsea salt\nsea\n");
    assert_eq!(third.status.code(), Some(0), "{}", stdout(&third));
    assert_eq!(stdout(&third).matches("the passphrase is wrong: try again").count(), 2, "{}", stdout(&third));
    let none = typed(&place, "invite create", "a\nb\nc\nsea\n");
    assert_eq!(none.status.code(), Some(1), "{}", stdout(&none));
    assert_eq!(stdout(&none).matches("the passphrase is wrong").count(), 3, "{}", stdout(&none));
    let file = place.passphrase("see");
    let read = place.freehold(&["invite", "create", "--passphrase-file", &file]);
    ended(&read, 1, "the passphrase is wrong");
    assert!(!stderr(&read).contains("try again\n  "), "a file is read once: {}", stderr(&read));
}

#[test]
fn a_weak_passphrase_is_told_and_taken() {
    let weak = founded(&Place::new(), "password1");
    succeeded(&weak);
    assert!(stderr(&weak).contains("this passphrase is WEAK"), "{}", stderr(&weak));
    let strong = founded(&Place::new(), "correct horse battery staple");
    assert!(!stderr(&strong).contains("WEAK"), "{}", stderr(&strong));
}
