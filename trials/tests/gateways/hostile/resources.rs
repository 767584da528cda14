//! Callers that only want to cost: bounded, counted by address, and nobody else waits for them.

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use ground::random;
use trials::attack::thief::Thief;
use trials::client::joiner::{Ground, Joiner, check_in};
use trials::client::stranger::{Cut, Dial, Line};
use trials::place::succeeded;
use wire::control::Call;
use wire::permit::Ask;

use super::Scene;

const NOISY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Less than any of the gateway's own deadlines: nobody waited for one.
const SOON: Duration = Duration::from_secs(8);

#[test]
fn a_machine_joins_while_others_only_hold_the_door() {
    let scene = Scene::new();
    let noisy = Dial::to(scene.port()).from(NOISY);
    let idle: Vec<_> = (0..200).map(|_| noisy.plain()).collect();
    let mut half_hellos: Vec<_> = (0..50).map(|_| noisy.plain()).collect();
    for stream in &mut half_hellos {
        stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0]).unwrap();
    }
    let mut slow: Vec<Line> = (0..20).map(|_| noisy.line()).collect();
    for line in &mut slow {
        line.send(b"POST /v1/enroll HTTP/1.1\r\nhost: ga").unwrap();
    }
    let mut half_bodies: Vec<Line> = (0..20).map(|_| noisy.line()).collect();
    for line in &mut half_bodies {
        line.send(b"POST /v1/enroll HTTP/1.1\r\nhost: gateway\r\ncontent-length: 30000\r\n\r\n{").unwrap();
    }
    let code = scene.place.code(&["--uses", "2"]);
    let begun = Instant::now();
    succeeded(&scene.place.join("web-1", &code));
    for line in &mut slow {
        line.send(b"t").unwrap();
    }
    succeeded(&scene.place.join("web-2", &code));
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    drop((idle, half_hellos, half_bodies));
    scene.audit();
}

#[test]
fn an_address_takes_its_share_of_connections_and_no_more() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let files = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: files, maximum: files }).unwrap();
    let scene = Scene::new();
    let noisy = Dial::to(scene.port()).from(NOISY);
    let answers = |dial: Dial<'_>| dial.line_with(dial.config()).is_ok_and(|mut line| line.ask(Ask::Head, &()).is_ok());
    let (member, papers) = Joiner::join(&scene.place.code(&[]), "web-1", scene.port());
    let own = member.own(&papers);
    let mut members: Vec<Line> = (0..20).map(|_| noisy.with(&own).line()).collect();
    for line in &mut members {
        assert_eq!(line.code(Ask::CheckIn, &check_in()), "ok");
    }

    let mut idle = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while answers(noisy) {
        assert!(Instant::now() < deadline && idle.len() < 4_000, "{} idle connections are kept", idle.len());
        idle.extend((0..500).map(|_| noisy.plain()));
    }
    assert!(idle.len() >= 1_000, "a thousand may join at once");
    assert!(answers(Dial::to(scene.port())), "another address");
    for line in &mut members {
        assert_eq!(line.code(Ask::CheckIn, &check_in()), "ok", "a member that is in");
    }
    drop(idle);
    while !answers(noisy) {
        assert!(Instant::now() < deadline, "places are not given back");
    }
}

