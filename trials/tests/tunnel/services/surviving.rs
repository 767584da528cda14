//! The tunnel's process: confined, killed, started again, and gone with its agent.

use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use trials::place::{Running, stderr, stdout, succeeded, until};

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
    // At the same ports, unless another program was faster.
    let places = |tunnel: &Value| -> Vec<String> {
        tunnel["listens"].as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default()
    };
    until("it listens again", || places(&harbor.tunnel("beta")) == places(&before));
    let after = harbor.tunnel("beta");
    assert_eq!(after["restarts"], 1);
    assert!(after["problem"].as_str().unwrap().contains("SIGKILL"), "{after}");
    assert_eq!(harbor.scene.place.status("beta")["state"], "member");
    let page = harbor.curl("ann", "http://wiki.harbor.internal/");
    assert_eq!(stdout(&page), PAGE, "{}", stderr(&page));
}

/// When a node has confirmed what forbids a stream, the stream is over: also if its tunnel hangs.
#[test]
fn a_tunnel_that_does_not_obey_is_killed_before_anything_is_reported() {
    let harbor = Harbor::new();
    let curl = harbor.curl_command("ann", "http://wiki.harbor.internal/slow").stderr(Stdio::null()).spawn().unwrap();
    let mut open = harbor.wiki.kept.recv().unwrap();
    let hung = pid(&harbor.tunnel("alpha")).unwrap();
    kill_process(hung, Signal::STOP).unwrap();
    harbor.declare("nothing");
    harbor.scene.place.facts(&["publish", "--yes"]);
    assert!(test_kill_process(hung).is_err(), "it is reported, and the hung tunnel is still there");
    let _ = open.set_nonblocking(true);
    let ended = match open.read(&mut [0; 64]) {
        Ok(read) => read == 0,
        Err(why) => why.kind() != ErrorKind::WouldBlock,
    };
    assert!(ended, "the stream that is forbidden is open");
    assert_ne!(Running(curl).end().0, Some(0));
    until("another one runs", || harbor.tunnel("alpha")["listens"].get("peers/tls").is_some());
    assert!(!harbor.curl("ann", "http://wiki.harbor.internal/").status.success());
    let problem = harbor.tunnel("alpha")["problem"].clone();
    assert!(problem.as_str().unwrap().contains("did not obey in time"), "{problem}");
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
    assert!(sandbox.ends_with("; no sockets of this machine; no other processes"), "{sandbox}");
    // It leads a group of its own, which is killed with it.
    assert_eq!(line(&status, "NSpgid:").split(' ').next_back(), line(&status, "NSpid:").split(' ').next_back());
    // `ps` shows what it is, and for which org.
    let shown = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap();
    assert_eq!(shown("comm"), "freehold-tunnel\n");
    assert_eq!(shown("cmdline"), "freehold-node\0tunnel\0run\0harbor\0");
    // What it logs passes through the agent's hands.
    let log = std::fs::read_to_string(harbor.scene.place.path("alpha.log")).unwrap();
    let (its_own, agents): (Vec<_>, Vec<_>) = log.lines().partition(|line| line.starts_with("tunnel: "));
    let says = |lines: &[&str]| lines.iter().any(|line| line.contains("the tunnel runs"));
    assert!(says(&its_own) && !says(&agents), "{log}");
    let Harbor { alpha, .. } = harbor;
    alpha.kill();
    until("the tunnel ended, too", || test_kill_process(pid).is_err());
}

/// A clumsy hand, or a full disk: one thing after the other, and the page is there each time.
#[test]
fn what_is_broken_beside_it_ends_no_tunnel_and_is_told() {
    let harbor = Harbor::new();
    let scope = harbor.scene.place.scope("beta");
    let page = || {
        let page = harbor.curl("ann", "http://wiki.harbor.internal/");
        assert_eq!(stdout(&page), PAGE, "{}", stderr(&page));
    };
    page();
    // Nothing can be written in their places, also by root.
    for name in ["access.log", "tunnel.json"] {
        std::fs::remove_file(scope.join(name)).unwrap();
        std::fs::create_dir_all(scope.join(name).join("x")).unwrap();
    }
    let first = pid(&harbor.tunnel("beta")).unwrap();
    kill_process(first, Signal::KILL).unwrap();
    let troubles = || harbor.tunnel("beta")["troubles"].clone();
    until("the log is missed", || troubles().get("access log").is_some());
    until("it listens again", || harbor.tunnel("beta")["listens"].get("socks").is_some());
    // Lines are gathered for a moment: those of the first are on their way when the last is here.
    for _ in 0..10 {
        page();
    }
    std::fs::remove_dir_all(scope.join("access.log")).unwrap();
    until("the log goes on", || {
        page();
        troubles().get("access log").is_none()
    });
    assert!(harbor.log("beta").iter().any(|line| line["event"] == "lost"), "lines were lost, and that is told");
}

