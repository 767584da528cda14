//! Staying a member: renewing, coming back, outliving the gateway, stopping, leaving.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use trials::place::{Place, Running, ended, mode, openssl, refused, stderr, succeeded, text, until};

/// So short that a walk sees whole lives, and long enough for a busy machine.
const SHORT: [&str; 4] = ["--node", "quay", "--svid-ttl", "15s"];

#[test]
fn an_agent_renews_before_expiry_and_certificate_and_key_always_match() {
    let place = Place::founded(&SHORT);
    let own_serial = text(&place.facts(&["node", "show", "quay"]), "svid_serial");
    let _gateway = place.serve();
    place.joined("web-1");
    let scope = place.scope("web-1");
    let mut serials = vec![serial(&scope)];
    let began = Instant::now();
    let agent = place.agent("web-1");
    until("the SVID was renewed twice", || {
        // A careful reader follows the link once: what it points at is a pair.
        let pair = std::fs::canonicalize(scope.join("current")).unwrap();
        let words = ["x509", "-in", "svid.pem", "-noout", "-checkend", "0"];
        assert!(openssl(&pair, &words).contains("will not expire"), "it was not renewed in time");
        let public = openssl(&pair, &["x509", "-in", "svid.pem", "-noout", "-pubkey"]);
        assert_eq!(public, openssl(&pair, &["pkey", "-in", "svid.key", "-pubout"]), "certificate and key differ");
        let now = serial(&scope);
        if serials.last() != Some(&now) {
            serials.push(now);
        }
        serials.len() == 3
    });
    assert!(began.elapsed() > Duration::from_secs(10), "it renews far more often than at half life");
    assert_eq!(text(&place.facts(&["node", "show", "web-1"]), "svid_serial").to_uppercase(), serial(&scope));
    assert!(std::fs::read_dir(scope.join("svids")).unwrap().count() <= 2, "old SVIDs are forgotten");
    assert_eq!(stop_in_time(agent), Some(0));
    // The gateway's own machine is a member like any other: by now it has renewed too.
    let own = place.facts(&["node", "show", "quay"]);
    assert_eq!((text(&own, "state"), &own["alarm"]), ("member".to_owned(), &Value::Null));
    assert_ne!(text(&own, "svid_serial"), own_serial);
    let own_scope = place.org().join("gateway/node");
    openssl(&own_scope, &["x509", "-in", "svid.pem", "-noout", "-checkend", "0"]);
    openssl(&own_scope.join("principals/user-ann"), &["x509", "-in", "svid.pem", "-noout", "-checkend", "0"]);
}

#[test]
fn a_machine_whose_svid_expired_comes_back_by_its_node_key() {
    let place = Place::founded(&SHORT);
    let gateway = place.serve();
    let invite = place.invite(&["--uses", "4"]);
    let machines = ["web-1", "web-2", "web-3", "web-4"];
    for node in machines {
        succeeded(&place.join(node, &text(&invite, "code")));
    }
    let first = serial(&place.scope("web-1"));
    let _patient = place.agent("web-4");
    until("one agent runs", || place.status("web-4")["last_check_in"].is_string());
    gateway.kill();
    until("the SVIDs have expired", || machines.iter().all(|node| place.status(node)["state"] == "expired"));
    assert_eq!(place.status("web-4")["running"], true, "it goes on trying");
    let _gateway = place.serve();
    until("it is back by itself", || place.status("web-4")["state"] == "member");
    let agent = place.agent("web-1");
    until("it is back", || place.status("web-1")["state"] == "member");
    assert_ne!(serial(&place.scope("web-1")), first);
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    assert_eq!(stop_in_time(agent), Some(0));
    // So does a second `join`; and `leave` finds its way as well.
    succeeded(&place.join("web-2", &text(&invite, "code")));
    assert_eq!(place.status("web-2")["state"], "member");
    succeeded(&place.node("web-3", &["leave", "--yes"], ""));
    assert_eq!(place.facts(&["node", "show", "web-3"])["left"], true);
    assert_eq!(place.facts(&["node", "list"]).as_array().unwrap().len(), 5, "they are the same nodes as before");
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn status_comes_from_the_agent_while_it_runs_and_from_disk_otherwise() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    assert_eq!((&place.status("web-1")["running"], &place.status("web-1")["state"]), (&false.into(), &"member".into()));
    let agent = place.agent("web-1");
    until("the agent answers", || place.status("web-1")["running"] == true);
    let socket = place.scope("web-1").join("agent.sock");
    assert_eq!(mode(&socket), 0o600);
    ended(&place.node("web-1", &["run"], ""), 1, "another agent already runs for this scope");
    // Head 2 arrives without anybody asking for it.
    succeeded(&place.freehold(&["refresh"]));
    until("the new head is known", || place.status("web-1")["head"] == 2);
    assert_eq!(stop_in_time(agent), Some(0));
    assert!(!socket.exists());
    let after = place.status("web-1");
    assert_eq!((&after["running"], &after["head"]), (&false.into(), &2.into()));
    // After a kill the socket is stale, and nobody minds.
    let agent = place.agent("web-1");
    until("the agent answers", || place.status("web-1")["running"] == true);
    agent.kill();
    assert_eq!(place.status("web-1")["running"], false);
    let agent = place.agent("web-1");
    until("the agent answers", || place.status("web-1")["running"] == true);
    assert_eq!(stop_in_time(agent), Some(0));
}

