//! Machines in network namespaces of their own, on one switch; everything ends when it is dropped. Needs root.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::place::{output, stderr};

static COUNT: AtomicU32 = AtomicU32::new(0);

#[derive(Debug)]
pub struct Lan {
    /// Begins the names of the namespaces: several walks run at once.
    tag: String,
    machines: Vec<String>,
}

impl Lan {
    /// A switch with these machines on it; the first has 10.77.0.1.
    pub fn new(machines: &[&str]) -> Self {
        let tag = format!("fh{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let lan = Self { tag, machines: machines.iter().map(|name| (*name).to_owned()).collect() };
        let switch = lan.space("switch");
        ip(&["netns", "add", &switch]);
        ip(&["-n", &switch, "link", "add", "name", "hub", "type", "bridge"]);
        ip(&["-n", &switch, "link", "set", "hub", "up"]);
        for (nth, name) in lan.machines.iter().enumerate() {
            let (space, port) = (lan.space(name), format!("p{nth}"));
            ip(&["netns", "add", &space]);
            let pair = ["link", "add", "eth0", "netns", &space, "type", "veth", "peer", "name", &port];
            ip(&[&pair[..], &["netns", &switch]].concat());
            ip(&["-n", &switch, "link", "set", &port, "master", "hub", "up"]);
            ip(&["-n", &space, "addr", "add", &format!("{}/24", lan.address(name)), "dev", "eth0"]);
            for link in ["lo", "eth0"] {
                ip(&["-n", &space, "link", "set", link, "up"]);
            }
        }
        lan
    }

    pub fn address(&self, machine: &str) -> String {
        let nth = self.machines.iter().position(|name| name == machine);
        format!("10.77.0.{}", nth.unwrap_or_else(|| panic!("no machine `{machine}`")) + 1)
    }

    /// The command as that machine runs it.
    pub fn on(&self, machine: &str, command: &Command) -> Command {
        let mut there = Command::new("ip");
        there.args(["netns", "exec", &self.space(machine)]).arg(command.get_program()).args(command.get_args());
        there.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
        if let Some(folder) = command.get_current_dir() {
            there.current_dir(folder);
        }
        there
    }

    /// Pulls the machine's cable, or puts it back.
    pub fn plug(&self, machine: &str, plugged: bool) {
        ip(&["-n", &self.space(machine), "link", "set", "eth0", if plugged { "up" } else { "down" }]);
    }

    fn space(&self, name: &str) -> String {
        format!("{}{name}", self.tag)
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        for name in self.machines.iter().map(String::as_str).chain(["switch"]) {
            let _ = Command::new("ip").args(["netns", "del", &self.space(name)]).output();
        }
    }
}

fn ip(words: &[&str]) {
    let mut command = Command::new("ip");
    command.args(words);
    let done = output(command);
    assert!(done.status.success(), "ip {}: {} (it needs root and iproute2)", words.join(" "), stderr(&done));
}
