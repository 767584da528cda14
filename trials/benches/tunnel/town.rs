//! An org with its gateway and nodes, real processes all: what is measured.
//!
//! `quay` is gateway and relay. `alpha` has the service and an address, `hidden` has it and no address. `near-tls` and
//! `near-quic` call, each over its transport; `ann` and `bob` are at home on both.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use identity::time::Timestamp;
use serde_json::Value;
use trials::place::{Place, Running, until};

use crate::service::ECHO;
use crate::way::{Way, family};

pub const NEAR: [(&str, &str); 2] = [("near-tls", "tls"), ("near-quic", "quic")];
/// Where a forward leads: to the service itself, to the one behind the relay; for the node, or for a user.
const FORWARDS: [(&str, &str); 4] = [
    ("direct", "service: wiki"),
    ("relayed", "service: cellar"),
    ("ann", "service: wiki, user: ann"),
    ("bob", "service: wiki, user: bob"),
];

pub struct Town {
    pub place: Place,
    service: SocketAddr,
    gateway: Running,
    _agents: Vec<Running>,
    /// Ports that nobody else claims: of `quay` and `alpha`, then of forwards.
    ports: Vec<Place>,
}

impl Town {
    pub fn new(service: SocketAddr) -> Self {
        let place = Place::founded(&["--node", "quay"]);
        std::fs::create_dir(place.path("fleet")).unwrap();
        let gateway = serve(&place);
        let agents = ["alpha", "hidden", "near-tls", "near-quic"].map(|node| {
            place.joined(node);
            agent(&place, node)
        });
        let ports = (0..2 + NEAR.len() * FORWARDS.len()).map(|_| Place::new()).collect();
        let town = Self { place, service, gateway, _agents: agents.into(), ports };
        town.publish(true);
        until("the tunnels listen", || {
            NEAR.iter().all(|(node, _)| FORWARDS.iter().all(|(way, _)| town.forward(node, way).is_some()))
                && town.tunnel("alpha")["listens"].get("peers/tls").is_some()
        });
        until("every way leads to the service", || {
            let all = NEAR.iter().flat_map(|(node, _)| FORWARDS.map(|(way, _)| town.forward(node, way)));
            all.into_iter().all(|at| at.is_some_and(|at| echoes(at).unwrap_or(false)))
        });
        town
    }

    /// Nothing is left to `ann`. Returns when every node has confirmed it.
    pub fn take_back(&self) {
        self.publish(false);
    }

    /// When the far end's tunnel said first that it cut something: its table was swapped just before. In seconds since 1970.
    pub fn swapped(&self) -> Option<f64> {
        let log = std::fs::read_to_string(self.place.path("alpha.log")).ok()?;
        let line = log.lines().find(|line| line.contains("cut what is no longer allowed"))?;
        let (whole, rest) = line.trim_start_matches("tunnel: ").split_once('.')?;
        let at: Timestamp = format!("{whole}Z").parse().ok()?;
        let fraction: f64 = format!("0.{}", rest.split_once('Z')?.0).parse().ok()?;
        Some(at.unix() as f64 + fraction)
    }

    /// How many streams the far end cut, by its access log.
    pub fn cut(&self) -> usize {
        let log = std::fs::read_to_string(self.place.scope("alpha").join("access.log")).unwrap_or_default();
        log.lines().filter(|line| line.contains("\"event\":\"cut\"")).count()
    }

