//! A machine with the role `observer`, as CI is one: it plans, lists and audits by itself, and can do nothing else.

use std::process::Output;

use identity::certificate;
use identity::id::Digest;
use identity::key::P256Key;
use identity::time::Seconds;
use org::ledger::frontier::Frontier;
use serde_json::Value;
use trials::attack::thief::signed_call;
use trials::client::stranger::{Dial, Own};
use trials::place::{Place, binary, ended, json, output, stderr, succeeded, text};
use wire::control::Call;
use wire::exchange::{ExchangeRequest, Have};
use wire::permit::Ask;

use super::{Scene, wiki_on};

/// The very commands of the guide, with `$CI` where its machine's folder is.
fn of_the_guide(place: &Place, line: &str) -> Output {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/ci.md")).unwrap();
    assert!(guide.contains(line), "the guide does not say `{line}`");
    let line = line.replace("\"$CI\"", &place.root("ci").to_string_lossy());
    let mut words = line.split(' ');
    let mut command = std::process::Command::new(binary(words.next().unwrap()));
    command.args(words).current_dir(place.path("")).env("HOME", place.path("runner")).env_remove("FREEHOLD_HOME");
    output(command)
}

fn join(place: &Place, name: &str, code: &str, words: &[&str]) {
    succeeded(&place.node("ci", &[&["join", "--name", name], words].concat(), code));
}

fn own(place: &Place, node: &str) -> Own {
    let read = |name: &str| std::fs::read_to_string(place.scope(node).join(name)).unwrap();
    let chain = certificate::from_pem(&read("svid.pem")).unwrap();
    Own { chain, key: P256Key::from_pem(&read("svid.key")).unwrap() }
}

fn news() -> ExchangeRequest {
    let frontier = Frontier::default();
    ExchangeRequest::News(Have { frontier, issued: 0, reports: 0, tip: None, forks: Vec::new(), wait: Seconds(0) })
}

#[test]
fn ci_checks_plans_lists_and_audits_with_the_commands_of_the_guide_and_no_signers_key() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1", "web-2"]);
    let place = &scene.place;
    let code = place.code(&["--name", "ci-*", "--give-role", "observer", "--uses", "1000"]);
    join(place, "ci-7", &code, &["--role", "observer"]);
    scene.declare(&wiki_on("web-2"));
    succeeded(&of_the_guide(place, "freehold check fleet"));
    let plan = json(&of_the_guide(place, "freehold plan fleet --as-node \"$CI\" --json"));
    let operators: Value = place.facts(&["plan", "fleet"]);
    assert_eq!((&plan["root"], &plan["head"]), (&operators["root"], &operators["head"]), "it folds the same ledger");
    let nodes = json(&of_the_guide(place, "freehold node list --as-node \"$CI\" --json"));
    let mut names: Vec<String> = nodes.as_array().unwrap().iter().map(|node| text(node, "name")).collect();
    names.sort();
    assert_eq!(names, ["ci-7", "quay", "web-1", "web-2"]);
    assert_eq!(json(&of_the_guide(place, "freehold audit --verify --as-node \"$CI\" --json"))["ok"], true);
    let status = json(&of_the_guide(place, "freehold status --as-node \"$CI\" --json"));
    assert_eq!(status["head"]["version"], plan["head"]);
    succeeded(&of_the_guide(place, "freehold access --matrix fleet"));
    // What was decided meanwhile is in the next answer.
    scene.publish();
    let after = json(&of_the_guide(place, "freehold plan fleet --as-node \"$CI\" --json"));
    assert!(after["head"].as_u64() > plan["head"].as_u64(), "{after}");
    for words in
        ["refresh", "invite create", "node revoke web-1 --yes", "publish fleet --yes", "node waiting", "sign --show"]
    {
        let line = format!("{words} --as-node {}", place.root("ci").display());
        let mut command = std::process::Command::new(binary("freehold"));
        command.args(line.split(' ')).current_dir(place.path("")).env("HOME", place.path("runner"));
        ended(&output(command), 3, "an observer only looks");
    }
    succeeded(&of_the_guide(place, "freehold-node leave --yes --root \"$CI\""));
    let gone = of_the_guide(place, "freehold plan fleet --as-node \"$CI\" --json");
    assert!(!gone.status.success(), "{}", stderr(&gone));
}

#[test]
fn an_observer_reads_what_is_signed_and_neither_files_nor_issuers_nor_observations_and_writes_nothing() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1"]);
    let place = &scene.place;
    join(place, "ci", &place.code(&["--name", "ci", "--give-role", "observer"]), &["--role", "observer"]);
    let dial = |node: &str| Dial::to(place.port).with(&own(place, node)).line();
    let mut line = dial("ci");
    let told = line.ask(Ask::Exchange, &news()).unwrap();
    assert_eq!(told.code(), "ok", "{:?}", told.body);
    let told = &told.body["news"];
    assert!(!told["entries"].as_array().unwrap().is_empty());
    assert_eq!((&told["issued"], &told["reports"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    let digest = Digest::of(b"any");
    for (request, code) in [
        (ExchangeRequest::Map { root: digest, from: 0 }, "ok"),
        (ExchangeRequest::MapChange { root: digest, base: digest }, "ok"),
        (ExchangeRequest::Blobs { digests: vec![digest] }, "ok"),
        (ExchangeRequest::File { digest, from: 0 }, "not_permitted"),
        (ExchangeRequest::Issuers {}, "not_permitted"),
    ] {
        assert_eq!(line.code(Ask::Exchange, &request), code, "{request:?}");
        assert_eq!(dial("web-1").code(Ask::Exchange, &request), "not_permitted", "a member without the role");
    }
    assert_eq!(dial("web-1").code(Ask::Exchange, &news()), "not_permitted");
    let key = ground::random::ed25519().unwrap();
    for call in [Call::Survey { tip: None }, Call::Stage { blobs: Vec::new() }, Call::Inbox { after: 0 }] {
        let call = signed_call("ci", &call, line.exporter, &key);
        assert_eq!(line.code(Ask::Control, &call), "not_an_operator");
    }
}

#[test]
fn an_observer_is_cut_when_its_key_is_revoked_and_when_its_role_goes() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1"]);
    let place = &scene.place;
    join(place, "ci", &place.code(&["--name", "ci", "--give-role", "observer"]), &["--role", "observer"]);
    let mut line = Dial::to(place.port).with(&own(place, "ci")).line();
    assert_eq!(line.code(Ask::Exchange, &news()), "ok");
    let replaced = place.facts(&["node", "replace", "ci", "--yes"]);
    // The same open connection is cut, or refused.
    let told = line.ask(Ask::Exchange, &news());
    assert!(told.as_ref().map_or(true, |told| told.code() == "key_revoked"), "{told:?}");
    std::fs::remove_dir_all(place.root("ci")).unwrap();
    // The same name again, and this time it does not ask for the role.
    join(place, "ci", &text(&replaced, "code"), &[]);
    let mut line = Dial::to(place.port).with(&own(place, "ci")).line();
    assert_eq!(line.code(Ask::Exchange, &news()), "not_permitted");
    // Nobody takes a role that the invite does not give.
    let plain = place.code(&["--name", "ci-2"]);
    let refused = place.node("ci-2", &["join", "--name", "ci-2", "--role", "observer"], &plain);
    ended(&refused, 3, "the invite does not give the role `observer`");
}
