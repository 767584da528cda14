//! A node that no gateway reaches: it hears of a revocation from whoever it calls, and goes by it.

use std::net::TcpListener;

use trials::place::{stderr, stdout, until};

use super::Town;
use crate::tunnel::services::{PAGE, Wiki};

#[test]
fn a_revocation_reaches_a_host_that_no_gateway_reaches() {
    let mut town = Town::new(&["beta", "gamma"], &[]);
    let (alpha, beta) = (town.lan.address("alpha"), town.lan.address("beta"));
    let nodes = format!(
        "  quay:
  alpha:
    address: \"{alpha}:7444\"
  beta:
    address: \"{beta}:7444\"
  gamma:
"
    );
    let diary = "  diary:\n    at: beta\n    addr: 127.0.0.1:8081\n    groups: pages";
    let pages = Wiki::at(town.lan.within("beta", || TcpListener::bind("127.0.0.1:8081").unwrap()));
    town.settle(&nodes, &["beta", "gamma"], diary);
    let diary = || town.curl("gamma", "diary");
    assert_eq!(stdout(&diary()), PAGE);
    town.reads("beta");
    let open = town.stream_to("gamma", ("diary", &pages));

    // Neither of the two hears of anything by a gateway from now on.
    town.lan.part("quay", "beta");
    town.lan.part("quay", "gamma");
    let before = town.status("beta")["head"].as_u64().unwrap();
    let told = town.operator(&["node", "revoke", "gamma", "--yes"]);
    assert!(told.status.success(), "{}", stderr(&told));
    until("`alpha` has heard", || town.status("alpha")["head"].as_u64() > Some(before));
    assert_eq!(town.status("beta")["head"], before);
    assert_eq!(stdout(&diary()), PAGE, "nobody told `beta`");
    open.carries();

    // By a connection that both have kept, or by a new one.
    town.reads("beta");
    until("`beta` has heard", || town.tunnel("beta")["now"]["head"].as_u64() > Some(before));
    open.breaks();
    let refused = diary();
    assert_eq!((stdout(&refused).as_str(), refused.status.success()), ("", false));
    let last = || {
        let log = std::fs::read_to_string(town.place.scope("beta").join("access.log")).unwrap();
        log.lines().rfind(|line| line.contains("\"diary\"")).unwrap().to_owned()
    };
    until("the end of it is written down", || last().contains("it was revoked: head 3"));
}
