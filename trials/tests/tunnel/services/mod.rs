//! Services reach each other by name: real programs, real nodes, and the tunnels between them.

mod reaching;
mod surviving;
mod hearing;
mod suspending;
mod entering;
mod moving;
mod quayside;
mod lasting;
mod confirmed;
mod upstream;
mod dying;
mod sharing;
mod crowding;
mod flooding;
mod forged;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;
use trials::place::{Place, Running, output, until};
use trials::port::Claim;

use crate::publishing::Scene;

pub const PAGE: &str = "what the harbor knows";

/// `quay` is the gateway. `alpha` has the service `wiki`; `ann` and `bob` are at home on `beta`, and only `ann` may call it.
pub struct Harbor {
    pub scene: Scene,
    pub wiki: Wiki,
    pub alpha: Running,
    pub beta: Option<Running>,
    pub gateway: Option<Running>,
    /// Where peers reach `quay` and `alpha`: ports that nobody else claims.
    ports: [Claim; 2],
}

impl Harbor {
    pub fn new() -> Self {
        Self::of(Scene::new())
    }

    /// Where nobody has joined yet.
    pub fn of(scene: Scene) -> Self {
        let gateway = scene.place.serve();
        let [alpha, beta] = ["alpha", "beta"].map(|node| {
            scene.place.joined(node);
            agent(&scene.place, node)
        });
        let harbor = Self {
            scene,
            wiki: Wiki::new(),
            alpha,
            beta: Some(beta),
            gateway: Some(gateway),
            ports: [Claim::new(), Claim::new()],
        };
        harbor.publish("pages");
        harbor
    }

    /// When it is published, every node has confirmed it.
    pub fn publish(&self, allowed: &str) {
        self.declare(allowed);
        self.scene.place.facts(&["publish", "--yes"]);
        until("the tunnels speak for everybody at home", || {
            self.listens("beta").as_object().is_some_and(|places| places.len() >= 4)
                && self.listens("alpha").get("peers/tls").is_some()
        });
    }

    /// What operators may call.
    pub fn declare(&self, allowed: &str) {
        self.declare_with(allowed, "");
    }

    /// With more lines about `beta`.
    pub fn declare_with(&self, allowed: &str, beta: &str) {
        let id = self.scene.place.facts(&["org", "list"])[0]["org_id"].clone();
        let [quay, alpha] = &self.ports;
        let fleet = format!(
            "org:
  name: harbor
  id: {id}
users:
  ann:
    roles: operator
    nodes: [quay, beta]
  bob:
    nodes: beta
roles:
  operator:
    allow: {allowed}
groups:
  pages:
    about: what people read
  nothing:
    about: what nobody has
nodes:
  quay:
    address: \"127.0.0.1:{}\"
    relay: true
  alpha:
    address: \"127.0.0.1:{}\"
  beta:
{beta}
services:
  wiki:
    at: alpha
    addr: {}
    groups: pages
",
            quay.port, alpha.port, self.wiki.at
        );
        std::fs::write(self.scene.place.path("fleet/fleet.yaml"), fleet).unwrap();
    }

    fn listens(&self, node: &str) -> Value {
        self.tunnel(node)["listens"].clone()
    }

    pub fn tunnel(&self, node: &str) -> Value {
        self.scene.place.status(node)["tunnel"].clone()
    }

    /// What curl gets through SOCKS on `beta`, asking for this user.
    pub fn curl(&self, user: &str, url: &str) -> Output {
        output(self.curl_command(user, url))
    }

    pub fn curl_command(&self, user: &str, url: &str) -> Command {
        let told = self.scene.place.node("beta", &["port", "socks", "--user", user], "");
        curl_by(&trials::place::stdout(&told), url)
    }

    /// The lines of a node's access log.
    pub fn log(&self, node: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.scene.place.scope(node).join("access.log")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Asks for a page by the SOCKS listener at this port.
pub fn curl_by(port: &str, url: &str) -> Command {
    let mut command = Command::new("curl");
    command.args(["-sS", "-m", "30", "--socks5-hostname", &format!("127.0.0.1:{}", port.trim()), url]);
    command
}

/// It and its tunnel say much on a busy day: they say it to a file, since a pipe that nobody reads stops who writes.
fn agent(place: &Place, node: &str) -> Running {
    let log = File::create(place.path(&format!("{node}.log"))).unwrap();
    let mut command = place.node_command(node, &["run", "--every", "1s"]);
    Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
}

/// A service that answers each request for `/` with a page, and keeps every other connection open.
pub struct Wiki {
    pub at: SocketAddr,
    /// Connections that are kept open.
    pub kept: Receiver<TcpStream>,
}

impl Wiki {
    fn new() -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn at(listener: TcpListener) -> Self {
        let at = listener.local_addr().unwrap();
        let (keep, kept) = channel();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut request = [0; 1024];
                let read = stream.read(&mut request).unwrap_or_default();
                if request[..read].starts_with(b"GET / ") {
                    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", PAGE.len());
                    let _ = stream.write_all(format!("{head}{PAGE}").as_bytes());
                } else if keep.send(stream).is_err() {
                    return;
                }
            }
        });
        Self { at, kept }
    }
}
