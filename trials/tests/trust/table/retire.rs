//! A version is retired: everything that would break is named first, and what was waived is on record.

use serde_json::Value;
use trials::place::{ended, refused, stderr, stdout, succeeded, text, until};

use super::{Scene, broken, row};

#[test]
fn what_would_break_is_named_and_nothing_is_retired_until_each_is_waived() {
    let mut scene = Scene::with_nodes(&[]);
    let old = scene.place.invite(&["--name", "late", "--label", "rack 3"]);
    let bundle = scene.place.path("boxed.bundle").to_string_lossy().into_owned();
    let boxed = text(&scene.place.facts(&["bundle", "issue", "boxed", "--out", &bundle]), "invite");
    let file = scene.place.path("image.invite").to_string_lossy().into_owned();
    let image = text(&scene.place.invite(&["--kind", "key", "--out", &file, "--uses", "9", "--name", "img-*"]), "id");
    // What nobody can come with any more is no loss.
    let gone = text(&scene.place.invite(&["--name", "gone"]), "id");
    succeeded(&scene.place.freehold(&["invite", "revoke", &gone, "--yes"]));
    scene.turned("endpoint");
    let new = scene.place.invite(&["--name", "new"]);
    let id = text(&old, "id");
    let (plan, exit) = scene.plan(&["retire", "1"]);
    assert_eq!(exit, Some(3));
    let all = [("node", "web-2"), ("invite", id.as_str()), ("bundle_file", &boxed), ("image", &image)];
    assert_eq!(broken(&plan), all);
    let told = scene.place.freehold(&["trust", "plan", "retire", "endpoint", "1"]);
    assert_eq!(plain(&scene, &stdout(&told), &[&id, &boxed, &image]), include_str!("plan.txt"));
    // One too few, and one that is not there.
    let retire = |names: &[&str]| {
        let waived: Vec<&str> = names.iter().flat_map(|name| ["--waive", name]).collect();
        scene.place.freehold(&[&["trust", "retire", "endpoint", "1", "--yes", "--json"], waived.as_slice()].concat())
    };
    refused(&retire(&[]), "4 would break, and nobody waived it");
    let few = retire(&[&id, &boxed, &image]);
    refused(&few, "node `web-2`: it goes by version 1 alone");
    assert!(!stderr(&few).contains(&boxed), "what was waived is not named again: {}", stderr(&few));
    ended(&retire(&[&id, &boxed, &image, "web-2", "web-9"]), 2, "nothing that would break is called `web-9`");
    assert_eq!(row(&scene.place.facts(&["trust", "list"]), "endpoint", 1)["state"], "grace", "nothing was done");
    // The beginning of an id is enough, as everywhere.
    succeeded(&retire(&[&id[..12], &boxed, &image, "web-2"]));
    let listed = scene.place.facts(&["trust", "list"]);
    assert_eq!(
        (&row(&listed, "endpoint", 1)["state"], &row(&listed, "endpoint", 1)["adoption"]),
        (&"retired".into(), &Value::Null)
    );
    let audit = scene.place.facts(&["audit"]);
    let last = audit.as_array().unwrap().last().unwrap();
    assert_eq!((&last["action"], &last["version"]), (&"bootstrap_trust.retire".into(), &1.into()));
    let waived =
        ["node web-2".to_owned(), format!("invite {id}"), format!("bundle file {boxed}"), format!("image {image}")];
    assert_eq!(last["waived"], Value::from(waived.to_vec()));
    // It was true: the old code finds nobody, the new one does, and who was off comes home.
    let in_vain = scene.place.join("late", &text(&old, "code"));
    refused(&in_vain, "the code pins a root that the org uses no more");
    refused(&in_vain, "ask an operator for a new code: freehold invite create");
    for stranded in [&id, &boxed, &image] {
        let shown = scene.place.facts(&["invite", "show", stranded]);
        assert_eq!(shown["state"], "stranded", "{shown}");
        assert!(text(&shown, "state_why").ends_with(" of version 1"), "{shown}");
    }
    let shown = scene.place.facts(&["invite", "show", &text(&new, "id")]);
    assert_eq!((&shown["state"], &shown["state_why"]), (&"open".into(), &Value::Null), "{shown}");
    let listed = stdout(&scene.place.freehold(&["invite", "list"]));
    assert!(listed.contains("3 stranded: the endpoint root that it pins is retired"), "{listed}");
    succeeded(&scene.place.join("new", &text(&new, "code")));
    // The page of the org tells of what is retired as long as somebody goes by it, and no longer.
    let retired = || {
        let status = scene.place.facts(&["status"]);
        status["trust"].as_array().unwrap().iter().find(|it| it["state"] == "retired").cloned()
    };
    assert!(retired().is_some_and(|it| it["version"] == 1 && it["used_by"].as_u64() >= Some(1)), "{:?}", retired());
    let page = stdout(&scene.place.freehold(&["status"]));
    assert!(page.contains("endpoint 1: retired, yet ") && page.contains("went by it when last heard of"), "{page}");
    let _agent = scene.place.agent("web-2");
    until("who was off has come home", || scene.adopted("endpoint", 2).contains(&"web-2".to_owned()));
    until("nobody goes by what is retired", || retired().is_none());
}

