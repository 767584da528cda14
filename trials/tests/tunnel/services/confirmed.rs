//! Once `publish` says that a node has confirmed, nothing is opened there that the new table forbids: under load, and
//! although the caller's side knows nothing of it.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trials::place::{output, stderr, until};

use super::Harbor;
use super::quayside::{Socks, broke, echo, echoes};

/// Programs of one user that ask again and again, as fast as they can.
struct Callers {
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    /// When those were begun that opened.
    opened: Mutex<Vec<Instant>>,
    refused: AtomicU64,
    /// What failed in another way.
    odd: Mutex<Vec<String>>,
}

impl Callers {
    fn of(socks: Socks, programs: usize) -> Self {
        let (stop, seen) = (Arc::<AtomicBool>::default(), Arc::<Seen>::default());
        let program = || {
            let (stop, seen) = (Arc::clone(&stop), Arc::clone(&seen));
            std::thread::spawn(move || {
                while !stop.load(SeqCst) {
                    seen.note(Instant::now(), socks.call("echo"));
                }
            })
        };
        let threads = (0..programs).map(|_| program()).collect();
        Self { stop, seen, threads }
    }

    fn opened(&self) -> usize {
        self.seen.opened.lock().unwrap().len()
    }

    fn refused(&self) -> u64 {
        self.seen.refused.load(SeqCst)
    }

    fn end(self) -> Arc<Seen> {
        self.stop.store(true, SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.seen
    }
}

impl Seen {
    fn note(&self, begun: Instant, called: std::io::Result<Result<TcpStream, u8>>) {
        match called {
            Ok(Ok(mut stream)) => {
                self.opened.lock().unwrap().push(begun);
                // It may be cut at any time.
                if let Err(why) = echoes(&mut stream) {
                    self.odd.lock().unwrap().push(format!("it opened, and then: {why}"));
                }
            }
            Ok(Err(2)) => {
                self.refused.fetch_add(1, SeqCst);
                // Or the system runs out of ports.
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(Err(code)) => self.odd.lock().unwrap().push(format!("reply {code}")),
            Err(why) => self.odd.lock().unwrap().push(why.to_string()),
        }
    }
}

/// `ann` may call what operators may; `bob` reads pages, whatever becomes of her.
fn declare(harbor: &Harbor, allowed: &str, transport: &str, echo: SocketAddr) {
    harbor.declare_services(allowed, transport, &[("echo", echo)]);
    let path = harbor.scene.place.path("fleet/fleet.yaml");
    let fleet = std::fs::read_to_string(&path).unwrap();
    let fleet = fleet.replace("  bob:\n", "  bob:\n    roles: reader\n");
    let fleet = fleet.replace("roles:\n  operator:\n", "roles:\n  reader:\n    allow: pages\n  operator:\n");
    std::fs::write(path, fleet).unwrap();
}

fn state(told: &Value, node: &str) -> String {
    let nodes = told["nodes"].as_array().unwrap_or_else(|| panic!("no nodes: {told}"));
    let row = nodes.iter().find(|row| row["name"] == node || row["node"] == node);
    row.unwrap_or_else(|| panic!("no `{node}`: {told}"))["state"].as_str().unwrap().to_owned()
}

/// Streams of `ann` that are open on `alpha`, as its tunnel says.
fn open_on_alpha(harbor: &Harbor) -> u64 {
    let now = harbor.tunnel("alpha")["now"].clone();
    let rows = now["services"].as_array().unwrap().iter();
    rows.filter(|row| row["principal"] == "spiffe://harbor/user/ann").map(|row| row["open"].as_u64().unwrap()).sum()
}

/// One round: she may, and does; then she may not. Returns when she was refused many times.
fn round(harbor: &Harbor, transport: &str, echo: SocketAddr, beta_hears: bool) {
    let place = &harbor.scene.place;
    declare(harbor, "pages", transport, echo);
    place.facts(&["publish", "--yes"]);
    let socks = harbor.socks("ann");
    let mut held: Vec<TcpStream> = (0..8).map(|_| socks.open("echo")).collect();
    for stream in &mut held {
        echoes(stream).unwrap();
    }
    let callers = Callers::of(socks, 6);
    until("many have opened", || callers.opened() > 50);

    let agent = Pid::from_child(&harbor.beta.as_ref().unwrap().0);
    if !beta_hears {
        kill_process(agent, Signal::STOP).unwrap();
    }
    declare(harbor, "nothing", transport, echo);
    let words: &[&str] =
        if beta_hears { &["publish", "--yes", "--json"] } else { &["publish", "--yes", "--json", "--wait", "12s"] };
    let told = output(place.freehold_command(words));
    let confirmed = Instant::now();
    assert!(told.status.success() || !beta_hears, "{}", stderr(&told));
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(state(&told, "alpha"), "confirmed", "{told}");
    assert_eq!(state(&told, "beta") == "confirmed", beta_hears, "{told}");

    let refused = callers.refused();
    until("many are refused", || callers.refused() > refused + 100);
    let seen = callers.end();
    let late = seen.opened.lock().unwrap().iter().filter(|begun| **begun > confirmed).count();
    assert_eq!(late, 0, "so many opened after it was confirmed");
    held.iter_mut().for_each(broke);
    until("nothing of hers is open", || open_on_alpha(harbor) == 0);
    if !beta_hears {
        kill_process(agent, Signal::CONT).unwrap();
    }
}

#[test]
fn nothing_opens_that_is_forbidden_once_publish_says_that_a_node_has_confirmed() {
    let harbor = Harbor::new();
    let echo = echo();
    declare(&harbor, "pages", "tls", echo);
    harbor.scene.place.facts(&["publish", "--yes"]);
    let bob = harbor.socks("bob");
    let mut long = bob.open("echo");
    let others = Callers::of(bob, 2);
    for (transport, beta_hears) in [("tls", true), ("quic", true), ("tls", false)] {
        let before = others.opened();
        round(&harbor, transport, echo, beta_hears);
        echoes(&mut long).unwrap();
        until("others open as before", || others.opened() > before + 20);
    }
    let seen = others.end();
    assert_eq!(*seen.odd.lock().unwrap(), Vec::<String>::new(), "what is allowed never fails");
    assert_eq!(seen.refused.load(SeqCst), 0);
    echoes(&mut long).unwrap();
}
