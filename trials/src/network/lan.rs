//! Machines in network namespaces of their own, on one switch; everything ends when it is dropped. Needs root.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::place::{output, stderr, stdout};

static COUNT: AtomicU32 = AtomicU32::new(0);
const SWITCH: &str = "switch";

#[derive(Debug)]
pub struct Lan {
    /// Begins the names of the namespaces: several walks run at once.
    tag: String,
    machines: Vec<Machine>,
}

#[derive(Debug)]
struct Machine {
    name: String,
    /// Where the switch sees it.
    address: String,
    /// What has that address, if the machine itself is hidden behind it.
    router: Option<String>,
}

impl Lan {
    /// A switch with these machines on it; the first has 10.77.0.1.
    pub fn new(machines: &[&str]) -> Self {
        let tag = format!("fh{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let machine = |(nth, name): (usize, &&str)| Machine {
            name: (*name).to_owned(),
            address: format!("10.77.0.{}", nth + 1),
            router: None,
        };
        let lan = Self { tag, machines: machines.iter().enumerate().map(machine).collect() };
        lan.add(SWITCH);
        let switch = lan.space(SWITCH);
        ip(&["-n", &switch, "link", "add", "name", "hub", "type", "bridge"]);
        ip(&["-n", &switch, "link", "set", "hub", "up"]);
        for (nth, Machine { name, address, .. }) in lan.machines.iter().enumerate() {
            lan.add(name);
            lan.cable((name, "eth0"), (SWITCH, &format!("p{nth}")));
            ip(&["-n", &switch, "link", "set", &format!("p{nth}"), "master", "hub"]);
            ip(&["-n", &lan.space(name), "addr", "add", &format!("{address}/24"), "dev", "eth0"]);
        }
        lan
    }

    pub fn names(&self) -> Vec<&str> {
        self.machines.iter().map(|machine| machine.name.as_str()).collect()
    }

