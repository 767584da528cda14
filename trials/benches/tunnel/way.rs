//! A way from a program to the service, by whatever carries it: where it begins, and which processes it takes.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Serialize;
use trials::load::meter;
use trials::place::{Running, json};

use crate::forwarders::{By, End, Forward};
use crate::load::{Done, Kind, Load};
use crate::namespaces::Cable;
use crate::papers::Papers;

#[derive(Debug)]
pub struct Way {
    pub name: String,
    pub at: SocketAddr,
    /// What carries it; what those start counts, too.
    pub processes: Vec<u32>,
    /// The way that it is compared to.
    pub against: Option<&'static str>,
    pub version: String,
    /// Whoever calls does so from this network namespace.
    pub namespace: Option<String>,
    /// What ends with it.
    pub alive: Vec<Running>,
    #[expect(dead_code, reason = "it is held, not read")]
    pub cable: Option<Cable>,
}

impl Way {
    pub fn new(name: &str, at: SocketAddr, processes: Vec<u32>) -> Self {
        let (against, version, namespace, alive, cable) = (None, String::new(), None, Vec::new(), None);
        Self { name: name.to_owned(), at, processes, against, version, namespace, alive, cable }
    }

    #[must_use]
    pub fn against(self, other: &'static str) -> Self {
        Self { against: Some(other), ..self }
    }

    #[must_use]
    pub fn version(self, version: &str) -> Self {
        Self { version: version.to_owned(), ..self }
    }

    #[must_use]
    pub fn of(mut self, alive: Vec<Running>) -> Self {
        self.processes.extend(alive.iter().map(|process| process.0.id()));
        self.alive = alive;
        self
    }

    /// Puts load on it from another process: what that says, and the processor time of all that carried it.
    pub fn measure(&self, kind: Kind, streams: usize, seconds: f64) -> Measured {
        let load = Load { kind, at: self.at, streams, seconds };
        let before = self.spent();
        let told = self.caller("load", &load).stderr(Stdio::piped()).output().unwrap();
        assert!(told.status.success(), "{} ({streams} streams): {}", self.name, trials::place::stderr(&told));
        let cpu = self.spent().saturating_sub(before);
        let done: Done = serde_json::from_value(json(&told)).unwrap();
        Measured { done, cpu: cpu.as_secs_f64() }
    }

    /// This program again, in another role, where callers of this way are.
    pub fn caller(&self, role: &str, what: &impl Serialize) -> Command {
        in_namespace(self.namespace.as_deref(), role, what)
    }

    /// Processor time so far.
    pub fn spent(&self) -> Duration {
        self.processes.iter().map(|pid| family(*pid).into_iter().map(spent).sum::<Duration>()).sum()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub done: Done,
    /// In seconds.
    pub cpu: f64,
}

/// This program again, in another role.
pub fn in_namespace(namespace: Option<&str>, role: &str, what: &impl Serialize) -> Command {
    let own = std::env::current_exe().unwrap();
    let mut command = match namespace {
        None => Command::new(&own),
        Some(name) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", name]).arg(&own);
            command
        }
    };
    command.arg("role").arg(role).arg(serde_json::to_string(what).unwrap()).stdin(Stdio::null());
    command
}

/// Starts one that says where it listens.
pub fn listening(mut command: Command) -> (Running, SocketAddr) {
    use std::io::BufRead as _;
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let _ = std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
    let told: serde_json::Value =
        serde_json::from_str(&line).unwrap_or_else(|why| panic!("{command:?}: {why}: {line}"));
    (Running(child), told["listens"].as_str().unwrap().parse().unwrap())
}

pub fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// The ways that any tunnel is measured by: none at all, and the barest.
pub fn bare(service: SocketAddr, papers: &Papers) -> Vec<Way> {
    let mut ways = vec![Way::new("plain TCP", service, Vec::new())];
    for (name, by, crates) in [
        ("bare TCP", By::Tcp, &["tokio"][..]),
        ("bare rustls", By::Tls, &["rustls", "tokio-rustls"]),
        ("bare quinn", By::Quic, &["quinn", "rustls"]),
    ] {
        let version: Vec<String> = crates.iter().map(|name| locked(name)).collect();
        let end = |end, to| {
            let forward = Forward { by, end, listen: loopback(), to, papers: papers.0.clone() };
            listening(in_namespace(None, "forward", &forward))
        };
        let (far, at) = end(End::Far, service);
        let (near, at) = end(End::Near, at);
        ways.push(Way::new(name, at, Vec::new()).of(vec![near, far]).version(&version.join(", ")));
    }
    ways
}

/// A crate with its version.
fn locked(name: &str) -> String {
    let lock = include_str!("../../../Cargo.lock");
    let after = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
    let version = after.and_then(|(_, rest)| rest.split_once('"')).map_or("of unknown version", |(version, _)| version);
    format!("{name} {version}")
}

/// A process and all that it started.
pub fn family(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, stat(pid, 1)?))).collect();
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(parent) = all.get(next).copied() {
        all.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    all
}

/// A field of `/proc/PID/stat`, counted from the one after the program's name, which may hold anything.
fn stat(pid: u32, at: usize) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(at)?.parse().ok()
}

/// Processor time of a process and of those of its children that have ended.
fn spent(pid: u32) -> Duration {
    let ended = stat(pid, 13).unwrap_or_default() + stat(pid, 14).unwrap_or_default();
    meter::cpu(pid) + Duration::from_millis(10) * ended
}
