//! A machine whose only way to the gateway is a forwarder that the trial can shut: in a network of its own, the gateway's
//! address leads to it. Who is through already stays; who comes anew is sent away. Needs root.

use std::fs::File;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::place::{output, stderr};

static COUNT: AtomicU32 = AtomicU32::new(0);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Gone when dropped, with whoever went through it.
#[derive(Debug)]
pub struct Forwarder {
    space: String,
    state: Arc<State>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    shut: AtomicBool,
    over: AtomicBool,
    sent_away: AtomicUsize,
}

impl Forwarder {
    /// To the gateway at this port of the loopback.
    pub fn to(port: u16) -> Self {
        let space = format!("fd{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &space]);
        ip(&["-n", &space, "link", "set", "lo", "up"]);
        let listener = listener_in(&space, port);
        let state = Arc::<State>::default();
        let kept = Arc::clone(&state);
        let keeper = std::thread::spawn(move || keep(&listener, port, &kept));
        Self { space, state, keeper: Some(keeper) }
    }

    /// The command, behind it.
    pub fn behind(&self, command: &Command) -> Command {
        let mut there = Command::new("ip");
        there.args(["netns", "exec", &self.space]).arg(command.get_program()).args(command.get_args());
        there.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
        there
    }

    pub fn shut(&self) {
        self.state.shut.store(true, Ordering::Relaxed);
    }

    pub fn open(&self) {
        self.state.shut.store(false, Ordering::Relaxed);
    }

    /// How many came while it was shut.
    pub fn sent_away(&self) -> usize {
        self.state.sent_away.load(Ordering::Relaxed)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        let _ = self.keeper.take().map(JoinHandle::join);
        let _ = Command::new("ip").args(["netns", "del", &self.space]).output();
    }
}

/// A thread that went into another network stays there, so it is one that ends.
fn listener_in(space: &str, port: u16) -> TcpListener {
    let path = format!("/run/netns/{space}");
    let made = std::thread::spawn(move || {
        let network = File::open(&path)?;
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        std::io::Result::Ok(listener)
    });
    let made = made.join().unwrap_or_else(|_| panic!("no forwarder"));
    made.unwrap_or_else(|why| panic!("no forwarder: {why}"))
}

fn keep(listener: &TcpListener, port: u16, state: &State) {
    let mut guests = Vec::new();
    while !state.over.load(Ordering::Relaxed) {
        let Ok((guest, _)) = listener.accept() else {
            std::thread::sleep(LOOK_AGAIN);
            continue;
        };
        if state.shut.load(Ordering::Relaxed) {
            state.sent_away.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        guests.extend(lead(guest, port).into_iter().flatten());
    }
    for guest in guests {
        let _ = guest.shutdown(Shutdown::Both);
    }
}

/// Passes bytes on in both directions, until one side ends.
fn lead(guest: TcpStream, port: u16) -> std::io::Result<[TcpStream; 2]> {
    let gateway = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    guest.set_nonblocking(false)?;
    let ends = [guest.try_clone()?, gateway.try_clone()?];
    for (mut from, mut to) in [(guest.try_clone()?, gateway.try_clone()?), (gateway, guest)] {
        from.set_nodelay(true)?;
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
    Ok(ends)
}

fn ip(words: &[&str]) {
    let mut command = Command::new("ip");
    command.args(words);
    let done = output(command);
    assert!(done.status.success(), "ip {}: {} (it needs root and iproute2)", words.join(" "), stderr(&done));
}
