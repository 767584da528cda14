//! Through nginx that ends TLS: what it sees is TLS again.

use std::process::Stdio;
use std::time::{Duration, Instant};

use trials::place::{Place, Running, json, refused, stdout, succeeded, text, until};

use super::{Carrier, PROXY, founded, serial, set};
use crate::publishing::Scene;

/// Less than a node waits for news, more than the time between two signs of life.
const IDLE_LIMIT: Duration = Duration::from_secs(26);
const SHORT_PATIENCE: &str = "proxy_read_timeout 26s; proxy_send_timeout 26s;";

#[test]
fn a_node_joins_renews_and_is_revoked_inside_a_websocket() {
    let place = Place::new();
    let nginx = Carrier::nginx(place.port, "").started();
    founded(&place, &nginx.wss(), &["--svid-ttl", "20s"]);
    let _gateway = place.serve();
    place.joined("web-1");
    assert_eq!(place.status("web-1")["gateways"], serde_json::json!([nginx.wss()]));
    let agent = place.agent("web-1");
    let first = serial(&place, "web-1");
    until("the SVID was renewed", || serial(&place, "web-1") != first);
    let doctor = stdout(&place.node("web-1", &["doctor"], ""));
    assert!(doctor.contains(&format!("{} answers inside a WebSocket", nginx.wss())), "{doctor}");
    // An operator goes the same way.
    let nodes = json(&place.freehold(&["node", "list", "--json", "--gateway", &nginx.wss()]));
    assert!(nodes.as_array().unwrap().iter().any(|node| node["name"] == "web-1"), "{nodes}");
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    let (exit, told) = agent.end();
    assert_eq!(exit, Some(3), "{told}");
    assert!(told.contains("revoked"), "{told}");
}

#[test]
fn a_node_that_waits_outlasts_the_idle_limit_and_a_restart_of_the_carrier() {
    let place = Place::new();
    let mut nginx = Carrier::nginx(place.port, SHORT_PATIENCE).started();
    founded(&place, &nginx.wss(), &[]);
    std::fs::create_dir(place.path("fleet")).unwrap();
    let scene = Scene { place };
    let place = &scene.place;
    let _gateway = place.serve();
    place.joined("web-1");
    let mut command = place.node_command("web-1", &["run"]);
    let _agent = Running(command.stderr(Stdio::null()).spawn().unwrap());
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    let began = Instant::now();
    until("it has waited for longer than nginx would", || began.elapsed() > IDLE_LIMIT + Duration::from_secs(3));
    // nginx writes a line when a WebSocket has ended: that of the node has not.
    let log = nginx.at.path("access.log");
    let longest = || {
        let lasted = std::fs::read_to_string(&log).unwrap();
        lasted.lines().filter_map(|line| line.split_once(' ')?.1.parse::<f64>().ok()).fold(0.0, f64::max)
    };
    assert!(longest() < IDLE_LIMIT.as_secs_f64(), "nginx has ended it after {} seconds", longest());
    publish(&scene, "rack-1");
    nginx.stop();

    // It comes back, and what was published meanwhile reaches the node.
    until("the node has noticed", || place.status("web-1")["problem"].is_string());
    let problem = text(&place.status("web-1"), "problem");
    assert!(problem.contains("by WebSocket"), "{problem}");
    let doctor = stdout(&place.node("web-1", &["doctor"], ""));
    assert!(doctor.contains("the carrier at") && doctor.contains("cannot be reached"), "{doctor}");
    nginx.start();
    publish(&scene, "rack-2");
    until("it is well again", || place.status("web-1")["problem"].is_null());
}

/// Publishes something new for the node, and waits until it lives by it.
fn publish(scene: &Scene, site: &str) {
    let confirmed = || scene.place.status("web-1")["applied"]["confirmed"].clone();
    let before = confirmed();
    scene.declare(&format!("nodes:\n  quay: {{}}\n  web-1: {{labels: {{site: {site}}}}}"));
    scene.publish();
    until("the node has taken it", || confirmed().is_string() && confirmed() != before);
}

#[test]
fn the_address_of_the_caller_is_the_sockets_unless_a_named_proxy_says_otherwise() {
    let place = Place::new();
    let add = "proxy_set_header X-Forwarded-For \"10.1.2.3, $remote_addr\";";
    let lie = "proxy_set_header X-Forwarded-For 10.1.2.3;";
    let named = Carrier::nginx(place.port, &format!("proxy_bind {PROXY}; {add}")).started();
    let silent = Carrier::nginx(place.port, &format!("proxy_bind {PROXY};")).started();
    let unnamed = Carrier::nginx(place.port, lie).started();
    founded(&place, &named.wss(), &[]);
    set(&place, &format!("forwarded = [\"{PROXY}\"]\n"));
    let _gateway = place.serve();
    // A code for each carrier: it names the way, and the gateway is the same.
    let code = |carrier: &Carrier, from: &str| {
        let mut code: org::invite::code::InviteCode = place.code(&["--from", from]).parse().unwrap();
        code.gateways = vec![carrier.wss().parse().unwrap()];
        code.encode()
    };
    succeeded(&place.join("web-1", &code(&named, "127.0.0.1/32")));
    refused(&place.join("web-2", &code(&named, "127.0.0.9/32")), "network");
    refused(&place.join("web-3", &code(&named, "10.0.0.0/8")), "network");
    refused(&place.join("web-4", &code(&unnamed, "10.0.0.0/8")), "network");
    succeeded(&place.join("web-5", &code(&unnamed, "127.0.0.1/32")));
    let told = place.join("web-6", &code(&silent, "127.0.0.9/32"));
    trials::place::ended(&told, 1, "400 Bad Request");
}
