//! Who is at home where changes, and so does what has an address: what is allowed is reached all the same.

use trials::place::{stderr, stdout, until};

use super::{Harbor, PAGE};

impl Harbor {
    /// Changes a line of the fleet, and has it published.
    fn edit(&self, from: &str, to: &str) {
        let path = self.scene.place.path("fleet/fleet.yaml");
        let fleet = std::fs::read_to_string(&path).unwrap();
        assert!(fleet.contains(from), "{fleet}");
        std::fs::write(&path, fleet.replace(from, to)).unwrap();
        self.scene.place.facts(&["publish", "--yes"]);
    }

    fn reads(&self) {
        until("the page is read", || stdout(&self.curl("ann", "http://wiki.harbor.internal/")) == PAGE);
    }
}

#[test]
fn a_user_who_moves_away_and_back_is_no_second_machine() {
    let harbor = Harbor::new();
    harbor.reads();
    for _ in 0..2 {
        harbor.edit("nodes: [quay, beta]", "nodes: [quay]");
        until("she is gone", || !harbor.curl("ann", "http://wiki.harbor.internal/").status.success());
        harbor.edit("nodes: [quay]", "nodes: [quay, beta]");
        harbor.reads();
    }
}

/// The relay is there, and the node is not: no port is to blame.
#[test]
fn a_doctor_says_who_is_missing_behind_a_relay() {
    let harbor = Harbor::new();
    harbor.edit(&format!("  alpha:\n    address: \"127.0.0.1:{}\"\n", harbor.ports[1].port), "  alpha:\n");
    harbor.reads();
    harbor.alpha.kill();
    let doctor = || harbor.scene.place.node("beta", &["doctor", "wiki"], "");
    until("the relay knows that it is gone", || stdout(&doctor()).contains("the wanted node does not wait there"));
    let told = doctor();
    let said = stdout(&told);
    assert_eq!(told.status.code(), Some(1), "{said}");
    assert!(said.lines().any(|line| line.starts_with("WRONG  relay ")), "{said}");
    assert!(said.contains("does the agent of `alpha` run?") && !said.contains("port "), "{said}");
}

#[test]
fn a_node_that_loses_its_address_is_reached_by_the_relay() {
    let harbor = Harbor::new();
    let address = format!("  alpha:\n    address: \"127.0.0.1:{}\"\n", harbor.ports[1].port);
    harbor.edit(&address, "  alpha:\n");
    harbor.reads();
    let peers = harbor.tunnel("beta")["now"]["peers"].clone();
    let alpha = peers.as_array().unwrap().iter().find(|peer| peer["node"] == "alpha").unwrap();
    assert_eq!(alpha["through"], "quay", "{peers}");
    let told = harbor.scene.place.node("beta", &["doctor", "wiki"], "");
    assert!(stdout(&told).contains("by the relay `quay`"), "{}{}", stdout(&told), stderr(&told));
    harbor.edit("  alpha:\n", &address);
    harbor.reads();
}
