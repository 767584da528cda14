//! Founding: what it makes, what it says, and that there is never half an org.

use std::net::ToSocketAddrs as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use trials::place::{
    Place, Running, below, binary, ended, json, mode, output, refused, stderr, stdout, succeeded, text, until,
};

/// Every file that founding makes, and its mode.
const MADE: [(&str, u32); 37] = [
    ("gateway", 0o700),
    ("gateway/endpoint-issuer.key", 0o600),
    ("gateway/endpoint-issuer.pem", 0o644),
    ("gateway/endpoint-root.pem", 0o644),
    ("gateway/gateway.json", 0o600),
    ("gateway/identity-issuer.key", 0o600),
    ("gateway/identity-issuer.pem", 0o644),
    ("gateway/ledger.db", 0o600),
    ("gateway/lock", 0o600),
    ("gateway/node", 0o700),
    ("gateway/node/admission.json", 0o600),
    ("gateway/node/known.json", 0o600),
    ("gateway/node/node.json", 0o600),
    ("gateway/node/node.key", 0o600),
    ("gateway/node/principals", 0o700),
    ("gateway/node/principals/user-ann", 0o700),
    ("gateway/node/principals/user-ann/svids", 0o700),
    ("gateway/node/principals/user-ann/svids/1", 0o700),
    ("gateway/node/principals/user-ann/svids/1/svid.key", 0o600),
    ("gateway/node/principals/user-ann/svids/1/svid.pem", 0o644),
    ("gateway/node/seal.key", 0o600),
    ("gateway/node/svids", 0o700),
    ("gateway/node/svids/1/svid.key", 0o600),
    ("gateway/node/svids/1/svid.pem", 0o644),
    ("gateway/node/tip.json", 0o600),
    ("gateway/node/trust", 0o700),
    ("gateway/node/trust/endpoint.pem", 0o644),
    ("gateway/node/trust/identity.pem", 0o644),
    ("gateway/voice.key", 0o600),
    ("operator", 0o700),
    ("operator/endpoint-root.key", 0o600),
    ("operator/endpoint-root.pem", 0o644),
    ("operator/identity-root.key", 0o600),
    ("operator/identity-root.pem", 0o644),
    ("operator/known.json", 0o600),
    ("operator/memory.json", 0o600),
    ("operator/signers/ann.key", 0o600),
];

#[test]
fn founding_lays_out_private_files_and_tells_them_in_json() {
    let place = Place::new();
    let output = found(&place, &["--unprotected", "--node", "quay", "--json"]);
    let told = json(&output);
    for field in ["org", "org_id", "gateway", "addresses", "signers", "endpoint_root", "head", "protected", "recovery"]
    {
        assert!(told.get(field).is_some(), "no `{field}` in {told}");
    }
    assert_eq!((text(&told, "org"), text(&told, "gateway")), ("harbor".to_owned(), "quay".to_owned()));
    assert_eq!((text(&told, "signers"), &told["protected"]), ("1-of-1".to_owned(), &false.into()));
    assert!(stderr(&output).contains("are NOT encrypted"), "`--unprotected` must be said aloud");
    for (name, expected) in MADE {
        assert_eq!(mode(&place.org().join(name)), expected, "the mode of `{name}`");
    }
    assert_eq!(mode(&place.home()), 0o700);
    for path in below(&place.org()).iter().filter(|path| !path.is_symlink()) {
        let allowed: &[u32] = match path.extension().and_then(|ending| ending.to_str()) {
            _ if path.is_dir() => &[0o700],
            Some("pem") => &[0o644],
            _ => &[0o600],
        };
        assert!(allowed.contains(&mode(path)), "`{}` has mode {:o}", path.display(), mode(path));
    }
}

