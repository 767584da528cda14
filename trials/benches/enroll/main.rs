//! How fast machines join and renew, and what it costs the gateway: the numbers of the design, beside their crypto floor.
//!
//! `cargo build --release && cargo bench -p trials --bench enroll -- [--quick] [--json] [--only WORD]`

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod floor;
mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use org::refusal::Refusal;
use serde_json::Value;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use trials::load::caller::address;
use trials::load::machine::{Dialer, Machine, ground};
use trials::load::meter;
use trials::place::{Place, Running};
use wire::enroll::Issued;
use wire::permit::Ask;

use crate::floor::Work;
use crate::report::{Row, Surroundings};

const STAMPEDE: usize = 1_000;
const FLOODERS: usize = 16;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let only = words.iter().position(|given| given == "--only").and_then(|at| words.get(at + 1)).cloned();
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let code = place.code(&["--uses", "unlimited", "--ttl", "1h"]);
    let surroundings = Surroundings::look(&place.org());
    if !has("--json") {
        surroundings.print();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let bench = Bench {
        dialer: Dialer::new(place.port),
        runtime,
        gateway: &gateway,
        code,
        next: AtomicUsize::new(0),
        surroundings: &surroundings,
        quiet: has("--json"),
    };
    let rows = bench.table(&place, if has("--quick") { 5 } else { 1 }, only.as_deref());
    if has("--json") {
        println!("{}", serde_json::json!({ "surroundings": surroundings, "rows": rows }));
    } else {
        let missed = rows.iter().flat_map(|row| &row.targets).filter(|target| !target.met).count();
        println!("\n{missed} targets missed");
    }
}

struct Bench<'a> {
    dialer: Dialer,
    runtime: tokio::runtime::Runtime,
    gateway: &'a Running,
    code: String,
    next: AtomicUsize,
    surroundings: &'a Surroundings,
    quiet: bool,
}

