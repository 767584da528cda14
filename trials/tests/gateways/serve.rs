//! The gateway: alone, beside the command line, stopped, and what a revocation does to open connections.

use std::path::Path;
use std::process::{Output, Stdio};

use identity::bundle::Roots;
use identity::certificate;
use identity::key::P256Key;
use identity::text::Bytes;
use org::invite::code::InviteCode;
use org::refusal::Refusal;
use trials::place::{Place, Running, ended, json, output, refused, stderr, succeeded, text, until};
use wire::connect::{Anchor, Believed, CallError, GatewayAddress, Provisional};
use wire::control::{ControlAnswer, SignedCall};
use wire::enroll::Challenge;
use wire::known::{Known, KnownFile};
use wire::permit::Ask;
use wire::sync::{CheckIn, CheckedIn};
use wire::tls::{Expect, OwnSvid};

#[test]
fn a_gateway_runs_without_the_operators_folder() {
    let place = Place::founded(&[]);
    let code = place.code(&[]);
    let away = place.path("away");
    std::fs::rename(place.org().join("operator"), &away).unwrap();
    let gateway = place.serve();
    succeeded(&place.join("web-1", &code));
    let no = place.freehold(&["invite", "create"]);
    ended(&no, 1, "is missing");
    assert!(stderr(&no).contains("this takes the operator's folder"), "{}", stderr(&no));
    assert_eq!(gateway.stop(), Some(0));
    std::fs::rename(&away, place.org().join("operator")).unwrap();
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
}

#[test]
fn the_command_line_works_with_the_gateway_running_and_not() {
    let place = Place::founded(&[]);
    let work = |label: &str| {
        let invite = place.invite(&["--label", label]);
        assert_eq!(place.facts(&["invite", "show", label])["id"], invite["id"]);
        succeeded(&place.freehold(&["invite", "revoke", label, "--yes"]));
        assert_eq!(place.facts(&["invite", "show", label])["state"], "revoked");
        assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
        succeeded(&place.freehold(&["refresh"]));
        for words in [&["node", "list"][..], &["invite", "list"], &["audit"], &["org", "list"]] {
            succeeded(&place.freehold(words));
            assert!(!place.facts(words).as_array().unwrap().is_empty(), "{words:?}");
        }
    };
    work("before");
    let gateway = place.serve();
    assert_eq!(place.facts(&["org", "list"])[0]["serving"], true);
    work("during");
    assert_eq!(gateway.stop(), Some(0));
    assert_eq!(place.facts(&["org", "list"])[0]["serving"], false);
    work("after");
}

#[test]
fn many_commands_at_once_all_come_to_their_end() {
    let place = Place::founded(&[]);
    let invite_often = || {
        let start = |_| {
            let mut command = place.freehold_command(&["invite", "create"]);
            Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
        };
        for (exit, told) in (0..12).map(start).collect::<Vec<_>>().into_iter().map(Running::end) {
            assert_eq!(exit, Some(0), "{told}");
        }
    };
    invite_often();
    let _gateway = place.serve();
    invite_often();
    assert_eq!(place.facts(&["invite", "list"]).as_array().unwrap().len(), 24);
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn an_operator_elsewhere_needs_only_the_operators_folder() {
    let place = Place::founded(&[]);
    let elsewhere = place.path("elsewhere");
    std::fs::create_dir_all(elsewhere.join("harbor")).unwrap();
    std::fs::rename(place.org().join("operator"), elsewhere.join("harbor/operator")).unwrap();
    let at = |words: &[&str]| freehold_at(&elsewhere, words);
    let down = at(&["node", "list"]);
    ended(&down, 1, "cannot reach the gateway");
    assert!(stderr(&down).contains("--gateway HOST:PORT"), "{}", stderr(&down));
    let _gateway = place.serve();
    let address = place.address();
    let invite = json(&at(&["invite", "create", "--json", "--gateway", &address]));
    succeeded(&place.join("web-1", &text(&invite, "code")));
    // Where the gateway is was remembered, so it need not be said.
    assert_eq!(json(&at(&["node", "show", "web-1", "--json"]))["state"], "member");
    assert_eq!(json(&at(&["--gateway", &address, "audit", "--verify", "--json"]))["ok"], true);
    succeeded(&at(&["node", "revoke", "web-1", "--yes", "--gateway", &address]));
    assert_eq!(json(&at(&["node", "show", "web-1", "--json"]))["state"], "revoked");
    // Another org's operator is nobody here.
    let other = Place::founded(&[]);
    refused(&other.freehold(&["node", "list", "--gateway", &address]), "does not lead to a root that is trusted here");
}

#[test]
fn one_home_has_one_gateway_and_one_port_one_listener() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let second = place.freehold(&["serve", "--listen", "127.0.0.1:0"]);
    ended(&second, 1, "another process is the gateway of this folder");
    assert!(stderr(&second).contains("stop that one first"), "{}", stderr(&second));
    let other = Place::founded(&[]);
    let taken = other.freehold(&["serve", "--listen", &place.address()]);
    ended(&taken, 1, &format!("cannot listen on {}", place.address()));
    place.joined("web-1");
}

#[test]
fn a_gateway_stops_in_good_order() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let serving = place.org().join("gateway/serving.json");
    assert!(serving.exists());
    place.joined("web-1");
    let _agent = place.agent("web-1");
    until("the agent has checked in", || place.status("web-1")["last_check_in"].is_string());
    assert_eq!(gateway.stop(), Some(0), "although a member holds a connection open");
    assert!(!serving.exists());
    // After a kill the file is stale, and nobody minds.
    place.serve().kill();
    assert!(serving.exists());
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    assert_eq!(place.serve().stop(), Some(0));
}

