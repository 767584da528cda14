//! Whoever claims a host name, from a network: of low assurance for ever.

use trials::client::joiner::{Ground, Joiner, prove};
use trials::client::stranger::Dial;
use trials::place::{Place, ended, refused, stderr, succeeded, text};
use wire::permit::Ask;

use crate::publishing::Scene;

const HERE: &str = "127.0.0.0/8";

fn join(place: &Place, node: &str, code: &str, words: &[&str]) -> std::process::Output {
    place.node(node, &[&["join"], words].concat(), code)
}

#[test]
fn a_host_name_that_fits_is_let_in_and_is_low_for_ever() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let words = ["invite", "create", "--pattern", "*.web.example.com", "--from", HERE, "--approval", "none"];
    let told = place.freehold(&words);
    succeeded(&told);
    for words in ["LOW ASSURANCE", "can be forged", "--approval none"] {
        assert!(stderr(&told).contains(words), "{}", stderr(&told));
    }
    let code = place.code(&words[2..]);
    succeeded(&join(&place, "web-1", &code, &["--host", "web-1.web.example.com"]));
    let shown = place.facts(&["node", "show", "web-1"]);
    assert_eq!((shown["low"].as_bool(), shown["state"].as_str()), (Some(true), Some("member")));
    assert!(shown["invite"].is_string(), "its lineage is known: {shown}");
    let listed = trials::place::stdout(&place.freehold(&["node", "list"]));
    assert!(listed.lines().any(|line| line.starts_with("web-1") && line.contains("low assurance")), "{listed}");
    // The same machine again, and others that do not fit.
    succeeded(&join(&place, "web-1", &code, &["--host", "web-1.web.example.com"]));
    let nowhere = "no pattern lets in a machine of this name from this network";
    for words in [
        &["--host", "web-2.example.com"] as &[&str],
        &["--host", "web-2.web.example.com.evil.example"],
        &["--host", "web-2.web.example.com", "--name", "db-1"],
        &["--name", "web-2"],
    ] {
        refused(&join(&place, "web-2", &code, words), nowhere);
        assert!(!place.scope("web-2").exists(), "{words:?}");
    }
    refused(
        &join(&place, "web-3", &code, &["--host", "web-1.web.example.com"]),
        "the name `web-1` belongs to another machine",
    );
}

#[test]
fn a_code_asks_for_a_host_name_that_fits_and_proves_its_secret_all_the_same() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let made = place.invite(&["--host", "*.web.example.com", "--uses", "2"]);
    let code = text(&made, "code");
    // This machine's own name is sent without being asked for, and does not fit.
    for words in [&[] as &[&str], &["--host", "web-1.example.com"], &["--host", "web-1.db.example.com"]] {
        refused(&join(&place, "web-1", &code, &[&["--name", "web-1"], words].concat()), "host name");
        assert!(!place.scope("web-1").exists(), "{words:?}");
    }
    succeeded(&join(&place, "web-1", &code, &["--host", "web-1.web.example.com"]));
    let shown = place.facts(&["node", "show", "web-1"]);
    assert_eq!((shown["low"].as_bool(), shown["state"].as_str()), (None, Some("member")), "{shown}");
    let own: org::invite::code::InviteCode = code.parse().unwrap();
    let other = org::invite::code::InviteSecret::new([7; 16]);
    let ticket = org::invite::code::Ticket::HostToken { invite: own.ticket.invite().unwrap(), secret: other };
    let forged = org::invite::code::InviteCode { ticket, ..own };
    refused(&join(&place, "web-2", &forged.encode(), &["--host", "web-2.web.example.com"]), "proof");
}

#[test]
fn a_pattern_counts_only_from_its_networks_and_until_it_is_revoked() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let made = place.invite(&["--pattern", "lab-*", "--from", "10.0.0.0/8", "--approval", "none"]);
    let nowhere = "no pattern lets in a machine of this name from this network";
    refused(&place.join("lab-1", &text(&made, "code")), nowhere);
    let near = place.invite(&["--pattern", "lab-*", "--from", HERE, "--approval", "none"]);
    // The code of any pattern is that of every pattern: it holds no secret and names none.
    succeeded(&place.join("lab-1", &text(&made, "code")));
    succeeded(&place.freehold(&["invite", "revoke", &text(&near, "id"), "--yes"]));
    refused(&place.join("lab-2", &text(&near, "code")), nowhere);
    assert_eq!(place.state_of("lab-1").as_deref(), Some("member"), "whoever is in stays");
}

