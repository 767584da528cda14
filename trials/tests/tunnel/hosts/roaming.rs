//! A laptop that is carried to another network: what it has open over QUIC goes on, and over TLS the next call works.

use trials::place::{succeeded, text, until};

use super::Town;

#[test]
fn a_stream_over_quic_survives_another_address_and_over_tls_the_next_call_works() {
    let mut town = Town::new(&["quic", "tls", "home"], &["home"]);
    let alpha = town.lan.address("alpha");
    let nodes = format!(
        "  quay:
  alpha:
    address: \"{alpha}:7444\"
  quic:
    tunnel: {{transport: quic}}
  home:
    tunnel: {{transport: quic}}
  tls:
    tunnel: {{transport: tls}}
"
    );
    let callers = ["quic", "home", "tls"];
    town.settle(&nodes, &callers, "");
    let moved = callers.map(|caller| format!("{}9", town.lan.address(caller)));
    for (caller, to) in callers.iter().zip(&moved) {
        town.only(if *caller == "tls" { "tls" } else { "quic" }, &[town.lan.address(caller), to.clone()]);
    }
    let open = callers.map(|caller| town.stream(caller));
    for stream in &open {
        stream.carries();
    }
    assert_eq!(callers.map(|caller| town.way(caller, "alpha")["transport"].clone()), ["quic", "quic", "tls"]);
    // The one behind a router keeps its own address, and gets another one outside.
    for (caller, to) in callers.iter().zip(&moved) {
        town.lan.move_to(caller, to);
    }
    let [quic, home, _tls] = open;
    quic.carries();
    home.carries();
    for caller in callers {
        town.reads(caller);
    }
    quic.carries();
    home.carries();
}

#[test]
fn a_node_listens_at_its_address_as_soon_as_it_has_it() {
    let mut town = Town::new(&["beta"], &[]);
    let later = format!("{}9", town.lan.address("alpha"));
    let nodes = format!(
        "  quay:
  alpha:
    address: \"{later}:7444\"
    tunnel: {{listen: \"{later}:7444\"}}
    apply: {{deadline: 1h}}
  beta:
"
    );
    town.declare(&nodes, &["beta"], "");
    // Until the node has the address, what was published is on trial.
    town.facts(&["publish", "--yes", "--no-wait"]);
    let both = ["peers/tls", "peers/quic"];
    until("it is told that there is no such address", || {
        both.iter().all(|place| town.tunnel("alpha")["failed"].get(place).is_some())
    });
    town.lan.move_to("alpha", &later);
    until("it listens there", || {
        let listens = town.tunnel("alpha")["listens"].clone();
        both.iter().all(|place| listens[place] == format!("{later}:7444"))
    });
    until("it stays", || town.status("alpha")["applied"]["trial"].is_null());
    town.reads("beta");
}

/// What it was told over the old connection, or was about to be, comes over the next.
#[test]
fn a_node_that_was_moved_hears_its_gateway_again_and_that_is_no_failure() {
    let mut town = Town::new(&["beta"], &[]);
    let code = text(&town.facts(&["invite", "create", "--name", "beta"]), "code");
    succeeded(&town.node_with("beta", &["join", "--name", "beta"], &code));
    town.start("beta");
    until("it has checked in", || town.status("beta")["last_check_in"].is_string());
    let before = town.status("beta")["head"].as_u64().unwrap();
    let there = format!("{}9", town.lan.address("beta"));
    town.lan.move_to("beta", &there);
    town.facts(&["refresh"]);
    until("it has heard of the new head", || {
        let status = town.status("beta");
        assert_eq!(status["problem"], serde_json::Value::Null);
        status["head"].as_u64().unwrap() > before
    });
}