#[test]
fn a_revoked_machine_is_cut_off_and_its_agent_ends() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    place.joined("web-2");
    let agent = place.agent("web-1");
    until("the agent has checked in", || place.status("web-1")["last_check_in"].is_string());
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    let (exit, told) = agent.end();
    assert_eq!(exit, Some(3), "{told}");
    assert!(told.contains("this machine's key was revoked"), "{told}");
    assert_eq!(place.status("web-1")["state"], "revoked");
    refused(&place.freehold(&["node", "revoke", "web-1", "--yes"]), "already revoked");
    assert_eq!(place.state_of("web-2").as_deref(), Some("member"));
    let own = text(&place.facts(&["org", "list"])[0], "name");
    assert_eq!(own, "harbor");
}

#[test]
fn a_gateway_does_not_revoke_itself() {
    let place = Place::founded(&["--node", "quay"]);
    refused(&place.freehold(&["node", "revoke", "quay", "--yes"]), "is a gateway with a mandate");
    assert_eq!(place.state_of("quay").as_deref(), Some("member"));
}

#[tokio::test]
async fn an_open_connection_is_cut_by_a_revocation_and_others_stay() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let mut lines = Vec::new();
    for node in ["web-1", "web-2"] {
        place.joined(node);
        let (mut line, known) = line_of(&place, node).await;
        check_in(&mut line, &known).await.unwrap();
        lines.push((line, known));
    }
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    let (mut other, other_known) = lines.pop().unwrap();
    let (mut cut, known) = lines.pop().unwrap();
    let why = check_in(&mut cut, &known).await.unwrap_err();
    assert!(matches!(why, CallError::BrokenOff { .. }), "the connection is not cut: {why}");
    let answer = check_in(&mut other, &other_known).await.unwrap();
    assert!(answer.head.is_some(), "a member learns of the new head");
}

#[tokio::test]
async fn a_stranger_who_makes_trouble_keeps_neither_members_nor_operators_out() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code: InviteCode = place.code(&["--uses", "2"]).parse().unwrap();
    place.joined("web-1");
    let (mut member, known) = line_of(&place, "web-1").await;
    // Begins and never finishes, until the gateway has had enough of this address.
    let mut begun = 0;
    loop {
        let ask: Result<Challenge, CallError> = stranger(&code).await.ask(Ask::Challenge, &()).await;
        match ask {
            Ok(_) => begun += 1,
            Err(CallError::Refused(Refusal::TooManyAttempts { .. })) => break,
            Err(why) => panic!("{why}"),
        }
        assert!(begun < 500, "trouble is not bounded");
    }
    assert!(begun >= 60, "after {begun} attempts an honest address is shut out");
    member.ask::<_, Challenge>(Ask::Challenge, &()).await.unwrap();
    check_in(&mut member, &known).await.unwrap();
    succeeded(&place.freehold(&["invite", "create"]));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    // Who is not an operator is counted as the stranger that it is.
    let signed = SignedCall { signer: "ann".parse().unwrap(), call: Bytes(vec![]), signature: Bytes(vec![0; 64]) };
    let why = stranger(&code).await.ask::<_, ControlAnswer>(Ask::Control, &signed).await.unwrap_err();
    assert!(matches!(why, CallError::Refused(Refusal::TooManyAttempts { .. })), "{why}");
}

/// A connection as any holder of a code makes it.
async fn stranger(code: &InviteCode) -> Believed {
    let gateway = GatewayAddress::from(code.gateways[0].clone());
    let provisional = Provisional::dial(&gateway, &Expect::Pin(code.endpoint_root), None).await.unwrap();
    let anchor = Anchor::Code { org: code.org, signers: code.signers_floor, head: code.head_floor };
    provisional.believe(anchor).await.unwrap().0
}

async fn check_in(line: &mut Believed, known: &Known) -> Result<CheckedIn, CallError> {
    let question = CheckIn { signers: known.signers.version, head: known.head.head.version, tip: None };
    line.ask(Ask::CheckIn, &question).await
}

/// A connection with a node's own SVID, made from the files of its scope.
async fn line_of(place: &Place, node: &str) -> (Believed, Known) {
    let scope = place.scope(node);
    let read = |name: &str| std::fs::read_to_string(scope.join(name)).unwrap();
    let known = Known::from_file(serde_json::from_str::<KnownFile>(&read("known.json")).unwrap()).unwrap();
    let expect = Expect::Roots(Roots::from_pem(&read("trust/endpoint.pem")).unwrap());
    let chain = certificate::from_pem(&read("svid.pem")).unwrap();
    let own = OwnSvid { chain, key: P256Key::from_pem(&read("svid.key")).unwrap() };
    let gateway = GatewayAddress::from(place.address().parse::<identity::principal::Address>().unwrap());
    let provisional = Provisional::dial(&gateway, &expect, Some(&own)).await.unwrap();
    provisional.believe(Anchor::Known(&known, None)).await.unwrap()
}

/// `freehold` with another home.
fn freehold_at(home: &Path, words: &[&str]) -> Output {
    let mut command = std::process::Command::new(trials::place::binary("freehold"));
    command.args(words).arg("--home").arg(home).stdin(Stdio::null());
    output(command)
}