    /// Where others see it.
    pub fn address(&self, machine: &str) -> String {
        self.machine(machine).address.clone()
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

    /// Does something as a program on that machine would: the sockets that it makes are that machine's.
    pub fn within<T: Send>(&self, machine: &str, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.space(machine));
        let space = File::open(&path).unwrap_or_else(|why| panic!("`{path}`: {why}"));
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
                    .unwrap_or_else(|why| panic!("`{path}`: {why} (it needs root)"));
                work()
            });
            there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Pulls the machine's cable, or puts it back.
    pub fn plug(&self, machine: &str, plugged: bool) {
        ip(&["-n", &self.space(machine), "link", "set", "eth0", if plugged { "up" } else { "down" }]);
    }

    /// Puts the machine behind a router of its own: it calls out by the router's address, and nobody calls it.
    pub fn hide(&mut self, machine: &str) {
        let router = format!("{machine}-nat");
        self.add(&router);
        let (inside, outside) = (self.space(machine), self.space(&router));
        ip(&["-n", &inside, "link", "set", "eth0", "netns", &outside]);
        ip(&["-n", &outside, "addr", "add", &format!("{}/24", self.address(machine)), "dev", "eth0"]);
        ip(&["-n", &outside, "link", "set", "eth0", "up"]);
        self.cable((machine, "eth0"), (&router, "home"));
        ip(&["-n", &outside, "addr", "add", "192.168.7.1/24", "dev", "home"]);
        ip(&["-n", &inside, "addr", "add", "192.168.7.2/24", "dev", "eth0"]);
        ip(&["-n", &inside, "route", "add", "default", "via", "192.168.7.1"]);
        self.within(&router, || {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap_or_else(|why| panic!("no forwarding: {why}"));
        });
        for words in [
            "add table ip nat",
            "add chain ip nat out { type nat hook postrouting priority 100; }",
            "add rule ip nat out oifname eth0 masquerade",
            "add table ip home",
            "add chain ip home in { type filter hook forward priority 0; }",
            "add rule ip home in iifname eth0 ct state new drop",
        ] {
            self.nft(&router, words);
        }
        self.machine_mut(machine).router = Some(router);
    }

    /// Gives it another address, as when a laptop is carried to another desk; of a hidden one, its router gets it.
    pub fn move_to(&mut self, machine: &str, address: &str) {
        let Machine { name, address: before, router } = self.machine(machine);
        let space = self.space(router.as_ref().unwrap_or(name));
        ip(&["-n", &space, "addr", "del", &format!("{before}/24"), "dev", "eth0"]);
        ip(&["-n", &space, "addr", "add", &format!("{address}/24"), "dev", "eth0"]);
        address.clone_into(&mut self.machine_mut(machine).address);
    }

    /// From now on the switch loses what is like this, without a word to anybody; in the language of nft.
    pub fn lose(&self, packets: &str) {
        self.nft(SWITCH, "add table bridge lost");
        self.nft(SWITCH, "add chain bridge lost between { type filter hook forward priority 0; }");
        self.nft(SWITCH, &format!("add rule bridge lost between {packets} drop"));
    }

    /// And everything that these two send each other.
    pub fn part(&self, one: &str, other: &str) {
        let (one, other) = (self.address(one), self.address(other));
        self.lose(&format!("ip saddr {one} ip daddr {other}"));
        self.lose(&format!("ip saddr {other} ip daddr {one}"));
    }

    /// Nothing is lost any more.
    pub fn mend(&self) {
        self.nft(SWITCH, "delete table bridge lost");
    }

    fn machine(&self, name: &str) -> &Machine {
        let found = self.machines.iter().find(|machine| machine.name == name);
        found.unwrap_or_else(|| panic!("no machine `{name}`"))
    }

    fn machine_mut(&mut self, name: &str) -> &mut Machine {
        let found = self.machines.iter_mut().find(|machine| machine.name == name);
        found.unwrap_or_else(|| panic!("no machine `{name}`"))
    }

    fn space(&self, name: &str) -> String {
        format!("{}{name}", self.tag)
    }

    /// Whatever an earlier run of the same number left behind goes first.
    fn add(&self, name: &str) {
        let space = self.space(name);
        end(&space);
        ip(&["netns", "add", &space]);
        ip(&["-n", &space, "link", "set", "lo", "up"]);
    }

    fn cable(&self, (one, its): (&str, &str), (other, others): (&str, &str)) {
        let (one, other) = (self.space(one), self.space(other));
        let pair = ["link", "add", its, "netns", &one, "type", "veth", "peer", "name", others, "netns", &other];
        ip(&pair);
        ip(&["-n", &one, "link", "set", its, "up"]);
        ip(&["-n", &other, "link", "set", others, "up"]);
    }

    fn nft(&self, machine: &str, words: &str) {
        let mut command = Command::new("nft");
        command.arg(words);
        let done = output(self.on(machine, &command));
        assert!(done.status.success(), "nft {words}: {} (it needs nftables)", stderr(&done));
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        let routers = self.machines.iter().filter_map(|machine| machine.router.as_deref());
        let names = self.machines.iter().map(|machine| machine.name.as_str());
        for name in names.chain(routers).chain([SWITCH]) {
            end(&self.space(name));
        }
    }
}

/// Ends the namespace, if there is one, and whatever runs in it.
fn end(space: &str) {
    let quietly = |words: &[&str]| Command::new("ip").args(words).stderr(Stdio::null()).output();
    let inside = quietly(&["netns", "pids", space]).map(|told| stdout(&told)).unwrap_or_default();
    for pid in inside.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)) {
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = quietly(&["netns", "del", space]);
}

fn ip(words: &[&str]) {
    let mut command = Command::new("ip");
    command.args(words);
    let done = output(command);
    assert!(done.status.success(), "ip {}: {} (it needs root and iproute2)", words.join(" "), stderr(&done));
}
