//! A laptop that is carried to another network: what it has open over QUIC goes on, and over TLS the next call works.

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
