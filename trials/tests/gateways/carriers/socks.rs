//! By a SOCKS5 proxy, which looks the name up.

use trials::place::{Place, ended, stdout, succeeded, text, until};

use super::outside::{paste, release};
use super::{Carrier, founded, serial};

fn microsocks() -> Carrier {
    Carrier::new(&["microsocks", "-i", "127.0.0.1", "-p", "@PORT@"])
}

fn by(proxy: &Carrier, at: &str) -> String {
    format!("socks5://127.0.0.1:{}/{at}", proxy.at.port)
}

#[test]
fn a_node_joins_renews_and_is_revoked_by_a_socks5_proxy() {
    let place = Place::new();
    let mut proxy = microsocks().started();
    let address = by(&proxy, &format!("localhost:{}", place.port));
    founded(&place, &address, &["--svid-ttl", "20s"]);
    let gateway = place.serve();
    place.joined("web-1");
    let agent = place.agent("web-1");
    let first = serial(&place, "web-1");
    until("the SVID was renewed", || serial(&place, "web-1") != first);
    let doctor = || stdout(&place.node("web-1", &["doctor"], ""));
    let well = doctor();
    assert!(well.contains(&format!("answers by the SOCKS5 proxy at 127.0.0.1:{}", proxy.at.port)), "{well}");

    // Each thing on the way that can fail has a name.
    assert_eq!(gateway.stop(), Some(0));
    let refused = doctor();
    assert!(refused.contains("by SOCKS5") && refused.contains("did not lead there"), "{refused}");
    proxy.stop();
    let gone = doctor();
    assert!(gone.contains("the SOCKS5 proxy at 127.0.0.1") && gone.contains("cannot be reached"), "{gone}");
    proxy.start();
    let _gateway = place.serve();
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    let (exit, told) = agent.end();
    assert_eq!(exit, Some(3), "{told}");
}

#[test]
fn the_line_goes_by_a_socks5_proxy() {
    let place = Place::new();
    let proxy = microsocks().started();
    founded(&place, &by(&proxy, &format!("localhost:{}", place.port)), &[]);
    let _gateway = place.serve();
    release(&place);
    let line = text(&place.invite(&["--name", "web-1"]), "line");
    let by = format!("--socks5-hostname 127.0.0.1:{}", proxy.at.port);
    assert!(line.contains(&by) && line.len() < 450, "{} letters: {line}", line.len());
    succeeded(&paste(&place, "web-1", &line));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    drop(proxy);
    let line = text(&place.invite(&["--name", "web-2"]), "line");
    ended(&paste(&place, "web-2", &line), 1, "freehold: no script\n");
}

#[test]
fn the_words_of_a_proxy_reach_whoever_joins() {
    let place = Place::new();
    let proxy = microsocks().started();
    founded(&place, &by(&proxy, "nowhere.invalid:7443"), &[]);
    let _gateway = place.serve();
    let told = place.join("web-1", &place.code(&[]));
    ended(&told, 1, "by SOCKS5");
    ended(&told, 1, &format!("the SOCKS5 proxy at 127.0.0.1:{} did not lead there", proxy.at.port));
    // A gateway is no proxy, and does not pass for one.
    let other = Place::founded(&[]);
    let _other = other.serve();
    let mut code: org::invite::code::InviteCode = place.code(&[]).parse().unwrap();
    code.gateways = vec![format!("socks5://{}/localhost:{}", other.address(), place.port).parse().unwrap()];
    let told = place.join("web-2", &code.encode());
    ended(&told, 1, "the SOCKS5 proxy at");
}