#[test]
fn a_pattern_is_made_with_care() {
    let place = Place::founded(&[]);
    let create = |words: &[&str]| place.freehold(&[&["invite", "create"], words].concat());
    ended(&create(&["--pattern", "web-*"]), 1, "a pattern says from which networks");
    ended(&create(&["--pattern", "*", "--from", HERE]), 1, "lets in whoever asks");
    ended(&create(&["--pattern", "*.*", "--from", HERE]), 2, "pattern of host names");
    ended(
        &create(&["--pattern", "web-*", "--pattern", "*.x.example", "--from", HERE]),
        2,
        "some patterns are of host names",
    );
    ended(
        &create(&["--pattern", "web-*", "--from", HERE, "--give-role", "operator"]),
        1,
        "cannot give the role `operator`",
    );
    ended(&create(&["--pattern", "web-*", "--kind", "key", "--from", HERE]), 2, "cannot be used with");
    ended(
        &create(&["--pattern", "web-*", "--from", HERE, "--approvers", "2"]),
        1,
        "between 1 and 1 signers can approve",
    );
    let made = place.invite(&["--pattern", "web-*", "--from", "0.0.0.0/0", "--from", "::/0"]);
    let shown = place.facts(&["invite", "show", &text(&made, "id")]);
    assert_eq!((shown["kind"].as_str(), shown["approvers"].as_u64()), (Some("pattern"), Some(1)), "a person looks");
    assert_eq!(shown["uses"], "unlimited");
}

/// What the gateway answers to a machine that shows nothing but its own key.
pub fn claims(place: &Place, code: &str, name: &str) -> String {
    let joiner = Joiner::new(code, name);
    let mut line = Dial::to(place.port).line();
    let ground = Ground::on(&mut line);
    let claim = joiner.claim_by(&[&joiner.node_key]);
    let request = prove(claim, joiner.svid(ground.not_after), ground, (&joiner.node_key, &joiner.node_key));
    line.code(Ask::Enroll, &request)
}

#[test]
fn without_a_word_to_the_contrary_a_person_must_look() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = place.code(&["--pattern", "lab-*", "--from", HERE]);
    assert_eq!(claims(&place, &code, "lab-1"), "awaiting_approval");
    assert_eq!(claims(&place, &code, "web-1"), "no_pattern");
    assert_eq!(place.state_of("lab-1"), None, "nobody is in");
}

const CLASSES: &str = "classes:
  web: {match: web-*}
  kite: {match: kite-*}
services:
  wiki: {at: web, addr: '127.0.0.1:8080', groups: pages}
nodes:
  quay: {address: '@PEERS@', relay: true}";

#[test]
fn a_class_with_services_is_closed_to_whoever_proved_nothing() {
    let scene = Scene::new();
    scene.declare(CLASSES);
    let _gateway = scene.place.serve();
    scene.publish();
    let place = &scene.place;
    let made = |glob: &str| place.code(&["--pattern", glob, "--from", HERE, "--approval", "none"]);
    let code = made("web-*");
    refused(&place.join("web-1", &code), "the fleet has a class `web` for the name `web-1`");
    // Listed by name, and nothing lives there: it may.
    made("kite-*");
    succeeded(&place.join("kite-1", &code));
    succeeded(&place.join("web-1", &place.code(&["--name", "web-*"])));
}

#[test]
fn nothing_of_weight_is_placed_on_a_machine_of_low_assurance() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    let place = &scene.place;
    let code = place.code(&["--pattern", "lab-*", "--from", HERE, "--approval", "none"]);
    succeeded(&place.join("lab-1", &code));
    let fleet = |more: &str| {
        scene.declare(&format!("nodes:\n  quay: {{address: '@PEERS@', relay: true}}\n{more}"));
        place.freehold(&["publish", "--yes", "--no-wait"])
    };
    let wiki = "services:\n  wiki: {at: lab-1, addr: '127.0.0.1:8080', groups: pages}";
    refused(
        &fleet(&format!("  lab-1: {{address: 'lab.example:7444'}}\n{wiki}")),
        "`lab-1` would provide the service `wiki`",
    );
    refused(&fleet("  lab-1: {address: 'lab.example:7444', relay: true}"), "`lab-1` would relay the traffic of others");
    let plan = place.freehold(&["plan"]);
    refused(&plan, "some machines were let in on a claimed name alone");
    succeeded(&fleet("  lab-1:"));
}
