//! A gateway's addresses change while machines go by them: the new ones are tried, the old ones are given up last.

use serde_json::{Value, json};
use trials::place::{Place, Running, ended, stderr, succeeded, text, until};
use trials::port::Nobody;

use super::Two;

fn address(place: &Place, words: &[&str]) -> Value {
    place.facts(&[&["gateway", "address"], words].concat())
}

fn addresses(place: &Place) -> Vec<String> {
    let rows = address(place, &["list"]);
    rows.as_array().unwrap().iter().filter(|row| row["told"] == true).map(|row| text(row, "address")).collect()
}

/// `quay` serves, and the agent of `web-1` runs and goes by its one address.
fn quay() -> (Place, Running, Running) {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = place.serve();
    place.joined("web-1");
    let agent = place.agent("web-1");
    until("the agent is there", || place.status("web-1")["problem"].is_null());
    (place, gateway, agent)
}

/// The head of the node, once it has checked in after now.
fn goes_on(place: &Place, node: &str) {
    succeeded(&place.freehold(&["refresh"]));
    let head = place.facts(&["status"])["head"]["version"].as_u64();
    until("the node hears of the newest head", || {
        let status = place.status(node);
        status["head"].as_u64() >= head && status["problem"].is_null()
    });
}

#[test]
fn machines_and_new_codes_go_by_a_new_address_and_old_codes_go_on() {
    let (place, _gateway, _agent) = quay();
    let (old, new) = (place.address(), format!("localhost:{}", place.port));
    let early = place.code(&["--name", "web-2"]);
    let added = address(&place, &["add", "quay", "localhost", "--yes"]);
    assert_eq!(added["addresses"], json!([old, new]), "{added}");
    assert_eq!(
        (&added["answers"], &added["problem"]),
        (&json!(true), &Value::Null),
        "it answers by its new name at once"
    );
    let file: Value =
        serde_json::from_slice(&std::fs::read(place.org().join("gateway/gateway.json")).unwrap()).unwrap();
    assert_eq!(file["addresses"], json!([old, new]), "its own file follows");
    until("the node knows of it", || place.status("web-1")["gateways"] == json!([old, new]));
    // Codes of before and of now, while both are there.
    let both = place.code(&["--name", "web-3"]);
    succeeded(&place.join("web-2", &early));
    succeeded(&place.node("web-2", &["sync"], ""));
    // The first goes. Whoever runs is told, tries the other, and goes by it; only then the name goes, too.
    let removed =
        place.freehold(&["gateway", "address", "remove", "quay", "127.0.0.1", "--yes", "--wait", "20s", "--json"]);
    let told: Value = serde_json::from_slice(&removed.stdout).unwrap();
    assert_eq!((&told["name_is_gone"], &told["not_told"]), (&json!(false), &json!(["web-2"])), "web-2 is off: {told}");
    assert_eq!(told["went_back"], json!([]), "the agent goes by the other one: {told}");
    // A machine that was off comes back by the old name, and hears of the new one.
    succeeded(&place.node("web-2", &["sync"], ""));
    let _second = place.agent("web-2");
    let told = address(&place, &["remove", "quay", "127.0.0.1", "--yes", "--wait", "30s"]);
    assert_eq!(told["name_is_gone"], true, "{told}");
    assert_eq!(addresses(&place), std::slice::from_ref(&new));
    goes_on(&place, "web-1");
    goes_on(&place, "web-2");
    // The code of between goes on by what remains, a new one names that alone.
    succeeded(&place.join("web-3", &both));
    let invite = place.invite(&["--name", "web-4"]);
    succeeded(&place.join("web-4", &text(&invite, "code")));
    let node: Value = serde_json::from_slice(&std::fs::read(place.scope("web-4").join("node.json")).unwrap()).unwrap();
    assert_eq!(node["gateways"], json!([new]));
}

#[test]
fn an_address_that_leads_nowhere_is_tried_and_gone_back_from_and_that_is_told() {
    let (place, _gateway, _agent) = quay();
    let (nobody, old) = (Nobody::new(), place.address());
    let nowhere = nobody.at().to_string();
    let added = place.freehold(&["gateway", "address", "add", "quay", &nowhere, "--yes"]);
    succeeded(&added);
    assert!(stderr(&added).contains("nothing answers at"), "{}", stderr(&added));
    // The same host by another port: its name is kept either way.
    let remove = |words: &[&str]| {
        place.freehold(&[&["gateway", "address", "remove", "quay", &old, "--yes", "--wait", "20s"], words].concat())
    };
    ended(&remove(&[]), 1, "nothing answers from here");
    assert_eq!(addresses(&place), [old.clone(), nowhere.clone()]);
    // Whoever insists: the machine tries it, goes back, and says so.
    succeeded(&remove(&["--untried"]));
    until("the machine says where it found the gateway", || {
        place.facts(&["node", "show", "web-1"])["report"]["beside"] == old.as_str()
    });
    goes_on(&place, "web-1");
    // Back again.
    succeeded(&place.freehold(&["gateway", "address", "add", "quay", &old, "--yes"]));
    until("the machine is where the gateway is", || {
        place.facts(&["node", "show", "web-1"])["report"]["beside"].is_null()
    });
}

