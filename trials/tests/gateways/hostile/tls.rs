//! The TLS door: 1.3 only, nothing resumed, members only over the post-quantum key exchange.

use std::io::{Read as _, Write as _};

use rustls::{AlertDescription, HandshakeKind};
use trials::attack::thief::{Thief, signed_call};
use trials::client::joiner::{Ground, Joiner, check_in};
use trials::client::stranger::{Cut, Dial, Line};
use wire::control::Call;
use wire::permit::Ask;

use super::Scene;

#[test]
fn no_session_is_ever_resumed() {
    let scene = Scene::new();
    let (joiner, papers) = Joiner::join(&scene.place.code(&[]), "web-1", scene.port());
    let own = joiner.own(&papers);
    for (case, dial) in [("a stranger", Dial::to(scene.port())), ("a member", Dial::to(scene.port()).with(&own))] {
        // One configuration, and with it one memory of sessions.
        let config = dial.config();
        for visit in 1..=3 {
            let mut line = dial.line_with(config.clone()).unwrap();
            // Tickets, were there any, would come along with the answer.
            assert_eq!(line.code(Ask::Head, &()), "ok");
            let full = matches!(line.handshake_kind(), Some(HandshakeKind::Full));
            assert!(full, "{case}, visit {visit}: {:?}", line.handshake_kind());
        }
    }
}

#[test]
fn a_revoked_machine_is_cut_off_and_cannot_come_back() {
    let scene = Scene::new();
    let (joiner, papers) = Joiner::join(&scene.place.code(&[]), "web-1", scene.port());
    let own = joiner.own(&papers);
    let dial = Dial::to(scene.port()).with(&own);
    let config = dial.config();
    let mut open = dial.line_with(config.clone()).unwrap();
    assert_eq!(open.code(Ask::CheckIn, &check_in()), "ok");
    trials::place::succeeded(&scene.place.freehold(&["node", "revoke", "web-1", "--yes"]));
    assert_eq!(open.reply(), Err(Cut(None)), "the open connection");
    let mut fresh = dial.line_with(config).unwrap();
    assert_eq!(fresh.reply(), Err(Cut(Some(AlertDescription::CertificateRevoked))), "a new connection");
    let mut bare = Dial::to(scene.port()).line();
    let ground = Ground::on(&mut bare);
    assert_eq!(bare.code(Ask::Return, &joiner.come_back(&papers.admission, ground)), "key_revoked");
    let ground = Ground::on(&mut bare);
    assert_eq!(bare.code(Ask::Enroll, &joiner.request(ground)), "key_revoked");
}

#[test]
fn members_and_operators_need_the_post_quantum_key_exchange_and_strangers_do_not() {
    let scene = Scene::new();
    let (joiner, papers) = Joiner::join(&scene.place.code(&[]), "web-1", scene.port());
    let own = joiner.own(&papers);
    let mut stranger = Dial::to(scene.port()).classical().line();
    for ask in [Ask::Head, Ask::Founding, Ask::Signers] {
        assert_eq!(stranger.code(ask, &()), "ok", "{ask:?}");
    }
    let mut member = Dial::to(scene.port()).classical().with(&own).line();
    assert_eq!(member.code(Ask::Head, &()), "ok", "what strangers may read");
    let ground = Ground::on(&mut member);
    assert_eq!(member.code(Ask::Renew, &joiner.renew(ground)), "weak_key_exchange");
    assert_eq!(member.code(Ask::CheckIn, &check_in()), "weak_key_exchange");
    let call =
        signed_call("ann", &Call::Observed { after: None }, stranger.exporter, &Thief::of(&scene.place).signer());
    assert_eq!(stranger.code(Ask::Control, &call), "weak_key_exchange", "a call that is rightly signed");
}

#[test]
fn an_older_tls_and_what_is_no_tls_are_turned_away() {
    let scene = Scene::new();
    let answer = |bytes: &[u8]| {
        let mut stream = Dial::to(scene.port()).plain();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A reset is as good an end as any.
        let _ = stream.read_to_end(&mut answer);
        answer
    };
    let protocol_version = [0x15, 3, 3, 0, 2, 2, 70];
    assert_eq!(answer(&hello_of_tls_1_2()), protocol_version);
    for (case, bytes) in [
        ("plain HTTP", b"GET /v1/head HTTP/1.1\r\nhost: gateway\r\n\r\n".to_vec()),
        ("the word of a proxy", b"PROXY TCP4 10.0.0.1 127.0.0.1 1 7443\r\n".to_vec()),
        ("zeros", vec![0; 4096]),
        ("a record that is too long", [&[0x16, 3, 1, 0xff, 0xff][..], &[1; 512]].concat()),
        ("an alert", vec![0x15, 3, 3, 0, 2, 2, 40]),
    ] {
        let found = answer(&bytes);
        assert!(found.is_empty() || found.first() == Some(&0x15), "{case}: {found:?}");
    }
    let line: Result<Line, _> = Dial::to(scene.port()).line_with(Dial::to(scene.port()).config());
    assert_eq!(line.unwrap().code(Ask::Head, &()), "ok");
}

/// A hello without the extension by which TLS 1.3 is offered.
fn hello_of_tls_1_2() -> Vec<u8> {
    let groups = [0, 10, 0, 4, 0, 2, 0, 0x1d];
    let points = [0, 11, 0, 2, 1, 0];
    let signatures = [0, 13, 0, 4, 0, 2, 4, 3];
    let extensions = [&groups[..], &points, &signatures].concat();
    let mut body = vec![3, 3];
    body.extend([5; 32]);
    // No session, two suites, no compression.
    body.extend([0, 0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0, 0, u8::try_from(extensions.len()).unwrap()]);
    body.extend(extensions);
    let length = u8::try_from(body.len()).unwrap();
    [&[0x16, 3, 1, 0, length + 4, 1, 0, 0, length][..], &body].concat()
}
