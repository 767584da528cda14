//! How fast machines join and renew, and what it costs the gateway. The gateway is a process of its own; so is this.
//!
//! Run: `cargo build --release --workspace && cargo bench -p trials --bench enroll`

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ground::random;
use identity::key::Sign as _;
use trials::joiner::{Ground, Joiner, check_in};
use trials::place::{Place, Running};
use trials::stranger::Dial;
use wire::enroll::Issued;
use wire::permit::Ask;

fn main() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let code = place.code(&["--uses", "unlimited", "--ttl", "1h"]);
    let bench = Bench { place: &place, gateway: &gateway, code: &code, next: AtomicUsize::new(0) };
    println!("two cores shared by gateway and clients; every answer is on disk before it is given");
    crypto_floor();
    for clients in [1, 8, 64] {
        bench.measure(&format!("join, open connections, {clients} clients"), clients, 1_500, |times| {
            bench.join_on_one_connection(times);
        });
    }
    for clients in [1, 8, 64] {
        bench.measure(&format!("join to member, fresh connections, {clients} clients"), clients, 600, |times| {
            bench.join_to_member(times);
        });
    }
    bench.measure("renewal, open mTLS connections, 8 clients", 8, 2_000, |times| bench.renew(times));
    bench.measure("1,000 machines at once, to member", 1_000, 1_000, |times| bench.join_to_member(times));
}

struct Bench<'a> {
    place: &'a Place,
    gateway: &'a Running,
    code: &'a str,
    next: AtomicUsize,
}

impl Bench<'_> {
    /// Runs `work` on so many threads, `total` times in all.
    fn measure(&self, what: &str, clients: usize, total: usize, work: impl Fn(usize) + Sync) {
        let (cpu, begun) = (self.gateway_cpu(), Instant::now());
        std::thread::scope(|scope| {
            for _ in 0..clients {
                scope.spawn(|| work(total / clients));
            }
        });
        let (cpu, took) = (self.gateway_cpu().saturating_sub(cpu), begun.elapsed());
        let done = f64::from(u32::try_from(total / clients * clients).unwrap());
        println!(
            "{what:<48} {:>7.0}/s   {:.2} s in all   {:.2} ms of the gateway's CPU each",
            done / took.as_secs_f64(),
            took.as_secs_f64(),
            cpu.as_secs_f64() * 1_000.0 / done
        );
    }

    fn joiner(&self) -> Joiner {
        Joiner::new(self.code, &format!("n-{}", self.next.fetch_add(1, Ordering::Relaxed)))
    }

    fn join_on_one_connection(&self, times: usize) {
        let mut line = Dial::to(self.place.port).line();
        for _ in 0..times {
            let request = self.joiner().request(Ground::on(&mut line));
            assert_eq!(line.code(Ask::Enroll, &request), "ok");
        }
    }

    fn join_to_member(&self, times: usize) {
        for _ in 0..times {
            let joiner = self.joiner();
            let own = joiner.own(&self.enroll(&joiner));
            assert_eq!(Dial::to(self.place.port).with(&own).line().code(Ask::CheckIn, &check_in()), "ok");
        }
    }

    fn enroll(&self, joiner: &Joiner) -> Issued {
        let mut line = Dial::to(self.place.port).line();
        let ground = Ground::on(&mut line);
        let reply = line.ask(Ask::Enroll, &joiner.request(ground)).unwrap();
        assert_eq!(reply.code(), "ok");
        serde_json::from_value(reply.body).unwrap()
    }

    fn renew(&self, times: usize) {
        let mut joiner = self.joiner();
        let own = joiner.own(&self.enroll(&joiner));
        let mut line = Dial::to(self.place.port).with(&own).line();
        for _ in 0..times {
            joiner = Joiner { counter: joiner.counter + 1, svid_key: random::p256().unwrap(), ..joiner };
            let request = joiner.renew(Ground::on(&mut line));
            assert_eq!(line.code(Ask::Renew, &request), "ok");
        }
    }

    /// User and system time of the gateway so far.
    fn gateway_cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.gateway.0.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        // Linux counts in hundredths of a second.
        Duration::from_millis((ticks(11) + ticks(12)) * 10)
    }
}

/// What the signatures of one join cost by themselves: the least that a gateway can spend.
fn crypto_floor() {
    let (ed, p256) = (random::ed25519().unwrap(), random::p256().unwrap());
    let message = [7; 200];
    let (by_ed, by_p256) = (ed.sign(&message).unwrap(), p256.sign(&message).unwrap());
    let each = |work: &dyn Fn()| {
        let begun = Instant::now();
        (0..2_000).for_each(|_| work());
        begun.elapsed().as_secs_f64() * 1e6 / 2_000.0
    };
    let ed_check = each(&|| ed.public().verify(&message, &by_ed).unwrap());
    let p256_check = each(&|| p256.public().verify(&message, &by_p256).unwrap());
    let ed_sign = each(&|| drop(ed.sign(&message)));
    let p256_sign = each(&|| drop(p256.sign(&message)));
    // Claim and transcript by two keys each, request, binding; certificate, admission, entry, tip.
    let floor = 2.0 * ed_check + 4.0 * p256_check + p256_sign + 3.0 * ed_sign;
    println!(
        "crypto floor of a join: {floor:.0} us = 2 Ed25519 checks ({ed_check:.0}) + 4 P-256 checks ({p256_check:.0}) \
         + 1 P-256 signature ({p256_sign:.0}) + 3 Ed25519 signatures ({ed_sign:.0})"
    );
}
