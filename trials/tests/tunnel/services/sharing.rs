//! Many short streams and a long one share a way: neither keeps the other from getting on.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use trials::place::until;

use super::Harbor;
use super::quayside::{Socks, TRANSPORTS, echo, echoes, service};

/// In all, by so many programs.
const SHORT: u64 = 2_000;
const PROGRAMS: u64 = 8;

/// A transfer without a pause, and how far it has come.
fn pours(socks: Socks, stop: &Arc<AtomicBool>) -> (Arc<AtomicU64>, std::thread::JoinHandle<()>) {
    let (came, stop) = (Arc::<AtomicU64>::default(), Arc::clone(stop));
    let counted = Arc::clone(&came);
    let mut stream = socks.open("pour");
    let thread = std::thread::spawn(move || {
        let mut room = vec![0; 1 << 16];
        while !stop.load(SeqCst) {
            let count = stream.read(&mut room).unwrap();
            assert!(count > 0, "it ended");
            counted.fetch_add(count as u64, SeqCst);
        }
    });
    (came, thread)
}

#[test]
fn many_short_streams_and_a_long_one_leave_room_for_each_other() {
    let harbor = Harbor::new();
    let pour = service(|mut stream| while stream.write_all(&[5; 1 << 14]).is_ok() {});
    let services = [("pour", pour), ("echo", echo())];
    for transport in TRANSPORTS {
        harbor.offer(transport, &services);
        let (socks, stop) = (harbor.socks("ann"), Arc::<AtomicBool>::default());
        let (came, long) = pours(socks, &stop);
        until("it pours", || came.load(SeqCst) > 1 << 20);
        let done = Arc::<AtomicU64>::default();
        let programs: Vec<_> = (0..PROGRAMS)
            .map(|_| {
                let done = Arc::clone(&done);
                std::thread::spawn(move || {
                    for _ in 0..SHORT / PROGRAMS {
                        echoes(&mut socks.open("echo")).unwrap();
                        done.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        // Each tenth of the short ones finds the long one further, and the long one finds each tenth done.
        for tenth in 1..=10 {
            let before = came.load(SeqCst);
            until("the short ones get on", || done.load(SeqCst) >= SHORT * tenth / 10);
            until("the long one gets on", || came.load(SeqCst) > before);
        }
        until("all are written down", || harbor.opened_by(transport) >= usize::try_from(SHORT).unwrap());
        for program in programs {
            program.join().unwrap();
        }
        stop.store(true, SeqCst);
        long.join().unwrap();
        harbor.all_is_given_back();
    }
}