#[test]
fn what_is_too_large_is_refused_and_the_connection_ends() {
    let scene = Scene::new();
    let before = scene.truth();
    let mut line = Dial::to(scene.port()).line();
    let begun = Instant::now();

    // A body beyond the limit of its question, announced or not, and one without an end.
    let large = vec![b' '; Ask::Enroll.max_body() + 1];
    let reply = line.request("POST", Ask::Enroll.path(), &large).unwrap();
    assert_eq!((reply.status, reply.code().as_str()), (400, "malformed"));
    let mut line = Dial::to(scene.port()).line();
    line.send(b"POST /v1/enroll HTTP/1.1\r\nhost: gateway\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    let chunk = [&b"1000\r\n"[..], &[b' '; 0x1000], b"\r\n"].concat();
    // Until the gateway has had enough.
    let sent = (0..10_000).take_while(|_| line.send(&chunk).is_ok()).count();
    assert!(sent < 10_000, "40 MB were taken");

    for (case, head) in [
        ("one huge header", format!("GET /v1/head HTTP/1.1\r\nhost: gateway\r\nx: {}\r\n\r\n", "x".repeat(64 << 10))),
        ("many headers", format!("GET /v1/head HTTP/1.1\r\nhost: gateway\r\n{}\r\n", "x: y\r\n".repeat(5_000))),
        ("a long path", format!("GET /{} HTTP/1.1\r\nhost: gateway\r\n\r\n", "x".repeat(64 << 10))),
        ("a header without an end", format!("GET /v1/head HTTP/1.1\r\nx: {}", "x".repeat(64 << 10))),
    ] {
        let mut line = Dial::to(scene.port()).line();
        // The gateway may hang up before all is sent.
        let _ = line.send(head.as_bytes());
        if let Ok(reply) = line.reply() {
            assert!([414, 431].contains(&reply.status), "{case}: {reply:?}");
        }
        assert_eq!(line.request("GET", "/v1/head", b"").map(|_| ()), Err(Cut(None)), "{case}: it still listens");
    }
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    assert_eq!(scene.truth(), before);
}

#[test]
fn a_request_that_can_be_read_in_two_ways_is_not_read_at_all() {
    let scene = Scene::new();
    for head in [
        "POST /v1/challenge HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
        "POST /v1/challenge HTTP/1.1\r\nhost: g\r\ncontent-length: -1\r\n\r\n",
        "POST /v1/challenge HTTP/1.1\r\nhost: g\r\ntransfer-encoding: identity, x\r\n\r\n0\r\n\r\n",
        "GET /v1/head HTTP/1.1\r\nhost : g\r\n\r\n",
        "GET  /v1/head HTTP/1.1\r\n\r\n",
        "GET /v1/head\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut line = Dial::to(scene.port()).line();
        line.send(head.as_bytes()).unwrap();
        if let Ok(reply) = line.reply() {
            assert_eq!(reply.status, 400, "{head}");
        }
        assert_eq!(line.request("GET", "/v1/head", b"").map(|_| ()), Err(Cut(None)), "{head}: it still listens");
    }
}

#[test]
fn failures_close_the_door_for_their_own_address_only() {
    let scene = Scene::new();
    let code = scene.place.code(&["--uses", "2"]);
    let before = scene.truth();
    let guess = |line: &mut Line| {
        let reply = line.ask(Ask::Challenge, &()).unwrap();
        if reply.code() == "ok" { line.code(Ask::Enroll, &()) } else { reply.code() }
    };
    let mut noisy = Dial::to(scene.port()).from(NOISY).line();
    let failed = (0..200).take_while(|_| guess(&mut noisy) == "malformed").count();
    assert!((30..=100).contains(&failed), "{failed} attempts were heard");
    assert_eq!(guess(&mut noisy), "too_many_attempts");
    let reply = noisy.ask(Ask::Challenge, &()).unwrap();
    assert_eq!(reply.status, 429);
    assert!(reply.body["retry_after"].as_u64().is_some_and(|seconds| seconds > 0), "{}", reply.body);
    let mut again = Dial::to(scene.port()).from(NOISY).line();
    assert_eq!(again.ask(Ask::Challenge, &()).unwrap().code(), "too_many_attempts", "another connection");
    assert_eq!(again.code(Ask::Control, &()), "too_many_attempts", "another question");
    assert_eq!(again.code(Ask::Head, &()), "ok", "what is only read costs nothing");

    assert_eq!(scene.truth(), before);
    succeeded(&scene.place.join("web-1", &code));
}

#[test]
fn no_noise_at_their_address_keeps_members_and_operators_out() {
    let scene = Scene::new();
    let (member, papers) = Joiner::join(&scene.place.code(&[]), "web-1", scene.port());
    let mut noisy = Dial::to(scene.port()).from(NOISY).line();
    while noisy.ask(Ask::Challenge, &()).unwrap().code() == "ok" {}

    let own = member.own(&papers);
    let mut neighbour = Dial::to(scene.port()).from(NOISY).with(&own).line();
    let ground = Ground::on(&mut neighbour);
    let next = Joiner { counter: 2, svid_key: random::p256().unwrap(), ..member };
    assert_eq!(neighbour.code(Ask::Renew, &next.renew(ground)), "ok");
    let mut operator = Dial::to(scene.port()).from(NOISY).line();
    assert_eq!(Thief::of(&scene.place).call(&mut operator, &Call::Observed { after: None }).code(), "ok");

    // A member that is noisy itself closes its own account.
    let mut closed = 0;
    while neighbour.ask(Ask::Challenge, &()).unwrap().code() == "ok" {
        closed += 1;
        assert!(closed < 200, "a member may fail without end");
    }
}

#[test]
fn attempts_that_are_begun_and_dropped_count_as_failed() {
    let scene = Scene::new();
    let dial = Dial::to(scene.port()).from(NOISY);
    // A second challenge gives the first one up, and so does hanging up.
    let mut line = dial.line();
    for _ in 0..40 {
        Ground::on(&mut line);
    }
    drop(line);
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut line = dial.line();
        if line.ask(Ask::Challenge, &()).unwrap().code() == "too_many_attempts" {
            break;
        }
        assert!(Instant::now() < deadline, "dropped attempts are not counted");
    }
}

#[test]
fn who_begins_and_falls_silent_is_dropped() {
    let scene = Scene::new();
    // Half a handshake, and half a request: each ends by the gateway's own deadline, without a word from here.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut half_hello = Dial::to(scene.port()).plain();
            half_hello.write_all(&[0x16, 3, 1]).unwrap();
            assert_eq!(half_hello.read(&mut [0; 64]).unwrap(), 0, "it is closed, not answered");
        });
        scope.spawn(|| {
            let mut line = Dial::to(scene.port()).line();
            line.send(b"GET /v1/he").unwrap();
            assert_eq!(line.reply().map(|_| ()), Err(Cut(None)));
        });
    });
    succeeded(&scene.place.join("web-1", &scene.place.code(&[])));
}
