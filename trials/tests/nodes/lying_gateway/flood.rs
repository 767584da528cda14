//! A member that waits for news a thousand times over, and one whose reports are not fit for people.

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::Sign as _;
use identity::time::Seconds;
use org::report::{Applied, Mark, Refused, Report};
use trials::attack::thief::Thief;
use trials::client::joiner::Joiner;
use trials::client::stranger::{Dial, Line};
use trials::load::meter;
use trials::place::{stderr, stdout, succeeded};
use wire::permit::Ask;
use wire::sync::SyncRequest;

use super::Scene;

fn waiting(head: u64) -> SyncRequest {
    SyncRequest {
        signers: 1,
        head,
        digest: None,
        rivals: None,
        listed: head,
        have: Vec::new(),
        waits_for: None,
        sighted: Vec::new(),
        suspended: None,
        tip: None,
        wait: Seconds(110),
        report: None,
    }
}

#[test]
fn a_member_waits_in_no_more_places_than_it_is_given_and_others_are_served() {
    let (scene, gateway) = Scene::new(&[]);
    let place = &scene.place;
    let (greedy, papers) = Joiner::join(&place.code(&[]), "greedy", place.port);
    let head = scene.publish("sync: {wait: 20s}", "");
    let own = greedy.own(&papers);
    let body = serde_json::to_vec(&waiting(head)).unwrap();
    let ask = format!("POST {} HTTP/1.1\r\nhost: gateway\r\ncontent-length: {}\r\n\r\n", Ask::Sync.path(), body.len());
    let ask = [ask.as_bytes(), &body].concat();
    let mut first = Dial::to(place.port).with(&own).line();
    assert_eq!(first.code(Ask::Sync, &SyncRequest { wait: Seconds(0), ..waiting(head) }), "ok");
    let before = meter::resident(gateway.0.id());
    let wait = || {
        let dial = Dial::to(place.port).with(&own);
        let mut line = dial.line_with(dial.config()).ok()?;
        line.send(&ask).ok().map(|()| line)
    };
    let mut lines: Vec<Line> = (0..200).filter_map(|_| wait()).collect();
    // Whoever is not given a place hears of it at once; the others wait.
    succeeded(&place.freehold(&["refresh"]));
    let answered = lines.iter_mut().filter_map(|line| line.reply().ok()).filter(|reply| reply.status == 200).count();
    assert!((1..=64).contains(&answered), "{answered} of 200 waited, {} connected", lines.len());
    let grown = meter::resident(gateway.0.id()).saturating_sub(before);
    assert!(grown < 64 << 20, "the gateway grew by {grown} bytes");
    place.joined("web-1");
    let _web = place.agent("web-1");
    scene.until_settled("web-1", head + 1);
}

#[test]
fn a_report_that_would_steer_a_terminal_is_refused_and_never_shown() {
    let (scene, _gateway) = Scene::new(&[]);
    let place = &scene.place;
    let (node, papers) = Joiner::join(&place.code(&[]), "web-1", place.port);
    let head = scene.publish("sync: {wait: 20s}", "");
    let own = node.own(&papers);
    let known = Thief::of(place).known();
    let report = |why: &str, key: &dyn identity::key::Sign| {
        let report = Report {
            node: node.name.clone(),
            node_key: node.node_key.public(),
            at: ground::clock::now(),
            head: Mark { version: head, digest: known.head.digest },
            schema: 2,
            applied: Applied::RolledBack {
                manifest: Digest([1; 32]),
                to: None,
                at: ground::clock::now(),
                why: why.to_owned(),
            },
            refused: Some(Refused { at: ground::clock::now(), why: "a lie".to_owned() }),
            agent: "0".to_owned(),
            trust: None,
            left: None,
            beside: None,
            programs: Vec::new(),
        };
        let sealed = Envelope::seal(Some(known.org()), &report).unwrap().signed(key).unwrap();
        SyncRequest { wait: Seconds(0), report: Some(sealed), ..waiting(head) }
    };
    let mut line = Dial::to(place.port).with(&own).line();
    for evil in ["\u{1b}[2Jgone", "a\rb", "\u{9b}2J", "\u{202e}gone", &"x".repeat(301)] {
        assert_eq!(line.code(Ask::Sync, &report(evil, &node.node_key)), "malformed", "{evil:?}");
    }
    assert_eq!(line.code(Ask::Sync, &report("plain", &ground::random::p256().unwrap())), "bad_proof");
    assert_eq!(line.code(Ask::Sync, &report("plain words", &node.node_key)), "ok");
    // What the operator reads has nothing in it that moves a cursor.
    let shown = [&["node", "list"][..], &["node", "show", "web-1"]].map(|words| place.freehold(words));
    for told in shown {
        succeeded(&told);
        let text = stdout(&told) + &stderr(&told);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{text:?}");
    }
    assert_eq!(scene.report("web-1").unwrap().refused.unwrap().why, "a lie");
}
