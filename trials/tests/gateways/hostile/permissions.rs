//! The one table of permissions, from outside: who may ask what, and that every answer is JSON with a code.

use ground::random;
use identity::certificate;
use identity::key::P256Key;
use org::ledger::frontier::Frontier;
use serde_json::json;
use trials::attack::thief::{Thief, signed_call};
use trials::client::joiner::{Ground, Joiner, check_in};
use trials::client::stranger::{Dial, Own};
use wire::control::Call;
use wire::enroll::RenewRequest;
use wire::permit::{Ask, Caller};

use super::Scene;

#[test]
fn a_stranger_may_read_what_is_signed_and_nothing_else() {
    let scene = Scene::new();
    let before = scene.truth();
    for ask in Ask::ALL {
        let mut line = Dial::to(scene.port()).line();
        let expected = match (ask, ask.needs()) {
            (Ask::Enroll | Ask::Return, _) => "no_challenge",
            // Nothing is named: see `nodes::release`.
            (Ask::File, _) => "not_found",
            (Ask::Control | Ask::Recover | Ask::Show | Ask::Carry, _) => "malformed",
            (_, Caller::Stranger) => "ok",
            (_, Caller::Member | Caller::Observer | Caller::Gateway | Caller::Operator) => "not_permitted",
        };
        assert_eq!(line.code(ask, &json!({})), expected, "{ask:?}");
    }
    assert_eq!(scene.truth(), before);
}

#[test]
fn a_member_gets_no_further_than_its_own_questions() {
    let scene = Scene::new();
    let (joiner, papers) = Joiner::join(&scene.place.code(&[]), "web-1", scene.port());
    let before = scene.truth();
    let own = joiner.own(&papers);
    for ask in Ask::ALL {
        let mut line = Dial::to(scene.port()).with(&own).line();
        let expected = match ask {
            Ask::Enroll | Ask::Return | Ask::Renew => "no_challenge",
            Ask::File => "not_found",
            Ask::Recover | Ask::Show | Ask::Carry | Ask::CheckIn | Ask::Sync | Ask::Leave | Ask::Control => "malformed",
            Ask::Exchange => "not_permitted",
            Ask::Founding | Ask::Signers | Ask::Head | Ask::Trust(_) | Ask::Challenge => "ok",
        };
        assert_eq!(line.code(ask, &json!({})), expected, "{ask:?}");
    }
    let mut line = Dial::to(scene.port()).with(&own).line();
    let call = signed_call("ann", &Call::Observed { after: None }, line.exporter, &random::ed25519().unwrap());
    assert_eq!(line.code(Ask::Control, &call), "not_an_operator", "a certificate gives no power");
    assert_eq!(scene.truth(), before);
}

#[test]
fn a_users_certificate_has_none_of_its_machines_powers() {
    let scene = Scene::new();
    let before = scene.truth();
    let seat = scene.place.home().join("harbor/gateway/node/principals/user-ann");
    let read = |name: &str| std::fs::read_to_string(seat.join(name)).unwrap();
    let own = Own {
        chain: certificate::from_pem(&read("svid.pem")).unwrap(),
        key: P256Key::from_pem(&read("svid.key")).unwrap(),
    };
    let asking = Joiner::new(&scene.place.code(&[]), "web-1");
    let after_invite = scene.truth();
    assert_ne!(before, after_invite);
    for principal in ["spiffe://harbor/user/ann", "spiffe://harbor/node/web-1"] {
        let mut line = Dial::to(scene.port()).with(&own).line();
        let ground = Ground::on(&mut line);
        let principal = principal.parse().unwrap();
        let svid = asking.svid_for(&principal, ground.not_after);
        assert_eq!(line.code(Ask::Renew, &RenewRequest { principal, svid }), "not_permitted");
    }
    let mut line = Dial::to(scene.port()).with(&own).line();
    let call = signed_call("ann", &Call::Observed { after: None }, line.exporter, &own_name_key());
    assert_eq!(line.code(Ask::Control, &call), "not_an_operator", "the user `ann` is not the signer `ann`");
    assert_eq!(scene.truth(), after_invite);
}

fn own_name_key() -> identity::key::EdKey {
    identity::key::EdKey::from_seed(b"not the key of the signer ann...")
}

#[test]
fn an_operators_call_needs_a_current_signers_signature_for_this_connection() {
    let scene = Scene::new();
    let (thief, before) = (Thief::of(&scene.place), scene.truth());
    let signer = thief.signer();
    let mut line = Dial::to(scene.port()).line();
    let elsewhere = Dial::to(scene.port()).line();
    let calls = [
        Call::Observed { after: None },
        Call::Survey { tip: None },
        Call::Beyond { frontier: Frontier::default() },
        Call::Hand { entries: Vec::new() },
        Call::Take { objects: Vec::new(), correlation: random::correlation().unwrap() },
    ];
    for call in &calls {
        let stranger = random::ed25519().unwrap();
        for (case, signed) in [
            ("a wrong key", signed_call("ann", call, line.exporter, &stranger)),
            ("another connection", signed_call("ann", call, elsewhere.exporter, &signer)),
            ("no connection", signed_call("ann", call, [0; 32], &signer)),
            ("a signer who is not current", signed_call("ben", call, line.exporter, &signer)),
        ] {
            assert_eq!(line.code(Ask::Control, &signed), "not_an_operator", "{case}: {call:?}");
        }
        let mut changed = signed_call("ann", &Call::Observed { after: None }, line.exporter, &signer);
        changed.call.0 = serde_json::to_vec(call).unwrap();
        changed.call.0.push(b' ');
        assert_eq!(line.code(Ask::Control, &changed), "not_an_operator", "changed after it was signed: {call:?}");
    }
    let unknown = json!({ "signer": "ann", "call": "e30=", "signature": "", "also": 1 });
    assert_eq!(line.code(Ask::Control, &unknown), "malformed", "an unknown field");
    assert_eq!(scene.truth(), before);
    let good = signed_call("ann", &Call::Observed { after: None }, line.exporter, &signer);
    assert_eq!(line.code(Ask::Control, &good), "ok");
}

#[test]
fn what_is_not_in_the_table_is_not_there() {
    let scene = Scene::new();
    let mut line = Dial::to(scene.port()).line();
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/v1"),
        ("GET", "/v1/control"),
        ("POST", "/v1/head"),
        ("PUT", "/v1/head"),
        ("DELETE", "/v1/founding"),
        ("OPTIONS", "/v1/enroll"),
        ("PATCH", "/v1/control"),
        ("get", "/v1/head"),
        ("GET", "/v1/head/"),
        ("GET", "//v1/head"),
        ("GET", "/V1/HEAD"),
        ("GET", "/v1/%68ead"),
        ("POST", "/v1/trust/../control"),
        ("POST", "/v2/enroll"),
        ("GET", "/v1/trust/other"),
    ] {
        let reply = line.request(method, path, b"").unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "{method} {path}");
    }
    for body in [&b"null"[..], b"[]", b"{", b"\xff\xfe", &[b'['; 4096]] {
        Ground::on(&mut line);
        let reply = line.request("POST", Ask::Enroll.path(), body).unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (400, "malformed"), "{:?}", &body[..1]);
    }
    assert_eq!(
        line.request("POST", Ask::CheckIn.path(), &serde_json::to_vec(&check_in()).unwrap()).unwrap().code(),
        "not_permitted"
    );
}
