//! Standing patterns of the fleet: publishing opens, renews and closes them.

use serde_json::Value;
use trials::place::{refused, stdout, succeeded, text, until};

use crate::publishing::Scene;

const NOWHERE: &str = "no pattern lets in a machine of this name from this network";

fn fleet(invites: &str) -> String {
    format!("nodes:\n  quay:\n{invites}")
}

/// Any pattern's code: it holds no secret.
fn code(scene: &Scene) -> String {
    scene.place.code(&["--pattern", "nobody-*", "--from", "192.0.2.0/24"])
}

#[test]
fn publishing_opens_changes_and_closes_a_pattern() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let (place, code) = (&scene.place, code(&scene));
    scene.declare(&fleet("invites:\n  lab: {names: lab-*, from: 127.0.0.0/8, approval: none}"));
    let plan = place.facts(&["plan"]);
    assert_eq!(plan["patterns"][0], serde_json::json!({"pattern": "lab", "change": "opens"}), "{plan}");
    refused(&place.join("lab-1", &code), NOWHERE);
    scene.publish();
    succeeded(&place.join("lab-1", &code));
    assert!(stdout(&place.freehold(&["node", "show", "lab-1"])).contains("LOW"));
    // Nothing changed: nothing opens, nothing closes.
    assert_eq!(place.facts(&["plan"])["patterns"], serde_json::json!([]));
    scene.publish();
    succeeded(&place.join("lab-2", &code));

    scene.declare(&fleet("invites:\n  lab: {names: lab-*, from: 10.0.0.0/8, approval: none}"));
    assert_eq!(place.facts(&["plan"])["patterns"][0]["change"], "renews");
    scene.publish();
    refused(&place.join("lab-3", &code), NOWHERE);

    scene.declare(&fleet("invites:\n  lab: {hosts: '*.lab.example', from: 127.0.0.0/8, approval: none}"));
    scene.publish();
    succeeded(&place.node("lab-3", &["join", "--host", "lab-3.lab.example"], &code));

    scene.declare(&fleet(""));
    let plan = stdout(&place.freehold(&["plan"]));
    assert!(plan.contains("pattern `lab` closes"), "{plan}");
    scene.publish();
    refused(&place.node("lab-4", &["join", "--host", "lab-4.lab.example"], &code), NOWHERE);
    for node in ["lab-1", "lab-2", "lab-3"] {
        assert_eq!(place.state_of(node).as_deref(), Some("member"), "whoever is in stays");
    }
}

#[test]
fn no_root_stays_for_a_pattern_of_the_fleet_whose_code_nobody_was_handed() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let place = &scene.place;
    let handed = text(&place.invite(&["--pattern", "nobody-*", "--from", "192.0.2.0/24"]), "id");
    scene.declare(&fleet("invites:\n  lab: {names: lab-*, from: 127.0.0.0/8, approval: none}"));
    scene.publish();
    place.facts(&["trust", "publish", "endpoint"]);
    place.facts(&["trust", "activate", "endpoint", "--anyway", "quay", "--grace", "0s"]);
    let plan = place.freehold(&["trust", "plan", "retire", "endpoint", "1", "--json"]);
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    let invites = plan["breaks"].as_array().unwrap().iter().filter(|it| it["kind"] == "invite");
    assert_eq!(invites.map(|it| text(it, "name")).collect::<Vec<_>>(), [handed.as_str()], "{plan}");
    until("the gateway has the new root", || {
        place.freehold(&["trust", "retire", "endpoint", "1", "--yes", "--waive", &handed]).status.success()
    });
    // Both let machines in, whoever shows a newer code.
    let listed = place.facts(&["invite", "list"]);
    assert!(listed.as_array().unwrap().iter().all(|it| it["state"] == "open"), "{listed}");
    succeeded(&place.join("lab-1", &code(&scene)));
}

#[test]
fn a_fleet_s_pattern_waits_for_a_person_unless_it_says_otherwise() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.declare(&fleet("invites:\n  lab: {names: lab-*, from: 127.0.0.0/8}"));
    scene.publish();
    assert_eq!(crate::nodes::invites::patterns::claims(&scene.place, &code(&scene), "lab-1"), "awaiting_approval");
}

#[test]
fn a_pattern_that_says_too_little_or_too_much_is_complained_about() {
    let scene = Scene::new();
    let told = |invites: &str| {
        scene.declare(&fleet(&format!("classes:\n  web: {{match: web-*}}\nservices:\n  wiki: {{at: web, addr: '127.0.0.1:1', groups: pages}}\ninvites:\n{invites}")));
        let output = scene.place.freehold(&["check", "fleet"]);
        assert!(!output.status.success());
        format!("{}{}", stdout(&output), trials::place::stderr(&output))
    };
    for (invites, words) in [
        ("  a: {names: lab-*}", "`invites.a` has no `from`"),
        ("  a: {from: 10.0.0.0/8}", "it needs one of: names, hosts"),
        ("  a: {names: lab-*, hosts: '*.x.example', from: 10.0.0.0/8}", "has both `names` and `hosts`"),
        ("  a: {hosts: lab, from: 10.0.0.0/8}", "a full host name has dots"),
        ("  a: {names: '*', from: 10.0.0.0/8}", "it lets in whoever asks"),
        ("  a: {names: web-1*, from: 10.0.0.0/8}", "which has services or users"),
        ("  a: {names: lab-*, from: 10.0.0.0/8, approval: maybe}", "it is one of: human, none"),
        ("  a: {names: lab-*, from: 10.0.0.0/8, roles: operator}", "the role `operator` is for users"),
    ] {
        let told = told(invites);
        assert!(told.contains(words), "`{words}` in {told}");
    }
}

#[test]
fn several_operators_agree_on_a_pattern() {
    let scene = Scene::founded(&["--signers", "2-of-3", "--node", "quay"]);
    let place = &scene.place;
    for (signer, home) in [("ann-2", "ben"), ("ann-3", "cat")] {
        let to = place.path(home).to_string_lossy().into_owned();
        succeeded(&place.freehold(&["signer", "hand-over", signer, "--to", &to]));
    }
    let _gateway = place.serve();
    scene.declare(&fleet("invites:\n  lab: {names: lab-*, from: 127.0.0.0/8, approval: none}"));
    let told = scene.publish();
    let (head, pattern) = (text(&told["pending"], "file"), text(&told["pending_patterns"][0], "file"));
    for file in [&head, &pattern] {
        succeeded(&place.co_sign("ben", file));
        succeeded(&place.operator("ben", &["send", file]));
    }
    // Its code holds no secret: that of a pattern which nobody else has signed is as good.
    let made = place.invite(&["--pattern", "nobody-*", "--from", "192.0.2.0/24"]);
    succeeded(&place.join("lab-1", &text(&made, "code")));
}
