//! A fleet in files: the example, what is said when it is broken, and that nothing is needed to look at it.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trials::place::{Place, binary, ended, json, output, stderr, stdout, succeeded, text};

/// Changes one file of a fleet; what is changed must be there.
fn change(file: &Path, from: &str, to: &str) {
    let before = fs::read_to_string(file).unwrap();
    assert!(before.contains(from), "`{from}` is not in `{}`", file.display());
    fs::write(file, before.replacen(from, to, 1)).unwrap();
}

fn complaints(output: &Output) -> Vec<Value> {
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    told["complaints"].as_array().unwrap().clone()
}

#[test]
fn an_example_is_well_and_a_mistake_is_shown_with_its_line() {
    let place = Place::founded(&["--node", "quay"]);
    let told = place.facts(&["fleet", "init", "fleet"]);
    assert_eq!((text(&told, "org"), &told["known"]), ("harbor".to_owned(), &Value::Bool(true)));
    let folder = place.path("fleet");
    for name in told["files"].as_array().unwrap() {
        assert!(folder.join(name.as_str().unwrap()).is_file(), "{name}");
    }
    let org = fs::read_to_string(folder.join("org.yaml")).unwrap();
    assert!(org.contains(&format!("gateways: [\"{}\"]", place.address())), "{org}");
    assert!(org.contains(&text(&told, "org_id")) && !org.contains('@'), "{org}");
    assert!(fs::read_to_string(folder.join("people.yaml")).unwrap().contains("  ann:"), "the founder is an operator");

    let checked = place.freehold(&["check"]);
    succeeded(&checked);
    assert_eq!(stdout(&checked), "the fleet of `harbor` is well: 3 nodes, 1 class, 2 services, 3 users\n");

    let services = folder.join("services.yaml");
    change(&services, "groups: watch", "group: watch");
    let checked = place.freehold(&["check", "fleet"]);
    ended(&checked, 1, "the fleet cannot be published as it is\n  caused by: 1 error");
    let shown = "services.yaml:15:5: error: `services.pulse` has no key `group`
  15 |     group: watch
     |     ^^^^^
  hint: did you mean `groups`?
";
    assert_eq!(stdout(&checked), shown);

    let told = place.freehold(&["check", "--json"]);
    assert_eq!(told.status.code(), Some(1));
    let found = complaints(&told);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&found[0]["file"], &found[0]["line"], &found[0]["column"]),
        (&"services.yaml".into(), &15.into(), &5.into())
    );
    assert_eq!((&found[0]["severity"], &found[0]["mark"]["width"]), (&"error".into(), &5.into()));

    // A warning alone is no failure.
    change(&services, "    group: watch\n", "");
    let told = place.facts(&["check"]);
    assert_eq!((&told["ok"], &told["errors"]), (&true.into(), &0.into()));
    assert!(told["warnings"].as_u64().unwrap() > 0, "{told}");
}

#[test]
fn a_fleet_is_never_overwritten() {
    let place = Place::new();
    succeeded(&place.freehold(&["fleet", "init", "fleet"]));
    let folder = place.path("fleet");
    change(&folder.join("org.yaml"), "freshness: 30d", "freshness: 9d");
    ended(&place.freehold(&["fleet", "init", "fleet"]), 1, "there is a fleet already");
    assert!(fs::read_to_string(folder.join("org.yaml")).unwrap().contains("freshness: 9d"));
    // Nor is anything else that lies where a file would be.
    let other = place.path("other");
    fs::create_dir_all(other.join("files")).unwrap();
    fs::write(other.join("files/motd.txt"), "mine").unwrap();
    ended(&place.freehold(&["fleet", "init", "other"]), 1, "there is a fleet already");
    assert_eq!(fs::read_to_string(other.join("files/motd.txt")).unwrap(), "mine");
    assert!(!other.join("org.yaml").exists());
}

