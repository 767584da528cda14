//! The identity root was stolen, and the issuing keys with it: everybody is back under a new root in moments, by node keys
//! and spare issuing keys, and whoever was asleep catches up.

use std::fs;
use std::sync::{Arc, Mutex};

use identity::authority::Authority;
use identity::bundle::{Endpoint, Identity};
use identity::certificate::{self, draft_svid};
use identity::head::Head;
use identity::id::KeyId;
use identity::key::P256Key;
use identity::principal::NodeName;
use org::invite::code::InviteCode;
use rustix::process::Signal;
use rustls::AlertDescription as Alert;
use serde_json::{Value, json};
use trials::attack::impostor::{Impostor, Papers};
use trials::attack::thief::{Thief, a_day, endpoint};
use trials::client::joiner::{Joiner, check_in};
use trials::client::stranger::{Cut, Dial, Own};
use trials::place::{Place, Running, ended, output, refused, stderr, succeeded, text, until};
use wire::permit::Ask;

use super::{agent, is, log_of, serve, states, trust};
use crate::gateways::{Two, signal};
use crate::publishing::{Scene, wiki_on};
use crate::trust::present::{Turner, own_of, svid_of};

const NODES: [&str; 5] = ["web-1", "web-2", "web-3", "web-4", "web-5"];

fn head(place: &Place) -> Head {
    Thief::of(place).known().head.head
}

/// The key with which a gateway issues SVIDs, by the head.
fn mandated(head: &Head, gateway: &str) -> KeyId {
    let name: NodeName = gateway.parse().unwrap();
    head.mandates.iter().find(|mandate| mandate.gateway == name).unwrap().identity_issuer
}

/// The spare keys of the gateways, as one of them tells.
fn spares(place: &Place, port: u16) -> Vec<(String, KeyId)> {
    let told = Turner::at(place).issuers(port);
    let spare = |request: &[u8]| certificate::read_request(request).unwrap().id;
    told.iter().map(|issuers| (issuers.gateway.to_string(), spare(&issuers.spare_identity.0))).collect()
}

fn issuer_of(place: &Place, node: &str) -> KeyId {
    certificate::read(&svid_of(place, node)[1]).unwrap().key
}

fn replace(place: &Place, more: &[&str]) -> std::process::Output {
    let words = ["rotate", "identity", "--compromised", "--confirm", "harbor"];
    place.freehold(&[&words, more].concat())
}

#[test]
fn five_machines_and_a_service_are_back_by_node_keys_and_what_was_stolen_is_worth_nothing() {
    let scene = Scene::new();
    let place = &scene.place;
    let _gateway = serve(place);
    let agents: Vec<Running> = NODES
        .iter()
        .map(|node| {
            place.joined(node);
            agent(place, node)
        })
        .collect();
    scene.declare(&wiki_on("web-1"));
    scene.publish();
    until("the service has its SVID", || trust(place, "web-1")["svids"].as_array().is_some_and(|all| all.len() == 2));
    // Somebody has the gateway's disk, and a member's: an SVID of their own making, which is as good as any.
    let (eve, _) = Joiner::join(&place.code(&["--name", "eve"]), "eve", place.port);
    let (validity, serial) = (a_day(), ground::random::serial().unwrap());
    let binding = eve.svid(validity.not_after).binding;
    let draft = draft_svid(&eve.principal(), &binding, serial, validity).unwrap();
    let forged = Thief::of(place).sign_draft(&draft, &eve.svid_key);
    assert_eq!(Dial::to(place.port).with(&forged).line().code(Ask::CheckIn, &check_in()), "ok");

    let (before, lay_there) = (head(place), spares(place, place.port).remove(0).1);
    let old = mandated(&before, "quay");
    assert!(lay_there != old && Thief::of(place).issuer::<Identity>().key_id() == old);
    // Eve's machine has no agent: it is the only one that is not there.
    let told = replace(place, &["--anyway", "eve", "--json"]);
    let told: Value = trials::place::json(&told);
    assert_eq!((&told["done"], &told["missing"]), (&json!(["replace"]), &json!([])), "{told}");
    is(&states(place, "identity"), &[(1, "retired"), (2, "active")]);
    let after = head(place);
    // Whoever had the disk had the spare key that lay there: it is drawn anew.
    let spare = mandated(&after, "quay");
    assert!(spare != old && spare != lay_there);
    assert!(after.revocations.issuing_keys.contains(&old));
    assert_eq!(after.mandates[0].endpoint_issuer, before.mandates[0].endpoint_issuer);

    let roots = |node: &str| {
        let told = trust(place, node);
        let known = told["identity"]["versions"].as_array().unwrap().last().unwrap()["roots"].clone();
        (known, told["svids"].as_array().unwrap().iter().map(|svid| svid["roots"].clone()).collect::<Vec<_>>())
    };
    for node in NODES {
        until(&format!("all SVIDs of `{node}` lead to the new root"), || {
            let (known, svids) = roots(node);
            svids.iter().all(|roots| *roots == known) && issuer_of(place, node) == spare
        });
    }
    assert_eq!(roots("web-1").1.len(), 2, "the service is among them");
    let service = place.scope("web-1").join("principals/service-wiki/svid.pem");
    let service = certificate::from_pem(&fs::read_to_string(service).unwrap()).unwrap();
    assert_eq!(certificate::read(&service[1]).unwrap().key, spare);

    let heard = log_of(place, "gateway").len();
    assert_eq!(Dial::to(place.port).with(&forged).line().reply(), Err(Cut(Some(Alert::UnknownCA))));
    until("it is noted", || log_of(place, "gateway")[heard..].contains("the SVID does not lead to a root"));
    place.joined("late");
    assert_eq!(issuer_of(place, "late"), spare);
    drop(agents);
}

