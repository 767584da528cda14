//! Transfers that outlive what vouches for them: three SVIDs of each side, and the root above them.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;
use trials::place::{json, stdout, succeeded, until};
use trials::versions::{is, states};

use super::Harbor;
use super::quayside::{TRANSPORTS, echo, echoes, service};

/// So many bytes, then a pause: a transfer lasts as long as the walk does, and is no load.
const PIECE: usize = 8 << 10;
const PAUSE: Duration = Duration::from_millis(5);

/// The byte at a place of the sequence that both sides know; it has no period that fits a buffer.
fn byte(at: u64) -> u8 {
    let mixed = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).to_le_bytes()[4]
}

/// How far a side has come.
#[derive(Default)]
struct Side {
    sent: AtomicU64,
    /// Up to here, without a gap.
    came: AtomicU64,
}

/// Sends the sequence until it is told to end, and reads the other's to its end. It ends in order, or panics.
fn exchange(stream: TcpStream, side: Arc<Side>, over: Arc<AtomicBool>) -> JoinHandle<()> {
    let (mut from, mut to) = (stream.try_clone().unwrap(), stream);
    std::thread::spawn(move || {
        let reader = {
            let side = Arc::clone(&side);
            std::thread::spawn(move || {
                let (mut at, mut room) = (0, vec![0; 1 << 16]);
                loop {
                    let count = from.read(&mut room).unwrap_or_else(|why| panic!("it broke off at {at}: {why}"));
                    if count == 0 {
                        return;
                    }
                    let fits = room[..count].iter().zip(at..).all(|(found, at)| *found == byte(at));
                    assert!(fits, "another byte between {at} and {count} further");
                    at += count as u64;
                    side.came.store(at, SeqCst);
                }
            })
        };
        let mut at = 0;
        while !over.load(SeqCst) {
            let piece: Vec<u8> = (at..at + PIECE as u64).map(byte).collect();
            to.write_all(&piece).unwrap_or_else(|why| panic!("no way for what follows {at}: {why}"));
            at += piece.len() as u64;
            side.sent.store(at, SeqCst);
            std::thread::sleep(PAUSE);
        }
        to.shutdown(Shutdown::Write).unwrap();
        reader.join().unwrap();
    })
}

/// One stream: the program's side and the service's.
struct Transfer {
    sides: [Arc<Side>; 2],
    over: Arc<AtomicBool>,
    program: JoinHandle<()>,
    service: JoinHandle<()>,
}

impl Transfer {
    fn begin(program: TcpStream, service: TcpStream) -> Self {
        let (sides, over) = ([Arc::<Side>::default(), Arc::default()], Arc::<AtomicBool>::default());
        let [program, service] =
            [(program, 0), (service, 1)].map(|(stream, n)| exchange(stream, Arc::clone(&sides[n]), Arc::clone(&over)));
        Self { sides, over, program, service }
    }

    fn came(&self) -> [u64; 2] {
        [0, 1].map(|n| self.sides[n].came.load(SeqCst))
    }

    /// Both ways, from now on.
    fn goes_on(&self, what: &str) {
        let before = self.came();
        until(&format!("bytes go both ways after {what}"), || {
            let now = self.came();
            assert!(!self.program.is_finished() && !self.service.is_finished(), "it is over after {what}");
            now[0] > before[0] && now[1] > before[1]
        });
    }

    /// The last byte of each side is there, and then the end.
    fn ends(self) {
        self.over.store(true, SeqCst);
        self.program.join().unwrap();
        self.service.join().unwrap();
        let [program, service] = self.sides;
        assert_eq!(program.sent.load(SeqCst), service.came.load(SeqCst));
        assert_eq!(service.sent.load(SeqCst), program.came.load(SeqCst));
    }
}

/// The SVIDs by which the streams were opened: of both nodes, and of the user who calls.
fn svids(harbor: &Harbor) -> Vec<Vec<u8>> {
    let place = &harbor.scene.place;
    let (alpha, beta) = (place.scope("alpha"), place.scope("beta"));
    let paths: [PathBuf; 3] =
        [alpha.join("svid.pem"), beta.join("svid.pem"), beta.join("principals/user-ann/svid.pem")];
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn a_transfer_outlives_three_renewals_and_the_root_of_all_svids() {
    let harbor = Harbor::new();
    let place = &harbor.scene.place;
    let (arrived, arrivals) = std::sync::mpsc::channel();
    let arrived = std::sync::Mutex::new(arrived);
    let long = service(move |stream| arrived.lock().unwrap().send(stream).unwrap());
    let services = [("long", long), ("echo", echo())];
    // The way of what is open does not change with the policy.
    let transfers = TRANSPORTS.map(|transport| {
        harbor.offer(transport, &services);
        let program = harbor.socks("ann").open("long");
        until("it is written down", || harbor.opened_by(transport) == 1);
        Transfer::begin(program, arrivals.recv().unwrap())
    });
    let all_go_on = |what: &str| transfers.iter().for_each(|transfer| transfer.goes_on(what));
    all_go_on("the beginning");

    for life in ["12h", "6h", "3h"] {
        let before = svids(&harbor);
        succeeded(&place.freehold(&["mandate", "change", "quay", "--svid-ttl", life, "--yes"]));
        until("all have renewed", || svids(&harbor).iter().zip(&before).all(|(now, then)| now != then));
        all_go_on(life);
    }
    let before = svids(&harbor);
    let done = place.facts(&["rotate", "identity", "--grace", "0s"]);
    assert_eq!(done["done"].as_array().unwrap().last(), Some(&json!("retire")), "{done}");
    assert_eq!(done["stands"], "settled", "{done}");
    is(&states(place, "identity"), &[(1, "retired"), (2, "active")]);
    assert!(svids(&harbor).iter().zip(&before).all(|(now, then)| now != then), "each has one under the new root");
    all_go_on("the rotation");

    // What is new opens by what is new: the doctor calls anew over both transports.
    let doctor = json(&place.node("beta", &["doctor", "wiki", "--json"], ""));
    let findings = doctor["orgs"][0]["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["subject"] == "peer" && finding["mark"] == "ok"), "{doctor}");
    for transport in TRANSPORTS {
        harbor.offer(transport, &services);
        let before = harbor.opened_by(transport);
        echoes(&mut harbor.socks("ann").open("echo")).unwrap();
        until("it is written down", || harbor.opened_by(transport) > before);
    }
    all_go_on("new streams");
    for transfer in transfers {
        transfer.ends();
    }
    harbor.all_is_given_back();
    assert_eq!(harbor.tunnel("alpha")["restarts"], 0, "{}", stdout(&place.node("alpha", &["status"], "")));
    assert_eq!(harbor.tunnel("beta")["restarts"], 0);
}
