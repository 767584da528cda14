//! Two operators publish apart, at gateways that cannot reach each other: what either took away is gone for everybody once
//! the two meet, and nobody has to publish anything for that.

use std::path::Path;
use std::process::Command;

use identity::id::Digest;
use identity::key::PublicKey;
use trials::place::{binary, json, output, succeeded, text, until};
use wire::known::Known;

use super::Two;

/// A node's knowledge, as it lies on its disk.
fn known(two: &Two, node: &str) -> Known {
    let text = std::fs::read(two.place.scope(node).join("known.json")).unwrap();
    Known::from_file(serde_json::from_slice(&text).unwrap()).unwrap()
}

fn revoke(home: &Path, gateway: &str, node: &str) {
    let mut command = Command::new(binary("freehold"));
    command.args(["node", "revoke", node, "--yes", "--gateway", gateway, "--home"]).arg(home);
    succeeded(&output(command));
}

#[test]
fn what_two_heads_apart_take_away_reaches_a_node_that_waits_without_a_further_head() {
    let (two, laptop, vps) = Two::serving();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    for node in ["web-1", "web-2", "shed"] {
        place.joined(node);
    }
    two.settle();
    let rows = json(&place.freehold(&["node", "list", "--json"]));
    let key_of = |node: &str| -> Digest {
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == node).unwrap();
        text(row, "node_key").parse::<PublicKey>().unwrap().digest()
    };
    let homes = ["ann", "ben"].map(|home| {
        let home = place.path(home);
        std::fs::create_dir_all(home.join("harbor")).unwrap();
        place.copy(&place.org().join("operator"), &home.join("harbor/operator"));
        home
    });
    vps.stop();
    revoke(&homes[0], &a, "web-1");
    laptop.stop();
    let _vps = two.serve_vps();
    revoke(&homes[1], &b, "web-2");
    let _agent = place.agent("shed");
    let goes = |node: &str| known(&two, "shed").head.head.revocations.node_keys.contains(&key_of(node));
    until("the node follows the head of the second gateway", || goes("web-2"));
    let (apart, knew) = (known(&two, "shed").head.head.version, goes("web-1"));
    assert!(!knew);
    // The first gateway is back, and the node waits at the second.
    let _laptop = place.serve();
    until("the node knows what the other head took away", || goes("web-1"));
    assert!(goes("web-2"));
    assert_eq!(known(&two, "shed").head.head.version, apart, "somebody published");
    // Everybody goes by the same of the two, and keeps the other.
    let told = known(&two, "shed").to_file();
    assert!(told.left.len() == 1 && told.head.digest() < told.left[0].digest());
}