/// A machine that joins at this gateway alone.
fn join_at(two: &Two, address: &str, node: &str) {
    succeeded(&knock_at(two, address, node));
}

fn knock_at(two: &Two, address: &str, node: &str) -> std::process::Output {
    two.settle();
    let code = text(&two.at(address, &["invite", "create", "--name", node]), "code");
    let mut code: InviteCode = code.parse().unwrap();
    code.gateways = vec![address.parse().unwrap()];
    two.place.join(node, &code.encode())
}

#[test]
fn two_gateways_go_on_with_their_spare_keys() {
    let (two, _laptop, _vps) = Two::serving();
    two.settle();
    two.place.joined("web-1");
    let _agent = agent(&two.place, "web-1");
    let mut spare = Vec::new();
    until("each has heard of the other's spare key", || {
        spare = spares(&two.place, two.place.port);
        spare.len() == 2
    });
    succeeded(&replace(&two.place, &["--wait", "80s"]));
    let after = head(&two.place);
    for (gateway, lay_there) in &spare {
        assert_ne!(mandated(&after, gateway), *lay_there, "drawn anew at both");
    }
    two.settle();
    for (address, gateway) in [(two.place.address(), "laptop"), (two.address(), "vps")] {
        let node = format!("at-{gateway}");
        join_at(&two, &address, &node);
        assert_eq!(issuer_of(&two.place, &node), mandated(&after, gateway), "{gateway}");
    }
}

#[test]
fn a_gateway_that_was_asleep_while_a_root_was_replaced_catches_up() {
    let (two, _laptop, vps) = Two::serving();
    two.settle();
    until("the laptop has heard of the other's spare key", || spares(&two.place, two.place.port).len() == 2);
    signal(&vps, Signal::STOP);
    ended(&replace(&two.place, &["--no-wait"]), 5, "`vps`");
    is(&states(&two.place, "identity"), &[(1, "retired"), (2, "active")]);
    signal(&vps, Signal::CONT);
    two.settle();
    let key = mandated(&head(&two.place), "vps");
    join_at(&two, &two.address(), "web-1");
    assert_eq!(issuer_of(&two.place, "web-1"), key);
    until("its own machine is back, too", || {
        let told = super::adoption(&two.place, "identity", 2);
        super::names(&told["adopted"]).contains(&"vps".to_owned())
    });
}

/// Stands where a gateway stood, with everything that lay on its disk, and writes down what it is asked beyond papers.
fn stand_in(place: &Place, port: u16, own: &Own) -> (Impostor, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&heard);
    let papers = Papers::of(Thief::of(place).known());
    let impostor = Impostor::answering(port, own, papers, move |path, _| {
        asked.lock().unwrap().push(path.to_owned());
        None
    });
    (impostor, heard)
}

