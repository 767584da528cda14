//! Joining: the good ways in, what is on disk afterwards, and what the tools say of it.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trials::place::{
    Place, Running, below, binary, ended, json, mode, openssl, output, refused, stderr, succeeded, text, until,
};
use trials::port::Nobody;

#[test]
fn a_member_has_a_certificate_that_openssl_believes() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let scope = place.scope("web-1");
    let verdict = openssl(&scope, &["verify", "-CAfile", "trust/identity.pem", "-untrusted", "svid.pem", "svid.pem"]);
    assert_eq!(verdict.trim(), "svid.pem: OK");
    let names = openssl(&scope, &["x509", "-in", "svid.pem", "-noout", "-ext", "subjectAltName"]);
    assert_eq!(names.matches("URI:").count(), 1, "{names}");
    assert!(names.contains("URI:spiffe://harbor/node/web-1"), "{names}");
    for other in ["DNS:", "IP Address:", "email:"] {
        assert!(!names.contains(other), "{names}");
    }
    let usage = openssl(&scope, &["x509", "-in", "svid.pem", "-noout", "-ext", "basicConstraints"]);
    assert!(!usage.contains("CA:TRUE"), "{usage}");
    let public = openssl(&scope, &["pkey", "-in", "svid.key", "-pubout"]);
    assert_eq!(openssl(&scope, &["x509", "-in", "svid.pem", "-noout", "-pubkey"]), public);
    assert_ne!(openssl(&scope, &["pkey", "-in", "node.key", "-pubout"]), public, "the node key is another key");
}

#[test]
fn a_scope_holds_what_it_should_with_the_modes_it_should() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let scope = place.scope("web-1");
    let mut found: Vec<(String, u32)> = below(&scope)
        .iter()
        .filter(|path| !path.is_symlink())
        .map(|path| (path.strip_prefix(&scope).unwrap().to_string_lossy().into_owned(), mode(path)))
        // What is kept of a version of the roots is named for what is in it.
        .map(|(name, mode)| match name.rsplit_once('/') {
            Some((folder, file)) if file.len() == 64 + ".json".len() => (format!("{folder}/DIGEST.json"), mode),
            _ => (name, mode),
        })
        .collect();
    found.sort();
    let expected = [
        ("admission.json", 0o600),
        ("known.json", 0o600),
        ("node.json", 0o600),
        ("node.key", 0o600),
        ("seal.key", 0o600),
        ("steady.json", 0o600),
        ("svids", 0o700),
        ("svids/1", 0o700),
        ("svids/1/svid.key", 0o600),
        ("svids/1/svid.pem", 0o644),
        ("tip.json", 0o600),
        ("trust", 0o700),
        ("trust/endpoint", 0o700),
        ("trust/endpoint.pem", 0o644),
        ("trust/endpoint/DIGEST.json", 0o600),
        ("trust/endpoint/trial.json", 0o600),
        ("trust/identity", 0o700),
        ("trust/identity.pem", 0o644),
        ("trust/identity/DIGEST.json", 0o600),
        ("trust/identity/trial.json", 0o600),
    ];
    assert_eq!(found, expected.map(|(name, mode)| (name.to_owned(), mode)));
    assert_eq!(mode(&scope), 0o700);
    for link in ["svid.pem", "svid.key", "current"] {
        assert!(scope.join(link).is_symlink(), "`{link}` is moved in one step, so it is a link");
    }
    let (identity, endpoint) = (scope.join("trust/identity.pem"), scope.join("trust/endpoint.pem"));
    assert_ne!(std::fs::read(identity).unwrap(), std::fs::read(endpoint).unwrap(), "two domains, two roots");
}

#[test]
fn a_code_is_taken_from_stdin_from_a_file_and_from_the_command_line() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = place.code(&["--uses", "4"]);
    let file = place.path("code");
    std::fs::write(&file, format!("{code}\n")).unwrap();
    let file = file.to_string_lossy();
    succeeded(&place.join("web-1", &format!("  {code}\n\n")));
    succeeded(&place.node("web-2", &["join", "--name", "web-2", "--invite", &code], ""));
    succeeded(&place.node("web-3", &["join", "--name", "web-3", "--invite-file", &file], ""));
    let both = place.node("web-4", &["join", "--name", "web-4", "--invite", &code, "--invite-file", &file], "");
    ended(&both, 2, "cannot be used with");
    ended(&place.node("web-4", &["join", "--invite-file", "no-such-file"], ""), 1, "cannot read `no-such-file`");
    for node in ["web-1", "web-2", "web-3"] {
        assert_eq!(place.state_of(node).as_deref(), Some("member"));
    }
}

