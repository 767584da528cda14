//! Trust is turned at one gateway while an operator at the other does not know of it.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trials::place::{Place, binary, json, output, succeeded, until};

use super::Two;

/// The second operator's home, asked at one gateway.
fn second(place: &Place, gateway: &str, words: &[&str]) -> Output {
    let mut command = Command::new(binary("freehold"));
    command.args(words).arg("--home").arg(place.path("other-home")).arg("--gateway").arg(gateway);
    command.current_dir(place.path(".")).stdin(Stdio::null());
    output(command)
}

fn states(listed: &Value) -> Vec<(u64, String)> {
    let rows = listed.as_array().or_else(|| listed["versions"].as_array()).unwrap().iter();
    let own = rows.filter(|row| row["domain"] == "endpoint");
    own.map(|row| (row["trust_bundle_version"].as_u64().unwrap(), row["state"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn what_one_operator_retired_stays_retired_after_another_published_twice_without_knowing() {
    let two = Two::founded(&["--signers", "1-of-2"]);
    let (place, vps_address) = (&two.place, two.address());
    let laptop = place.serve();
    place.joined("vps");
    two.request();
    succeeded(&place.freehold(&["gateway", "add", "vps.request", "--out", "vps.grant", "--yes"]));
    two.install();
    let vps = two.serve_vps();
    two.settle();
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    two.settle();
    let operator = "harbor/operator";
    std::fs::create_dir_all(place.path("other-home").join("harbor")).unwrap();
    place.copy(&place.home().join(operator), &place.path("other-home").join(operator));
    std::fs::remove_file(place.home().join(operator).join("signers/ann-2.key")).unwrap();
    std::fs::remove_file(place.path("other-home").join(operator).join("signers/ann.key")).unwrap();

    // One takes version 2 back where the other gateway does not hear of it, and that one's operator renews twice.
    vps.kill();
    succeeded(&place.freehold(&["trust", "rollback", "endpoint"]));
    laptop.kill();
    let _vps = two.serve_vps();
    for _ in 0..2 {
        succeeded(&second(place, &vps_address, &["refresh"]));
    }
    let before = json(&second(place, &vps_address, &["trust", "list", "--json"]));
    assert_eq!(states(&before), [(1, "active".to_owned()), (2, "staged".to_owned())]);

    let _laptop = place.serve();
    let decided = [(1, "retired"), (2, "retired"), (3, "active")].map(|(version, state)| (version, state.to_owned()));
    until("the second operator sees what the first decided", || {
        let told = second(place, &vps_address, &["trust", "list", "--json"]);
        serde_json::from_slice(&told.stdout).is_ok_and(|listed| states(&listed) == decided)
    });
    let told = second(place, &vps_address, &["trust", "list"]);
    let warned = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(warned.contains("TRUST: version 2 of `endpoint` is retired by a head"), "{warned}");
    // The first operator, whose own head was outrun, is not locked out, and brings the two together.
    until("the first gateway has both", || {
        let told = place.freehold(&["trust", "list", "--json"]);
        serde_json::from_slice(&told.stdout).is_ok_and(|listed| states(&listed) == decided)
    });
    two.settle();
    succeeded(&place.freehold(&["refresh"]));
    until("nobody has anything more to say", || {
        let told = second(place, &vps_address, &["trust", "list", "--json"]);
        let listed = serde_json::from_slice(&told.stdout);
        listed.is_ok_and(|listed| states(&listed) == decided)
            && !String::from_utf8_lossy(&told.stderr).contains("TRUST: ")
    });
    succeeded(&place.freehold(&["audit", "--verify"]));
}
