//! What a hostile machine, one signer of several, or an old copy of the ledger could make of what is published.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use identity::key::P256Key;
use identity::principal::Principal;
use org::refusal::Refusal;
use trials::attack::impostor::{Impostor, Papers};
use trials::attack::thief::{Thief, signed_call};
use trials::client::joiner::{Ground, Joiner};
use trials::client::stranger::Dial;
use trials::place::{Place, ended, refused, succeeded, text, until};
use trials::port::Nobody;
use wire::control::{Call, SignedCall};
use wire::enroll::RenewRequest;
use wire::permit::Ask;

use super::{QUAY, Scene};

#[test]
fn a_revoked_user_gets_no_new_certificate_although_the_fleet_still_names_her() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let (laptop, issued) = Joiner::join(&scene.place.code(&[]), "laptop", scene.place.port);
    let own = laptop.own(&issued);
    let more = format!("{QUAY}\n").replace("services:", "  laptop:\nservices:");
    scene.declare(&more);
    std::fs::write(scene.place.path("fleet/alice.yaml"), "users:\n  alice:\n    roles: operator\n    nodes: laptop\n")
        .unwrap();
    scene.publish();
    let alice = Principal::user(&laptop.code.name, &"alice".parse().unwrap());
    let ask = |counter: u64| {
        let node_key = P256Key::from_pkcs8(laptop.node_key.pkcs8()).unwrap();
        let next = Joiner { counter, node_key, ..Joiner::new(&laptop.code.encode(), "laptop") };
        let mut line = Dial::to(scene.place.port).with(&own).line();
        let ground = Ground::on(&mut line);
        let svid = next.svid_for(&alice, ground.not_after);
        line.code(Ask::Renew, &RenewRequest { principal: alice.clone(), svid })
    };
    assert_eq!(ask(1), "ok");
    succeeded(&scene.place.freehold(&["user", "revoke", "alice", "--yes"]));
    assert_eq!(ask(2), "not_placed");
}

#[test]
fn one_signer_cannot_take_away_the_map_that_others_are_about_to_publish() {
    let scene = Scene::founded(&["--signers", "2-of-3", "--node", "quay"]);
    for (signer, home) in [("ann-2", "ben"), ("ann-3", "cat")] {
        let to = scene.place.path(home).to_string_lossy().into_owned();
        succeeded(&scene.place.freehold(&["signer", "hand-over", signer, "--to", &to]));
    }
    let _gateway = scene.place.serve();
    scene.declare(QUAY);
    let told = scene.publish();
    let (root, file) = (text(&told, "root").parse().unwrap(), text(&told["pending"], "file"));
    let thief = Thief::of(&scene.place);
    let garbage = identity::id::Digest([7; 32]);
    for (from, leaves) in [(0, vec![]), (0, vec![garbage]), (1, vec![garbage]), (900, vec![garbage])] {
        let mut line = Dial::to(scene.place.port).line();
        let call = Call::StageMap { root, from, leaves };
        let call = signed_call("ann", &call, line.exporter, &thief.signer());
        line.ask(Ask::Control, &call).unwrap();
    }
    succeeded(&scene.place.co_sign("ben", &file));
    succeeded(&scene.place.operator("ben", &["send", &file, "--no-wait"]));
}

#[test]
fn a_gateway_that_was_set_back_is_handed_also_the_fleet_that_it_lost() {
    let scene = Scene::new();
    let place: &Place = &scene.place;
    let gateway = place.serve();
    place.joined("web-1");
    let agent = place.agent("web-1");
    scene.declare(QUAY);
    let first = text(&scene.publish(), "root");
    gateway.stop();
    place.copy(&place.org().join("gateway"), &place.path("old"));
    let gateway = place.serve();
    scene.declare(&QUAY.replace("8080", "9090"));
    let second = text(&scene.publish(), "root");
    assert_ne!(second, first);
    let head = scene.head().version;
    until("the machine has the head", || place.status("web-1")["head"] == head);
    gateway.stop();
    std::fs::rename(place.org().join("gateway"), place.path("newest")).unwrap();
    std::fs::rename(place.path("old"), place.org().join("gateway")).unwrap();
    let _gateway = place.serve();

    // Whichever command comes first: this home has what the copy lacks, map and manifests, too.
    succeeded(&place.freehold(&["audit", "--verify"]));
    assert_eq!((scene.head().version, scene.head().members.unwrap().to_string()), (head, second.clone()));
    until("the machine goes on", || {
        let status = place.status("web-1");
        status["problem"].is_null() && status["head"] == head
    });
    place.joined("web-2");
    let told = scene.publish();
    assert_ne!(text(&told, "root"), second);
    until("the machine has it", || place.status("web-1")["head"] == told["head"]);
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
    drop(agent);
}

