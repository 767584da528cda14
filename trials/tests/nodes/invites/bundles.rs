//! Bundles: one encrypted file, or a signed request; each lets one machine in, once.

use ground::passphrase::Passphrase;
use ground::sealed;
use identity::id::Fingerprint;
use member::ask::enroll::bundle;
use org::invite::carried::{BUNDLE, JoinBundle};
use serde_json::Value;
use trials::place::{Place, mode, refused, stdout, succeeded, text};

/// Issues a bundle for a name; its file and its passphrase.
fn issued(place: &Place, name: &str) -> (String, Value) {
    let file = place.path(&format!("{name}.bundle")).to_string_lossy().into_owned();
    let told = place.facts(&["bundle", "issue", name, "--out", &file]);
    (file, told)
}

fn open(place: &Place, node: &str, file: &str, passphrase: &str) -> std::process::Output {
    place.node(node, &["join", "--bundle", file], &format!("{passphrase}\n"))
}

#[test]
fn a_bundle_and_its_passphrase_let_one_machine_in() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let (file, told) = issued(&place, "web-1");
    let passphrase = text(&told, "passphrase");
    assert_eq!((text(&told, "kind"), mode(std::path::Path::new(&file))), ("bundle".to_owned(), 0o600));
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"age-encryption.org/v1\n-> scrypt "));
    refused(&open(&place, "web-1", &file, "not the passphrase"), "the passphrase is wrong, or the file was changed");
    assert!(!place.scope("web-1").exists());
    // Any change is noticed.
    let changed = place.path("changed").to_string_lossy().into_owned();
    let with = |at: usize| [&bytes[..at], &[bytes[at] ^ 1], &bytes[at + 1..]].concat();
    std::fs::write(&changed, with(bytes.len() - 1)).unwrap();
    refused(&open(&place, "web-1", &changed, &passphrase), "it is damaged: it was changed, or cut off");
    let salt = bytes.iter().position(|byte| *byte == b'>').unwrap() + "> scrypt ".len();
    // Another letter of base64, whichever stands there.
    let letter = if bytes[salt] == b'A' { b'B' } else { b'A' };
    std::fs::write(&changed, [&bytes[..salt], &[letter], &bytes[salt + 1..]].concat()).unwrap();
    refused(&open(&place, "web-1", &changed, &passphrase), "the passphrase is wrong, or the file was changed");
    std::fs::write(&changed, &bytes[..bytes.len() / 2]).unwrap();
    refused(&open(&place, "web-1", &changed, &passphrase), "damaged");
    assert_eq!(place.spent(&text(&told, "invite")), 0, "nothing was spent by all that");
    // It brings the name along.
    succeeded(&open(&place, "web-1", &file, &passphrase));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    // The same machine may ask again.
    succeeded(&open(&place, "web-1", &file, &passphrase));
    refused(&place.freehold(&["bundle", "issue", "web-1", "--out", &file]), "is there already");
}

/// What earlier builds wrote: sealed by a format of our own, around the code and the name.
#[test]
fn a_bundle_in_the_form_before_lets_a_machine_in() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let (file, told) = issued(&place, "web-1");
    let passphrase = || Passphrase::new(text(&told, "passphrase"));
    let opened = bundle::open(&std::fs::read(&file).unwrap(), || Ok(passphrase())).unwrap();
    let bundle = JoinBundle { org: None, ..opened.bundle }.encode();
    let (_, lines) = bundle.split_once('\n').unwrap();
    let before = place.path("before.bundle");
    std::fs::write(&before, sealed::seal(lines.as_bytes(), BUNDLE, Some(&passphrase())).unwrap()).unwrap();
    succeeded(&open(&place, "web-1", &before.to_string_lossy(), &text(&told, "passphrase")));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
}