#[test]
fn an_agent_outlives_its_gateway() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    place.joined("web-1");
    let agent = place.agent("web-1");
    let checked_in = || place.status("web-1")["last_check_in"].as_str().map(str::to_owned);
    until("it has checked in", || checked_in().is_some());
    gateway.kill();
    until("it says what is wrong", || place.status("web-1")["problem"].is_string());
    assert!(text(&place.status("web-1"), "problem").contains("cannot reach the gateway"));
    assert_eq!(place.status("web-1")["state"], "member", "what was true stays true");
    let last = checked_in();
    let _gateway = place.serve();
    until("it has checked in again", || checked_in() != last);
    assert_eq!(place.status("web-1")["problem"], Value::Null);
    assert_eq!(stop_in_time(agent), Some(0));
}

#[test]
fn an_agent_stops_at_once_although_its_gateway_is_silent() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    place.joined("web-1");
    gateway.kill();
    let silent = TcpListener::bind(place.address()).unwrap();
    let agent = place.agent("web-1");
    let _held = silent.accept().unwrap();
    assert_eq!(stop_in_time(agent), Some(0));
}

#[test]
fn an_agent_checks_in_no_more_often_than_it_is_told() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let mut command = place.node_command("web-1", &["run", "--every", "1h"]);
    let _agent = Running(command.stderr(std::process::Stdio::null()).spawn().unwrap());
    let checked_in = |node: &str| place.status(node)["last_check_in"].as_str().map(str::to_owned);
    until("it has checked in", || checked_in("web-1").is_some());
    let first = checked_in("web-1");
    // Another machine's check-ins show that time passes.
    place.joined("web-2");
    let _other = place.agent("web-2");
    until("the other has checked in", || checked_in("web-2").is_some());
    let begin = checked_in("web-2");
    let mut seen = std::collections::BTreeSet::from([begin]);
    until("the other has checked in three times", || {
        seen.insert(checked_in("web-2"));
        seen.len() >= 3
    });
    assert_eq!(checked_in("web-1"), first);
}

#[test]
fn leaving_wipes_the_keys_and_ends_the_node_for_good() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    place.joined("web-1");
    let told = place.node("web-1", &["leave", "--yes", "--json"], "");
    succeeded(&told);
    assert_eq!(trials::place::json(&told)["told_gateway"], true);
    assert!(!place.scope("web-1").exists());
    let node = place.facts(&["node", "show", "web-1"]);
    assert_eq!((&node["state"], &node["left"]), (&"revoked".into(), &true.into()));
    refused(&place.freehold(&["node", "revoke", "web-1", "--yes"]), "already revoked");
    place.joined("web-1");
    assert_eq!(place.facts(&["node", "show", "web-1"])["state"], "member", "the name is free for a new machine");
    // Without a gateway it leaves only if it is told not to ask.
    gateway.kill();
    let told = place.node("web-1", &["leave", "--yes"], "");
    ended(&told, 1, "cannot reach the gateway");
    assert!(stderr(&told).contains("leave --local"), "{}", stderr(&told));
    assert!(place.scope("web-1").join("node.key").exists(), "nothing is wiped before the gateway knows");
    succeeded(&place.node("web-1", &["leave", "--local", "--yes"], ""));
    assert!(!place.scope("web-1").exists());
}

#[test]
fn an_agent_whose_machine_left_ends_by_itself() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let agent = place.agent("web-1");
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    succeeded(&place.node("web-1", &["leave", "--yes"], ""));
    let (exit, told) = agent.end();
    assert_eq!(exit, Some(1), "{told}");
    assert!(told.contains("this machine left the org"), "{told}");
    assert!(!place.scope("web-1").exists(), "it must not write its keys again");
}

fn serial(scope: &Path) -> String {
    let told = openssl(scope, &["x509", "-in", "svid.pem", "-noout", "-serial"]);
    told.trim().trim_start_matches("serial=").to_owned()
}

/// SIGTERM; it has a few seconds.
fn stop_in_time(agent: Running) -> Option<i32> {
    let began = Instant::now();
    let exit = agent.stop();
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?} to stop", began.elapsed());
    exit
}

#[test]
fn operators_who_want_shorter_lives_strand_nobody() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    place.joined("web-1");
    let _agent = place.agent("web-1");
    until("it is connected", || !place.status("web-1")["last_check_in"].is_null());
    succeeded(&place.freehold(&["mandate", "change", "quay", "--svid-ttl", "8h", "--yes"]));
    let soon = ground::clock::now() + identity::time::Seconds::HOUR.times(8) + identity::time::Seconds::MINUTE;
    let until_then = |status: serde_json::Value| {
        let until = status["svid_expires_at"].as_str().unwrap().parse::<identity::time::Timestamp>().unwrap();
        until <= soon && status["problem"].is_null()
    };
    until("the machine has a shorter one", || until_then(place.status("web-1")));
    let listed = || place.facts(&["node", "list"]);
    until("and so has the gateway's own", || {
        let nodes = listed();
        let quay = nodes.as_array().unwrap().iter().find(|node| node["name"] == "quay").unwrap();
        quay["svid_expires_at"].as_str().unwrap().parse::<identity::time::Timestamp>().unwrap() <= soon
    });
}

#[test]
fn nobody_leaves_without_a_yes() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    ended(&place.node("web-1", &["leave"], ""), 2, "this needs a yes");
    ended(&place.node("web-1", &["leave", "--local", "--json"], ""), 2, "this needs a yes");
    succeeded(&place.node("web-1", &["sync"], ""));
}