#[test]
fn a_gateway_that_refuses_for_no_reason_is_not_given_one_signed_head_after_the_other() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.declare(QUAY);
    let other = Place::new();
    let thief = Thief::of(&scene.place);
    let papers = Papers::of(thief.known());
    let (own, port, asked) = (thief.endpoint("127.0.0.1"), scene.place.port, Arc::new(AtomicUsize::new(0)));
    let heads = Arc::clone(&asked);
    let _liar = Impostor::answering(other.port, &own, papers, move |path, body| {
        assert_eq!(path, Ask::Control.path());
        let signed: SignedCall = serde_json::from_slice(body).unwrap();
        let call: Call = serde_json::from_slice(&signed.call.0).unwrap();
        if matches!(call, Call::Take { .. }) {
            heads.fetch_add(1, Ordering::Relaxed);
            let no = Refusal::LedgerRefuses { why: "not today".to_owned().into() };
            return Some(serde_json::to_value(no).unwrap());
        }
        Some(thief.call(&mut Dial::to(port).line(), &call).body)
    });
    let told = scene.place.freehold(&["publish", "--yes", "--no-wait", "--gateway", &other.address()]);
    refused(&told, "not today");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

fn counter(place: &Place, node: &str, seat: &str) -> u64 {
    let link = place.scope(node).join("principals").join(seat).join("current");
    let number = |target: std::path::PathBuf| target.file_name()?.to_str()?.parse().ok();
    std::fs::read_link(link).ok().and_then(number).unwrap_or(0)
}

#[test]
fn a_service_that_the_head_no_longer_places_does_not_keep_others_from_their_certificates() {
    let scene = Scene::founded(&["--node", "quay", "--svid-ttl", "20s"]);
    let place: &Place = &scene.place;
    let _gateway = place.serve();
    place.joined("web-1");
    let _agent = place.agent("web-1");
    let fleet = |node: &str, more: &str| {
        format!(
            "nodes:\n  quay:\n    address: \"@PEERS@\"\n    relay: true\n  web-1:\n{node}services:\n{more}  zz:\n    \
             at: web-1\n    addr: 127.0.0.1:8081\n    groups: pages\n"
        )
    };
    scene.declare(&fleet("", "  aa:\n    at: web-1\n    addr: 127.0.0.1:8080\n    groups: pages\n"));
    succeeded(&place.freehold(&["publish", "--yes", "--wait", "80s"]));
    until("both have certificates", || {
        ["service-aa", "service-zz"].iter().all(|seat| counter(place, "web-1", seat) > 0)
    });
    let check = "    apply:\n      deadline: 10s\n    checks:\n      never:\n        command: [/bin/false]\n        timeout: 1s\n";
    scene.declare(&fleet(check, ""));
    ended(&place.freehold(&["publish", "--yes", "--wait", "80s"]), 4, "did not stay on `web-1`");
    // It is again what it was, and the head places only one of the two on it.
    let before = counter(place, "web-1", "service-zz");
    until("it is renewed again and again", || counter(place, "web-1", "service-zz") >= before + 3);
}

#[test]
fn nobody_gets_into_a_class_by_an_invite_that_names_nobody() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let open = scene.place.code(&["--uses", "9"]);
    scene.declare(&format!("{QUAY}\nclasses:\n  web:\n    match: web-*"));
    scene.publish();
    let no = scene.place.join("web-7", &open);
    refused(&no, "the fleet has a class `web` for the name `web-7`, and the invite does not list such names");
    assert!(trials::place::stderr(&no).contains("freehold invite create --name"), "{}", trials::place::stderr(&no));
    // Elsewhere it is as good as before, and so is one that says what it is for.
    succeeded(&scene.place.join("lone", &open));
    succeeded(&scene.place.join("web-7", &scene.place.code(&["--name", "web-*"])));
}

/// Passes connections on to a port, until it is told to take no new ones. Those that are open stay.
struct Forwarder {
    port: u16,
    shut: Arc<AtomicUsize>,
}

impl Forwarder {
    fn to(inner: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, shut) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let is_shut = Arc::clone(&shut);
        std::thread::spawn(move || {
            for outside in listener.incoming().flatten() {
                if is_shut.load(Ordering::Relaxed) > 0 {
                    continue;
                }
                let inside = TcpStream::connect(("127.0.0.1", inner)).unwrap();
                let (out, back) = (outside.try_clone().unwrap(), inside.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut &outside, &mut &inside));
                std::thread::spawn(move || std::io::copy(&mut &back, &mut &out));
            }
        });
        Self { port, shut }
    }
}

#[test]
fn a_list_of_gateways_is_confirmed_only_by_a_connection_that_was_made_since() {
    let scene = Scene::new();
    let place: &Place = &scene.place;
    let _gateway = place.serve();
    place.joined("web-1");
    let _agent = place.agent("web-1");
    let forwarder = Forwarder::to(place.port);
    let publish = |list: &str| {
        let node = format!("  web-1:\n    apply:\n      deadline: 12s\n    gateways: [{list}]\nservices:");
        scene.declare(&QUAY.replace("services:", &node));
        place.freehold(&["publish", "--yes", "--wait", "80s"])
    };
    let through = format!("\"127.0.0.1:{}\"", forwarder.port);
    succeeded(&publish(&through));
    until("it comes through the forwarder", || place.status("web-1")["gateways"][0] == through.trim_matches('"'));
    until("it rests", || place.status("web-1")["applied"]["trial"].is_null());
    forwarder.shut.store(1, Ordering::Relaxed);
    // The connection that it has goes on; nobody could make it again.
    let nobody = Nobody::new();
    ended(&publish(&format!("{through}, \"{nobody}\"")), 4, "did not stay on `web-1`");
}
