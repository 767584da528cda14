//! `freehold access` and `freehold compile` on real folders: answers in words, and the same bytes wherever it is done.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use identity::id::Digest;
use serde_json::{Value, json};
use trials::place::{Place, below, ended, output, refused, stdout, succeeded};

const ORG: &str = "org:
  name: harbor
  id: \"0101010101010101010101010101010101010101010101010101010101010101\"
  lifetimes:
    svid: 24h
";
const NODES: &str = "nodes:
  alpha:
    address: alpha.example:7444
    relay: true
    files:
      motd:
        from: files/motd.txt
  laptop:
    labels:
      site: home
classes:
  web:
    match: [web-*, front-*]
    roles: reader
";
const SERVICES: &str = "services:
  wiki:
    at: [alpha, web]
    addr: 127.0.0.1:8080
    groups: docs
  pulse:
    at: alpha
    addr: 127.0.0.1:9100
    groups: beat
groups: [docs, beat]
";
const PEOPLE: &str = "users:
  alice:
    roles: [operator, staff]
    nodes: laptop
  bob:
    roles: [watcher]
    nodes: [laptop]
roles:
  operator:
    allow: [docs]
  staff:
    allow: [docs]
  reader:
    allow: [docs]
  watcher:
    allow: [beat]
  node:
    allow: [beat]
";

