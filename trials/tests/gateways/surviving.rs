//! One gateway died, and the other had not heard of everything: the operator's home has it.

use std::process::Command;

use serde_json::Value;
use trials::place::{binary, output, succeeded, until};

use super::Two;

/// What was decided at one gateway that then died is in the operator's home: the survivor is handed it, not accused.
#[test]
fn a_survivor_is_handed_what_it_never_heard_of() {
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
    succeeded(&run(&["gateway", "remove", "laptop", "--yes"]));
    succeeded(&run(&["invite", "create"]));
}
