//! News that a peer tells: a node that no gateway reaches hears of a new head from whoever it calls.

use std::process::Stdio;

use trials::place::{Place, Running, until};

use super::Harbor;

/// The agent of a node that knows of no gateway: it reads a tree that nobody renews.
pub fn cut_off(place: &Place, node: &str, tree: &str) -> Running {
    let mut command = place.node_command(node, &["run", "--every", "1s", "--from", tree]);
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_head_reaches_a_node_that_no_gateway_reaches() {
    let mut harbor = Harbor::new();
    let tree = harbor.scene.place.path("tree").display().to_string();
    harbor.scene.place.facts(&["publish", "--yes", "--to", &tree]);
    let before = harbor.scene.place.status("beta")["head"].as_u64().unwrap();
    // One agent at a time.
    harbor.beta = None;
    harbor.beta = Some(cut_off(&harbor.scene.place, "beta", &tree));
    until("the tunnel runs again", || harbor.tunnel("beta")["now"]["head"] == before);
    harbor.declare("nothing");
    let place = &harbor.scene.place;
    place.facts(&["publish", "--yes", "--no-wait"]);
    until("its peer knows more", || place.status("alpha")["head"].as_u64().unwrap() > before);
    assert_eq!(place.status("beta")["head"], before);
    // It still believes that `ann` may, asks, and is told.
    assert!(!harbor.curl("ann", "http://wiki.harbor.internal/").status.success());
    until("it heard", || place.status("beta")["head"].as_u64().unwrap() > before);
    until("its tunnel goes by it", || harbor.tunnel("beta")["now"]["head"].as_u64().unwrap() > before);
    assert_eq!(place.status("beta")["tunnel"]["restarts"], 0);
}