#[test]
fn checking_needs_no_home_and_the_org_of_a_home_is_held_against_it() {
    let place = Place::new();
    succeeded(&place.freehold(&["fleet", "init", "fleet"]));
    succeeded(&place.freehold(&["check"]));
    assert!(!place.home().exists(), "looking makes no home");
    let mut without_home = Command::new(binary("freehold"));
    without_home.args(["check", "fleet"]).current_dir(place.path("")).env_clear().stdin(Stdio::null());
    succeeded(&output(without_home));

    let address = place.address();
    succeeded(&place.freehold(&["found", "harbor", "--unprotected", "--advertise", &address]));
    let refused = place.freehold(&["check"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stdout(&refused).contains("this is another org's id"), "{}", stdout(&refused));
    assert!(stdout(&refused).contains("org.yaml:10:7"), "{}", stdout(&refused));
    // While a gateway serves, its lock is held; looking at files does not wait for it.
    let _gateway = place.serve();
    succeeded(&place.freehold(&["fleet", "init", "mine"]));
    succeeded(&place.freehold(&["check", "mine"]));
}

#[test]
fn a_folder_can_be_hostile_and_the_answer_comes_in_words() {
    let place = Place::new();
    succeeded(&place.freehold(&["fleet", "init", "fleet"]));
    let folder = place.path("fleet");
    let mut bomb = "a: &a [lol, lol]\n".to_owned();
    for (one, next) in ('a'..='y').zip('b'..='z') {
        writeln!(bomb, "{next}: &{next} [*{one}, *{one}, *{one}, *{one}, *{one}, *{one}]").unwrap();
    }
    fs::write(folder.join("bomb.yaml"), bomb).unwrap();
    fs::write(folder.join("deep.yaml"), "[".repeat(100_000)).unwrap();
    fs::File::create(folder.join("latin.yaml")).unwrap().write_all(b"users: {\xe9: }\n").unwrap();
    let told = place.freehold(&["check", "--json"]);
    assert_eq!(told.status.code(), Some(1));
    let found = complaints(&told);
    let files: Vec<_> = found.iter().map(|complaint| complaint["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["bomb.yaml", "deep.yaml", "latin.yaml"]);
    assert!(text(&found[0], "message").contains("aliases"), "{}", found[0]);
    assert!(text(&found[2], "message").contains("UTF-8"), "{}", found[2]);
    // A link that leads out of the folder is not followed, not even to a file that would be well.
    let outside = place.path("outside.yaml");
    fs::write(&outside, "nodes: {}\n").unwrap();
    std::os::unix::fs::symlink(&outside, folder.join("link.yaml")).unwrap();
    ended(&place.freehold(&["check"]), 1, "`link.yaml` leads out of the fleet's folder");
}

#[test]
fn the_schema_is_json_and_the_one_that_the_example_brings() {
    let place = Place::new();
    succeeded(&place.freehold(&["fleet", "init", "fleet"]));
    let schema = json(&place.freehold(&["fleet", "schema"]));
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let brought: Value = serde_json::from_slice(&fs::read(place.path("fleet/.schema/fleet.json")).unwrap()).unwrap();
    assert_eq!(brought, schema);
    // What is said about an empty folder, and about one that is not there.
    fs::create_dir(place.path("empty")).unwrap();
    let empty = place.freehold(&["check", "empty"]);
    assert_eq!(empty.status.code(), Some(1));
    assert!(stdout(&empty).contains("freehold fleet init DIR"), "{}", stdout(&empty));
    ended(&place.freehold(&["check", "nowhere"]), 1, "there is no folder `nowhere`");
}

#[test]
fn whoever_is_in_a_wrong_folder_is_told_that_and_nothing_else() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("src/deep")).unwrap();
    std::fs::write(place.path("src/deep/package.json"), "{\"name\": \"something else\"}").unwrap();
    let told = place.freehold(&["check"]);
    ended(&told, 1, "there is no fleet here");
    assert!(!stderr(&told).contains("package.json"), "{}", stderr(&told));
    assert!(stderr(&told).contains("freehold fleet init DIR"), "{}", stderr(&told));
}
