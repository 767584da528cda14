//! Whoever holds a code can make claims as fast as keys: how many wait is bounded, and waiting is not failing.

use std::net::Ipv4Addr;

use identity::time::Seconds;
use rusqlite::Connection;
use trials::client::joiner::{Ground, Joiner};
use trials::client::stranger::Dial;
use trials::place::{Place, succeeded, until};
use wire::enroll::EnrollRequest;
use wire::permit::Ask;

use super::{human, waiting};

const MOST_PER_INVITE: usize = 256;
const MOST_PER_SOURCE: usize = 64;

/// As many as may fail in a minute.
const FAILURES: u32 = 60;

#[test]
fn one_who_waits_and_goes_away_has_not_failed() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = human(&place, &["--uses", "unlimited"]);
    let db = Connection::open(place.org().join("gateway/ledger.db")).unwrap();
    for number in 0..=FAILURES {
        let joiner = Joiner::new(&code, &format!("web-{number}"));
        let mut line = Dial::to(place.port).line();
        let ground = Ground::on(&mut line);
        let request = EnrollRequest { wait: Seconds(30), ..joiner.request(ground) };
        let body = serde_json::to_string(&request).unwrap();
        let head = format!("POST /v1/enroll HTTP/1.1\r\nhost: gateway\r\ncontent-length: {}\r\n\r\n", body.len());
        line.send(&[head, body].concat().into_bytes()).unwrap();
        let kept = || db.query_row("SELECT COUNT(*) FROM claims", [], |row| row.get::<_, u32>(0)).unwrap();
        until("it waits", || kept() > number);
        line.hang_up();
    }
    assert_eq!(Dial::to(place.port).line().code(Ask::Challenge, &()), "ok");
}

#[test]
fn so_many_wait_under_one_invite_and_no_more() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = human(&place, &["--uses", "unlimited"]);
    let knock_from = |joiner: &Joiner, nth: usize| {
        let source = Ipv4Addr::new(127, 0, 7, u8::try_from(nth / MOST_PER_SOURCE).unwrap());
        let mut line = Dial::to(place.port).from(source).line();
        let ground = Ground::on(&mut line);
        line.code(Ask::Enroll, &joiner.request(ground))
    };
    let knock = |joiner: &Joiner| knock_from(joiner, MOST_PER_INVITE);
    let crowd: Vec<Joiner> = (0..MOST_PER_INVITE).map(|n| Joiner::new(&code, &format!("web-{n}"))).collect();
    for (nth, joiner) in crowd.iter().enumerate() {
        assert_eq!(knock_from(joiner, nth), "awaiting_approval", "{}", joiner.name);
    }
    let late = Joiner::new(&code, "late");
    assert_eq!(knock(&late), "too_many_waiting");
    assert_eq!(knock(&crowd[0]), "awaiting_approval", "who waits already may ask again");
    assert_eq!(waiting(&place).len(), MOST_PER_INVITE);
    let other = Joiner::new(&human(&place, &[]), "other");
    assert_eq!(knock(&other), "awaiting_approval", "another invite has room");
    let near = Joiner::new(&human(&place, &[]), "near");
    assert_eq!(knock_from(&near, MOST_PER_SOURCE), "too_many_waiting", "its address has its share");
    succeeded(&place.freehold(&["node", "deny", "web-7", "--yes"]));
    assert_eq!(knock(&crowd[7]), "denied");
    assert_eq!(knock(&late), "awaiting_approval", "a no makes room");
}