    fn publish(&self, is_hers: bool) {
        let allowed = if is_hers { "pages" } else { "empty" };
        let id = self.place.facts(&["org", "list"])[0]["org_id"].clone();
        let [quay, alpha, ..] = self.ports.as_slice() else { return };
        let nodes: String = NEAR.iter().map(|(node, transport)| self.near(node, transport, is_hers)).collect();
        let fleet = format!(
            "org: {{name: harbor, id: {id}}}
users:
  ann: {{roles: [operator, reader], nodes: [quay, near-tls, near-quic]}}
  bob: {{roles: caller, nodes: [near-tls, near-quic]}}
roles:
  operator: {{allow: empty}}
  reader: {{allow: {allowed}}}
  caller: {{allow: pages}}
groups: {{pages: {{about: what is read}}, empty: {{about: what nobody has}}}}
nodes:
  quay: {{address: \"127.0.0.1:{}\", relay: true}}
  alpha: {{address: \"127.0.0.1:{}\"}}
  hidden:
{nodes}services:
  wiki: {{at: alpha, addr: \"{service}\", groups: pages}}
  cellar: {{at: hidden, addr: \"{service}\", groups: pages}}
",
            quay.port,
            alpha.port,
            service = self.service
        );
        std::fs::write(self.place.path("fleet/fleet.yaml"), fleet).unwrap();
        self.place.facts(&["publish", "--yes"]);
    }

    fn near(&self, node: &str, transport: &str, is_hers: bool) -> String {
        // A fleet is refused that has a port for what may not be called.
        let forwards = FORWARDS.iter().filter(|(way, _)| is_hers || *way != "ann");
        let forwards = forwards.map(|(way, what)| format!("\"{}\": {{{what}}}", self.wished(node, way)));
        let forwards: Vec<String> = forwards.collect();
        format!(
            "  {node}: {{roles: caller, tunnel: {{transport: {transport}, socks: off, forward: {{{}}}}}}}\n",
            forwards.join(", ")
        )
    }

    fn wished(&self, node: &str, way: &str) -> String {
        let row = NEAR.iter().position(|(near, _)| *near == node).unwrap();
        let column = FORWARDS.iter().position(|(name, _)| *name == way).unwrap();
        let port = self.ports.get(2 + row * FORWARDS.len() + column).unwrap().port;
        format!("127.0.0.1:{port}")
    }

    /// Where the forward really listens.
    pub fn forward(&self, node: &str, way: &str) -> Option<SocketAddr> {
        let at = self.tunnel(node)["listens"].get(format!("forward/{}", self.wished(node, way)))?.clone();
        at.as_str()?.parse().ok()
    }

    pub fn tunnel(&self, node: &str) -> Value {
        self.place.status(node)["tunnel"].clone()
    }

    pub fn pid(&self, node: &str) -> u32 {
        if node == "quay" {
            let children = family(self.gateway.0.id());
            return children
                .into_iter()
                .find(|pid| is_tunnel(*pid))
                .unwrap_or_else(|| panic!("the relay has no tunnel"));
        }
        let pid = self.tunnel(node)["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        pid.unwrap_or_else(|| panic!("`{node}` has no tunnel: {}", self.tunnel(node)))
    }

    /// The ways that are measured, each with what it is compared to.
    pub fn ways(&self) -> Vec<Way> {
        let version = format!("freehold {}", env!("CARGO_PKG_VERSION"));
        let mut ways = Vec::new();
        for (node, transport) in NEAR {
            let bare = if transport == "tls" { "bare rustls" } else { "bare quinn" };
            let at = self.forward(node, "direct").unwrap();
            let own = vec![self.pid(node), self.pid("alpha")];
            ways.push(Way::new(&format!("tunnel, {transport}"), at, own).against(bare).version(&version));
        }
        // A relay carries TLS, whatever the caller prefers.
        let at = self.forward("near-tls", "relayed").unwrap();
        let own = vec![self.pid("near-tls"), self.pid("hidden"), self.pid("quay")];
        ways.push(Way::new("tunnel, relayed", at, own).against("bare rustls").version(&version));
        ways
    }
}

fn is_tunnel(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("\0tunnel\0run"))
}

fn echoes(at: SocketAddr) -> std::io::Result<bool> {
    let mut socket = TcpStream::connect(at)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.write_all(&[ECHO, 7])?;
    let mut back = [0];
    socket.read_exact(&mut back)?;
    Ok(back == [7])
}

/// What it says is in a file, as what the agents say.
fn serve(place: &Place) -> Running {
    let mut command = place.freehold_command(&["serve", "--json", "--listen", &place.address()]);
    let log = File::create(place.path("quay.log")).unwrap();
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
    assert!(line.contains("\"ready\""), "the gateway did not start: {line}");
    Running(child)
}

fn agent(place: &Place, node: &str) -> Running {
    let mut command = place.node_command(node, &["run", "--every", "1s"]);
    let log = File::create(place.path(&format!("{node}.log"))).unwrap();
    Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
}
