//! Both ends behind NAT: a third host carries what they say to each other, and a fourth when the third dies.

use std::net::{TcpListener, TcpStream};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trials::place::{stdout, until};

use super::Town;

fn relayed(town: &Town, relay: &str, what: &str) -> u64 {
    town.tunnel(relay)["now"]["relayed"][what].as_u64().unwrap_or_default()
}

#[test]
fn two_hosts_behind_nat_meet_at_a_relay_and_at_the_other_one_when_it_dies() {
    let mut town = Town::new(&["beta", "east", "west"], &["alpha", "beta"]);
    let (alpha, east, west) = (town.lan.address("alpha"), town.lan.address("east"), town.lan.address("west"));
    let nodes = format!(
        "  quay:
  alpha:
  beta:
  east:
    address: \"{east}:7444\"
    relay: true
  west:
    address: \"{west}:7444\"
    relay: true
"
    );
    town.settle(&nodes, &["beta"], "");
    // Nobody gets in from outside: what listens there for everybody is not reached.
    let open = town.lan.within("alpha", || TcpListener::bind("0.0.0.0:7445").unwrap());
    let direct = |from: &str| town.lan.within(from, || TcpStream::connect(format!("{alpha}:7445")));
    assert!(direct("east").is_err());
    drop(open);
    until("it waits at both", || ["east", "west"].iter().all(|relay| relayed(&town, relay, "waiting") > 0));
    town.reads("beta");
    let way = town.way("beta", "alpha");
    let relay = way["through"].as_str().unwrap_or_else(|| panic!("{way}")).to_owned();
    let other = if relay == "east" { "west" } else { "east" };
    assert_eq!(way["why"], "it has no address: a relay carries to it");
    assert!(relayed(&town, &relay, "bytes") > 0 && relayed(&town, &relay, "carried") > 0);
    assert_eq!(relayed(&town, other, "carried"), 0);
    let told = stdout(&town.node("beta", &["status"]));
    assert!(told.contains(&format!("via {relay}")), "{told}");

    let open = town.stream("beta");
    let before = relayed(&town, &relay, "bytes");
    open.carries();
    assert!(relayed(&town, &relay, "bytes") > before);

    // It vanishes without a word. Whoever has noticed asks the other one first from then on.
    town.lan.plug(&relay, false);
    town.reads("beta");
    let way = town.way("beta", "alpha");
    assert_eq!(way["through"], other, "{way}");
    let in_vain = || town.tunnel("beta")["now"]["handshakes"]["failed"]["calling"].clone();
    let before = in_vain();
    let streams = [town.stream("beta"), town.stream("beta")];
    assert_eq!(in_vain(), before);
    open.breaks();
    town.lan.plug(&relay, true);
    until("it waits there again", || relayed(&town, &relay, "waiting") > 0);

    // And now the other one is killed.
    let tunnel = town.tunnel(other)["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).unwrap();
    town.agents.remove(other).unwrap().kill();
    let _ = kill_process(tunnel, Signal::KILL);
    for stream in streams {
        stream.breaks();
    }
    town.reads("beta");
    assert_eq!(town.way("beta", "alpha")["through"], Value::from(relay));
    town.stream("beta").carries();
}