fn damage(seat: &Path) {
    for entry in std::fs::read_dir(seat.join("svids")).unwrap() {
        std::fs::write(entry.unwrap().path().join("svid.pem"), "half of it").unwrap();
    }
}

/// Whose it is goes without for a while; nobody else does, and nobody has to mend it.
#[test]
fn an_svid_that_is_damaged_is_told_and_heals_with_the_next_exchange() {
    let mut harbor = Harbor::new();
    let (own, bob) = (harbor.scene.place.scope("beta"), harbor.scene.place.scope("beta").join("principals/user-bob"));
    let is_well = |seat: &Path| {
        let pem = std::fs::read_to_string(seat.join("svid.pem"));
        pem.is_ok_and(|pem| pem.starts_with("-----BEGIN CERTIFICATE-----"))
    };
    let page = |harbor: &Harbor| {
        let page = harbor.curl("ann", "http://wiki.harbor.internal/");
        assert_eq!(stdout(&page), PAGE, "{}", stderr(&page));
    };
    let missed = |harbor: &Harbor| harbor.tunnel("beta")["troubles"].get("SVID of spiffe://harbor/user/bob").is_some();
    // Nobody can issue another one yet.
    harbor.gateway.take().unwrap().kill();
    damage(&bob);
    until("one SVID is missed", || missed(&harbor));
    let said = stdout(&harbor.scene.place.node("beta", &["status"], ""));
    assert!(said.contains("problem   SVID of spiffe://harbor/user/bob: "), "{said}");
    page(&harbor);
    harbor.gateway = Some(harbor.scene.place.serve());
    until("an exchange takes place", || harbor.scene.place.node("beta", &["sync"], "").status.success());
    assert!(is_well(&bob), "it took place, and the SVID is still damaged");
    until("nothing is missed", || !missed(&harbor));
    page(&harbor);
    // An agent that starts so goes on as well, also without one of its own.
    harbor.beta.take().unwrap().kill();
    damage(&bob);
    damage(&own);
    succeeded(&harbor.scene.place.node("beta", &["status"], ""));
    harbor.beta = Some(super::agent(&harbor.scene.place, "beta"));
    until("there are others", || is_well(&bob) && is_well(&own));
    until("it is a member", || harbor.scene.place.status("beta")["last_check_in"].is_string());
    assert_eq!(harbor.scene.place.status("beta")["problem"], Value::Null);
    until("it listens again", || harbor.tunnel("beta")["listens"].get("socks").is_some());
    page(&harbor);
}

#[test]
fn both_ends_see_who_is_connected() {
    let harbor = Harbor::new();
    let curl = harbor.curl_command("ann", "http://wiki.harbor.internal/slow").stderr(Stdio::null()).spawn().unwrap();
    let open = harbor.wiki.kept.recv().unwrap();
    let callers = harbor.tunnel("alpha")["now"]["callers"].clone();
    let of = callers.as_array().unwrap().iter().find(|caller| caller["streams"] == 1);
    assert!(of.is_some_and(|caller| caller["node"] == "beta" && caller["transport"] != "relay"), "{callers}");
    let said = stdout(&harbor.scene.place.node("alpha", &["status"], ""));
    assert!(said.contains("caller    beta over ") && said.contains(", direct, 1 streams on "), "{said}");
    assert!(harbor.tunnel("beta")["now"]["handshakes"]["called"].as_u64().is_some_and(|called| called > 0));
    drop(open);
    Running(curl).end();
}

#[test]
fn nobody_but_an_agent_starts_it() {
    let harbor = crate::publishing::Scene::new();
    let told = harbor.place.node("alpha", &["tunnel", "run"], "");
    assert!(!told.status.success());
    assert!(stderr(&told).contains("standard input is no socket"), "{}", stderr(&told));
}
