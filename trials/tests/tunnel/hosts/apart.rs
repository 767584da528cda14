//! Three hosts: a service is reached by name through the tunnel, by no other way, and also without a gateway.

use std::io::ErrorKind;
use std::net::TcpStream;

use super::Town;

#[test]
fn a_service_on_the_loopback_of_another_host_is_reached_by_name_and_without_any_gateway() {
    let mut town = Town::new(&["beta"], &[]);
    let alpha = town.lan.address("alpha");
    town.settle(&format!("  quay:\n  alpha:\n    address: \"{alpha}:7444\"\n  beta:\n"), &["beta"], "");
    town.reads("beta");
    let way = town.way("beta", "alpha");
    assert!(way["through"].is_null(), "{way}");
    let why =
        if way["transport"] == "tls" { "nothing was known of the way before" } else { "the other one did not answer" };
    assert_eq!(way["why"], why, "{way}");
    // Nothing but the tunnel leads there.
    let direct = town.lan.within("beta", || TcpStream::connect(format!("{alpha}:8080")));
    assert_eq!(direct.unwrap_err().kind(), ErrorKind::ConnectionRefused);

    // The gateway is gone, with its host: for what is open, and for machines that start anew.
    let open = town.stream("beta");
    town.gateway.take().unwrap().kill();
    town.lan.plug("quay", false);
    open.carries();
    town.reads("beta");
    for node in ["alpha", "beta"] {
        town.agents.remove(node).unwrap().kill();
        town.start(node);
    }
    trials::place::until("both are up again", || {
        ["alpha", "beta"].iter().all(|node| !town.tunnel(node)["listens"].is_null())
            && town.tunnel("alpha")["listens"].get("peers/tls").is_some()
            && town.tunnel("beta")["listens"].get("socks").is_some()
    });
    town.reads("beta");
    assert!(town.way("beta", "alpha")["connections"].as_u64() > Some(0));
}