/// The code pins another root: what else it brings along is enough, and is checked.
#[test]
fn a_bundle_needs_nothing_but_what_it_brings_along_to_believe_a_gateway() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let (file, told) = issued(&place, "web-1");
    let passphrase = Passphrase::new(text(&told, "passphrase"));
    let mut bundle = bundle::open(&std::fs::read(&file).unwrap(), || Ok(passphrase)).unwrap().bundle;
    bundle.code.endpoint_root = Fingerprint([9; 32]);
    let carried = place.path("carried").to_string_lossy().into_owned();
    let join = |bundle: &JoinBundle| {
        std::fs::write(&carried, bundle.encode().as_bytes()).unwrap();
        place.node("web-1", &["join", "--bundle", &carried], "")
    };
    refused(&join(&JoinBundle { org: None, ..bundle.clone() }), "is not one of this org's");
    // Another org's, and one that was changed.
    let other = Place::founded(&[]);
    let (file, told) = issued(&other, "web-1");
    let passphrase = Passphrase::new(text(&told, "passphrase"));
    let theirs = bundle::open(&std::fs::read(&file).unwrap(), || Ok(passphrase)).unwrap().bundle.org;
    refused(
        &join(&JoinBundle { org: theirs, ..bundle.clone() }),
        "what the bundle brings along of the org does not hold",
    );
    let cut = bundle.org.as_ref().map(|org| org.replacen("\"endpoint\":[", "\"endpoint\":[],\"more\":[", 1));
    refused(
        &join(&JoinBundle { org: cut, ..bundle.clone() }),
        "what the bundle brings along of the org cannot be read",
    );
    assert!(!place.scope("web-1").exists());
    succeeded(&join(&bundle));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
}

#[test]
fn a_bundle_that_is_shown_again_is_refused_and_seen_and_cuts_nobody_off() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let (file, told) = issued(&place, "web-1");
    let (invite, passphrase) = (text(&told, "invite"), text(&told, "passphrase"));
    succeeded(&open(&place, "web-1", &file, &passphrase));
    assert!(place.facts(&["invite", "show", &invite])["reused"].is_null());
    for _ in 0..2 {
        refused(&open(&place, "thief", &file, &passphrase), "used up");
    }
    let shown = place.facts(&["invite", "show", &invite]);
    let reused = shown["reused"].as_array().unwrap();
    assert!(!reused.is_empty(), "{shown}");
    assert_eq!((reused[0]["source"].as_str(), reused[0]["name"].as_str()), (Some("127.0.0.1"), Some("web-1")));
    assert!(reused[0]["at"].is_string(), "{shown}");
    for words in
        [vec!["invite", "show", &invite], vec!["invite", "list"], vec!["node", "show", "web-1"], vec!["node", "list"]]
    {
        let told = stdout(&place.freehold(&words));
        assert!(told.contains("ALARM"), "{words:?}: {told}");
    }
    // Also when the invite is over.
    succeeded(&place.freehold(&["invite", "revoke", &invite, "--yes"]));
    refused(&open(&place, "later", &file, &passphrase), "the invite was revoked");
    let more = place.facts(&["invite", "show", &invite])["reused"].as_array().map(Vec::len);
    assert!(more > Some(reused.len()), "{more:?}");
    // Whoever joined with it goes on as if nothing had been.
    succeeded(&open(&place, "web-1", &file, &passphrase));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
}

#[test]
fn an_alarm_takes_the_key_of_the_bundle() {
    use trials::client::joiner::{Ground, Joiner, prove};
    use trials::client::stranger::Dial;
    use wire::permit::Ask;
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let (file, told) = issued(&place, "web-1");
    succeeded(&open(&place, "web-1", &file, &text(&told, "passphrase")));
    // Somebody who knows the invite's id and not its key.
    let mut code: org::invite::code::InviteCode = place.code(&[]).parse().unwrap();
    let invite = text(&told, "invite").parse().unwrap();
    code.ticket = org::invite::code::Ticket::Key { invite, seed: org::invite::code::InviteSeed::new([7; 32]) };
    let joiner = Joiner::new(&code.encode(), "web-1");
    let mut line = Dial::to(place.port).line();
    let ground = Ground::on(&mut line);
    let request =
        prove(joiner.signed_claim(), joiner.svid(ground.not_after), ground, (&joiner.invite_key(), &joiner.node_key));
    assert_eq!(line.code(Ask::Enroll, &request), "invite_used_up");
    // What is handed in later comes later: the list is read after it.
    assert!(place.facts(&["invite", "show", &text(&told, "invite")])["reused"].is_null());
}

