//! One gateway died, and the other had not heard of everything: the operator's home has it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

use identity::time::{Seconds, Timestamp};
use serde_json::Value;
use trials::place::{Place, binary, ended, json, output, stdout, succeeded, text, until};
use trials::port::Nobody;

use super::Two;

/// What was decided at one gateway that then died is in the operator's home: the survivor is handed it, not accused.
#[test]
fn a_survivor_is_handed_what_it_never_heard_of() {
    survives(false);
}

#[test]
fn a_survivor_is_handed_what_it_never_heard_of_in_the_middle_of_a_rotation() {
    survives(true);
}

fn survives(rotates: bool) {
    let (two, laptop, vps) = Two::serving();
    let place = &two.place;
    place.joined("web-1");
    let home = place.path("elsewhere");
    std::fs::create_dir_all(home.join("harbor")).unwrap();
    place.copy(&place.org().join("operator"), &home.join("harbor/operator"));
    let run = |words: &[&str]| {
        let mut command = Command::new(binary("freehold"));
        command.args(words).arg("--home").arg(&home).arg("--json");
        output(command)
    };
    succeeded(&run(&["node", "list"]));
    let both_have_it = || two.state_at(&two.address(), "web-1").as_deref() == Some("member");
    until("the second one has the machine", both_have_it);
    if rotates {
        let published = || run(&["trust", "publish", "identity"]).status.success();
        until("the keys of the second one are known, and a root is published", published);
    }
    // The two are parted; an invite and a revocation are made at the first, which then dies.
    vps.stop();
    succeeded(&run(&["invite", "create", "--label", "lost"]));
    succeeded(&run(&["node", "revoke", "web-1", "--yes"]));
    laptop.stop();
    std::fs::rename(place.org().join("gateway"), place.path("dead")).unwrap();
    let _vps = two.serve_vps();
    let listed = run(&["node", "list"]);
    succeeded(&listed);
    let nodes: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let web = nodes.as_array().unwrap().iter().find(|node| node["name"] == "web-1").unwrap();
    assert_eq!(web["state"], "revoked", "the revocation came along");
    let invites: Value = serde_json::from_slice(&run(&["invite", "list"]).stdout).unwrap();
    assert!(invites.as_array().unwrap().iter().any(|invite| invite["label"] == "lost"), "{invites}");
    if rotates {
        let versions: Value = serde_json::from_slice(&run(&["trust", "list"]).stdout).unwrap();
        let published = |row: &Value| row["domain"] == "identity" && row["trust_bundle_version"] == 2;
        assert!(versions.as_array().unwrap().iter().any(published), "{versions}");
    }
    succeeded(&run(&["gateway", "remove", "laptop", "--yes"]));
    let invite = run(&["invite", "create"]);
    succeeded(&invite);
    let invite: Value = serde_json::from_slice(&invite.stdout).unwrap();
    succeeded(&place.join("web-2", &text(&invite, "code")));
    if rotates {
        succeeded(&run(&["trust", "rollback", "identity"]));
        let list = run(&["node", "list"]);
        assert!(stdout(&list).contains("web-2"), "{list:?}");
    }
}

/// Whoever lists the gateways wants to know which of them is down, and since when: also when all are.
#[test]
fn a_gateway_that_is_stopped_is_down_since_it_was_last_there() {
    let (two, laptop, vps) = Two::serving();
    let place = &two.place;
    std::fs::create_dir_all(place.path("away/harbor")).unwrap();
    place.copy(&place.org().join("operator"), &place.path("away/harbor/operator"));
    let list = || place.operator_facts("away", &["gateway", "list"]);
    let row = |nth: usize| list()[nth].clone();
    until("both answer", || row(0)["answers"] == true && row(1)["answers"] == true);
    assert!(text(&row(0), "state").starts_with("first, "), "{}", row(0));
    vps.stop();
    let down = row(1);
    assert_eq!((&down["state"], &down["answers"]), (&"DOWN".into(), &false.into()), "{down}");
    assert!(down["last_seen"].is_string() && down["problem"].is_string(), "{down}");
    assert_eq!(row(0)["answers"], true);
    place.facts(&["gateway", "list"]);
    laptop.stop();
    let stopped = ground::clock::now();
    let both = list();
    assert_eq!((&both[0]["state"], &both[1]["state"]), (&"first, DOWN".into(), &"DOWN".into()), "{both}");
    assert!(both[0]["last_seen"].is_string(), "this home heard it itself: {both}");
    // Who looks into its folder does not see it run.
    until("it is stopped for a while", || ground::clock::now().since(stopped) > Seconds(1));
    let seen: Timestamp = text(&place.facts(&["gateway", "list"])[0], "last_seen").parse().unwrap();
    assert!(seen <= stopped, "{seen}");
    let alarms = place.operator_facts("away", &["status"])["alarms"].to_string();
    assert!(alarms.contains("laptop is DOWN, and was last seen at"), "{alarms}");
    assert!(alarms.contains("vps is DOWN"), "{alarms}");
}

