//! Signer keys on a hardware token, here SoftHSM: found, made, used, and refused when something is off.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use trials::attack::thief::Thief;
use trials::place::{Place, binary, ended, json, mode, openssl, output, stderr, succeeded, text, until};

const PIN: &str = "plover-4913";

/// Debian puts it there, others elsewhere.
const MODULES: [&str; 4] = [
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/softhsm/libsofthsm2.so",
    "/usr/local/lib/softhsm/libsofthsm2.so",
];

fn module() -> &'static str {
    let found = MODULES.into_iter().find(|path| Path::new(path).exists());
    found.unwrap_or_else(|| panic!("SoftHSM is missing: scripts/test installs it (Debian: softhsm2)"))
}

/// An org, and a token of its own labeled `harbor`.
struct Scene {
    place: Place,
    pin: String,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.run(&["lock"]);
    }
}

impl Scene {
    fn new() -> Self {
        let place = Place::founded(&[]);
        for folder in ["tokens", "runtime"] {
            std::fs::create_dir(place.path(folder)).unwrap();
        }
        let configuration =
            format!("directories.tokendir = {}\nobjectstore.backend = file\n", place.path("tokens").display());
        std::fs::write(place.path("softhsm.conf"), configuration).unwrap();
        let pin = place.passphrase(PIN);
        let scene = Self { place, pin };
        scene.softhsm(&["--init-token", "--free", "--label", "harbor", "--so-pin", "12345678", "--pin", PIN]);
        scene
    }

    fn with(&self, mut command: Command) -> Command {
        command.env("SOFTHSM2_CONF", self.place.path("softhsm.conf"));
        command.env("XDG_RUNTIME_DIR", self.place.path("runtime"));
        command
    }

    fn softhsm(&self, words: &[&str]) {
        let mut command = self.with(Command::new("softhsm2-util"));
        command.args(words);
        succeeded(&output(command));
    }

    fn run(&self, words: &[&str]) -> Output {
        output(self.with(self.place.freehold_command(words)))
    }

    /// A URI with the PIN's file in it.
    fn uri(&self, path: &str) -> String {
        format!("{}&pin-source=file:{}", bare(path), self.pin)
    }

    /// Moves the founder's key from its file onto the token.
    fn move_founder(&self) {
        let key = Thief::of(&self.place).signer();
        let folder = self.place.path("moving");
        std::fs::create_dir(&folder).unwrap();
        // PKCS#8 of an Ed25519 key: fixed words, then the seed.
        let mut der = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
        der.extend_from_slice(&key.seed()[..]);
        std::fs::write(folder.join("key.der"), der).unwrap();
        openssl(&folder, &["pkey", "-inform", "DER", "-in", "key.der", "-out", "key.pem"]);
        let pem = folder.join("key.pem");
        self.softhsm(&[
            "--import",
            pem.to_str().unwrap(),
            "--token",
            "harbor",
            "--label",
            "ann",
            "--id",
            "0a",
            "--pin",
            PIN,
        ]);
        std::fs::remove_dir_all(folder).unwrap();
        std::fs::remove_file(self.signer("ann.key")).unwrap();
        self.note(&self.uri("token=harbor;object=ann"), &identity::key::Sign::public(&key).to_string());
    }

    fn signer(&self, file: &str) -> PathBuf {
        self.place.org().join("operator/signers").join(file)
    }

