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
    let open = callers.map(|caller| town.stream(caller));
    for stream in &open {
        stream.carries();
    }
    assert_eq!(callers.map(|caller| town.way(caller, "alpha")["transport"].clone()), ["quic", "quic", "tls"]);
    // The one behind a router keeps its own address, and gets another one outside.
    for (caller, nth) in callers.iter().zip(100..) {
        town.lan.move_to(caller, &format!("10.77.0.{nth}"));
    }
    let [quic, home, tls] = open;
    quic.carries();
    home.carries();
    for caller in callers {
        town.reads(caller);
    }
    quic.carries();
    home.carries();
    for caller in ["quic", "home"] {
        let way = town.way(caller, "alpha");
        assert_eq!((&way["transport"], &way["connections"]), (&"quic".into(), &1.into()), "{way}");
    }
    tls.breaks();
}