/// Of two addresses a stranger answers at one, and nobody at the other, in either order: nobody is told that the gateway is off.
#[test]
fn a_stranger_at_one_address_is_told_although_nobody_answers_at_the_other() {
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, nobody) = (stranger.local_addr().unwrap().to_string(), Nobody::new());
    std::thread::spawn(move || {
        for mut caller in stranger.incoming().flatten() {
            let _heard = caller.read(&mut [0; 1]);
            let _gone = caller.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let nobody = nobody.at().to_string();
    for [first, second] in [[&at, &nobody], [&nobody, &at]] {
        let place = Place::new();
        succeeded(&place.freehold(&["found", "harbor", "--unprotected", "--advertise", first, "--advertise", second]));
        std::fs::create_dir_all(place.path("away/harbor")).unwrap();
        place.copy(&place.org().join("operator"), &place.path("away/harbor/operator"));
        let mut command = Command::new(binary("freehold"));
        command.args(["node", "list", "--home"]).arg(place.path("away"));
        ended(&output(command), 3, "is not a gateway");
    }
}

/// The same where two must agree: whoever of them asks the survivor first, nobody is locked out.
#[test]
fn where_two_must_agree_a_survivor_is_handed_what_it_never_heard_of_by_each_of_them() {
    let (two, laptop, vps) = Two::founded(&["--signers", "2-of-3"]).both_serve();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    place.joined("web-1");
    two.settle();
    let homes = ["ann", "ben", "cat"].map(|home| place.path(home));
    for (signer, home) in [("ann-2", &homes[1]), ("ann-3", &homes[2])] {
        succeeded(&place.freehold(&["signer", "hand-over", signer, "--to", &home.to_string_lossy()]));
    }
    std::fs::create_dir_all(homes[0].join("harbor")).unwrap();
    place.copy(&place.org().join("operator"), &homes[0].join("harbor/operator"));
    let run = |home: usize, gateway: &str, words: &[&str]| {
        let mut command = Command::new(binary("freehold"));
        command.args(words).args(["--gateway", gateway, "--home"]).arg(&homes[home]).current_dir(place.path(""));
        output(command)
    };
    let agree = |gateway: &str, words: &[&str], other: usize| {
        let told = json(&run(0, gateway, &[words, &["--yes", "--json"]].concat()));
        let file = text(&told["pending"], "file");
        succeeded(&run(other, gateway, &["node", "list"]));
        succeeded(&run(other, gateway, &["sign", &file, "--yes"]));
        succeeded(&run(other, gateway, &["send", &file]));
    };
    let state_of = |home: usize| {
        let listed = json(&run(home, &b, &["node", "list", "--json"]));
        text(listed.as_array().unwrap().iter().find(|row| row["name"] == "web-1").unwrap(), "state")
    };
    vps.stop();
    agree(&a, &["node", "revoke", "web-1"], 1);
    laptop.stop();
    std::fs::rename(place.org().join("gateway"), place.path("dead")).unwrap();
    let _vps = two.serve_vps();
    // Whoever never heard of it asks first, then the one who signed and sent it.
    assert_eq!(state_of(2), "member");
    assert_eq!(state_of(1), "revoked", "who sent it has it, and hands it over");
    assert_eq!((state_of(0), state_of(2)), ("revoked".to_owned(), "revoked".to_owned()));
    agree(&b, &["gateway", "remove", "laptop"], 2);
    let invite = json(&run(0, &b, &["invite", "create", "--json"]));
    let file = text(&invite["pending"], "file");
    succeeded(&run(1, &b, &["sign", &file, "--yes"]));
    succeeded(&run(1, &b, &["send", &file]));
    succeeded(&place.join("web-2", &text(&invite, "code")));
    assert_eq!(json(&run(2, &b, &["audit", "--verify", "--json"]))["ok"], true);
}
