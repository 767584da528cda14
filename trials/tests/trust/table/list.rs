//! `trust list`, `trust show`, `trust plan`: what is so, and what would be.

use trials::place::{ended, stderr, stdout, succeeded, text, until};

use super::{Scene, broken, row};
use crate::gateways::Two;

#[test]
fn the_list_shows_how_far_a_version_has_come_and_names_who_lacks_it() {
    let mut scene = Scene::with_nodes(&[]);
    scene.switch_off();
    scene.place.facts(&["trust", "publish", "endpoint"]);
    until("who is there has it", || scene.adopted("endpoint", 2) == ["quay", "web-1"]);
    let listed = scene.place.facts(&["trust", "list"]);
    let staged = row(&listed, "endpoint", 2);
    assert_eq!((&staged["state"], &staged["replaces_version"]), (&"staged".into(), &1.into()));
    let missing = &staged["adoption"]["missing"];
    assert_eq!((missing.as_array().map(Vec::len), &missing[0]["name"]), (Some(1), &"web-2".into()), "{missing}");
    assert!(missing[0]["last_seen"].is_string(), "{missing}");
    // The other domain is as it was.
    assert_eq!(scene.adopted("identity", 1).len(), 3);
    let told = stdout(&scene.place.freehold(&["trust", "list"]));
    for words in
        ["[############] 3 of 3", "[########----] 2 of 3", "endpoint 2 is not with:\n  `web-2`: not yet; last seen"]
    {
        assert!(told.contains(words), "no `{words}` in:\n{told}");
    }
    // A node that is gone for good is not waited for.
    succeeded(&scene.place.freehold(&["node", "revoke", "web-2", "--yes"]));
    let told = stdout(&scene.place.freehold(&["trust", "list"]));
    assert!(told.contains("[############] 2 of 2") && !told.contains("web-2"), "{told}");
}

#[test]
fn a_version_is_shown_with_everything_in_it() {
    let scene = Scene::new(&[]);
    scene.place.facts(&["trust", "publish", "endpoint"]);
    let first = scene.place.facts(&["trust", "show", "endpoint"]);
    let second = scene.place.facts(&["trust", "show", "endpoint", "2"]);
    assert_eq!((&first["trust_bundle_version"], &first["state"]), (&1.into(), &"active".into()), "the one in use");
    assert_eq!(first["replaces_version"], serde_json::Value::Null);
    assert_eq!((&second["replaces_version"], &second["state"]), (&1.into(), &"staged".into()));
    assert_eq!((&second["environment_name"], &second["domain"]), (&"harbor".into(), &"endpoint".into()));
    assert_eq!(second["environment_domain"][0], "127.0.0.1");
    assert_eq!(second["signed_by"][0], "ann");
    assert_eq!(second["issuers"][0]["gateway"], "quay", "its key is certified under the new root");
    assert_eq!(second["roots"][0]["sha256_fingerprint"], second["sha256_fingerprint"]);
    assert!(text(&second["roots"][0], "subject").starts_with("CN=harbor endpoint root"), "{second}");
    assert_ne!(first["sha256_fingerprint"], second["sha256_fingerprint"]);
    let pem = stdout(&scene.place.freehold(&["trust", "show", "endpoint", "2", "--pem"]));
    assert_eq!(pem, text(&second, "bundle_pem"));
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n"), "{pem}");
    let told = stdout(&scene.place.freehold(&["trust", "show", "endpoint", "2"]));
    for words in [
        "endpoint 2 of `harbor`: staged",
        "signed by        ann",
        "issuing key of `quay`",
        "replaces         version 1",
    ] {
        assert!(told.contains(words), "no `{words}` in:\n{told}");
    }
    ended(&scene.place.freehold(&["trust", "show", "endpoint", "9"]), 3, "there is no version 9 of `endpoint`");
    // One domain is not the other.
    ended(&scene.place.freehold(&["trust", "show", "identity", "2"]), 3, "there is no version 2 of `identity`");
    ended(&scene.place.freehold(&["trust", "show", "members"]), 2, "invalid value");
}

