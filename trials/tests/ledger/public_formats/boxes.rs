//! Sealed boxes, with a second implementation of HPKE.

use std::path::Path;
use std::process::{Command, Stdio};

use ground::{random, sealed_box};
use identity::text::{from_hex, hex};
use trials::place::{output, stdout, succeeded};

/// What the box is for, and the label that stands before it.
const BOUND: &[u8] = b"harbor, and nobody else";
const LABEL: &[u8] = b"freehold sealed box v2\0";

/// Python's `cryptography`, in an environment that `scripts/test` makes.
fn theirs(words: &[&str]) -> Vec<u8> {
    let house = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let python = house.join("target/cryptography-50.0.2/bin/python");
    assert!(python.exists(), "`{}` is missing: scripts/test makes it", python.display());
    let mut command = Command::new(python);
    command
        .arg(house.join("trials/tests/ledger/public_formats/boxes.py"))
        .args(words)
        .arg(hex(&[LABEL, BOUND].concat()));
    command.stdin(Stdio::null());
    let said = output(command);
    succeeded(&said);
    from_hex(stdout(&said).trim()).unwrap()
}

#[test]
fn another_hpke_opens_our_boxes_and_we_open_its() {
    let (secret, public) = random::x25519().unwrap();
    for inside in [&b""[..], b"manifest", &[7; 5_000]] {
        let ours = sealed_box::seal_to(&public, BOUND, inside).unwrap();
        // Its first byte is the form.
        assert_eq!(theirs(&["open", &hex(&secret[..]), &hex(&ours[1..])]), inside);
        let made = [&[ours[0]][..], &theirs(&["seal", &hex(&public), &hex(inside)])].concat();
        assert_eq!(&sealed_box::open(&secret, BOUND, &made).unwrap()[..], inside);
        assert!(sealed_box::open(&secret, b"haven", &made).is_err());
    }
}
