//! The tunnel's process: confined, killed, started again, and gone with its agent.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use trials::place::{stderr, stdout, until};

use super::{Harbor, PAGE};

fn pid(tunnel: &Value) -> Option<Pid> {
    tunnel["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?))
}

fn line(status: &str, name: &str) -> String {
    let found = status.lines().find(|line| line.starts_with(name));
    found.unwrap_or_default().split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_killed_tunnel_is_started_again_and_its_agent_goes_on() {
    let harbor = Harbor::new();
    let before = harbor.tunnel("beta");
    let first = pid(&before).unwrap();
    kill_process(first, Signal::KILL).unwrap();
    until("another one runs", || pid(&harbor.tunnel("beta")).is_some_and(|pid| pid != first));
    until("it listens again", || harbor.tunnel("beta")["listens"] == before["listens"]);
    let after = harbor.tunnel("beta");
    assert_eq!(after["restarts"], 1);
    assert!(after["problem"].as_str().unwrap().contains("SIGKILL"), "{after}");
    assert_eq!(harbor.scene.place.status("beta")["state"], "member");
    let page = harbor.curl("ann", "http://wiki.harbor.internal/");
    assert_eq!(stdout(&page), PAGE, "{}", stderr(&page));
}

#[test]
fn the_tunnel_has_no_privileges_and_ends_with_its_agent() {
    let harbor = Harbor::new();
    let tunnel = harbor.tunnel("alpha");
    let pid = pid(&tunnel).unwrap();
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.as_raw_pid().to_string()).join("status")).unwrap();
    assert_eq!(line(&status, "NoNewPrivs:"), "1");
    if rustix::process::geteuid().is_root() {
        assert_eq!(line(&status, "Uid:"), "65534 65534 65534 65534");
        assert_eq!(line(&status, "Groups:"), "");
        assert_eq!(line(&status, "CapEff:").trim_start_matches('0'), "");
    } else {
        eprintln!("NOT TESTED: privileges are dropped by root alone, and this is not root");
    }
    let sandbox = tunnel["now"]["sandbox"].as_str().unwrap();
    assert!(sandbox.starts_with("landlock ABI ") || sandbox.starts_with("none: "), "{sandbox}");
    let Harbor { alpha, .. } = harbor;
    alpha.kill();
    until("the tunnel ended, too", || test_kill_process(pid).is_err());
}

#[test]
fn nobody_but_an_agent_starts_it() {
    let harbor = crate::publishing::Scene::new();
    let told = harbor.place.node("alpha", &["tunnel", "run"], "");
    assert!(!told.status.success());
    assert!(stderr(&told).contains("standard input is no socket"), "{}", stderr(&told));
}