#[test]
fn a_stolen_endpoint_root_is_replaced_at_both_gateways_and_the_thief_is_taken_for_neither() {
    const UNTRUSTED: &str = "does not lead to a root that is trusted here";
    let (two, laptop, vps) = Two::serving();
    two.settle();
    let place = &two.place;
    let (own_port, other_port) = (place.port, two.address().parse::<std::net::SocketAddr>().unwrap().port());
    place.joined("web-1");
    let sync = || output(place.node_command("web-1", &["sync"]));
    succeeded(&sync());
    // The root, and the issuing keys of both.
    let thief = Thief::of(place);
    let read = |file: &str| fs::read_to_string(place.scope("vps").join("gateway").join(file)).unwrap();
    let certificate = certificate::from_pem(&read("endpoint-issuer.pem")).unwrap().remove(0);
    let key = P256Key::from_pem(&read("endpoint-issuer.key")).unwrap();
    let of_vps = endpoint(&Authority::<Endpoint>::load(certificate, &key).unwrap(), "127.0.0.1", thief.endpoint_root());
    let of_laptop = thief.endpoint("127.0.0.1");
    let before = head(place);
    let words = ["rotate", "endpoint", "--compromised", "--confirm", "harbor", "--anyway", "web-1"];
    succeeded(&place.freehold(&words));
    two.settle();
    let after = head(place);
    for (old, new) in before.mandates.iter().zip(&after.mandates) {
        assert_ne!(old.endpoint_issuer, new.endpoint_issuer, "{}", new.gateway);
        assert_eq!(old.identity_issuer, new.identity_issuer, "the other domain is not touched");
        assert!(after.revocations.issuing_keys.contains(&old.endpoint_issuer), "{}", new.gateway);
    }

    // The machine finds each of them, alone.
    vps.kill();
    let (there, at_vps) = stand_in(place, other_port, &of_vps);
    succeeded(&sync());
    until("the gateway that is left does not take the thief for the other", || {
        let listed = place.facts(&["gateway", "list"]);
        let row = listed.as_array().unwrap().iter().find(|row| row["gateway"] == "vps").unwrap().clone();
        row["problem"].as_str().is_some_and(|problem| problem.contains(UNTRUSTED))
    });
    laptop.kill();
    let (here, at_laptop) = stand_in(place, own_port, &of_laptop);
    let told = sync();
    assert!(!told.status.success() && stderr(&told).contains(UNTRUSTED), "{}", stderr(&told));
    for heard in [&at_laptop, &at_vps] {
        let heard = heard.lock().unwrap();
        assert!(!heard.is_empty() && heard.iter().all(|path| path.starts_with("/v1/trust/")), "{heard:?}");
    }
    drop((here, there));
    let vps = two.serve_vps();
    succeeded(&sync());
    let _laptop = place.serve();
    two.settle();
    vps.kill();
    succeeded(&sync());
}

#[test]
fn a_gateway_that_is_left_out_issues_nothing_more_and_everybody_else_goes_on() {
    let (two, _laptop, _vps) = Two::serving();
    let (place, there) = (&two.place, two.address());
    join_at(&two, &there, "web-1");
    place.joined("web-2");
    two.settle();
    let _agents = ["web-1", "web-2"].map(|node| agent(place, node));
    let (before, of_vps) = (head(place), own_of(place, "web-1"));
    assert_eq!(issuer_of(place, "web-1"), mandated(&before, "vps"));
    succeeded(&replace(place, &["--without", "vps", "--wait", "80s"]));
    is(&states(place, "identity"), &[(1, "retired"), (2, "active")]);
    let after = head(place);
    assert_eq!(mandated(&after, "vps"), mandated(&before, "vps"), "its mandate names no other key");
    assert!(after.revocations.issuing_keys.contains(&mandated(&after, "vps")));
    let shown = place.facts(&["trust", "show", "identity"]);
    assert_eq!(shown["issuers"].as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(shown["issuers"][0]["gateway"], "laptop");

    // Everybody has a certificate by the other, the machine that was left out, too.
    for node in ["web-1", "web-2", "vps"] {
        until(&format!("`{node}` is back"), || issuer_of(place, node) == mandated(&after, "laptop"));
    }
    // Where nothing is issued nobody stays.
    assert_eq!(place.status("web-1")["gateways"], json!([place.address(), there]));
    two.settle();
    for (port, at) in [(place.port, "laptop"), (there.parse::<std::net::SocketAddr>().unwrap().port(), "vps")] {
        let told = Dial::to(port).with(&of_vps).line().reply();
        assert_eq!(told, Err(Cut(Some(Alert::UnknownCA))), "what it issued, at {at}");
    }
    refused(&knock_at(&two, &there, "late"), "the gateway's mandate is not in force: it cannot issue");
    join_at(&two, &place.address(), "late");
    // An operator can still ask either, and takes it away for good.
    let shown = two.at(&there, &["trust", "show", "identity"]);
    assert_eq!((&shown["trust_bundle_version"], &shown["state"]), (&2.into(), &"active".into()));
    succeeded(&place.freehold(&["gateway", "remove", "vps", "--yes"]));
    assert_eq!(head(place).mandates.len(), 1);
    succeeded(&place.freehold(&["audit", "--verify"]));
}
