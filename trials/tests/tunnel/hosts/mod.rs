//! A small town: every node a host with a network of its own, and ways between them that fail as real ones do.

mod apart;
mod blocked;
mod parted;
mod hidden;
mod unheard;
mod roaming;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use trials::network::lan::Lan;
use trials::place::{Place, Running, json, output, stdout, succeeded, text, until};

use crate::tunnel::services::{PAGE, Wiki};

const WIKI: &str = "127.0.0.1:8080";
/// For bytes that never come: a test that hangs tells nothing.
const PATIENCE: Duration = Duration::from_secs(90);

/// `quay` is the gateway. `alpha` has the service `wiki`, on its own loopback; `ann` may call it.
struct Town {
    gateway: Option<Running>,
    agents: BTreeMap<String, Running>,
    wiki: Wiki,
    lan: Lan,
    place: Place,
}

impl Town {
    /// The gateway serves; nobody has joined yet. These are behind routers that let nothing in.
    fn new(hosts: &[&str], hidden: &[&str]) -> Self {
        let mut lan = Lan::new(&[&["quay", "alpha"], hosts].concat());
        for host in hidden {
            lan.hide(host);
        }
        let wiki = Wiki::at(lan.within("alpha", || TcpListener::bind(WIKI).unwrap()));
        let town = Self { gateway: None, agents: BTreeMap::new(), wiki, lan, place: Place::new() };
        std::fs::create_dir(town.place.path("fleet")).unwrap();
        let address = format!("{}:7443", town.lan.address("quay"));
        let found = ["found", "harbor", "--unprotected", "--node", "quay", "--advertise", &address];
        succeeded(&town.operator(&found));
        let gateway = town.serve();
        Self { gateway: Some(gateway), ..town }
    }

    fn serve(&self) -> Running {
        let words = ["serve", "--json", "--listen", "0.0.0.0:7443"];
        let mut command = self.lan.on("quay", &self.place.freehold_command(&words));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
        assert!(line.contains("\"ready\""), "it does not serve: {line}");
        Running(child)
    }

    /// All of them join, and a fleet with these nodes is published; `ann` is at home on the callers.
    fn settle(&mut self, nodes: &str, callers: &[&str], services: &str) {
        self.declare(nodes, callers, services);
        self.facts(&["publish", "--yes"]);
        for caller in callers {
            until("it speaks for her", || {
                self.tunnel(caller)["listens"].get("socks/spiffe://harbor/user/ann").is_some()
            });
        }
    }

    /// The same before it is published.
    fn declare(&mut self, nodes: &str, callers: &[&str], services: &str) {
        let names: Vec<&str> = self.lan.names().into_iter().filter(|name| *name != "quay").collect();
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        for name in &names {
            let code = text(&self.facts(&["invite", "create", "--name", name]), "code");
            succeeded(&self.node_with(name, &["join", "--name", name], &code));
            self.start(name);
        }
        let id = self.facts(&["org", "list"])[0]["org_id"].clone();
        let fleet = format!(
            "org:
  name: harbor
  id: {id}
users:
  ann:
    roles: operator
    nodes: [{}]
roles:
  operator:
    allow: pages
groups:
  pages:
    about: what people read
services:
  wiki:
    at: alpha
    addr: {WIKI}
    groups: pages
{services}
nodes:
{nodes}
",
            callers.join(", ")
        );
        std::fs::write(self.place.path("fleet/fleet.yaml"), fleet).unwrap();
    }

    fn start(&mut self, node: &str) {
        let mut command = self.lan.on(node, &self.place.node_command(node, &["run", "--every", "1s"]));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.agents.insert(node.to_owned(), Running(child));
    }

    /// `freehold` on the operator's machine.
    fn operator(&self, words: &[&str]) -> Output {
        output(self.lan.on("quay", &self.place.freehold_command(words)))
    }

    fn facts(&self, words: &[&str]) -> Value {
        json(&self.operator(&[words, &["--json"]].concat()))
    }

    fn node(&self, node: &str, words: &[&str]) -> Output {
        self.node_with(node, words, "")
    }