#[test]
fn three_recovery_phrases_of_twelve_words_are_shown_and_kept_nowhere() {
    let place = Place::new();
    let told = json(&found(&place, &["--unprotected", "--json"]));
    let phrases: Vec<&str> = told["recovery"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(phrases.len(), 3);
    for phrase in phrases {
        assert_eq!(phrase.split(' ').count(), 12, "{phrase}");
        let start: String = phrase.split(' ').take(3).collect::<Vec<_>>().join(" ");
        for file in below(&place.home()).iter().filter(|path| path.is_file()) {
            assert!(!holds(file, start.as_bytes()), "`{}` holds a recovery phrase", file.display());
        }
    }
}

#[test]
fn a_second_org_is_founded_on_purpose_or_not_at_all() {
    let place = Place::founded(&[]);
    refused(&found(&place, &["--unprotected"]), "there already is an org `harbor` here");
    let another = |words: &[&str]| place.freehold(&[&["found", "quarry", "--unprotected"], words].concat());
    let no = another(&[]);
    refused(&no, "`harbor` (1 node)");
    assert!(stderr(&no).contains("--another"), "it must say how: {}", stderr(&no));
    ended(&another(&["--another"]), 2, "--yes");
    assert!(!place.home().join("quarry").exists());
    let yes = another(&["--another", "--yes"]);
    succeeded(&yes);
    assert!(stderr(&yes).contains("`harbor` (1 node)"));
    refused(&place.freehold(&["found", "reef", "--unprotected"]), "`harbor` (1 node), `quarry` (1 node)");
}

#[test]
fn with_several_orgs_one_must_say_which() {
    let place = Place::founded(&[]);
    succeeded(&place.freehold(&["found", "quarry", "--unprotected", "--another", "--yes"]));
    let listed = place.facts(&["org", "list"]);
    let names: Vec<String> = listed.as_array().unwrap().iter().map(|org| text(org, "name")).collect();
    assert_eq!(names, ["harbor", "quarry"]);
    let which = place.freehold(&["node", "list"]);
    ended(&which, 2, "there are several orgs: harbor, quarry");
    assert!(stderr(&which).contains("--org NAME, or set FREEHOLD_ORG"));
    let ids = |nodes: serde_json::Value| text(&nodes[0], "spiffe_id");
    assert!(ids(place.facts(&["node", "list", "--org", "quarry"])).starts_with("spiffe://quarry/"));
    assert!(ids(place.facts(&["--org", "harbor", "node", "list"])).starts_with("spiffe://harbor/"));
    let mut by_variable = place.freehold_command(&["node", "list", "--json"]);
    by_variable.env("FREEHOLD_ORG", "quarry");
    assert!(ids(json(&trials::place::output(by_variable))).starts_with("spiffe://quarry/"));
    ended(&place.freehold(&["node", "list", "--org", "reef"]), 1, "there is no org `reef`");
}

#[test]
fn without_a_passphrase_and_a_terminal_nothing_is_founded() {
    let place = Place::new();
    let no = found(&place, &[]);
    ended(&no, 2, "there is no terminal to ask at");
    for way in ["--passphrase-file FILE", "--unprotected"] {
        assert!(stderr(&no).contains(way), "it must name `{way}`: {}", stderr(&no));
    }
    assert_eq!(below(&place.home()), Vec::<std::path::PathBuf>::new());
    ended(&found(&place, &["--unprotected", "--passphrase-file", "x"]), 2, "cannot be used with");
}

#[test]
fn a_passphrase_protects_the_keys_and_opens_them_again() {
    let place = Place::new();
    let (right, wrong) = (place.passphrase("correct horse"), place.passphrase("battery staple"));
    let told = found(&place, &["--passphrase-file", &right, "--json"]);
    assert_eq!(json(&told)["protected"], true);
    assert!(!stderr(&told).contains("NOT encrypted"));
    for name in ["signers/ann.key", "identity-root.key", "endpoint-root.key"] {
        let file = place.org().join("operator").join(name);
        assert!(holds(&file, b"passphrase") && !holds(&file, b"unprotected"), "`{name}` is not protected");
        assert!(!holds(&file, b"PRIVATE KEY") && !holds(&file, b"correct horse"), "`{name}` can be read");
    }
    let open = place.passphrase("open secret");
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    ended(&found(&Place::new(), &["--passphrase-file", &open]), 2, "can be read by others");
    let create = |words: &[&str]| place.freehold(&[&["invite", "create", "--json"], words].concat());
    let check = || {
        ended(&create(&["--passphrase-file", &wrong]), 1, "the passphrase is wrong");
        ended(&create(&[]), 2, "there is no terminal to ask at");
        json(&create(&["--passphrase-file", &right]))
    };
    check();
    let _gateway = place.serve();
    let code = text(&check(), "code");
    succeeded(&place.join("web-1", &code));
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes", "--passphrase-file", &right]));
}

#[test]
fn two_of_three_signers_must_agree_on_everything() {
    let place = Place::founded(&["--signers", "2-of-3"]);
    let signers = place.org().join("operator/signers");
    let files = ["ann.key", "ann-2.key", "ann-3.key"].map(|name| signers.join(name));
    assert!(files.iter().all(|file| file.is_file()), "{:?}", below(&signers));
    let _gateway = place.serve();
    let invite = place.invite(&["--uses", "2"]);
    succeeded(&place.join("web-1", &text(&invite, "code")));
    std::fs::rename(&files[0], place.path("away")).unwrap();
    succeeded(&place.join("web-2", &text(&invite, "code")));
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    std::fs::rename(&files[1], place.path("away too")).unwrap();
    // One alone changes nothing: what it signs waits for another.
    let id = text(&invite, "id");
    for words in [&["invite", "create"][..], &["node", "revoke", "web-2", "--yes"], &["invite", "revoke", &id, "--yes"]]
    {
        let told = place.facts(words);
        assert_eq!(told["pending"]["needs"][0]["signed"], serde_json::json!(["ann-3"]), "{told}");
    }
    assert_eq!(place.state_of("web-2").as_deref(), Some("member"), "one signer may still look");
    std::fs::rename(&files[2], place.path("away as well")).unwrap();
    ended(&place.freehold(&["invite", "create"]), 1, "no key of a current signer is here");
}

/// Moments of a founding, as the disk shows them.
const MOMENTS: [&str; 10] = [
    ".founding.lock",
    ".founding-harbor",
    ".founding-harbor/operator/signers",
    ".founding-harbor/operator/identity-root.key",
    ".founding-harbor/operator/signers/ann.key",
    ".founding-harbor/gateway/voice.key",
    ".founding-harbor/gateway/ledger.db",
    ".founding-harbor/gateway/gateway.json",
    ".founding-harbor/gateway/node/node.json",
    ".founding-harbor/operator/memory.json",
];

#[test]
fn a_founding_killed_at_any_moment_leaves_no_half_org() {
    let mut cut_short = 0;
    for moment in MOMENTS {
        let place = Place::new();
        let words = ["found", "harbor", "--unprotected", "--advertise", &place.address()];
        let mut command = place.freehold_command(&words);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut running = Running(child);
        let sign = place.home().join(moment);
        while !sign.exists() && !place.org().exists() && matches!(running.0.try_wait(), Ok(None)) {
            std::hint::spin_loop();
        }
        running.kill();
        if place.org().exists() {
            refused(&found(&place, &["--unprotected"]), "there already is an org");
        } else {
            cut_short += 1;
            assert_eq!(place.facts(&["org", "list"]), serde_json::json!([]), "half an org at `{moment}`");
            ended(&place.freehold(&["invite", "create"]), 1, "there is no org in");
            succeeded(&found(&place, &["--unprotected"]));
        }
        assert!(!place.home().join(".founding-harbor").exists(), "something was left behind at `{moment}`");
        assert_eq!(place.facts(&["audit", "--verify"])["ok"], true, "killed at `{moment}`");
        assert!(place.invite(&[])["code"].is_string());
    }
    assert!(cut_short > 0, "no founding was interrupted: the walk shows nothing");
}

#[test]
fn a_leftover_draft_does_not_stand_in_the_way() {
    let place = Place::new();
    let draft = place.home().join(".founding-harbor/operator/signers");
    std::fs::create_dir_all(&draft).unwrap();
    std::fs::write(draft.join("ann.key"), "half").unwrap();
    succeeded(&found(&place, &["--unprotected"]));
    assert!(!holds(&place.org().join("operator/signers/ann.key"), b"half"));
    assert!(!place.home().join(".founding-harbor").exists());
}

#[test]
fn two_foundings_at_once_make_one_org() {
    let place = Place::new();
    let words = ["found", "harbor", "--unprotected", "--advertise", &place.address()];
    let start = || {
        let mut command = place.freehold_command(&words);
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let ends = [start(), start()].map(Running::end);
    let done = ends.iter().filter(|(exit, _)| *exit == Some(0)).count();
    assert_eq!(done, 1, "{ends:?}");
    until("the org is whole", || place.facts(&["audit", "--verify"])["ok"] == true);
}

#[test]
fn people_are_told_what_was_founded_and_what_comes_next() {
    let place = Place::new();
    let told = stdout(&found(&place, &["--unprotected"]));
    for words in ["founded `harbor`", "spiffe://harbor/user/ann", "next: freehold serve", "shown this once"] {
        assert!(told.contains(words), "expected `{words}` in: {told}");
    }
    for (words, why) in [
        (["found", "Not A Name", "--unprotected"], "invalid value"),
        (["found", "quarry", "--signers=3-of-2"], "write it like"),
        (["found", "quarry", "--svid-ttl=1s"], "between 10s and 90d"),
    ] {
        ended(&Place::new().freehold(&words), 2, why);
    }
}

fn found(place: &Place, words: &[&str]) -> Output {
    place.freehold(&[&["found", "harbor", "--advertise", &place.address()], words].concat())
}

fn holds(file: &Path, needle: &[u8]) -> bool {
    std::fs::read(file).unwrap().windows(needle.len()).any(|window| window == needle)
}

#[test]
fn a_home_and_a_root_may_be_named_from_where_one_stands() {
    let place = Place::new();
    let here = place.path("here");
    std::fs::create_dir(&here).unwrap();
    let run = |program: &str, words: &[&str]| {
        let mut command = Command::new(binary(program));
        output({
            command.args(words).current_dir(&here).stdin(Stdio::null());
            command
        })
    };
    let address = place.address();
    succeeded(&run("freehold", &["--home", "home", "found", "harbor", "--unprotected", "--advertise", &address]));
    let code = text(&json(&run("freehold", &["--home", "home", "invite", "create", "--json"])), "code");
    let mut gateway = Command::new(binary("freehold"));
    gateway.args(["--home", "home", "serve", "--listen", &address]).current_dir(&here).stdin(Stdio::null());
    let _gateway = Running(gateway.spawn().unwrap());
    until("it serves", || here.join("home/harbor/gateway/serving.json").exists());
    succeeded(&run("freehold-node", &["--root", "root", "join", "--name", "web-1", "--invite", &code]));
    assert!(here.join("root/harbor/svid.pem").exists());
    succeeded(&run("freehold-node", &["--root", "root", "leave", "--yes"]));
    assert!(!here.join("root/harbor").exists());
}

#[test]
fn without_an_address_found_takes_what_leads_to_this_machine() {
    let place = Place::new();
    let founded = json(&place.freehold(&["found", "harbor", "--unprotected", "--json"]));
    let tried = founded["tried"].as_array().unwrap().iter().filter(|tried| tried["chosen"] == true);
    let chosen: Vec<String> = tried.map(|tried| text(tried, "address")).collect();
    assert_eq!(founded["addresses"], serde_json::json!(chosen), "{founded}");
    for address in &chosen {
        assert!(address.to_socket_addrs().is_ok_and(|mut found| found.next().is_some()), "{address} leads somewhere");
    }
    assert_eq!(place.facts(&["gateway", "list"])[0]["addresses"], founded["addresses"]);
}

#[test]
fn addresses_by_which_nobody_comes_are_told_when_an_org_is_founded() {
    let found = |words: &[&str]| {
        let place = Place::new();
        // On a network of its own, where there is nothing but this machine.
        let inside = place.freehold_command(&[&["found", "harbor", "--unprotected"], words].concat());
        let mut command = Command::new("unshare");
        command.args(["--net", "--"]).arg(inside.get_program()).args(inside.get_args()).stdin(Stdio::null());
        let told = output(command);
        succeeded(&told);
        (stdout(&told), stderr(&told))
    };
    let (told, warned) = found(&[]);
    assert!(told.contains("at localhost:7443") && warned.contains("takes localhost:7443"), "{told}{warned}");
    assert!(warned.contains("warning: no other machine reaches this gateway"), "{warned}");
    let (told, warned) = found(&["--advertise", "no-such-host.invalid:7443"]);
    assert!(told.contains("at no-such-host.invalid:7443"), "what a person named is taken: {told}");
    assert!(warned.contains("no-such-host.invalid:7443: does not resolve here"), "{warned}");
    let (_, warned) = found(&["--advertise", "192.168.7.1:7443"]);
    assert!(warned.contains("only machines in the same network reach this gateway"), "{warned}");
}
