//! What agent and gateway take at rest: memory and processor time, and what a connected member costs the gateway.
//!
//! `cargo build --release && cargo bench -p trials --bench idle -- [--quick] [--json]`

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use trials::load::caller::{Caller, address};
use trials::load::machine::{Dialer, Machine};
use trials::load::meter;
use trials::place::{Place, Running, succeeded, until};

const AGENTS: usize = 5;
/// As many as 10,000 agents may take; what fewer take is scaled up.
const MANY: f64 = 10_000.0;

#[derive(Debug, Serialize)]
struct Rest {
    what: String,
    resident_mb: f64,
    /// Without the program's own pages, which all its processes share.
    private_mb: f64,
    percent_of_a_core: f64,
    target: Option<Target>,
}

#[derive(Debug, Serialize)]
struct Target {
    words: String,
    met: bool,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let (span, members) = if has("--quick") { (10, 200) } else { (60, 1_000) };
    let span = Duration::from_secs(span);
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let mut rows = Vec::new();
    let mut add = |row: Rest| {
        if !has("--json") {
            print(&row);
        }
        rows.push(row);
    };
    if !has("--json") {
        println!(
            "{} cores ({}); at rest for {} s; agents check in every minute",
            meter::cores(),
            meter::processor(),
            span.as_secs()
        );
    }
    let agents: Vec<Running> = (1..=AGENTS).map(|number| start_agent(&place, &format!("edge-{number}"))).collect();
    for row in at_rest(&agents, &gateway, span) {
        add(row);
    }
    drop(agents);
    let (row, each) = connected(&place, &gateway, members, span);
    add(row);
    if has("--json") {
        println!("{}", serde_json::json!({ "seconds": span.as_secs(), "rows": rows, "bytes_per_connection": each }));
    } else {
        println!("{:>40} {:.1} KiB of the gateway's memory per connected member", "", each / 1024.0);
    }
}

fn print(row: &Rest) {
    println!(
        "{:<40} {:>6.1} MB resident ({:.1} private) {:>7.3} % of a core",
        row.what, row.resident_mb, row.private_mb, row.percent_of_a_core
    );
    if let Some(target) = &row.target {
        println!("{:>40} target {}: {}", "", target.words, if target.met { "met" } else { "MISSED" });
    }
}

/// An agent as a machine's owner runs it, after its first check-in.
fn start_agent(place: &Place, node: &str) -> Running {
    place.joined(node);
    let mut command = place.node_command(node, &["run"]);
    let agent = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("the agent checked in", || {
        let told = place.node(node, &["status", "--json"], "");
        succeeded(&told);
        serde_json::from_slice::<serde_json::Value>(&told.stdout)
            .is_ok_and(|told| told.get("last_check_in").is_some_and(serde_json::Value::is_string))
    });
    agent
}

fn at_rest(agents: &[Running], gateway: &Running, span: Duration) -> Vec<Rest> {
    let pids: Vec<u32> = agents.iter().chain([gateway]).map(|process| process.0.id()).collect();
    let before: Vec<Duration> = pids.iter().map(|pid| meter::fine_cpu(*pid)).collect();
    let begun = Instant::now();
    std::thread::sleep(span);
    let took = begun.elapsed().as_secs_f64();
    let busy = |at: usize| {
        let pid = pids.get(at).copied().unwrap();
        (meter::fine_cpu(pid).saturating_sub(before.get(at).copied().unwrap())).as_secs_f64() / took * 100.0
    };
    let worst = agents.iter().enumerate().map(|(at, agent)| {
        (megabytes(meter::resident(agent.0.id())), megabytes(meter::private(agent.0.id())), busy(at))
    });
    let worst = worst.fold((0.0_f64, 0.0_f64, 0.0_f64), |a, b| (a.0.max(b.0), a.1.max(b.1), a.2.max(b.2)));
    let own = gateway.0.id();
    vec![
        Rest {
            what: format!("agent, the worst of {}", agents.len()),
            resident_mb: worst.0,
            private_mb: worst.1,
            percent_of_a_core: worst.2,
            target: Some(Target { words: "<= 20 MB, < 0.1 %".to_owned(), met: worst.0 <= 20.0 && worst.2 < 0.1 }),
        },
        Rest {
            what: format!("gateway with {} agents", agents.len()),
            resident_mb: megabytes(meter::resident(own)),
            private_mb: megabytes(meter::private(own)),
            percent_of_a_core: busy(agents.len()),
            target: None,
        },
    ]
}

/// Members that joined, came back over mutual TLS, and keep the connection.
fn connected(place: &Place, gateway: &Running, members: usize, span: Duration) -> (Rest, f64) {
    let code = place.code(&["--uses", "unlimited", "--ttl", "1h"]);
    let machines: Vec<Machine> = (0..members).map(|number| Machine::new(&code, &format!("m-{number}"))).collect();
    let dialer = Dialer::new(place.port);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // Joined first, so that what a member takes by being known is not counted to its connection.
    let joined = runtime.block_on(each_of(machines, {
        let dialer = dialer.clone();
        move |number, machine| {
            let dialer = dialer.clone();
            async move {
                let issued = machine.join(&mut dialer.open(address(number)).await).await;
                drop(machine.come_back(dialer.port, address(number), &issued).await);
                (machine, issued)
            }
        }
    }));
    let pid = gateway.0.id();
    std::thread::sleep(Duration::from_secs(2));
    let alone = meter::private(pid);
    let lines: Vec<Caller> = runtime.block_on(each_of(joined, move |number, (machine, issued)| async move {
        machine.come_back(dialer.port, address(number), &issued).await
    }));
    std::thread::sleep(Duration::from_secs(2));
    let with_all = meter::private(pid);
    let (before, begun) = (meter::fine_cpu(pid), Instant::now());
    std::thread::sleep(span);
    let busy = (meter::fine_cpu(pid).saturating_sub(before)).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
    let count = f64::from(u32::try_from(lines.len()).unwrap());
    let each = f64::from(u32::try_from(with_all.saturating_sub(alone)).unwrap()) / count;
    let resident = megabytes(meter::resident(pid));
    let scaled = resident + each * (MANY - count) / f64::from(1 << 20);
    let row = Rest {
        what: format!("gateway with {members} connected members"),
        resident_mb: resident,
        private_mb: megabytes(with_all),
        percent_of_a_core: busy,
        target: Some(Target {
            words: format!("for 10,000 <= 300 MB ({scaled:.0} MB if scaled), < 2 %"),
            met: scaled <= 300.0 && busy < 2.0,
        }),
    };
    (row, each)
}

/// Does something with each, a few dozen at a time.
async fn each_of<T, R, F>(all: Vec<T>, act: impl Fn(usize, T) -> F) -> Vec<R>
where
    T: Send + 'static,
    R: Send + 'static,
    F: Future<Output = R> + Send + 'static,
{
    let turns = Arc::new(Semaphore::new(32));
    let mut tasks = JoinSet::new();
    for (number, one) in all.into_iter().enumerate() {
        let (turns, act) = (Arc::clone(&turns), act(number, one));
        tasks.spawn(async move {
            let _turn = turns.acquire().await;
            act.await
        });
    }
    tasks.join_all().await
}

fn megabytes(bytes: u64) -> f64 {
    // A process has less than four thousand million kilobytes.
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}