impl Bench<'_> {
    fn table(&self, place: &Place, shorter: usize, only: Option<&str>) -> Vec<Row> {
        let mut rows = Vec::new();
        let wanted = |word: &str| only.is_none_or(|only| only == word);
        let mut add = |row: Row| {
            if !self.quiet {
                row.print();
            }
            rows.push(row);
        };
        for clients in [1, 8, 64].into_iter().filter(|_| wanted("open")) {
            let row = self.join_open(clients, 3_200 / shorter);
            add(if clients == 64 { row.at_least(3_000.0) } else { row });
        }
        for clients in [1, 8, 64].into_iter().filter(|_| wanted("fresh")) {
            let row = self.join_fresh(clients, 1_600 / shorter);
            add(if clients == 64 { row.costing(0.5) } else { row });
        }
        for clients in [1, 8, 64].into_iter().filter(|_| wanted("member")) {
            let row = self.join_to_member(clients, 1_600 / shorter);
            add(if clients == 64 { row.at_least(1_000.0) } else { row });
        }
        for clients in [1, 8, 64].into_iter().filter(|_| wanted("renew")) {
            let row = self.renew(clients, 6_400 / shorter);
            add(if clients == 64 { row.at_least(8_000.0) } else { row });
        }
        if wanted("program") {
            add(self.program(place, 200 / shorter));
        }
        if wanted("stampede") {
            add(self.stampede(place).within(1.0));
        }
        if wanted("flood") {
            add(self.flood(8, 800 / shorter));
        }
        rows
    }

    /// Machines that are ready to join, shared out among so many clients.
    fn machines(&self, clients: usize, total: usize) -> Vec<Vec<Machine>> {
        let make = |_| {
            let name = format!("n-{}", self.next.fetch_add(1, Ordering::Relaxed));
            Machine::new(&self.code, &name)
        };
        (0..clients).map(|_| (0..total / clients).map(make).collect()).collect()
    }

    /// Runs one client per element, from the moment at which all are ready.
    fn measure<C, F, R>(
        &self,
        what: (&str, Work),
        clients: Vec<C>,
        times: usize,
        client: impl Fn(usize, C, Arc<Barrier>) -> F,
    ) -> (Row, Vec<R>)
    where
        F: Future<Output = R> + Send + 'static,
        R: Send + 'static,
    {
        let (count, own) = (clients.len(), std::process::id());
        let ready = Arc::new(Barrier::new(count + 1));
        let mut tasks = JoinSet::new();
        for (number, state) in clients.into_iter().enumerate() {
            tasks.spawn_on(client(number, state, Arc::clone(&ready)), self.runtime.handle());
        }
        let spent = || (meter::cpu(self.gateway.0.id()), meter::cpu(own), meter::machine_cpu());
        self.runtime.block_on(async {
            let ready = tokio::time::timeout(Duration::from_mins(2), ready.wait());
            let _ = ready.await.unwrap_or_else(|_| panic!("not all clients became ready"));
            let (before, begun) = (spent(), Instant::now());
            let results = tasks.join_all().await;
            let (seconds, after) = (begun.elapsed().as_secs_f64(), spent());
            let (gateway, client) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
            let others = after.2.saturating_sub(before.2).saturating_sub(gateway + client);
            let done = count * times;
            let many = f64::from(u32::try_from(done).unwrap());
            let floor_ms = self.surroundings.floor.of(what.1);
            let gateway_ms = gateway.as_secs_f64() * 1_000.0 / many;
            let row = Row {
                what: what.0.to_owned(),
                clients: count,
                done,
                seconds,
                per_second: many / seconds,
                gateway_ms,
                client_ms: client.as_secs_f64() * 1_000.0 / many,
                floor_ms,
                times_floor: gateway_ms / floor_ms,
                others_cores: others.as_secs_f64() / seconds,
                targets: Vec::new(),
                note: None,
            };
            (row, results)
        })
    }

    fn join_open(&self, clients: usize, total: usize) -> Row {
        let machines = self.machines(clients, total);
        let run = |number, machines: Vec<Machine>, ready: Arc<Barrier>| {
            let dialer = self.dialer.clone();
            async move {
                let mut caller = dialer.open(address(number)).await;
                ready.wait().await;
                for machine in machines {
                    machine.join(&mut caller).await;
                }
            }
        };
        self.measure(("join, open connections", Work::Join), machines, total / clients, run).0
    }

    fn join_fresh(&self, clients: usize, total: usize) -> Row {
        let machines = self.machines(clients, total);
        let run = |number, machines: Vec<Machine>, ready: Arc<Barrier>| {
            let dialer = self.dialer.clone();
            async move {
                ready.wait().await;
                for machine in machines {
                    machine.join(&mut dialer.open(address(number)).await).await;
                }
            }
        };
        self.measure(("join, a fresh connection each", Work::JoinFresh), machines, total / clients, run).0
    }

    fn join_to_member(&self, clients: usize, total: usize) -> Row {
        let machines = self.machines(clients, total);
        let run = |number, machines: Vec<Machine>, ready: Arc<Barrier>| {
            let dialer = self.dialer.clone();
            async move {
                ready.wait().await;
                for machine in &machines {
                    to_member(&dialer, number, machine).await;
                }
            }
        };
        self.measure(("join to member, fresh connections", Work::Member), machines, total / clients, run).0
    }

    fn renew(&self, clients: usize, total: usize) -> Row {
        let times = total / clients;
        let run = |number, mut machines: Vec<Machine>, ready: Arc<Barrier>| {
            let dialer = self.dialer.clone();
            async move {
                let machine = machines.pop().unwrap();
                let issued: Issued = machine.join(&mut dialer.open(address(number)).await).await;
                let mut caller = machine.come_back(dialer.port, address(number), &issued).await;
                ready.wait().await;
                for counter in 2..=u64::try_from(times).unwrap() + 1 {
                    machine.renew(&mut caller, counter).await;
                }
            }
        };
        let machines = self.machines(clients, clients);
        self.measure(("renewal, open mTLS connections", Work::Renew), machines, times, run).0
    }

    /// `freehold-node join`, one after the other: from its start as a process to its end as a member, with everything that
    /// it fetches, checks and makes durable on the way.
    fn program(&self, place: &Place, total: usize) -> Row {
        let names: Vec<_> = (0..total).map(|_| format!("n-{}", self.next.fetch_add(1, Ordering::Relaxed))).collect();
        let (before, others, begun) = (meter::cpu(self.gateway.0.id()), meter::machine_cpu(), Instant::now());
        let mut took: Vec<Duration> = Vec::new();
        for name in &names {
            let begun = Instant::now();
            let joined = place.join(name, &self.code);
            took.push(begun.elapsed());
            assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
        }
        let (seconds, many) = (begun.elapsed().as_secs_f64(), f64::from(u32::try_from(total).unwrap()));
        let gateway_ms = meter::cpu(self.gateway.0.id()).saturating_sub(before).as_secs_f64() * 1_000.0 / many;
        let floor_ms = self.surroundings.floor.of(Work::Member);
        took.sort();
        let at = |part: usize| took.get(total * part / 100).or(took.last()).unwrap().as_secs_f64() * 1_000.0;
        let row = Row {
            what: "freehold-node join, to member".to_owned(),
            clients: 1,
            done: total,
            seconds,
            per_second: many / seconds,
            gateway_ms,
            // Its own processor time is in the others': it is a process for each.
            client_ms: 0.0,
            floor_ms,
            times_floor: gateway_ms / floor_ms,
            others_cores: meter::machine_cpu().saturating_sub(others).as_secs_f64() / seconds,
            targets: Vec::new(),
            note: Some(format!("half within {:.1} ms, 99 of 100 within {:.1} ms", at(50), at(99))),
        };
        row.half_within(at(50), 25.0)
    }

    /// A thousand machines at one moment; then the operator's view must hold each once, and as a member.
    fn stampede(&self, place: &Place) -> Row {
        let first = self.next.load(Ordering::Relaxed);
        let machines = self.machines(STAMPEDE, STAMPEDE);
        let run = |number, machines: Vec<Machine>, ready: Arc<Barrier>| {
            let dialer = self.dialer.clone();
            async move {
                ready.wait().await;
                for machine in &machines {
                    to_member(&dialer, number, machine).await;
                }
            }
        };
        let row = self.measure(("1,000 machines at once, to member", Work::Member), machines, 1, run).0;
        let nodes = place.facts(&["node", "list"]);
        let named = |name: &str| {
            nodes.as_array().unwrap().iter().filter(|row| row["name"] == name).cloned().collect::<Vec<Value>>()
        };
        for number in first..first + STAMPEDE {
            let name = format!("n-{number}");
            let found = named(&name);
            assert_eq!(found.len(), 1, "`{name}` is there {} times", found.len());
            assert!(found.iter().all(|row| row["state"] == "member"), "`{name}` is stranded: {found:?}");
        }
        row.noting("each is in the ledger once, as a member".to_owned())
    }

    /// Good joins while strangers at ever new addresses try codes with a wrong secret.
    fn flood(&self, clients: usize, total: usize) -> Row {
        let (stop, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut flood = JoinSet::new();
        for (number, mut machines) in self.machines(FLOODERS, FLOODERS).into_iter().enumerate() {
            let request = machines.pop().unwrap().bad_request();
            let (dialer, stop, refused) = (self.dialer.clone(), Arc::clone(&stop), Arc::clone(&refused));
            flood.spawn_on(
                async move { pester(&dialer, number, &request, (&stop, &refused)).await },
                self.runtime.handle(),
            );
        }
        // Until it is under way.
        while refused.load(Ordering::Relaxed) < FLOODERS {
            std::thread::sleep(Duration::from_millis(5));
        }
        let before = refused.load(Ordering::Relaxed);
        let row =
            Row { what: "join to member, in a flood of bad codes".to_owned(), ..self.join_to_member(clients, total) };
        let bad = refused.load(Ordering::Relaxed) - before;
        stop.store(true, Ordering::Relaxed);
        self.runtime.block_on(flood.join_all());
        let rate = f64::from(u32::try_from(bad).unwrap()) / row.seconds;
        row.noting(format!("every good one came in, beside {rate:.0} refused attempts per second"))
    }
}

async fn to_member(dialer: &Dialer, number: usize, machine: &Machine) {
    let issued = machine.join(&mut dialer.open(address(number)).await).await;
    machine.come_back(dialer.port, address(number), &issued).await;
}

/// Tries bad codes from one address until it is sent away, and goes on from the next.
async fn pester(dialer: &Dialer, number: usize, request: &[u8], (stop, refused): (&AtomicBool, &AtomicUsize)) {
    for round in 0.. {
        let mut caller = dialer.open(address(1_024 + number + FLOODERS * round)).await;
        loop {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let answer = match ground(&mut caller).await {
                Ok(_) => caller.ask_with::<Issued>(Ask::Enroll, request).await.unwrap().unwrap_err(),
                Err(refusal) => refusal,
            };
            match answer {
                Refusal::TooManyAttempts { .. } => break,
                Refusal::BadProof => refused.fetch_add(1, Ordering::Relaxed),
                other => panic!("a bad code was answered with: {other}"),
            };
        }
    }
}