#[test]
fn the_facts_in_json_have_stable_names() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    let invite = place.invite(&["--uses", "2"]);
    check_fields("invite create", &invite, &["id", "code", "line", "uses", "expires_at"]);
    assert_eq!(invite["uses"], 2);
    assert_eq!(place.invite(&["--uses", "unlimited"])["uses"], "unlimited");
    let joined = json(&place.node("web-1", &["join", "--name", "web-1", "--json"], &text(&invite, "code")));
    let status = place.status("web-1");
    let told = ["org", "org_id", "name", "spiffe_id", "state", "svid_expires_at", "head", "gateways"];
    check_fields("join", &joined, &told);
    check_fields("status", &status, &told);
    assert_eq!(status["gateways"], serde_json::json!([place.address()]));
    assert_eq!((text(&status, "state"), status["head"].as_u64()), ("member".to_owned(), Some(1)));
    let nodes = place.facts(&["node", "list"]);
    let row = nodes.as_array().unwrap().iter().find(|row| row["name"] == "web-1").unwrap();
    let told = ["name", "state", "spiffe_id", "invite", "enrolled_at", "last_seen", "svid_expires_at"];
    check_fields("node list", row, &told);
    assert_eq!(row["invite"], invite["id"]);
    assert_eq!(row["svid_expires_at"], status["svid_expires_at"]);
    assert_eq!(place.facts(&["node", "show", "web-1"]), *row);
    let shown = place.facts(&["invite", "show", &text(&invite, "id")]);
    assert_eq!((shown["uses"].as_u64(), shown["spent"].as_u64()), (Some(2), Some(1)), "{shown}");
    assert_eq!(shown["joined"][0]["name"], "web-1");
}

#[test]
fn the_line_works_as_it_is_pasted() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let line = text(&place.invite(&[]), "line");
    let programs = binary("freehold-node").parent().unwrap().to_path_buf();
    let path = std::env::join_paths(
        std::iter::once(programs).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut shell = Command::new("sh");
    let root = place.root("web-1");
    shell.arg("-c").arg(format!("{line} --root '{}' --name web-1", root.display())).env("PATH", path.unwrap());
    succeeded(&output(shell));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
}

#[test]
fn flags_stand_before_or_after_the_words() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let (code, root) = (place.code(&["--uses", "2"]), place.root("before"));
    let run = |words: &[&str]| -> Output {
        let mut command = Command::new(binary("freehold-node"));
        command.args(words).stdin(Stdio::null());
        output(command)
    };
    let root = root.to_string_lossy();
    succeeded(&run(&["--json", "--root", &root, "join", "--name", "before", "--invite", &code]));
    // How long it lasts without a gateway counts down meanwhile.
    let status = |words: &[&str]| -> Value {
        let mut told = json(&run(words));
        told.as_object_mut().unwrap().remove("survival").unwrap();
        told
    };
    let before = status(&["--root", &root, "--json", "status"]);
    assert_eq!(before, status(&["status", "--json", "--root", &root]));
    let home = place.home();
    let home = home.to_string_lossy();
    let mut command = Command::new(binary("freehold"));
    command.args(["--home", &home, "--json", "node", "list"]).stdin(Stdio::null());
    assert_eq!(json(&output(command)), place.facts(&["node", "list"]));
}

#[test]
fn a_code_of_another_org_than_the_one_that_was_named_is_not_used() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let invite = place.invite(&[]);
    let code = text(&invite, "code");
    let no = place.node("web-1", &["join", "--name", "web-1", "--org", "lagoon"], &code);
    ended(&no, 2, "the code is for the org `harbor`, and not for `lagoon`");
    assert!(stderr(&no).contains("--as lagoon"), "{}", stderr(&no));
    assert!(!place.root("web-1").exists(), "nothing was made");
    assert_eq!(place.spent(&text(&invite, "id")), 0);
    succeeded(&place.node("web-1", &["join", "--name", "web-1", "--org", "harbor"], &code));
}

