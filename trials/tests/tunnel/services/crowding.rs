//! Thousands of streams on which nothing is said: all stay, and others get in beside them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use trials::load::meter;
use trials::place::until;

use super::Harbor;
use super::quayside::{Socks, echoes};

const PROGRAMS: usize = 16;

/// Keeps every connection, and says a byte on each when it is told to; in one thread, since there are thousands.
struct Idle {
    at: SocketAddr,
    kept: Arc<Mutex<Vec<TcpStream>>>,
}

impl Idle {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, kept) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<TcpStream>>>::default());
        let keeps = Arc::clone(&kept);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                keeps.lock().unwrap().push(stream);
            }
        });
        Self { at, kept }
    }

    fn count(&self) -> usize {
        self.kept.lock().unwrap().len()
    }

    fn speaks(&self) {
        for stream in self.kept.lock().unwrap().iter_mut() {
            stream.write_all(b"!").unwrap();
        }
    }
}

fn open_all(socks: Socks, most: usize) -> Vec<TcpStream> {
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Vec::with_capacity(most));
    std::thread::scope(|scope| {
        for _ in 0..PROGRAMS {
            scope.spawn(|| {
                while next.fetch_add(1, SeqCst) < most {
                    let stream = socks.open("idle");
                    all.lock().unwrap().push(stream);
                }
            });
        }
    });
    all.into_inner().unwrap()
}

/// Over QUIC, as many as both ends of ten thousand find room in this process; there is one connection between the nodes. Over
/// TLS, where each has a connection and a handshake of its own, a tenth of that: more are for the bench.
#[test]
fn thousands_of_idle_streams_stay_and_others_get_in() {
    meter::raise_files();
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = usize::try_from(files.saturating_sub(1_000) / 2).unwrap_or(usize::MAX).min(10_000);
    if most < 10_000 {
        eprintln!("NOT TESTED: more than {most} streams, since a process may have {files} open files here");
    }
    let harbor = Harbor::new();
    let idle = Idle::new();
    let services = [("idle", idle.at), ("echo", super::quayside::echo())];
    for (transport, wanted) in [("quic", most), ("tls", most / 10)] {
        harbor.offer(transport, &services);
        let (socks, before) = (harbor.socks("ann"), idle.count());
        let mut streams = open_all(socks, wanted);
        until("the service has them all", || idle.count() == before + wanted);
        for node in ["alpha", "beta"] {
            assert_eq!(harbor.open_streams(node), wanted as u64);
        }
        for _ in 0..20 {
            echoes(&mut socks.open("echo")).unwrap();
        }
        idle.speaks();
        for stream in &mut streams {
            stream.read_exact(&mut [0]).unwrap();
        }
        drop(streams);
        idle.kept.lock().unwrap().clear();
        harbor.all_is_given_back();
    }
}
