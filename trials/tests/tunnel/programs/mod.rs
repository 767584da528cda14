//! Real programs through the tunnel, each used as its user would, between machines that share nothing but a cable.

mod lent;
mod kept;
mod spoken;
mod two_orgs;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trials::network::lan::Lan;
use trials::place::{Place, Running, json, output, succeeded, text, until};

/// `quay` has the gateway, `alpha` everything that is called, and those who call are at home on `beta`. Each has a network of
/// its own, so that nothing on loopback of `alpha` is within reach of `beta`, except by the tunnel.
pub struct Wharf {
    running: Vec<Running>,
    pub lan: Lan,
    pub place: Place,
    services: &'static [(&'static str, u16)],
}

/// What differs from one fleet to the next.
#[derive(Clone, Copy)]
pub struct Said<'a> {
    /// Lines under `users`, beside `ann`.
    pub users: &'a str,
    /// Lines about the tunnel of `beta`.
    pub beta: &'a str,
    /// What then listens there.
    pub listens: &'a [&'a str],
    /// Services that are told who calls.
    pub told: &'a [&'a str],
    /// How the machines speak: by `tls`, `quic`, or a `relay`, if `alpha` has no address.
    pub by: &'static str,
}

impl Wharf {
    /// Services on loopback of `alpha`, which only `ann` may call.
    pub fn new(services: &'static [(&'static str, u16)], said: Said<'_>) -> Self {
        let (lan, place) = (Lan::new(&["quay", "alpha", "beta"]), Place::new());
        let mut wharf = Self { running: Vec::new(), lan, place, services };
        // The port at which every program looks names up: as for other programs without privileges, it is to be allowed.
        let mut allow = Command::new("sh");
        allow.args(["-c", "echo 53 >/proc/sys/net/ipv4/ip_unprivileged_port_start"]);
        succeeded(&output(wharf.lan.on("beta", &allow)));
        std::fs::write(wharf.place.path("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
        std::fs::create_dir(wharf.place.path("fleet")).unwrap();
        let gateway = format!("{}:7443", wharf.lan.address("quay"));
        let found = ["found", "harbor", "--unprotected", "--node", "quay", "--advertise", &gateway];
        succeeded(&wharf.operator(&found));
        let serve = wharf.place.freehold_command(&["serve", "--json", "--listen", &gateway]);
        wharf.running.push(serving(wharf.lan.on("quay", &serve)));
        for node in ["alpha", "beta"] {
            wharf.join(node);
        }
        wharf.publish(said);
        wharf
    }

    fn operator(&self, words: &[&str]) -> Output {
        output(self.lan.on("quay", &self.place.freehold_command(words)))
    }

    fn facts(&self, words: &[&str]) -> Value {
        json(&self.operator(&[words, &["--json"]].concat()))
    }

    fn join(&mut self, node: &str) {
        let code = text(&self.facts(&["invite", "create", "--name", node]), "code");
        let join = self.lan.on(node, &self.place.node_command(node, &["join", "--name", node]));
        succeeded(&told(join, code.as_bytes()));
        let mut agent = self.lan.on(node, &self.place.node_command(node, &["run", "--every", "1s"]));
        self.running.push(Running(agent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()));
    }

    /// When it is published, every node has confirmed it.
    pub fn publish(&self, said: Said<'_>) {
        let id = self.facts(&["org", "list"])[0]["org_id"].clone();
        let quay = self.lan.address("quay");
        let (alpha, transport) = match said.by {
            "relay" => (String::new(), "auto"),
            transport => (format!("{{address: \"{}:7444\"}}", self.lan.address("alpha")), transport),
        };
        let row = |(name, port): &(&str, u16)| {
            let told = said.told.contains(name);
            format!("  {name}: {{at: alpha, addr: \"127.0.0.1:{port}\", groups: tools, tells_caller: {told}}}")
        };
        let services = self.services.iter().map(row).collect::<Vec<_>>().join("\n");
        let fleet = format!(
            "org: {{name: harbor, id: {id}}}
users:
  ann: {{roles: operator, nodes: beta}}
{}
roles:
  operator: {{allow: tools}}
  guest: {{allow: tools}}
groups: [tools]
nodes:
  quay: {{address: \"{quay}:7444\", relay: true}}
  alpha: {alpha}
  beta:
    tunnel:
      transport: {transport}
{}
services:
{services}
",
            said.users, said.beta
        );
        std::fs::write(self.place.path("fleet/fleet.yaml"), fleet).unwrap();
        self.facts(&["publish", "--yes"]);
        until("the tunnels listen", || {
            let beta = self.tunnel("beta")["listens"].clone();
            said.listens.iter().all(|place| beta.get(place).is_some())
        });
        if said.by == "relay" {
            let waiting = || self.facts(&["here", "status"])["tunnel"]["now"]["relayed"]["waiting"].as_u64();
            until("`alpha` waits at the relay", || waiting() > Some(0));
        }
        let (service, _) = self.services[0];
        let ask = self.place.node_command("beta", &["doctor", service, "--json"]);
        until("`alpha` is within reach", || {
            let told: Value = serde_json::from_slice(&output(self.lan.on("beta", &ask)).stdout).unwrap_or_default();
            let findings = told["orgs"][0]["findings"].as_array().cloned().unwrap_or_default();
            findings.iter().any(|one| (one["subject"] == "peer" || one["subject"] == "relay") && one["mark"] == "ok")
        });
    }

    pub fn tunnel(&self, node: &str) -> Value {
        self.place.status(node)["tunnel"].clone()
    }

    /// Starts something that listens on `alpha`, and waits until it does.
    pub fn serve(&mut self, service: &str, command: &Command) {
        let port = self.services.iter().find(|(name, _)| *name == service).map(|(_, port)| *port).unwrap();
        let log = std::fs::File::create(self.place.path(&format!("{service}.log"))).unwrap();
        let mut there = self.lan.on("alpha", command);
        there.stdout(log.try_clone().unwrap()).stderr(log);
        self.running.push(Running(there.spawn().unwrap()));
        let own = format!("127.0.0.1:{port}");
        until(&format!("`{service}` listens, or see its log"), || listening(&self.lan, "alpha").contains(&own));
    }

    /// The command as somebody types it on `beta`, where names are looked up by the tunnel.
    pub fn typed(&self, command: &Command) -> Command {
        let mut there = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc/resolv.conf && exec timeout 120 \"$@\"";
        there.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(self.place.path("resolv.conf"));
        there.arg(command.get_program()).args(command.get_args());
        there.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            there.current_dir(folder);
        }
        self.lan.on("beta", &there)
    }

    /// What it answers to somebody on `beta`, when it ends well.
    pub fn ran(&self, command: &Command) -> String {
        let ended = output(self.typed(command));
        succeeded(&ended);
        trials::place::stdout(&ended)
    }

    /// Streams of a service that came to their end, as `alpha` wrote them down.
    pub fn closed(&self, service: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(self.place.scope("alpha").join("access.log")).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["service"] == service && line["event"] == "closed").collect()
    }

    /// It was by the tunnel, in this way and for `ann` that so much was carried, from her and to her.
    pub fn carried(&self, service: &str, by: &str, streams: usize, (from, to): (u64, u64)) {
        until(&format!("{streams} streams of `{service}` are written down"), || self.closed(service).len() >= streams);
        let closed = self.closed(service);
        for line in &closed {
            let caller = (&line["way"], &line["who"], &line["node"]);
            assert_eq!(caller, (&"in".into(), &"spiffe://harbor/user/ann".into(), &"beta".into()));
        }
        // If the one cannot be had in time, it is the other.
        assert!(closed.iter().any(|line| line["transport"] == by), "nothing by {by}: {closed:?}");
        let sum = |way: &str| closed.iter().filter_map(|line| line["carried"][way].as_u64()).sum::<u64>();
        assert!(sum("sent") >= from && sum("received") >= to, "less than {from} and {to}: {closed:?}");
    }

    /// Nothing of what is called is open to others: not by its port on the wire, and not on loopback.
    pub fn nothing_is_open(&self) {
        let others: Vec<String> = listening(&self.lan, "alpha")
            .into_iter()
            .filter(|at| !at.starts_with("127.") && !at.starts_with("[::1]"))
            .collect();
        assert!(others.iter().all(|at| at.ends_with(":7444")), "{others:?}");
        for (service, port) in self.services {
            let mut knock = Command::new("nc");
            knock.args(["-z", "-w", "5", &self.lan.address("alpha"), &port.to_string()]);
            assert_eq!(output(self.typed(&knock)).status.code(), Some(1), "`{service}` is open");
        }
        // The same question finds what is open.
        let mut knock = Command::new("nc");
        knock.args(["-z", "-w", "5", &self.lan.address("quay"), "7444"]);
        succeeded(&output(self.typed(&knock)));
    }

    /// So many bytes that nobody can make smaller, in a file.
    pub fn noise(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.place.path(name);
        std::fs::write(&path, noise(bytes)).unwrap();
        path
    }
}

pub fn noise(bytes: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    std::fs::File::open("/dev/urandom").and_then(|mut noise| noise.read_exact(&mut all)).unwrap();
    all
}

/// Where something listens on a machine.
fn listening(lan: &Lan, machine: &str) -> Vec<String> {
    let mut command = Command::new("ss");
    command.args(["-H", "-l", "-t", "-n"]);
    let told = output(lan.on(machine, &command));
    succeeded(&told);
    let told = trials::place::stdout(&told);
    told.lines().filter_map(|line| line.split_whitespace().nth(3)).map(str::to_owned).collect()
}

/// Until it says that it listens.
fn serving(mut command: Command) -> Running {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
    assert!(line.contains("\"ready\""), "it does not serve: {line}");
    Running(child)
}

/// A command to its end, with this on its standard input.
fn told(mut command: Command, stdin: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}