    fn note(&self, uri: &str, key: &str) {
        let note = json!({ "schema": 1, "uri": uri, "key": key });
        std::fs::write(self.signer("ann.token"), note.to_string()).unwrap();
        std::fs::set_permissions(self.signer("ann.token"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
    }
}

fn bare(path: &str) -> String {
    format!("pkcs11:{path}?module-path={}", module())
}

#[test]
fn a_key_is_made_on_the_token_and_found_again() {
    let scene = Scene::new();
    let uri = scene.uri("token=harbor;object=ben");
    ended(&scene.run(&["token", "show", &uri]), 1, "the token has no such Ed25519 key");
    let made = json(&scene.run(&["token", "generate", &uri, "--json"]));
    assert_eq!(made["generated"], true);
    let key = text(&made, "key");
    assert!(key.starts_with("ed25519:"), "{key}");
    assert_eq!(text(&json(&scene.run(&["token", "show", &uri, "--json"])), "key"), key);
    ended(&scene.run(&["token", "generate", &uri]), 1, "the token has such a key already");
    // With a second key, the URI must say which.
    let other = scene.uri("token=harbor;object=eve;id=%0b");
    assert_ne!(text(&json(&scene.run(&["token", "generate", &other, "--json"])), "key"), key);
    ended(&scene.run(&["token", "show", &scene.uri("token=harbor")]), 1, "2 Ed25519 keys of the token fit");
    succeeded(&scene.run(&["token", "show", &scene.uri("id=%0b")]));
    ended(&scene.run(&["token", "generate", &scene.uri("token=harbor")]), 1, "the URI must name it");
}

#[test]
fn an_operator_signs_with_a_token_alone() {
    let scene = Scene::new();
    scene.move_founder();
    assert_eq!(mode(&scene.signer("ann.token")), 0o600);
    // An imported key's point comes raw, a made one's wrapped: both are read.
    succeeded(&scene.run(&["token", "show", &scene.uri("token=harbor;object=ann")]));
    succeeded(&scene.run(&["refresh"]));
    let gateway = scene.place.serve();
    succeeded(&scene.run(&["invite", "create"]));
    succeeded(&scene.run(&["refresh"]));
    drop(gateway);
    succeeded(&scene.run(&["audit", "--verify"]));
}

#[test]
fn a_token_can_stay_logged_in_until_it_is_locked() {
    let scene = Scene::new();
    scene.move_founder();
    let mut unlock = scene.with(scene.place.freehold_command(&["unlock", "--for", "5m", "--json"]));
    unlock.env("FREEHOLD_PASSPHRASE_FILE", &scene.pin);
    let told = json(&output(unlock));
    assert_eq!(told["keys"][0]["held_in"], "token", "{told}");
    let pid = told["pid"].as_u64().unwrap();
    let helper = child_of(pid).unwrap();
    for file in ["cmdline", "environ"] {
        let told = String::from_utf8_lossy(&std::fs::read(format!("/proc/{helper}/{file}")).unwrap()).into_owned();
        assert!(told.contains(if file == "cmdline" { "freehold-pkcs11" } else { "SOFTHSM2_CONF" }), "{told}");
        assert!(!told.contains(PIN) && !told.contains("FREEHOLD_"), "{told}");
    }
    // The note's PIN is out of reach now: only the agent can sign.
    std::fs::remove_file(&scene.pin).unwrap();
    succeeded(&scene.run(&["refresh"]));
    succeeded(&scene.run(&["lock"]));
    until("the token is logged out", || {
        std::fs::read(format!("/proc/{helper}/cmdline")).map_or(true, |line| line.is_empty())
    });
    ended(&scene.run(&["refresh"]), 2, "the token of `ann` cannot be used");
}

/// The process that another one started.
fn child_of(pid: u64) -> Option<u64> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    numbers.find(|number| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(pid.to_string().as_str())
    })
}

