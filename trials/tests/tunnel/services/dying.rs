//! The tunnel is killed in the middle of streams: nobody takes what came for all that there is, and it goes on.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use trials::place::until;

use super::Harbor;
use super::quayside::{TRANSPORTS, broke, echo, echoes, rest, service};

fn pid(tunnel: &Value) -> Option<Pid> {
    tunnel["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?))
}

/// Processes whose parent is that one.
fn children(parent: u32) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let status = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
    status.filter(|text| text.contains(&format!("\nPPid:\t{parent}\n"))).collect()
}

/// Two streams to one service: one on which nothing is said at the moment, and one that pours.
struct Open {
    quiet: TcpStream,
    pours: TcpStream,
    /// The service's end of the quiet one.
    other: TcpStream,
}

impl Open {
    fn new(harbor: &Harbor, kept: &Receiver<TcpStream>) -> Self {
        let socks = harbor.socks("ann");
        let open = || {
            let mut stream = socks.open("kept");
            stream.write_all(b"hello").unwrap();
            (stream, kept.recv().unwrap())
        };
        let ((quiet, other), (pours, mut to)) = (open(), open());
        let passed = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&passed);
        std::thread::spawn(move || {
            while to.write_all(&[3; 4096]).is_ok() {
                counted.fetch_add(1, SeqCst);
            }
        });
        until("it pours", || passed.load(SeqCst) > 10);
        Self { quiet, pours, other }
    }

    /// Neither the program nor the service takes it for an end.
    fn broke(mut self) {
        broke(&mut self.quiet);
        let (_, ended) = rest(&mut self.pours);
        assert!(ended.is_err(), "the program takes a part for the whole");
        let (heard, ended) = rest(&mut self.other);
        assert!(ended.is_err(), "the service takes a part for the whole: {heard} bytes");
    }
}

/// For the same. Where it did, too, unless somebody else took the port meanwhile; here others do, for a moment or for long.
fn listens_again(before: &Value, now: &Value) -> bool {
    let places = |listens: &Value| listens.as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
    places(before) == places(now)
}

/// Whichever end of the tunnel dies, over either transport.
#[test]
fn whoever_is_cut_off_by_a_killed_tunnel_does_not_take_it_for_an_end() {
    let harbor = Harbor::new();
    let (keep, kept) = channel();
    let keep = Mutex::new(keep);
    let services = [("kept", service(move |stream| keep.lock().unwrap().send(stream).unwrap())), ("echo", echo())];
    for transport in TRANSPORTS {
        harbor.offer(transport, &services);
        until("all who are at home at `alpha` have a port", || {
            let listens = harbor.tunnel("alpha")["listens"].clone();
            services.iter().all(|(name, _)| listens.get(format!("socks/spiffe://harbor/service/{name}")).is_some())
        });
        for dies in ["alpha", "beta"] {
            let open = Open::new(&harbor, &kept);
            until("it is written down", || harbor.opened_by(transport) > 0);
            let (stop, socks) = (Arc::<AtomicBool>::default(), harbor.socks("ann"));
            // The load goes on meanwhile, whatever it gets.
            let load: Vec<_> = (0..4)
                .map(|_| {
                    let stop = Arc::clone(&stop);
                    std::thread::spawn(move || {
                        while !stop.load(SeqCst) {
                            if let Ok(Ok(mut stream)) = socks.call("echo") {
                                let _ = echoes(&mut stream);
                            }
                        }
                    })
                })
                .collect();
            let before = harbor.tunnel(dies);
            let victim = pid(&before).unwrap();
            kill_process(victim, Signal::KILL).unwrap();
            open.broke();
            let goes_on = || socks.call("echo").ok().and_then(Result::ok).is_some_and(|mut it| echoes(&mut it).is_ok());
            until("it works again", goes_on);
            stop.store(true, SeqCst);
            for thread in load {
                thread.join().unwrap();
            }
            until("it listens for all again", || listens_again(&before["listens"], &harbor.tunnel(dies)["listens"]));
            assert!(test_kill_process(victim).is_err(), "it is still there");
        }
    }
    harbor.all_is_given_back();
    for agent in [&harbor.alpha, harbor.beta.as_ref().unwrap()] {
        let left = children(agent.0.id());
        assert_eq!(left.len(), 1, "one tunnel, and nothing else: {left:?}");
    }
}
