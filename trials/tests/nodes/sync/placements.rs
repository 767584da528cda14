//! Users and services: a node holds the SVIDs of exactly those that the head places on it.

use std::path::PathBuf;

use identity::certificate;
use identity::principal::Principal;
use identity::time::Timestamp;
use trials::client::joiner::{Ground, Joiner};
use trials::client::stranger::Dial;
use trials::place::{Place, below};
use wire::enroll::{Issued, RenewRequest};
use wire::permit::Ask;

use super::synced;
use crate::publishing::Scene;

/// Ben is on a node, a wiki and a blog are somewhere.
fn fleet(wiki: &str, ben: &str, more: &str) -> String {
    format!(
        "  ben:
    roles: operator
    nodes: {ben}
services:
  wiki: {{at: {wiki}, addr: \"127.0.0.1:8080\", groups: pages}}
  blog: {{at: web, addr: \"127.0.0.1:8081\", groups: pages}}
classes:
  web: {{match: web-*}}
nodes:
  quay:
    address: \"@PEERS@\"
    relay: true
  db-1:
  db-2:
{more}"
    )
}

fn declare(scene: &Scene, org: &str, more: &str) {
    let id = scene.place.facts(&["org", "list"])[0]["org_id"].clone();
    let people = "roles:\n  operator: {allow: pages}\ngroups:\n  pages: {about: what people read}";
    let ann = "users:\n  ann:\n    roles: operator\n    nodes: quay";
    let text = format!("org:\n  name: harbor\n  id: {id}\n{org}\n{people}\n{ann}\n{more}\n");
    scene.place.write_fleet(&text);
    scene.publish();
}

fn seat(place: &Place, node: &str, who: &str) -> PathBuf {
    place.scope(node).join("principals").join(who)
}

/// Whom the SVID names, and when it was made and ends.
fn svid(path: PathBuf) -> (String, Timestamp, Timestamp) {
    let chain = certificate::from_pem(&std::fs::read_to_string(path).unwrap()).unwrap();
    let read = certificate::read(&chain[0]).unwrap();
    (read.uris[0].clone(), read.validity.not_before, read.validity.not_after)
}

fn names(place: &Place, node: &str, who: &str) -> String {
    svid(seat(place, node, who).join("svid.pem")).0
}

fn keys(place: &Place, node: &str, who: &str) -> usize {
    let folder = seat(place, node, who);
    if folder.exists() { below(&folder).iter().filter(|path| path.ends_with("svid.key")).count() } else { 0 }
}

#[test]
fn a_node_holds_svids_for_exactly_whom_the_head_places_on_it() {
    let scene = Scene::new();
    let place = &scene.place;
    let _gateway = place.serve();
    for node in ["db-1", "db-2", "web-1"] {
        place.joined(node);
    }
    declare(&scene, "", &fleet("db-1", "db-1", ""));
    for node in ["db-1", "db-2", "web-1"] {
        assert_eq!(synced(&scene, node, &[])["outcome"], "settled");
    }
    assert_eq!(names(place, "db-1", "service-wiki"), "spiffe://harbor/service/wiki");
    assert_eq!(names(place, "db-1", "user-ben"), "spiffe://harbor/user/ben");
    assert!(!place.scope("db-2").join("principals").exists());
    // By its class, also for who joins when all is published.
    place.joined("web-9");
    assert_eq!(synced(&scene, "web-9", &[])["outcome"], "settled");
    for node in ["web-1", "web-9"] {
        assert_eq!(names(place, node, "service-blog"), "spiffe://harbor/service/blog");
        assert!(!seat(place, node, "service-wiki").exists() && !seat(place, node, "user-ben").exists());
    }

    // The wiki moves; Ben stays.
    declare(&scene, "", &fleet("db-2", "db-1", ""));
    for node in ["db-1", "db-2"] {
        assert_eq!(synced(&scene, node, &[])["outcome"], "settled");
    }
    assert_eq!(keys(place, "db-1", "service-wiki"), 0);
    // Only the number is kept from which it would go on.
    assert_eq!(below(&seat(place, "db-1", "service-wiki")), [seat(place, "db-1", "service-wiki").join("left")]);
    assert_eq!(names(place, "db-1", "user-ben"), "spiffe://harbor/user/ben");
    assert_eq!(names(place, "db-2", "service-wiki"), "spiffe://harbor/service/wiki");
}

#[test]
fn a_member_that_asks_for_whom_it_does_not_house_is_refused() {
    let scene = Scene::new();
    let place = &scene.place;
    let _gateway = place.serve();
    let (mine, papers): (Joiner, Issued) = Joiner::join(&place.code(&[]), "web-1", place.port);
    place.joined("db-1");
    place.joined("db-2");
    declare(&scene, "", &fleet("db-1", "db-1", ""));
    let ask = |principal: &str| {
        let principal: Principal = principal.parse().unwrap();
        let mut line = Dial::to(place.port).with(&mine.own(&papers)).line();
        let ground = Ground::on(&mut line);
        let svid = mine.svid_for(&principal, ground.not_after);
        line.ask(Ask::Renew, &RenewRequest { principal, svid }).unwrap().code()
    };
    for elsewhere in ["service/wiki", "user/ben", "user/ann", "service/none", "node/db-1"] {
        assert_eq!(ask(&format!("spiffe://harbor/{elsewhere}")), "not_placed", "{elsewhere}");
    }
    assert_eq!(ask("spiffe://harbor/service/blog"), "ok", "its class has it");
    // Placed there until the next head, and not a moment longer.
    declare(&scene, "", &fleet("db-1", "db-1", "").replace("at: web,", "at: db-2,"));
    assert_eq!(ask("spiffe://harbor/service/blog"), "not_placed");
}

#[test]
fn operators_choose_longer_lives_and_a_node_may_have_a_shorter_one() {
    let scene = Scene::new();
    let place = &scene.place;
    let _gateway = place.serve();
    place.joined("db-1");
    place.joined("db-2");
    let hours = |(_, from, to): (String, Timestamp, Timestamp)| to.since(from).0 / 3600;
    assert_eq!(hours(svid(place.scope("db-1").join("svid.pem"))), 24);
    let more = fleet("[db-1, db-2]", "db-1", "").replace("  db-2:", "  db-2:\n    lifetimes: {svid: 2h}");
    declare(&scene, "  lifetimes: {svid: 30d}", &more);
    for node in ["db-1", "db-2"] {
        assert_eq!(synced(&scene, node, &[])["outcome"], "settled");
    }
    assert_eq!(hours(svid(seat(place, "db-1", "service-wiki").join("svid.pem"))), 30 * 24);
    assert_eq!(hours(svid(seat(place, "db-2", "service-wiki").join("svid.pem"))), 2);
    place.joined("web-9");
    assert_eq!(hours(svid(place.scope("web-9").join("svid.pem"))), 30 * 24);
}