fn write(place: &Place, folder: &str, files: &[(&str, &str)]) {
    let delivered = [("files/motd.txt", "Welcome.\n")];
    for (name, text) in files.iter().chain(&delivered) {
        let path = place.path(folder).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// One file, in the order in which a person thinks.
fn whole(place: &Place) {
    write(place, "fleet", &[("fleet.yaml", &[ORG, NODES, SERVICES, PEOPLE].concat())]);
}

/// The same in other words and places: split, turned around, a part of it JSON, lists for single names.
fn scattered(place: &Place) {
    let classes = r#"{ "classes": { "web": { "roles": ["reader"], "match": ["front-*", "web-*"] } } }"#;
    let nodes = NODES.split("classes:").next().unwrap();
    let services = SERVICES.replace("at: [alpha, web]", "at: [web, alpha]").replace("[docs, beat]", "[beat, docs]");
    let people = PEOPLE.replace("[operator, staff]", "\n      - staff\n      - operator\n");
    write(
        place,
        "elsewhere/deep",
        &[
            ("z/org.yaml", ORG),
            ("a.yml", &people),
            ("m/b.yaml", nodes),
            ("m/a.yaml", &services),
            ("classes.json", classes),
            ("README.md", "not: read"),
        ],
    );
}

fn members(place: &Place, file: &str, names: &[&str]) {
    let digest = |what: &str, name: &str| Digest::of(format!("{what} {name}").as_bytes()).to_string();
    let member =
        |name: &&str| json!({ "name": name, "node_key": digest("key", name), "admission": digest("admission", name) });
    let all: Vec<Value> = names.iter().map(member).collect();
    std::fs::write(place.path(file), serde_json::to_vec(&all).unwrap()).unwrap();
}

/// Every file below a folder, by its path from there.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = below(folder).into_iter().filter(|path| path.is_file());
    files
        .map(|path| (path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap()))
        .collect()
}

fn compile_in(place: &Place, locale: &str, zone: &str, words: &[&str]) -> Output {
    let mut command = place.freehold_command(&[&["compile"], words].concat());
    command.env("LANG", locale).env("LC_ALL", locale).env("TZ", zone);
    output(command)
}

#[test]
fn the_same_fleet_gives_the_same_bytes_wherever_and_however_it_is_written() {
    let place = Place::new();
    whole(&place);
    scattered(&place);
    members(&place, "one.json", &["alpha", "laptop", "web-1", "web-2", "stray"]);
    members(&place, "two.json", &["web-2", "stray", "alpha", "web-1", "laptop"]);
    succeeded(&compile_in(&place, "C", "UTC", &["--out", "one", "--members", "one.json"]));
    let other = &["--out", "two", "--members", "two.json", "elsewhere/deep"];
    succeeded(&compile_in(&place, "tr_TR.UTF-8", "Asia/Tokyo", other));
    let (one, two) = (tree(&place.path("one")), tree(&place.path("two")));
    assert_eq!(one.keys().collect::<Vec<_>>(), two.keys().collect::<Vec<_>>());
    assert!(one == two, "the bytes differ");
    // alpha, laptop and web; no file is named by chance, none is missing.
    assert_eq!(one.keys().filter(|name| name.starts_with("manifests/")).count(), 3);
    let map: Value = serde_json::from_slice(&one["map.json"]).unwrap();
    for entry in map["leaves"].as_array().unwrap() {
        let leaf = entry["leaf"].as_object().unwrap().values().next().unwrap();
        let own = leaf["manifest"].as_str().or_else(|| leaf["manifest"]["own"].as_str());
        // Others are what their class is, or nothing.
        let Some(digest) = own.filter(|digest| *digest != "nothing") else { continue };
        assert_eq!(Digest::of(&one[&format!("manifests/{digest}.json")]).to_string(), digest);
    }
}

#[test]
fn nothing_of_the_operators_machine_is_in_what_is_compiled() {
    let place = Place::founded(&[]);
    let id = place.facts(&["org", "list"])[0]["org_id"].as_str().unwrap().to_owned();
    let text = [&ORG.replace(&"01".repeat(32), &id), NODES, SERVICES, PEOPLE].concat();
    write(&place, "fleet", &[("fleet.yaml", &text)]);
    succeeded(&compile_in(&place, "C", "UTC", &["--out", "out"]));
    let folder = place.path("out");
    let here = [folder.parent().unwrap().to_str().unwrap(), "ann", "PRIVATE", "fleet.yaml"];
    for (name, bytes) in tree(&folder) {
        let text = String::from_utf8(bytes).unwrap();
        for word in here.iter().filter(|_| !name.starts_with("schemas/")) {
            assert!(!text.contains(word), "`{word}` is in {name}");
        }
    }
}

#[test]
fn a_folder_of_somebody_else_is_not_overwritten_and_an_earlier_outcome_is_replaced_whole() {
    let place = Place::new();
    whole(&place);
    let theirs = place.path("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join("thesis"), "years of work").unwrap();
    ended(&compile_in(&place, "C", "UTC", &["--out", "theirs"]), 1, "holds something else");
    assert_eq!(std::fs::read(theirs.join("thesis")).unwrap(), b"years of work");
    succeeded(&compile_in(&place, "C", "UTC", &["--out", "out"]));
    assert!(place.path("out/waiting/laptop.json").exists());
    ended(&compile_in(&place, "C", "UTC", &["--out", "fleet/out"]), 2, "would be read as fleet");
    succeeded(&compile_in(&place, "C", "UTC", &["--out", "fleet/.out"]));
    succeeded(&place.freehold(&["check"]));
    members(&place, "all.json", &["alpha", "laptop"]);
    succeeded(&compile_in(&place, "C", "UTC", &["--out", "out", "--members", "all.json"]));
    assert!(!place.path("out/waiting").exists(), "what was there before is still there");
    assert_eq!(below(&place.path(".")).iter().filter(|path| path.to_string_lossy().ends_with(".draft")).count(), 0);
}

#[test]
fn files_hold_the_schema_back_and_the_node_is_named() {
    let place = Place::new();
    whole(&place);
    let told = compile_in(&place, "C", "UTC", &["--out", "out", "--schema", "1"]);
    ended(&told, 1, "`alpha` gets the file `motd`, which takes manifest schema 2");
    assert!(!place.path("out").exists());
}

#[test]
fn access_is_answered_with_its_reasons() {
    let place = Place::new();
    whole(&place);
    let yes = place.freehold(&["access", "alice", "wiki"]);
    succeeded(&yes);
    let told = stdout(&yes);
    assert!(told.starts_with("yes: user/alice may call `wiki`\n"), "{told}");
    assert!(
        told.contains("user `alice` has role `staff`; `staff` allows group `docs`; service `wiki` is in `docs`"),
        "{told}"
    );
    let no = place.freehold(&["access", "bob@laptop", "wiki", "fleet"]);
    refused(&no, "none of the roles of user `bob` (`watcher`) allows a group of service `wiki` (`docs`)");
    ended(&place.freehold(&["access", "mallory", "wiki"]), 2, "no user, service, node or class `mallory`");
    ended(&place.freehold(&["access", "alice"]), 2, "required");
    let facts = place.facts(&["access", "web-7", "wiki"]);
    assert_eq!((&facts["who"], &facts["allowed"]), (&json!("node/web-7"), &json!(true)));
    assert_eq!(facts["why"][0]["through_class"], "web");
    let matrix = stdout(&place.freehold(&["access", "--matrix", "fleet"]));
    let lines: Vec<&str> = matrix.lines().collect();
    assert_eq!(
        lines,
        [
            "               pulse  wiki",
            "user/alice     .      yes",
            "user/bob       yes    .",
            "service/pulse  .      .",
            "service/wiki   .      .",
            "class/web      yes    yes",
            "every node     yes    .",
        ]
    );
    let rows = place.facts(&["access", "--matrix"]);
    let alice = rows["rows"].as_array().unwrap().iter().find(|row| row["who"] == "user/alice").unwrap();
    assert_eq!(alice["may_call"], json!(["wiki"]));
}