    fn node_with(&self, node: &str, words: &[&str], stdin: &str) -> Output {
        let mut command = self.lan.on(node, &self.place.node_command(node, words));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        child.wait_with_output().unwrap()
    }

    fn status(&self, node: &str) -> Value {
        json(&self.node(node, &["status", "--json"]))
    }

    fn tunnel(&self, node: &str) -> Value {
        self.status(node)["tunnel"].clone()
    }

    /// What one node's tunnel says of another node: by what it is reached, why, and through whom.
    fn way(&self, from: &str, to: &str) -> Value {
        let now = self.tunnel(from)["now"].clone();
        let peers = now["peers"].as_array().cloned().unwrap_or_default();
        peers.into_iter().find(|peer| peer["node"] == to).unwrap_or_else(|| panic!("`{from}` never met `{to}`: {now}"))
    }

    /// Where programs of that host ask in her name.
    fn socks(&self, from: &str) -> String {
        let told = self.node(from, &["port", "socks", "--user", "ann"]);
        succeeded(&told);
        format!("127.0.0.1:{}", stdout(&told).trim())
    }

    /// What curl gets on that host.
    fn curl(&self, from: &str, service: &str) -> Output {
        output(self.curl_command(from, service))
    }

    fn curl_command(&self, from: &str, service: &str) -> Command {
        let mut curl = Command::new("curl");
        let url = format!("http://{service}.harbor.internal/");
        curl.args(["-sS", "-m", "60", "--socks5-hostname", &self.socks(from), &url]);
        self.lan.on(from, &curl)
    }

    /// The first try.
    fn reads(&self, from: &str) {
        let page = self.curl(from, "wiki");
        assert_eq!(stdout(&page), PAGE, "{from}: {}", trials::place::stderr(&page));
    }

    /// From these addresses only this transport gets through to `alpha`: also where all is slow, no other is used.
    fn only(&self, by: &str, from: &[String]) {
        let other = if by == "quic" { "tcp" } else { "udp" };
        self.lan.lose(&format!("ip saddr {{ {} }} {other} dport 7444", from.join(", ")));
    }

    /// A stream that a program on that host opens and keeps open: its end, and the service's.
    fn stream(&self, from: &str) -> OpenStream {
        self.stream_to(from, ("wiki", &self.wiki))
    }

    fn stream_to(&self, from: &str, (service, pages): (&str, &Wiki)) -> OpenStream {
        let at = self.socks(from);
        let mut near = self.lan.within(from, || TcpStream::connect(&at).unwrap());
        let name = format!("{service}.harbor.internal");
        near.write_all(&[5, 1, 0]).unwrap();
        near.read_exact(&mut [0; 2]).unwrap();
        near.write_all(&[5, 1, 0, 3, u8::try_from(name.len()).unwrap()]).unwrap();
        near.write_all(&[name.as_bytes(), &80_u16.to_be_bytes()].concat()).unwrap();
        let mut reply = [0; 10];
        near.read_exact(&mut reply).unwrap();
        assert_eq!(reply[1], 0, "no stream from `{from}`: {reply:?}");
        near.write_all(b"keep this").unwrap();
        let far = pages.kept.recv_timeout(PATIENCE).unwrap();
        for end in [&near, &far] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        OpenStream { near, far }
    }
}

/// Both ends of an open stream.
struct OpenStream {
    near: TcpStream,
    far: TcpStream,
}

impl OpenStream {
    /// A few bytes go there, and back.
    fn carries(&self) {
        for (mut from, mut to) in [(&self.near, &self.far), (&self.far, &self.near)] {
            from.write_all(b"ahoy").unwrap();
            let mut heard = [0; 4];
            to.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"ahoy");
        }
    }

    /// Waits until both ends have heard that it broke off, and not that it ended well.
    fn breaks(mut self) {
        for (side, end) in [("the caller", &mut self.near), ("the service", &mut self.far)] {
            let heard = end.read(&mut [0; 16]);
            assert!(matches!(&heard, Err(why) if why.kind() != ErrorKind::WouldBlock), "{side} heard {heard:?}");
        }
    }
}
