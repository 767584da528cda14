//! Floods: bad codes beside good joins, drops that come one at a time, garbage instead of TLS, one machine with too
//! many connections. Whoever behaves goes on.

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use org::invite::code::InviteCode;
use trials::client::joiner::{Ground, Joiner, check_in};
use trials::client::stranger::{Cut, Dial, Line};
use trials::place::{Place, succeeded, text, until};
use wire::permit::Ask;

use super::serve;

/// An address of its own for each that floods, as a botnet has.
fn flooder(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, number)
}

/// The same invite with another secret.
fn forged(code: &str) -> String {
    let mut code: InviteCode = code.parse().unwrap();
    let secret = org::invite::code::InviteSecret::new(ground::random::bytes().unwrap());
    code.ticket = org::invite::code::Ticket::Token { invite: code.ticket.invite().unwrap(), secret };
    code.encode().to_string()
}

#[test]
fn good_joins_go_on_beside_a_flood_of_bad_codes() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let invite = place.invite(&["--uses", "unlimited"]);
    let code = text(&invite, "code");
    let (enough, refused) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 1..=6 {
            let bad = forged(&code);
            scope.spawn(move || {
                while !enough.load(Ordering::Relaxed) {
                    // A line that is hung up on is opened again: that, too, is part of a flood.
                    let mut line = Dial::to(place_port(&bad)).from(flooder(number)).line();
                    for _ in 0..20 {
                        let Ok(reply) = line.ask(Ask::Challenge, &()) else { break };
                        if reply.code() != "ok" {
                            refused.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        let ground = Ground::of(reply, &line);
                        let request = Joiner::new(&bad, "web-0").request(ground);
                        match line.ask(Ask::Enroll, &request) {
                            Ok(reply) => assert_eq!(reply.code(), "bad_proof"),
                            Err(_) => break,
                        }
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        until("the flood is there", || refused.load(Ordering::Relaxed) > 50);
        for number in 1..=5 {
            succeeded(&place.join(&format!("web-{number}"), &code));
        }
        let during = refused.load(Ordering::Relaxed);
        until("the flood goes on", || refused.load(Ordering::Relaxed) > during);
        enough.store(true, Ordering::Relaxed);
    });
    assert_eq!(place.spent(&text(&invite, "id")), 5, "no bad code was good");
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

fn place_port(code: &str) -> u16 {
    code.parse::<InviteCode>().unwrap().gateways[0].port
}

/// Slower than any timeout between two bytes would notice: the whole has an end, too.
#[test]
fn who_sends_a_byte_at_a_time_is_cut_off_in_the_end_and_nobody_waits_for_it() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let code = place.code(&[]);
    // Longer than the gateway gives to headers, to a body, and to a stranger in all.
    let patience = Duration::from_secs(75);
    let drip = |mut line: Line, first: &str| {
        line.send(first.as_bytes()).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < patience && line.send(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(200));
        }
        begun.elapsed()
    };
    std::thread::scope(|scope| {
        let headers = scope.spawn(|| drip(Dial::to(place.port).line(), "GET /v1/head HTTP/1.1\r\nx: "));
        let body = scope.spawn(|| {
            let head = "POST /v1/enroll HTTP/1.1\r\nhost: g\r\ncontent-length: 30000\r\n\r\n";
            drip(Dial::to(place.port).line(), head)
        });
        let hello = scope.spawn(|| {
            let mut stream = Dial::to(place.port).plain();
            // A record of 16 KiB is announced, and comes byte by byte.
            stream.write_all(&[0x16, 3, 1, 0x3f, 0xff, 1]).unwrap();
            let begun = Instant::now();
            while begun.elapsed() < patience && stream.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(200));
            }
            begun.elapsed()
        });
        succeeded(&place.join("web-1", &code));
        for (case, drip) in [("headers", headers), ("a body", body), ("a hello", hello)] {
            assert!(drip.join().unwrap() < patience, "{case}: it may drip for ever");
        }
    });
}

#[test]
fn garbage_instead_of_tls_is_hung_up_on() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let noise: Vec<u8> = (0..64 << 10).map(|at: u32| at.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    let mut alert_flood = Vec::new();
    for _ in 0..2_000 {
        alert_flood.extend_from_slice(&[0x15, 3, 3, 0, 2, 1, 0]);
    }
    for (case, bytes) in [
        ("plain HTTP", &b"GET /v1/head HTTP/1.1\r\nhost: gateway\r\n\r\n"[..]),
        ("SSH", b"SSH-2.0-OpenSSH_9.9\r\n"),
        ("noise", &noise),
        ("zeros", &[0; 12 << 10]),
        ("SSL 2", &[0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10]),
        ("a hello of nothing", &[0x16, 3, 1, 0, 4, 1, 0, 0, 0]),
        ("alerts without end", &alert_flood),
    ] {
        let mut stream = Dial::to(place.port).plain();
        let _ = stream.write_all(bytes);
        // An alert at most, and then the end; or a reset, if it was still being sent to.
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        assert!(told.is_empty() || told[0] == 0x15, "{case}: {told:?}");
    }
    place.joined("web-1");
}

#[test]
fn one_machine_holds_no_more_connections_than_it_has_use_for() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let code = place.code(&["--uses", "2"]);
    let (noisy, papers) = Joiner::join(&code, "web-1", place.port);
    let (quiet, quiet_papers) = Joiner::join(&code, "web-2", place.port);
    let (own, quiet_own) = (noisy.own(&papers), quiet.own(&quiet_papers));
    let dial = Dial::to(place.port).with(&own);
    let mut held: Vec<Line> = Vec::new();
    let turned_away = loop {
        let mut line = dial.line();
        match line.ask(Ask::CheckIn, &check_in()) {
            Ok(reply) => assert_eq!(reply.code(), "ok"),
            Err(why) => break why,
        }
        held.push(line);
        assert!(held.len() <= 200, "a machine may hold connections without end");
    };
    assert_eq!((held.len(), turned_away), (64, Cut(None)), "hung up on, without a word");
    // Those that it has still work, others are not touched, and a place that is given back can be taken.
    assert_eq!(held[0].code(Ask::CheckIn, &check_in()), "ok");
    assert_eq!(Dial::to(place.port).with(&quiet_own).line().code(Ask::CheckIn, &check_in()), "ok");
    drop(held);
    until("it is let in again", || dial.line().ask(Ask::CheckIn, &check_in()).is_ok());
}
