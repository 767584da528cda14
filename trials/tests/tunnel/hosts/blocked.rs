//! A firewall in the middle that lets one transport through and not the other, without a word: the other one carries.

use trials::place::until;

use super::Town;

/// What three nodes that are told different things say of their way to `alpha`.
fn ways(town: &Town) -> [(String, String); 3] {
    ["auto", "quic", "tls"].map(|caller| {
        let way = town.way(caller, "alpha");
        let word = |field: &str| way[field].as_str().unwrap().to_owned();
        (word("transport"), word("why"))
    })
}

fn way(by: &str, why: &str) -> (String, String) {
    (by.to_owned(), why.to_owned())
}

#[test]
fn what_is_lost_over_udp_goes_over_tcp_and_the_other_way_round() {
    let mut town = Town::new(&["auto", "quic", "tls"], &[]);
    let alpha = town.lan.address("alpha");
    let nodes = format!(
        "  quay:
  alpha:
    address: \"{alpha}:7444\"
  auto:
  quic:
    tunnel: {{transport: quic}}
  tls:
    tunnel: {{transport: tls}}
"
    );
    let callers = ["auto", "quic", "tls"];
    town.settle(&nodes, &callers, "");

    town.lan.lose("ip protocol udp");
    for caller in callers {
        town.reads(caller);
    }
    let unknown = "nothing was known of the way before";
    let fleet = "the fleet says so";
    let other = "the other one did not answer";
    assert_eq!(ways(&town), [way("tls", unknown), way("tls", other), way("tls", fleet)]);
    let problem = town.way("quic", "alpha")["problem"].clone();
    assert!(problem.as_str().is_some_and(|why| why.starts_with("quic: ")), "{problem}");

    // Let through again: what works is not left for it, but the next connection is over QUIC.
    town.lan.mend();
    let mut open = vec![town.stream("quic")];
    until("QUIC is back", || {
        open.push(town.stream("quic"));
        ways(&town)[1] == way("quic", fleet)
    });
    assert!(town.way("quic", "alpha")["problem"].is_null());
    for stream in &open {
        stream.carries();
    }

    // The other way round. Connections that are free lead nowhere, and those who hold them do not know it.
    town.lan.lose("tcp dport 7444");
    for caller in callers {
        town.reads(caller);
    }
    let ways = ways(&town);
    assert_eq!(ways[2], way("quic", other));
    assert_eq!((ways[0].0.as_str(), ways[1].0.as_str()), ("quic", "quic"), "{ways:?}");
    open.last().unwrap().carries();
}
