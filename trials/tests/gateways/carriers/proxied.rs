//! Through HAProxy in TCP mode, which says first for whom it calls. Nobody else's word counts.

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;

use trials::client::stranger::Dial;
use trials::place::{Place, json, refused, succeeded, until};
use wire::permit::Ask;

use super::{Carrier, PROXY, founded, serial, set};

fn direct(carrier: &Carrier) -> String {
    carrier.at.address()
}

#[test]
fn an_invite_for_a_network_is_judged_by_the_address_behind_the_proxy() {
    for version in ["send-proxy-v2", "send-proxy"] {
        let place = Place::new();
        let haproxy = Carrier::haproxy(place.port, &format!("{version} source {PROXY}")).started();
        founded(&place, &direct(&haproxy), &["--svid-ttl", "20s"]);
        set(&place, &format!("proxy_protocol = [\"{PROXY}/32\"]\n"));
        let _gateway = place.serve();
        succeeded(&place.join("web-1", &place.code(&["--from", "127.0.0.1/32"])));
        refused(&place.join("web-2", &place.code(&["--from", "127.0.0.9/32"])), "network");
        let agent = place.agent("web-1");
        let first = serial(&place, "web-1");
        until("the SVID was renewed", || serial(&place, "web-1") != first);
        succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
        assert_eq!(agent.end().0, Some(3), "{version}");
    }
}

#[test]
fn a_machine_whose_proxy_is_itself_is_not_locked_out() {
    let place = Place::new();
    // It asks often whether somebody is there: these connections are its own.
    let checks = format!("send-proxy-v2 check check-send-proxy inter 100ms source {PROXY}");
    let haproxy = Carrier::haproxy(place.port, &checks).started();
    founded(&place, &direct(&haproxy), &[]);
    set(&place, "proxy_protocol = [\"127.0.0.0/8\"]\nmax_connections_per_address = 1\n");
    let _gateway = place.serve();
    for node in ["web-1", "web-2", "web-3"] {
        place.joined(node);
    }
    // The gateway's own node, and the operator beside it, come in by a door of their own.
    until("its own node has checked in", || {
        let nodes = json(&place.freehold(&["node", "show", "quay", "--json"]));
        nodes["last_seen"].is_string()
    });
}

#[test]
fn a_header_counts_from_named_proxies_alone_and_they_must_send_one() {
    let place = Place::founded(&[]);
    set(&place, &format!("proxy_protocol = [\"{PROXY}\"]\n"));
    let _gateway = place.serve();
    let proxy: Ipv4Addr = PROXY.parse().unwrap();
    let other = Ipv4Addr::new(127, 0, 0, 8);
    let hello = |source: Ipv4Addr, header: &[u8]| {
        let dial = Dial::to(place.port).from(source);
        let mut stream = dial.plain();
        stream.write_all(header).unwrap();
        dial.line_over(stream)
    };
    let answers = |source, header: &[u8]| hello(source, header).is_ok_and(|mut line| line.ask(Ask::Head, &()).is_ok());
    let (first, second) = (b"PROXY TCP4 192.0.2.1 127.0.0.1 4711 7443\r\n".as_slice(), local());
    assert!(answers(proxy, first));
    assert!(answers(proxy, &second));
    assert!(answers(other, b""));
    for header in [first, &second] {
        assert!(!answers(other, header), "a header from nowhere was believed");
    }
    assert!(!answers(proxy, b""), "a named proxy that does not say for whom was heard");
    assert!(!answers(proxy, b"PROXY TCP4 192.0.2.1\r\n"));
    // A proxy that dribbles its header is given up, like everybody else.
    let mut slow = Dial::to(place.port).from(proxy).plain();
    slow.write_all(b"PROXY TCP4 ").unwrap();
    assert_eq!(slow.read(&mut [0; 1]).unwrap_or(0), 0);
}

/// Version 2, LOCAL: the proxy speaks for itself.
fn local() -> Vec<u8> {
    b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00".to_vec()
}