#[test]
fn a_name_stays_in_the_certificate_while_a_machine_needs_it() {
    let (place, _gateway, _agent) = quay();
    let (nobody, old) = (Nobody::new(), place.address());
    let nowhere = format!("localhost:{}", nobody.at().port());
    succeeded(&place.freehold(&["gateway", "address", "add", "quay", &nowhere, "--untried", "--yes"]));
    let remove = ["gateway", "address", "remove", "quay", &old, "--untried", "--yes", "--wait", "20s"];
    let told = place.freehold(&remove);
    ended(&told, 1, "nobody answers at what is left, seen from web-1");
    let rows = address(&place, &["list"]);
    let leaving = rows.as_array().unwrap().iter().find(|row| row["told"] == false).unwrap();
    assert_eq!((text(leaving, "address"), &leaving["needed_by"]), ("127.0.0.1".to_owned(), &json!(["web-1"])));
    goes_on(&place, "web-1");
    let shown = place.freehold(&["node", "show", "web-1"]);
    assert!(trials::place::stdout(&shown).contains("which is no address of the gateway"), "{shown:?}");
}

#[test]
fn the_last_address_stays_and_what_is_not_there_cannot_go() {
    let (place, _gateway, _agent) = quay();
    let last = place.freehold(&["gateway", "address", "remove", "quay", "127.0.0.1", "--yes"]);
    ended(&last, 1, "is the last address of `quay`");
    ended(&place.freehold(&["gateway", "address", "remove", "quay", "gw.example", "--yes"]), 1, "gw.example");
    ended(&place.freehold(&["gateway", "address", "add", "quay", "127.0.0.1", "--yes"]), 1, "already");
    ended(&place.freehold(&["gateway", "address", "add", "quay", "no host", "--yes"]), 2, "no host");
}

#[test]
fn what_the_fleet_declares_leaves_the_fleet_first() {
    let (place, _gateway, _agent) = quay();
    let (old, new) = (place.address(), format!("localhost:{}", place.port));
    let id = text(&place.facts(&["org", "list"])[0], "org_id");
    let fleet = |gateways: &str| {
        format!(
            "org: {{name: harbor, id: '{id}'}}\nnodes:\n  web-1: {{gateways: [{gateways}]}}\n  quay: {{}}\nusers: {{ann: {{nodes: quay, roles: [operator]}}}}\n"
        )
    };
    place.write_fleet(&fleet(&format!("'{old}'")));
    succeeded(&place.freehold(&["publish", "fleet", "--yes", "--no-wait"]));
    let added = address(&place, &["add", "quay", "localhost", "--yes"]);
    assert_eq!(added["declared_without"], json!(["web-1"]));
    let remove = || place.freehold(&["gateway", "address", "remove", "quay", "127.0.0.1", "--yes", "--wait", "20s"]);
    ended(&remove(), 1, "what the fleet declares as `gateways` for `web-1`");
    place.write_fleet(&fleet(&format!("'{new}'")));
    succeeded(&place.freehold(&["publish", "fleet", "--yes"]));
    succeeded(&remove());
    until("the name is gone", || address(&place, &["list"]).as_array().unwrap().len() == 1);
    goes_on(&place, "web-1");
}

#[test]
fn two_operators_agree_on_an_address_and_on_its_end() {
    let place = Place::founded(&["--node", "quay", "--signers", "2-of-2"]);
    let to = place.path("ben").to_string_lossy().into_owned();
    succeeded(&place.freehold(&["signer", "hand-over", "ann-2", "--to", &to]));
    let _gateway = place.serve();
    let agreed = |words: &[&str]| {
        let told = place.freehold(&[words, &["--json"]].concat());
        assert_eq!(told.status.code(), Some(5), "{}", stderr(&told));
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        let file = text(&told["pending"], "file");
        succeeded(&place.co_sign("ben", &file));
        succeeded(&place.operator("ben", &["send", &file]));
    };
    let both = [place.address(), format!("localhost:{}", place.port)];
    agreed(&["gateway", "address", "add", "quay", "localhost", "--yes"]);
    assert_eq!(addresses(&place), both);
    let remove = ["gateway", "address", "remove", "quay", "localhost", "--yes", "--wait", "20s"];
    agreed(&remove);
    assert_eq!(addresses(&place), both[..1]);
    // Once more, for the name.
    agreed(&remove);
    assert_eq!(address(&place, &["list"]).as_array().unwrap().len(), 1);
    ended(&place.freehold(&remove), 1, "there is no address `localhost`");
}

#[test]
fn another_gateway_is_given_an_address_from_where_operators_are() {
    let (two, _laptop, _vps) = Two::serving();
    two.settle();
    let new = format!("localhost:{}", two.port());
    let added = address(&two.place, &["add", "vps", &new, "--yes"]);
    assert_eq!((&added["answers"], &added["addresses"]), (&json!(true), &json!([two.address(), new])), "{added}");
    let file = two.place.scope("vps").join("gateway/gateway.json");
    until("its own file follows", || std::fs::read_to_string(&file).unwrap_or_default().contains(&new));
}