#[test]
fn what_is_wrong_with_a_token_is_said() {
    let scene = Scene::new();
    let show = |uri: &str| scene.run(&["token", "show", uri]);
    succeeded(&scene.run(&["token", "generate", &scene.uri("token=harbor;object=ben")]));
    ended(&show(&bare("token=harbor;object=ben")), 2, "there is no terminal to ask at");
    let wrong = scene.place.passphrase("9999");
    let uri = format!("{}&pin-source=file:{wrong}", bare("token=harbor;object=ben"));
    ended(&show(&uri), 1, "the PIN is wrong");
    ended(&show(&scene.uri("token=other")), 1, "no token fits");
    scene.softhsm(&["--init-token", "--free", "--label", "second", "--so-pin", "12345678", "--pin", PIN]);
    ended(&show(&scene.uri("object=ben")), 1, "2 tokens fit");
    ended(&show("pkcs11:token=harbor?module-path=/usr/lib/no-such-module.so"), 1, "No such file");
    let not_a_module = scene.place.path("module.so");
    std::fs::write(&not_a_module, b"not a module").unwrap();
    let uri = format!("pkcs11:token=harbor?module-path={}", not_a_module.display());
    ended(&show(&uri), 1, "cannot be loaded");
    std::fs::set_permissions(&not_a_module, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    ended(&show(&uri), 1, "can be changed by other users");
    ended(&show(&format!("{}&pin-value={PIN}", bare("token=harbor"))), 2, "a PIN in a URI would be seen by others");
    ended(&show(&bare("x-vendor=1")), 2, "`x-vendor` is not understood here");
}

#[test]
fn a_token_with_another_key_is_refused() {
    let scene = Scene::new();
    scene.move_founder();
    let founder =
        text(&serde_json::from_slice::<Value>(&std::fs::read(scene.signer("ann.token")).unwrap()).unwrap(), "key");
    let other = scene.uri("token=harbor;object=eve");
    succeeded(&scene.run(&["token", "generate", &other]));
    scene.note(&other, &founder);
    ended(&scene.run(&["refresh"]), 1, "the token's key is ed25519:");
    // A note that others can read, and a damaged one.
    std::fs::set_permissions(scene.signer("ann.token"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    ended(&scene.run(&["refresh"]), 1, "can be read by others");
    scene.note("pkcs11:token=harbor", &founder);
    ended(&scene.run(&["refresh"]), 1, "is damaged, or of a newer version");
}

#[test]
fn a_helper_that_lies_breaks_off_or_is_missing_is_not_believed() {
    let place = Place::new();
    let folder = place.path("bin");
    std::fs::create_dir(&folder).unwrap();
    let freehold = folder.join("freehold");
    if std::fs::hard_link(binary("freehold"), &freehold).is_err() {
        std::fs::copy(binary("freehold"), &freehold).unwrap();
    }
    let show = || {
        let mut command = Command::new(&freehold);
        command.args(["token", "show", &bare("token=harbor")]).env("PATH", "/usr/bin:/bin");
        output(command)
    };
    ended(&show(), 1, "the program `freehold-pkcs11`, which speaks with tokens, is not here");
    let key = identity::key::Sign::public(&identity::key::EdKey::from_seed(&[1; 32]));
    let opened = json!({ "opened": { "key": key } });
    let signature = json!({ "signature": identity::text::Bytes(vec![0; 64]) });
    let table = [
        (format!("read q; echo '{opened}'; read q; echo '{signature}'"), "not with the key that it shows"),
        (format!("read q; echo '{opened}'; read q; echo '{opened}'"), "answered something else than was asked"),
        (format!("read q; echo '{signature}'"), "answered something else than was asked"),
        ("read q; echo nonsense".to_owned(), "answered something else than was asked"),
        (format!("read q; echo '{opened}'"), "broke off"),
        ("exit 0".to_owned(), "broke off"),
    ];
    for (script, why) in table {
        let path = folder.join("freehold-pkcs11");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        ended(&show(), 1, why);
    }
}

#[test]
fn the_helper_answers_nonsense_with_an_error_and_stays() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let mut child = Command::new(binary("freehold-pkcs11"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for question in ["nonsense", "{}", r#"{"sign":{"message":"AAAA"}}"#, r#"{"open":{"wanted":{}}}"#] {
        writeln!(to, "{question}").unwrap();
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer["failed"]["why"].is_string(), "{question}: {answer}");
    }
    drop(to);
    assert!(child.wait().unwrap().success());
    let told = output({
        let mut command = Command::new(binary("freehold-pkcs11"));
        command.arg("--pin");
        command
    });
    assert_eq!(told.status.code(), Some(2), "{}", stderr(&told));
}

#[test]
fn a_token_takes_the_place_of_a_key_file() {
    let scene = Scene::new();
    let uri = scene.uri("token=harbor;object=fresh");
    let words = ["signer", "replace", "ann", "ann-token", "--pkcs11", &uri, "--generate", "--yes", "--json"];
    let replaced = json(&scene.run(&words));
    assert_eq!((&replaced["signers"], &replaced["pending"]), (&json!(["ann-token"]), &Value::Null));
    std::fs::remove_file(scene.place.org().join("operator/signers/ann.key")).unwrap();
    succeeded(&scene.run(&["invite", "create"]));
    let sets = json(&scene.run(&["signer", "list", "--json"]));
    assert_eq!(sets[1]["signers"][0]["here"], true);
    let again = scene.run(&["signer", "add", "ann-token", "--pkcs11", &uri, "--yes"]);
    ended(&again, 3, "is here already");
}