#[test]
fn a_machine_s_request_is_signed_and_good_for_that_machine_alone() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let (request, bundle) = (place.path("web-1.request"), place.path("web-1.bundle"));
    let (request, bundle) = (request.to_string_lossy().into_owned(), bundle.to_string_lossy().into_owned());
    let asked = place.node("web-1", &["csr", "--name", "web-1", "--out", &request, "--json"], "");
    let asked: Value = trials::place::json(&asked);
    let public = std::fs::read_to_string(&request).unwrap();
    assert!(!public.contains("PRIVATE"), "{public}");
    // Changed on the way: refused before anything is signed.
    let forged = place.path("forged").to_string_lossy().into_owned();
    let mut envelope: Value = serde_json::from_str(&public).unwrap();
    let payload = identity::text::from_base64(envelope["payload"].as_str().unwrap()).unwrap();
    let changed = String::from_utf8(payload).unwrap().replace("web-1", "web-9");
    envelope["payload"] = identity::text::base64(changed.as_bytes()).into();
    std::fs::write(&forged, envelope.to_string()).unwrap();
    refused(&place.freehold(&["bundle", "sign", &forged, "--out", &bundle, "--yes"]), "sign");
    std::fs::write(&forged, "hello").unwrap();
    refused(&place.freehold(&["bundle", "sign", &forged, "--out", &bundle, "--yes"]), "it is no request");

    let signed = place.freehold(&["bundle", "sign", &request, "--out", &bundle, "--yes"]);
    succeeded(&signed);
    assert!(trials::place::stderr(&signed).contains(&text(&asked, "node_key")), "the key is shown to be compared");
    // Somebody else with the bundle, with a key of their own or with a request of their own.
    refused(&place.node("thief", &["join", "--bundle", &bundle], ""), "made for another machine's key");
    let other = place.path("thief.request").to_string_lossy().into_owned();
    succeeded(&place.node("thief", &["csr", "--name", "web-1", "--out", &other], ""));
    refused(&place.node("thief", &["join", "--bundle", &bundle], ""), "made for another machine's key");
    assert!(place.root("thief").join(".requested/node.key").exists(), "its own request is not lost by that");

    succeeded(&place.node("web-1", &["join", "--bundle", &bundle], ""));
    let shown = place.facts(&["node", "show", "web-1"]);
    assert_eq!(shown["state"], "member");
    assert!(!place.root("web-1").join(".requested").exists(), "the keys lie in the scope now, and nowhere else");
    assert_eq!(place.facts(&["invite", "list"])[0]["kind"], "machine");
    let key: identity::key::PublicKey = text(&shown, "node_key").parse().unwrap();
    assert_eq!(key.digest().to_string(), text(&asked, "node_key"), "the key that was made here");
}

#[test]
fn two_operators_sign_a_request_through_pending_files() {
    let place = Place::founded(&["--signers", "2-of-3", "--node", "quay"]);
    for (signer, home) in [("ann-2", "ben"), ("ann-3", "cat")] {
        let to = place.path(home).to_string_lossy().into_owned();
        succeeded(&place.freehold(&["signer", "hand-over", signer, "--to", &to]));
    }
    let _gateway = place.serve();
    let (request, bundle) =
        (place.path("r").to_string_lossy().into_owned(), place.path("b").to_string_lossy().into_owned());
    succeeded(&place.node("web-1", &["csr", "--name", "web-1", "--out", &request], ""));
    let told = place.facts(&["bundle", "sign", &request, "--out", &bundle, "--yes"]);
    let file = text(&told["pending"], "file");
    refused(&place.node("web-1", &["join", "--bundle", &bundle], ""), "this org has no invite");
    let shown = place.operator("ben", &["sign", "--show", &file]);
    assert!(trials::place::stderr(&shown).contains("kind: machine"), "{}", trials::place::stderr(&shown));
    succeeded(&place.operator("ben", &["sign", &file, "--yes"]));
    succeeded(&place.operator("ben", &["send", &file]));
    succeeded(&place.node("web-1", &["join", "--bundle", &bundle], ""));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
}
