//! Ways in that the fleet declares for one machine: passwords, a port of a service's own, names that resolve.

use std::net::TcpListener;
use std::process::Command;

use trials::place::{ended, mode, output, stderr, stdout, succeeded, until};
use trials::port::Claim;

use super::{Harbor, PAGE, agent};

/// SOCKS with passwords and the resolver are at their ports or nowhere: at such as nobody else has.
fn shared(socks: &Claim) -> String {
    let [.., a, b] = std::process::id().to_be_bytes();
    format!(
        "    tunnel:
      socks: {{at: \"{socks}\", password: true}}
      forward:
        \"127.0.0.1:1091\": {{service: wiki, user: ann}}
      resolver: \"127.3.{a}.{b}:5300\""
    )
}

#[test]
fn on_a_shared_machine_a_password_says_for_whom_a_program_asks() {
    let harbor = Harbor::new();
    let place = &harbor.scene.place;
    let socks = Claim::new();
    harbor.declare_with("pages", &shared(&socks));
    place.facts(&["publish", "--yes"]);
    let scope = place.scope("beta");
    until("the resolver is there", || harbor.tunnel("beta")["listens"].get("resolver").is_some());
    let port = stdout(&place.node("beta", &["port", "socks"], ""));
    let curl = |login: &str| {
        let mut command = Command::new("curl");
        let proxy = format!("127.0.0.1:{}", port.trim());
        command.args(["-sS", "-m", "30", "--socks5-hostname", &proxy, "--proxy-user", login]);
        command.arg("http://wiki.harbor.internal/");
        output(command)
    };
    let password = |user: &str| std::fs::read_to_string(scope.join("socks").join(user)).unwrap().trim().to_owned();
    assert_eq!(mode(&scope.join("socks/ann")), 0o600);
    let page = curl(&format!("ann:{}", password("ann")));
    assert_eq!(stdout(&page), PAGE, "{}", stderr(&page));
    for wrong in [format!("ann:{}", password("bob")), format!("bob:{}", password("bob")), "ann:".to_owned()] {
        assert!(!curl(&wrong).status.success(), "{wrong}");
    }
    // The forward needs no password: whoever reaches the port asks for `ann`.
    let forward = stdout(&place.node("beta", &["port", "wiki"], ""));
    let forward = forward.trim();
    let mut command = Command::new("curl");
    command.args(["-sS", "-m", "30", &format!("http://127.0.0.1:{forward}/")]);
    let page = output(command);
    assert_eq!(stdout(&page), PAGE, "{}", stderr(&page));
    let pac = std::fs::read_to_string(scope.join("tunnel/proxy.pac")).unwrap();
    assert!(pac.contains(&format!("SOCKS5 127.0.0.1:{}", port.trim())), "{pac}");
    let resolver = harbor.tunnel("beta")["listens"]["resolver"].as_str().unwrap().to_owned();
    let drop_in = std::fs::read_to_string(scope.join("tunnel/resolved.conf")).unwrap();
    assert!(drop_in.contains(&format!("DNS={resolver}")), "{drop_in}");
}

/// SOCKS with passwords is moved for nobody, so it waits for whoever has its port.
#[test]
fn a_port_that_becomes_free_is_taken_without_an_order() {
    let harbor = Harbor::new();
    // Nobody else binds at this address.
    let squatter = TcpListener::bind("127.77.7.7:0").unwrap();
    let at = squatter.local_addr().unwrap().to_string();
    harbor.declare_with("pages", &format!("    tunnel:\n      socks: {{at: \"{at}\", password: true}}"));
    harbor.scene.place.facts(&["publish", "--yes"]);
    until("it is told that the port is taken", || harbor.tunnel("beta")["failed"].get("socks").is_some());
    let elsewhere = harbor.tunnel("beta")["listens"].clone();
    drop(squatter);
    until("it listens there", || harbor.tunnel("beta")["listens"]["socks"] == at.as_str());
    assert!(harbor.tunnel("beta")["failed"].get("socks").is_none());
    for (place, before) in elsewhere.as_object().unwrap() {
        assert_eq!(harbor.tunnel("beta")["listens"][place], *before, "what was bound stays");
    }
}

/// Other nodes were told to call there: elsewhere nobody would find it.
#[test]
fn the_port_of_an_address_is_that_port_or_the_change_goes_back() {
    let harbor = Harbor::new();
    let place = &harbor.scene.place;
    let squatter = TcpListener::bind("[::]:0").unwrap();
    let at = format!("127.0.0.1:{}", squatter.local_addr().unwrap().port());
    let declare = |deadline: &str| {
        harbor.declare_with("pages", &format!("    address: \"{at}\"\n    apply: {{deadline: {deadline}}}"));
        place.freehold(&["publish", "--yes", "--wait", "3m"])
    };
    ended(&declare("8s"), 4, "did not stay on");
    let back = place.status("beta")["applied"]["rolled_back"]["why"].clone();
    let told = format!("other nodes do not reach this one at {at}: cannot listen: ");
    assert!(back.as_str().is_some_and(|why| why.contains(&told)), "{back}");
    drop(squatter);
    succeeded(&declare("60s"));
    let bound = harbor.tunnel("beta")["listens"]["peers/tls"].clone();
    assert!(bound.as_str().is_some_and(|bound| bound.ends_with(&at["127.0.0.1".len()..])), "{bound}");
    assert!(place.status("beta")["problem"].is_null());
}

/// Nothing is on trial then, and without a gateway there is no exchange either: whoever looks is told all the same.
#[test]
fn the_port_of_an_address_that_is_taken_later_is_told_and_had_again_when_it_is_free() {
    let mut harbor = Harbor::new();
    let claim = Claim::new();
    let (port, at) = (claim.port, claim.to_string());
    harbor.declare_with("pages", &format!("    address: \"{at}\""));
    harbor.scene.place.facts(&["publish", "--yes"]);
    (harbor.beta, harbor.gateway) = (None, None);
    let squatter = TcpListener::bind(("::", port)).unwrap();
    harbor.beta = Some(agent(&harbor.scene.place, "beta"));
    let told = format!("other nodes do not reach this one at {at}: cannot listen: ");
    let place = &harbor.scene.place;
    until("status says so", || place.status("beta")["problem"].as_str().is_some_and(|why| why.contains(&told)));
    let said = stdout(&place.node("beta", &["doctor"], ""));
    for line in [&*told, "WRONG  tunnel", "free the port, or declare another in the fleet"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let bound = || harbor.tunnel("beta")["listens"]["peers/tls"].clone();
    assert!(bound().is_null(), "elsewhere nobody would find it");
    drop(squatter);
    until("it is there again", || bound().as_str().is_some_and(|bound| bound.ends_with(&format!(":{port}"))));
    assert!(!place.status("beta")["problem"].to_string().contains(&told));
    assert!(!stdout(&place.node("beta", &["doctor"], "")).contains("free the port"));
}

/// With the agent down there is no tunnel, and what can be said is said.
#[test]
fn a_doctor_looks_also_while_the_agent_is_down() {
    let mut harbor = Harbor::new();
    harbor.beta = None;
    let told = harbor.scene.place.node("beta", &["doctor", "wiki"], "");
    assert_eq!(told.status.code(), Some(1));
    let said = stdout(&told);
    for line in [
        "`wiki.harbor.internal` is a service at `alpha`",
        "may call it from here",
        "no tunnel",
        "something answers for `alpha`",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let port = harbor.scene.place.node("beta", &["port", "socks"], "");
    assert!(stderr(&port).contains("the agent does not run"), "{}", stderr(&port));
}
