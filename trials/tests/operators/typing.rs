//! Passphrases and phrases that are typed at a terminal: wrong ones may be typed again, and a weak one is told.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use trials::place::{Place, binary, ended, json, stderr, stdout, succeeded};

/// At a terminal, with this typed ahead.
fn typed(place: &Place, words: &str, keys: &str) -> Output {
    at_terminal(&format!("exec {} {words} --home {}", binary("freehold").display(), place.home().display()), keys)
}

fn at_terminal(line: &str, keys: &str) -> Output {
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", line, "/dev/null"]).env("SHELL", "/bin/bash");
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

/// Found where the keys lie open, so that nothing but the phrases is asked for.
fn phrases(place: &Place) -> Vec<String> {
    let words = ["found", "harbor", "--unprotected", "--advertise", &place.address(), "--json"];
    let founded = json(&place.freehold(&words));
    founded["recovery"].as_array().unwrap().iter().map(|words| words.as_str().unwrap().to_owned()).collect()
}

/// The first four letters of each word: more say nothing new.
fn shortened(phrase: &str) -> String {
    let words = phrase.split(' ').map(|word| word.chars().take(4).collect::<String>());
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn phrases_are_typed_word_by_word_hidden_and_a_wrong_one_may_be_typed_again() {
    let place = Place::new();
    let phrases = phrases(&place);
    // A word that is none, and the first phrase a second time.
    let keys = format!("sloop {} \n{}\n{} \t\n", shortened(&phrases[0]), phrases[0], shortened(&phrases[2]));
    let begun = typed(&place, "recover --signer zoe --unprotected --yes", &keys);
    let told = stdout(&begun);
    assert_eq!(begun.status.code(), Some(0), "{told}");
    assert!(told.contains("no such word") && told.contains("the same phrase was given twice: try again"), "{told}");
    assert!(
        told.contains("recovery phrase 2 of 2, word 12 of 12") && told.contains("the recovery has begun"),
        "{told}"
    );
    // What was typed ahead was echoed by the terminal, before the program began: nothing of it afterward.
    let (_, drawn) = told.split_once("recovery phrase 1 of 2").unwrap();
    for word in phrases[2].split(' ') {
        assert!(!drawn.contains(&format!("{word} ")), "`{word}` is seen: {drawn}");
    }
}

#[test]
fn phrases_are_shown_while_typed_if_that_is_asked_for_and_what_was_pasted_beyond_them_goes_nowhere() {
    let place = Place::new();
    let phrases = phrases(&place);
    let keys = format!("{}\n{}\nrm -rf harbor\n", phrases[1], phrases[2]);
    let then = "; IFS= read -r -t 1 rest; echo \"left=[$rest]\"";
    let line = format!(
        "{} recover --signer zoe --unprotected --yes --show-phrases --home {}{then}",
        binary("freehold").display(),
        place.home().display()
    );
    let told = stdout(&at_terminal(&line, &keys));
    let (_, drawn) = told.split_once("recovery phrase 1 of 2").unwrap();
    let last = phrases[2].split(' ').nth(10).unwrap();
    assert!(drawn.contains(&format!("word 12 of 12: {last} ")), "{drawn}");
    assert!(drawn.contains("the recovery has begun") && drawn.contains("left=[]"), "{drawn}");
}

#[test]
fn the_passphrase_of_a_backup_and_of_a_bundle_may_be_typed_again() {
    let place = Place::founded(&[]);
    let file = place.passphrase("sea");
    let out = place.path("harbor.tar.age").display().to_string();
    succeeded(&place.freehold(&["backup", "create", "--out", &out, "--backup-passphrase-file", &file]));
    let verified = typed(&place, &format!("backup verify {out}"), "see\nsea\n");
    assert_eq!(verified.status.code(), Some(0), "{}", stdout(&verified));
    assert_eq!(stdout(&verified).matches("the passphrase is wrong: try again").count(), 1, "{}", stdout(&verified));

    let bundle = place.path("web-1.bundle").display().to_string();
    let issued = place.freehold(&["bundle", "issue", "web-1", "--out", &bundle, "--bundle-passphrase-file", &file]);
    succeeded(&issued);
    assert!(stderr(&issued).contains("this passphrase is WEAK"), "{}", stderr(&issued));
    let _gateway = place.serve();
    let line = format!(
        "exec {} join --bundle {bundle} --root {}",
        binary("freehold-node").display(),
        place.root("web-1").display()
    );
    let joined = at_terminal(&line, "see\nsea\n");
    assert_eq!(joined.status.code(), Some(0), "{}", stdout(&joined));
    assert_eq!(stdout(&joined).matches("the passphrase is wrong: try again").count(), 1, "{}", stdout(&joined));
}