#[test]
fn a_plan_says_what_would_be_so_and_changes_nothing() {
    let mut scene = Scene::with_nodes(&[]);
    let (plan, exit) = scene.plan(&["publish", "endpoint"]);
    assert_eq!((exit, broken(&plan), &plan["trust_bundle_version"]), (Some(0), vec![], &2.into()));
    ended(
        &scene.place.freehold(&["trust", "plan", "activate", "endpoint"]),
        3,
        "no version of the `endpoint` bundle is staged",
    );
    ended(&scene.place.freehold(&["trust", "plan", "rollback", "endpoint"]), 3, "nothing before it");
    ended(&scene.place.freehold(&["trust", "plan", "retire", "endpoint", "1"]), 3, "version 1 is active, not grace");
    ended(&scene.place.freehold(&["trust", "plan", "retire", "1"]), 2, "both domains have a version 1");
    ended(&scene.place.freehold(&["trust", "plan", "retire", "7"]), 3, "there is no version 7");
    // Whoever asks for what is not there is told so in one way.
    for words in [&["show", "endpoint", "7"][..], &["plan", "retire", "endpoint", "7"], &["retire", "endpoint", "7"]] {
        let told = scene.place.freehold(&[&["trust"], words].concat());
        ended(&told, 3, "there is no version 7 of ");
        ended(&told, 3, "freehold trust list");
    }
    ended(&scene.place.freehold(&["trust", "retire", "7"]), 3, "there is no version 7");
    scene.switch_off();
    scene.place.facts(&["trust", "publish", "endpoint"]);
    until("who is there has it", || scene.adopted("endpoint", 2) == ["quay", "web-1"]);
    let before = scene.place.facts(&["audit"]);
    let (plan, exit) = scene.plan(&["activate", "endpoint"]);
    assert_eq!((exit, broken(&plan)), (Some(3), vec![("node", "web-2")]));
    assert_eq!(text(&plan, "command"), "freehold trust activate endpoint --anyway web-2");
    // Nobody breaks by that: the former version stays.
    let told = scene.place.freehold(&["trust", "plan", "activate", "endpoint"]);
    ended(&told, 3, "1 must have it, or be named, before `freehold trust activate endpoint`");
    let words = stdout(&told);
    assert!(words.contains("1 has not taken version 2 over:"), "{words}");
    assert!(words.contains("Nobody is cut off by this step: they go on by version 1, which stays trusted"), "{words}");
    assert!(!words.contains("would break") && !stderr(&told).contains("would break"), "{words}{}", stderr(&told));
    // Nobody has what is staged alone.
    let (plan, exit) = scene.plan(&["rollback", "endpoint"]);
    assert_eq!((exit, broken(&plan), &plan["trust_bundle_version"]), (Some(0), vec![], &3.into()));
    assert_eq!(plan["versions"][1]["then"], "retired");
    assert_eq!(scene.place.facts(&["audit"]), before, "a plan is no deed");
}

#[test]
fn a_gateway_whose_issuing_key_is_not_known_is_named_before_a_root_is_drawn() {
    let (two, _laptop) = Two::joined();
    two.request();
    succeeded(&two.place.freehold(&["gateway", "add", "vps.request", "--out", "vps.grant", "--yes"]));
    let plan = |domain: &str| two.place.freehold(&["trust", "plan", "publish", domain]);
    for domain in ["endpoint", "identity"] {
        ended(&plan(domain), 3, "1 would break");
        assert!(
            stdout(&plan(domain)).contains("gateway  vps   it has not told its issuing key"),
            "{}",
            stdout(&plan(domain))
        );
    }
    two.install();
    let _vps = two.serve_vps();
    until("its keys are known", || plan("endpoint").status.success() && plan("identity").status.success());
}
