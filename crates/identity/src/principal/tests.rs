//! What is a name, a SPIFFE id, an address, and what only looks like one.

use super::*;

#[test]
fn a_principal_is_exactly_org_kind_and_name() {
    let ok: Principal = "spiffe://harbor/node/web-1".parse().unwrap();
    assert_eq!((ok.org().as_str(), ok.kind(), ok.name()), ("harbor", PrincipalKind::Node, "web-1"));
    assert_eq!(ok.to_string(), "spiffe://harbor/node/web-1");
    for bad in [
        "spiffe://harbor/node/",
        "spiffe://harbor/node/web-1/",
        "spiffe://harbor/node/web-1/x",
        "spiffe://harbor/signer/ann",
        "spiffe://HARBOR/node/web-1",
        "spiffe://harbor/node/web_1",
        "spiffe://harbor/node/../node/a",
        "https://harbor/node/web-1",
        "spiffe://harbor/node/web-1?x",
        "spiffe://har%62or/node/web-1",
        "",
    ] {
        assert!(bad.parse::<Principal>().is_err(), "{bad}");
    }
}

#[test]
fn names_are_labels_and_never_reserved_words() {
    for good in ["a", "web-1", "0", &"x".repeat(63)] {
        assert!(good.parse::<NodeName>().is_ok(), "{good}");
    }
    for bad in ["", "-a", "a-", "A", "a.b", "a b", "nul", "node", "é", &"x".repeat(64), "a\n", "../a"] {
        assert!(bad.parse::<NodeName>().is_err(), "{bad}");
    }
}

#[test]
fn a_machine_is_named_by_the_first_part_of_its_host_name() {
    for (host, name) in [("web-1", "web-1"), ("Web-1.Example.COM", "web-1"), ("web-1.", "web-1")] {
        assert_eq!(NodeName::of_host(host).unwrap().as_str(), name);
    }
    for bad in ["", ".example.com", "web_1.example.com", "localhost.localdomain", "con.example.com"] {
        assert!(NodeName::of_host(bad).is_err(), "{bad}");
    }
}

#[test]
fn addresses_print_as_they_parse() {
    for text in ["gw.example:7443", "127.0.0.1:1", "[::1]:7443"] {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        assert_eq!(text.parse::<HostPort>().unwrap().to_string(), text);
        assert!(text.parse::<Address>().unwrap().is_direct());
    }
    for bad in ["gw.example", "gw.example:", "gw.example:99999", "::1:7443", "[gw]:1", "-gw:1", ":1"] {
        assert!(bad.parse::<Address>().is_err(), "{bad}");
    }
}

#[test]
fn a_gateway_is_reached_directly_inside_a_websocket_or_by_a_proxy() {
    for text in [
        "wss://gw.example",
        "wss://gw.example:8443/hidden/door",
        "wss://[::1]",
        "wss://[::1]:1",
        "socks5://127.0.0.1:9050/abcdefgh.onion:7443",
        "socks5://[::1]:9050/[2001:db8::1]:7443",
    ] {
        let address: Address = text.parse().unwrap();
        assert_eq!(address.to_string(), text);
        assert!(!address.is_direct() && text.parse::<HostPort>().is_err(), "{text}");
    }
    for (written, meant) in [
        ("wss://GW.example:443/v1/carry", "wss://gw.example"),
        ("wss://gw.example/", "wss://gw.example"),
        ("wss://192.0.2.1:443", "wss://192.0.2.1"),
    ] {
        assert_eq!(written.parse::<Address>().unwrap().to_string(), meant);
    }
    for bad in [
        "wss://",
        "wss://:443",
        "wss://gw.example:0",
        "wss://gw.example//",
        "wss://gw.example/a/../b",
        "wss://gw.example/a?b",
        "wss://gw.example/a\r\nb: c",
        "wss://user@gw.example",
        "ws://gw.example",
        "https://gw.example",
        "WSS://gw.example",
        "socks5://gw.example:7443",
        "socks5://127.0.0.1/gw.example:7443",
        "socks5://127.0.0.1:9050/gw.example",
        "socks5://a:b@127.0.0.1:9050/gw.example:7443",
        "socks5://127.0.0.1:9050/wss://gw.example",
        &format!("wss://gw.example/{}", "a".repeat(239)),
        &format!("wss://gw.example/{}", "a".repeat(10_000)),
    ] {
        assert!(bad.parse::<Address>().is_err(), "{bad}");
    }
    assert!(format!("wss://gw.example/{}", "a".repeat(238)).parse::<Address>().is_ok());
}