#[test]
fn joining_twice_is_safe_and_spends_one_use() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let invite = place.invite(&["--uses", "3"]);
    let (id, code) = (text(&invite, "id"), text(&invite, "code"));
    succeeded(&place.join("web-1", &code));
    let key = std::fs::read(place.scope("web-1").join("node.key")).unwrap();
    succeeded(&place.join("web-1", &code));
    assert_eq!(place.spent(&id), 1);
    // As if the answer had been lost: the keys are there, the mark that all is done is not.
    std::fs::remove_file(place.scope("web-1").join("node.json")).unwrap();
    succeeded(&place.join("web-1", &code));
    assert_eq!(place.spent(&id), 1);
    assert_eq!(std::fs::read(place.scope("web-1").join("node.key")).unwrap(), key);
    assert_eq!(place.facts(&["node", "list"]).as_array().unwrap().len(), 2, "the gateway's and this one");
    let quarry = Place::founded(&[]);
    refused(&place.join("web-1", &quarry.code(&[])), "already in another org that is also called `harbor`");
}

#[test]
fn many_joins_of_one_machine_at_once_are_one() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let invite = place.invite(&["--uses", "50"]);
    for node in ["web-1", "web-2", "web-3"] {
        let words = ["join", "--name", node, "--invite", &text(&invite, "code")];
        let start = |_| {
            let mut command = place.node_command(node, &words);
            Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
        };
        for (exit, told) in (0..8).map(start).collect::<Vec<_>>().into_iter().map(Running::end) {
            assert_eq!(exit, Some(0), "{told}");
        }
        let shown = place.facts(&["node", "show", node]);
        assert_eq!((&shown["state"], &shown["alarm"]), (&"member".into(), &Value::Null));
    }
    assert_eq!(place.spent(&text(&invite, "id")), 3);
}

#[test]
fn a_machine_gets_the_labels_and_roles_that_it_asks_for_within_the_invite() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let ceilings =
        ["--name", "web-*", "--name", "db", "--give-label", "rack=3", "--give-label", "zone=a", "--give-role", "cache"];
    let code = place.code(&[&["--uses", "3"], ceilings.as_slice()].concat());
    let join = |node: &str, words: &[&str]| {
        succeeded(&place.node(node, &[&["join", "--name", node], words].concat(), &code));
        let shown = place.facts(&["node", "show", node]);
        (shown["labels"].clone(), shown["roles"].clone())
    };
    let list = |items: &[&str]| Value::from(items.to_vec());
    assert_eq!(join("web-1", &[]), (list(&[]), list(&[])));
    assert_eq!(join("web-2", &["--label", "rack=3"]), (list(&["rack=3"]), list(&[])));
    let all = ["--label", "zone=a", "--label", "rack=3", "--role", "cache"];
    assert_eq!(join("db", &all), (list(&["rack=3", "zone=a"]), list(&["cache"])));
}

#[test]
fn a_machine_without_an_org_is_told_to_join() {
    let place = Place::new();
    for words in [&["status"][..], &["run"], &["leave", "--yes"]] {
        let told = place.node("web-1", words, "");
        ended(&told, 1, "no org was joined under");
        assert!(stderr(&told).contains("hint: "), "{}", stderr(&told));
    }
}

fn check_fields(what: &str, value: &Value, fields: &[&str]) {
    for field in fields {
        assert!(value.get(field).is_some_and(|it| !it.is_null()), "`{what}` has no `{field}`: {value}");
    }
}

#[test]
fn a_machine_tries_the_gateways_of_its_code_in_turn() {
    let place = Place::new();
    let live = place.address();
    let nobody = Nobody::new();
    let dead = nobody.to_string();
    succeeded(&place.freehold(&["found", "harbor", "--unprotected", "--advertise", &dead, "--advertise", &live]));
    let _gateway = place.serve();
    succeeded(&place.join("web-1", &place.code(&[])));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    let _agent = place.agent("web-1");
    until("the agent finds the living one too", || place.status("web-1")["last_check_in"].is_string());
}
