//! What a fleet that is well means.

use identity::time::Seconds;

use super::scene::{WELL, files, fleet, look};
use crate::fleet::At;
use crate::stored::{Confirm, Probe};

const MORE: &str = "\
classes:
  web:
    match: [web-*, www]
    roles: staff
    labels: {site: rack}
    gateways: ['10.0.0.1:7443']
    lifetimes: {svid: 1h}
    sync: {wait: 10s}
    apply: {confirm: operator}
    checks:
      up: {http: 'http://127.0.0.1:8080/health?x=1', status: 204, timeout: 2s}
      run: {command: [/bin/test, -e, /run/x]}
    files:
      motd: {from: files/motd}
      bin/tool: {content: \"#!/bin/sh\\n\", executable: true}
invites:
  rack: {names: web-*, from: [10.0.0.0/8, '2001:db8::/32'], labels: {site: rack}, roles: staff}
roles:
  node: {allow: pages}
";

fn read() -> crate::fleet::Fleet {
    let org = "org: {freshness: 7d, lifetimes: {svid: 12h}, gateways: 'gw:1', apply: {deadline: 2m}, checks: {up: {tcp: 'gw:1'}, port: {http: 'http://[::1]'}}, files: {motd: {content: hi}, org: {content: o}}, ";
    let text = WELL
        .replace("org: {", org)
        .replace("{address: 'gw.example:7444'}", "{address: 'gw.example:7444', relay: true}");
    let (fleet, warnings) = look(&files(&[("a.yaml", &text), ("b.yaml", MORE)])).unwrap();
    assert_eq!(warnings, []);
    fleet
}

#[test]
fn what_a_class_says_wins_over_the_org_and_the_rest_stays() {
    let fleet = read();
    assert_eq!((fleet.org.freshness, fleet.org.svid_life), (Seconds(7 * 86_400), Some(Seconds(12 * 3600))));
    let web = &fleet.classes[&"web".parse().unwrap()];
    assert_eq!(web.names.iter().map(ToString::to_string).collect::<Vec<_>>(), ["web-*", "www"]);
    let policy = &web.like.policy;
    assert_eq!(policy.gateways, ["10.0.0.1:7443".parse().unwrap()]);
    assert_eq!((policy.svid_life, policy.sync.wait), (Some(Seconds(3600)), Seconds(10)));
    assert_eq!((policy.apply.deadline, policy.apply.confirm), (Seconds(120), Confirm::Operator));
    let names: Vec<_> = policy.checks.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["port", "run", "up"]);
    let up = &policy.checks[&"up".parse().unwrap()];
    let at = "127.0.0.1:8080".parse().unwrap();
    assert_eq!((&up.probe, up.timeout), (&Probe::Http { at, path: "/health?x=1".to_owned(), status: 204 }, Seconds(2)));
    let port = &policy.checks[&"port".parse().unwrap()];
    let at = "[::1]:80".parse().unwrap();
    assert_eq!((&port.probe, port.timeout), (&Probe::Http { at, path: "/".to_owned(), status: 200 }, Seconds(5)));
    let run = &policy.checks[&"run".parse().unwrap()];
    assert_eq!(run.probe, Probe::Command(["/bin/test", "-e", "/run/x"].map(str::to_owned).to_vec()));
    let delivered: Vec<_> =
        policy.files.iter().map(|(name, file)| (name.as_str(), file.content.0.as_slice(), file.executable)).collect();
    assert_eq!(delivered, [("bin/tool", &b"#!/bin/sh\n"[..], true), ("motd", b"hello\n", false), ("org", b"o", false)]);
}

#[test]
fn what_a_node_does_not_say_is_what_the_org_says() {
    let fleet = read();
    let desk = &fleet.nodes[&"desk".parse().unwrap()];
    assert_eq!(desk.policy, fleet.org.defaults);
    assert_eq!(desk.policy.svid_life, Some(Seconds(12 * 3600)));
    assert!(desk.address.is_none() && !desk.relay);
    assert!(fleet.nodes[&"gw".parse().unwrap()].relay);
}

#[test]
fn roles_groups_places_and_invites_lead_where_they_say() {
    let fleet = read();
    assert_eq!(fleet.every_node, ["pages".parse().unwrap()].into());
    let roles: Vec<_> = fleet.roles.keys().map(ToString::to_string).collect();
    assert_eq!(roles, ["operator", "staff"], "`node` is not among them");
    assert_eq!(fleet.services[&"wiki".parse().unwrap()].at, [At::Node("gw".parse().unwrap())]);
    let invite = &fleet.invites[&"rack".parse().unwrap()];
    assert_eq!((invite.hosts.len(), invite.approvers), (0, Some(1)), "a person looks, if nothing is said");
    assert_eq!((invite.names.len(), invite.networks.len(), invite.labels.len(), invite.roles.len()), (1, 2, 1, 1));
}

#[test]
fn a_service_that_only_its_own_node_calls_needs_no_way_in() {
    let text = WELL.replace("{address: 'gw.example:7444'}", "").replace("nodes: desk", "nodes: gw");
    assert_eq!(fleet(&text).users[&"ann".parse().unwrap()].nodes, [At::Node("gw".parse().unwrap())]);
}

#[test]
fn files_may_be_split_and_shuffled() {
    let (first, second) = WELL.split_at(WELL.find("services:").unwrap());
    let one = look(&files(&[("a.yaml", first), ("b.yml", second)])).unwrap();
    let other = look(&files(&[("a.yaml", second), ("b.yml", first)])).unwrap();
    assert_eq!(one, other);
    assert_eq!(one.0, fleet(WELL));
}
