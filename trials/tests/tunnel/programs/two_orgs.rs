//! Two orgs on one laptop: two agents, two tunnels, ports that are told apart, and nothing from the one to the other.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use identity::id::OrgId;
use serde_json::Value;
use trials::network::lan::Lan;
use trials::place::{Place, Running, json, output, stdout, succeeded, text, until};

use super::{listening, serving, told};

/// An org whose gateway is on `quay`, with a page and an echo there. Its user `ann` is at home on `laptop`.
struct Org {
    running: Vec<Running>,
    place: Place,
    name: &'static str,
    id: OrgId,
}

impl Org {
    /// The nth on `quay`.
    fn new(lan: &Lan, name: &'static str, nth: u16) -> Self {
        let (place, quay) = (Place::new(), lan.address("quay"));
        let gateway = format!("{quay}:{}", 7443 + 10 * nth);
        let found = ["found", name, "--unprotected", "--node", "quay", "--advertise", &gateway];
        succeeded(&output(lan.on("quay", &place.freehold_command(&found))));
        let serve = serving(lan.on("quay", &place.freehold_command(&["serve", "--json", "--listen", &gateway])));
        let facts = json(&output(lan.on("quay", &place.freehold_command(&["org", "list", "--json"]))));
        let id = text(&facts[0], "org_id").parse().unwrap();
        let (page, echo) = (8080 + nth, 9080 + nth);
        let fleet = format!(
            "org: {{name: {name}, id: {id}}}
users:
  ann: {{roles: operator, nodes: laptop}}
roles:
  operator: {{allow: tools}}
groups: [tools]
nodes:
  quay: {{address: \"{quay}:{}\"}}
  laptop:
services:
  {name}-page: {{at: quay, addr: \"127.0.0.1:{page}\", groups: tools}}
  echo: {{at: quay, addr: \"127.0.0.1:{echo}\", groups: tools}}
",
            7444 + 10 * nth
        );
        for folder in ["fleet", "pages"] {
            std::fs::create_dir(place.path(folder)).unwrap();
        }
        std::fs::write(place.path("fleet/fleet.yaml"), fleet).unwrap();
        std::fs::write(place.path("pages/index.html"), name).unwrap();
        let mut httpd = Command::new("busybox");
        httpd.args(["httpd", "-f", "-p", &format!("127.0.0.1:{page}"), "-h"]).arg(place.path("pages"));
        // What is said goes through a pipe, and back.
        let mut says_back = Command::new("sh");
        says_back.args(["-c", "mkfifo \"$0\" && exec nc -l 127.0.0.1 \"$1\" <>\"$0\" >\"$0\""]);
        says_back.arg(place.path("pipe")).arg(echo.to_string());
        let mut running = vec![serve];
        for (port, service) in [(page, httpd), (echo, says_back)] {
            let mut there = lan.on("quay", &service);
            running.push(Running(there.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()));
            until("it listens", || listening(lan, "quay").contains(&format!("127.0.0.1:{port}")));
        }
        Self { running, place, name, id }
    }

    fn facts(&self, lan: &Lan, words: &[&str]) -> Value {
        json(&output(lan.on("quay", &self.place.freehold_command(&[words, &["--json"]].concat()))))
    }
}

/// One machine: one folder for all its orgs.
struct Laptop {
    lan: Lan,
    place: Place,
}

impl Laptop {
    fn node(&self, words: &[&str]) -> Command {
        self.lan.on("laptop", &self.place.node_command("laptop", words))
    }

    fn join(&self, org: &Org) {
        let code = text(&org.facts(&self.lan, &["invite", "create", "--name", "laptop"]), "code");
        succeeded(&told(self.node(&["join", "--name", "laptop"]), code.as_bytes()));
    }

    fn agent(&self, org: &Org) -> Running {
        let mut run = self.node(&["run", "--every", "1s", "--as", org.name]);
        Running(run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn tunnel(&self, org: &Org) -> Value {
        json(&output(self.node(&["status", "--json", "--as", org.name])))["tunnel"].clone()
    }

    /// Where SOCKS is, by whom it is for.
    fn socks(&self, org: &Org) -> BTreeMap<String, u16> {
        let mut found = BTreeMap::new();
        until("SOCKS is there for everybody at home", || {
            let told = output(self.node(&["port", "--json", "--as", org.name]));
            // Nothing is told until the agent has begun.
            let told: BTreeMap<String, Value> = serde_json::from_slice(&told.stdout).unwrap_or_default();
            let places = told.iter().filter(|(place, _)| place.starts_with("socks"));
            let port = |at: &Value| at.as_str().unwrap().parse::<SocketAddr>().unwrap().port();
            found = places.map(|(place, at)| (place.replace(org.name, "ORG"), port(at))).collect();
            found.len() == 3
        });
        found
    }

    /// What curl gets at this port.
    fn page(&self, port: u16, name: &str) -> (Option<i32>, String) {
        let mut curl = Command::new("curl");
        let proxy = format!("127.0.0.1:{port}");
        curl.args(["-sS", "-m", "30", "--socks5-hostname", &proxy, &format!("http://{name}.internal/")]);
        let got = output(self.lan.on("laptop", &curl));
        (got.status.code(), stdout(&got))
    }
}

/// A program that says something, hears it again, and stays.
struct Talk {
    program: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Talk {
    fn open(laptop: &Laptop, port: u16, org: &Org) -> Self {
        let mut nc = Command::new("timeout");
        nc.args([
            "120",
            "nc",
            "-X",
            "5",
            "-x",
            &format!("127.0.0.1:{port}"),
            &format!("echo.{}.internal", org.name),
            "7",
        ]);
        let mut there = laptop.lan.on("laptop", &nc);
        let mut program = there.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (program.stdin.take().unwrap(), BufReader::new(program.stdout.take().unwrap()));
        let mut talk = Self { program, stdin, stdout };
        assert_eq!(talk.say("ahoy"), "ahoy\n");
        talk
    }

    /// What comes back; nothing, if it is over.
    fn say(&mut self, words: &str) -> String {
        let mut heard = String::new();
        let _ = self.stdin.write_all(format!("{words}\n").as_bytes());
        let _ = self.stdout.read_line(&mut heard);
        heard
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn two_orgs_on_one_laptop_have_ports_of_their_own_and_do_not_meet() {
    let laptop = Laptop { lan: Lan::new(&["quay", "laptop"]), place: Place::new() };
    let (harbor, island) = (Org::new(&laptop.lan, "harbor", 0), Org::new(&laptop.lan, "island", 1));
    let mut agents = Vec::new();
    for org in [&harbor, &island] {
        laptop.join(org);
        agents.push(laptop.agent(org));
        org.facts(&laptop.lan, &["publish", "--yes"]);
        // The first has what it wishes before there is a second.
        laptop.socks(org);
    }
    // Both wish for the same ports; the second is so many hundreds above as its id says.
    let (first, second) = (laptop.socks(&harbor), laptop.socks(&island));
    let [high, low, ..] = island.id.0;
    let offset = 100 * (1 + u16::from_be_bytes([high, low]) % 99);
    assert_eq!(first["socks"], 1080);
    let moved: BTreeMap<String, u16> = first.iter().map(|(place, port)| (place.clone(), port + offset)).collect();
    assert_eq!(second, moved);

    // A name of the one is nothing at the other's port.
    let (one, two) = (first["socks"], second["socks"]);
    assert_eq!(laptop.page(one, "harbor-page.harbor"), (Some(0), "harbor".to_owned()));
    assert_eq!(laptop.page(two, "island-page.island"), (Some(0), "island".to_owned()));
    for (port, name) in [(one, "island-page.island"), (two, "harbor-page.harbor"), (one, "island-page.harbor")] {
        assert_eq!(laptop.page(port, name), (Some(97), String::new()), "{name} at {port}");
    }

    // The end of one is nothing to the other.
    let (mut ending, mut staying) = (Talk::open(&laptop, one, &harbor), Talk::open(&laptop, two, &island));
    let (gone, kept) = (laptop.tunnel(&harbor)["pid"].clone(), laptop.tunnel(&island)["pid"].clone());
    assert_ne!(gone, kept);
    assert_eq!(agents.remove(0).stop(), Some(0));
    assert_eq!(ending.say("are you there?"), "");
    assert_eq!(laptop.page(one, "harbor-page.harbor").0, Some(7));
    assert_eq!(staying.say("and you?"), "and you?\n");
    assert_eq!(laptop.page(two, "island-page.island"), (Some(0), "island".to_owned()));
    assert_eq!(laptop.tunnel(&island)["pid"], kept);

    // Whoever starts first, each comes back to where it was.
    assert_eq!(agents.remove(0).stop(), Some(0));
    for org in [&island, &harbor] {
        agents.push(laptop.agent(org));
        laptop.socks(org);
    }
    assert_eq!((laptop.socks(&harbor), laptop.socks(&island)), (first, second));
    assert_eq!(laptop.page(two, "island-page.island"), (Some(0), "island".to_owned()));
    drop((agents, harbor.running, island.running));
}