/// What differs each time is replaced by what it is.
fn plain(scene: &Scene, told: &str, ids: &[&str]) -> String {
    let listed = scene.place.facts(&["trust", "list"]);
    let root = text(row(&listed, "endpoint", 1), "sha256_fingerprint");
    let told = told.replace(&root, "ROOT").replace(&root[..16], "ROOT");
    let told = ids.iter().zip(["INVITE", "BUNDLE", "IMAGE"]).fold(told, |told, (id, word)| told.replace(id, word));
    let moment = |word: &str| word.len() >= 20 && word.as_bytes()[4] == b'-' && word.as_bytes()[10] == b'T';
    let words = |line: &str| {
        let words = line.split_whitespace().map(|word| if moment(word) { "TIME" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    // Which id comes first is chance.
    let told = told.split_once(" --waive").map_or(told.as_str(), |(before, _)| before);
    told.lines().map(words).map(|line| line + "\n").collect()
}

#[test]
fn a_grace_is_a_promise_that_takes_a_word_to_break() {
    let scene = Scene::new(&[]);
    let place = &scene.place;
    place.facts(&["trust", "publish", "endpoint"]);
    until("the gateway has it", || scene.adopted("endpoint", 2) == ["quay"]);
    place.facts(&["trust", "activate", "endpoint", "--grace", "7d"]);
    let promised = place.freehold(&["trust", "retire", "endpoint", "1", "--yes"]);
    refused(&promised, "version 1 is promised to be trusted until");
    refused(&promised, "freehold trust retire endpoint 1 --early");
    ended(&place.freehold(&["trust", "retire", "endpoint", "1", "--early"]), 2, "this needs a yes");
    let (plan, exit) = scene.plan(&["retire", "endpoint", "1"]);
    assert_eq!((exit, text(&plan, "command").as_str()), (Some(0), "freehold trust retire endpoint 1 --early"));
    succeeded(&place.freehold(&["trust", "retire", "1", "--early", "--yes"]));
    refused(&place.freehold(&["trust", "retire", "endpoint", "1", "--yes"]), "version 1 is retired, not grace");
    succeeded(&place.freehold(&["audit", "--verify"]));
}

#[test]
fn a_certificate_of_the_old_root_is_named_with_the_node_that_holds_it() {
    let mut scene = Scene::with_nodes(&[]);
    scene.turned("identity");
    // Those who are there get new ones by and by.
    let off = |plan: &Value| {
        let all: Vec<(String, String)> =
            broken(plan).iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect();
        all.into_iter().filter(|(_, name)| name == "web-2").map(|(kind, _)| kind).collect::<Vec<_>>()
    };
    let (plan, exit) = scene.plan(&["retire", "1"]);
    assert_eq!((exit, off(&plan)), (Some(3), vec!["node".to_owned(), "certificate".to_owned()]));
    let held =
        plan["breaks"].as_array().unwrap().iter().find(|it| it["kind"] == "certificate" && it["name"] == "web-2");
    let why = text(held.unwrap(), "why");
    assert!(why.contains("its certificate leads only to the root of version 1, until"), "{why}");
    until("everybody else has new certificates", || broken(&scene.plan(&["retire", "1"]).0).len() == 2);
    // One name waives the node and what it holds.
    succeeded(&scene.place.freehold(&["trust", "retire", "identity", "1", "--yes", "--waive", "web-2"]));
    scene.agents.push(scene.place.agent("web-2"));
    until("who was off has come home", || scene.adopted("identity", 2).contains(&"web-2".to_owned()));
}

#[test]
fn whoever_signs_with_the_others_sees_what_was_waived() {
    let mut scene = Scene::with_nodes(&["--signers", "2-of-2"]);
    scene.turned("endpoint");
    let to = scene.place.path("ben").to_string_lossy().into_owned();
    succeeded(&scene.place.freehold(&["signer", "hand-over", "ann-2", "--to", &to]));
    let retired = scene.place.facts(&["trust", "retire", "endpoint", "1", "--yes", "--waive", "web-2"]);
    let file = text(&retired["pending"], "file");
    assert_eq!(
        row(&scene.place.facts(&["trust", "list"]), "endpoint", 1)["state"],
        "grace",
        "one alone retires nothing"
    );
    let shown = scene.place.operator("ben", &["sign", "--show", &file]);
    assert!([stdout(&shown), stderr(&shown)].concat().contains("LETS BREAK: node web-2"), "{}", stdout(&shown));
    succeeded(&scene.place.co_sign("ben", &file));
    succeeded(&scene.place.operator("ben", &["send", &file]));
    assert_eq!(row(&scene.place.facts(&["trust", "list"]), "endpoint", 1)["state"], "retired");
    assert_eq!(scene.place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn what_waited_for_signatures_is_weighed_again_before_it_is_sent() {
    let mut scene = Scene::with_nodes(&["--signers", "2-of-2"]);
    scene.turned("endpoint");
    let late = scene.place.code(&["--name", "web-3"]);
    let to = scene.place.path("ben").to_string_lossy().into_owned();
    succeeded(&scene.place.freehold(&["signer", "hand-over", "ann-2", "--to", &to]));
    let retired = scene.place.facts(&["trust", "retire", "endpoint", "1", "--yes", "--waive", "web-2"]);
    let file = text(&retired["pending"], "file");
    succeeded(&scene.place.co_sign("ben", &file));
    // Somebody came meanwhile who has not said what it goes by.
    succeeded(&scene.place.join("web-3", &late));
    let told = scene.place.operator("ben", &["send", &file]);
    refused(&told, "this would break node web-3, which nobody waived");
    assert_eq!(row(&scene.place.facts(&["trust", "list"]), "endpoint", 1)["state"], "grace", "nothing was done");
    scene.agents.push(scene.place.agent("web-3"));
    until("it has said so", || scene.adopted("endpoint", 2).contains(&"web-3".to_owned()));
    succeeded(&scene.place.operator("ben", &["send", &file]));
    assert_eq!(row(&scene.place.facts(&["trust", "list"]), "endpoint", 1)["state"], "retired");
}
