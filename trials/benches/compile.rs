//! What checking and compiling a fleet takes, and how it grows from 100 nodes to 10,000.
//!
//! `cargo bench -p trials --bench compile -- [--quick] [--json]`

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::fmt::Write as _;
use std::time::Duration;

use identity::id::Digest;
use manifest::compile::{Compiled, MemberKnown, compile};
use manifest::diff::{Published, compare};
use manifest::source::{SourceFile, read};
use manifest::stored::SCHEMA;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use trials::load::meter;

/// The least of so many runs: what the machine's other guests take is not ours.
const RUNS: usize = 3;
/// Of processor time, for so many nodes.
const MOST_CHECKING: Duration = Duration::from_millis(500);
const MOST_PLANNING: Duration = Duration::from_secs(1);
const MOST: usize = 10_000;

#[derive(Debug, Serialize)]
struct Row {
    nodes: usize,
    services: usize,
    users: usize,
    /// Users who may call the same services.
    team: usize,
    yaml_mb: f64,
    manifests: usize,
    manifests_mb: f64,
    largest_kb: f64,
    /// Processor time of one core.
    check_ms: f64,
    compile_ms: f64,
    plan_ms: f64,
    /// Against a tenth of the nodes.
    growth: Option<f64>,
    /// For 10,000 nodes.
    targets: Vec<Target>,
}

#[derive(Debug, Serialize)]
struct Target {
    words: String,
    met: bool,
}

impl Target {
    fn new(what: &str, took: Duration, most: Duration) -> Self {
        Self { words: format!("{what} <= {} s", most.as_secs_f64()), met: took <= most }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let sizes: &[usize] = if has("--quick") { &[100, 1_000] } else { &[100, 1_000, MOST] };
    // Larger teams: ten times as many rows in each table.
    let shapes = sizes.iter().map(|nodes| (*nodes, 25)).chain((!has("--quick")).then_some((MOST, 250)));
    if !has("--json") {
        println!("one of {} cores ({}); the least of {RUNS} runs", meter::cores(), meter::processor());
    }
    let mut rows: Vec<Row> = Vec::new();
    for (nodes, team) in shapes {
        let mut row = measure(nodes, team);
        let tenth = rows.iter().find(|other| other.nodes * 10 == nodes && other.team == team);
        row.growth = tenth.map(|tenth| (row.check_ms + row.compile_ms) / (tenth.check_ms + tenth.compile_ms));
        if !has("--json") {
            print(&row);
        }
        rows.push(row);
    }
    if has("--json") {
        println!("{}", serde_json::json!({ "runs": RUNS, "rows": rows }));
    }
}

fn print(row: &Row) {
    println!(
        "{:>6} nodes, {:>4} services, {:>4} users in teams of {}: check {:.1} ms, compile {:.1} ms; plan {:.1} ms",
        row.nodes, row.services, row.users, row.team, row.check_ms, row.compile_ms, row.plan_ms
    );
    println!(
        "{:>6} {:.1} MB of YAML to {} manifests of {:.1} MB, the largest {:.0} kB",
        "", row.yaml_mb, row.manifests, row.manifests_mb, row.largest_kb
    );
    if let Some(growth) = row.growth {
        println!("{:>6} {growth:.1} times what a tenth of it takes", "");
    }
    for target in &row.targets {
        println!("{:>6} target {}: {}", "", target.words, if target.met { "met" } else { "MISSED" });
    }
}

fn measure(nodes: usize, team: usize) -> Row {
    let files = fleet(nodes, team);
    let members: Vec<MemberKnown> = (0..nodes).map(member).collect();
    let checking = || read(&files, &|_| Err("none is delivered".to_owned()), &[]);
    let (fleet, check) = least(|| checking().unwrap().0);
    let (compiled, compiling) = least(|| compile(&fleet, &members, SCHEMA).unwrap());
    let (services, users) = (fleet.services.len(), fleet.users.len());
    // One user less: everything is read and compared, few things changed.
    let mut changed = fleet;
    changed.users.pop_last();
    let Compiled { leaves, manifests, .. } = compile(&changed, &members, SCHEMA).unwrap();
    let published = Published { leaves, manifests };
    let (plan, planning) = least(|| compare(&published, &compiled).unwrap());
    assert!(!plan.is_empty());
    let targets = [
        Target::new("check + compile", check + compiling, MOST_CHECKING),
        Target::new("plan", planning, MOST_PLANNING),
    ];
    let sizes = || compiled.manifests.values().map(Vec::len);
    Row {
        nodes,
        services,
        users,
        team,
        yaml_mb: kilobytes(files.iter().map(|file| file.bytes.len()).sum()) / 1e3,
        manifests: compiled.manifests.len(),
        manifests_mb: kilobytes(sizes().sum()) / 1e3,
        largest_kb: kilobytes(sizes().max().unwrap_or(0)),
        check_ms: check.as_secs_f64() * 1e3,
        compile_ms: compiling.as_secs_f64() * 1e3,
        plan_ms: planning.as_secs_f64() * 1e3,
        growth: None,
        targets: if nodes == MOST { targets.into() } else { Vec::new() },
    }
}

fn least<T>(act: impl Fn() -> T) -> (T, Duration) {
    let run = |_| {
        let before = processor_time();
        let made = act();
        (made, processor_time().saturating_sub(before))
    };
    (0..RUNS).map(run).min_by_key(|(_, took)| *took).unwrap()
}

/// Of this thread, to the nanosecond; what `/proc` tells lags behind by a tick.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

fn kilobytes(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes).unwrap()) / 1e3
}

fn member(number: usize) -> MemberKnown {
    let name = format!("n-{number}");
    let digest = |what: &str| Digest::of(format!("{what} {name}").as_bytes());
    MemberKnown { node_key: digest("key"), admission: digest("admission"), name: name.parse().unwrap() }
}

/// Teams of users, each with services of its own, two for five users; five services that all people call, five that all nodes call.
/// A fifth of the nodes carries services, half of them are people's machines without an address; one in a hundred is a
/// relay. All are declared one by one: classes would be cheaper.
fn fleet(nodes: usize, team: usize) -> Vec<SourceFile> {
    let (services, users) = (nodes / 5, nodes / 2);
    let teams = (users / team).max(1);
    let id = "7".repeat(64);
    let mut org = format!("org:\n  name: harbor\n  id: \"{id}\"\n  lifetimes:\n    svid: 24h\n");
    org.push_str("groups: [common, beat");
    (0..teams).for_each(|team| write!(org, ", g-{team}").unwrap());
    org.push_str("]\nroles:\n  operator:\n    allow: [common]\n  node:\n    allow: [beat]\n");
    (0..teams).for_each(|team| writeln!(org, "  r-{team}:\n    allow: [common, g-{team}]").unwrap());
    let mut machines = String::from("nodes:\n");
    for node in 0..nodes {
        writeln!(machines, "  n-{node}:\n    labels:\n      site: s-{}", node % 7).unwrap();
        if node < users {
            continue;
        }
        writeln!(machines, "    address: n-{node}.example:7444\n    relay: {}", node % 100 == 99).unwrap();
    }
    let mut listening = String::from("services:\n");
    for service in 0..services {
        let group = match service {
            0..5 => "common".to_owned(),
            5..10 => "beat".to_owned(),
            other => format!("g-{}", other % teams),
        };
        let at = users + service;
        writeln!(listening, "  s-{service}:\n    at: n-{at}\n    addr: 127.0.0.1:8080\n    groups: [{group}]").unwrap();
    }
    let mut people = String::from("users:\n");
    for user in 0..users {
        let operator = if user == 0 { ", operator" } else { "" };
        writeln!(people, "  u-{user}:\n    roles: [r-{}{operator}]\n    nodes: [n-{user}]", user % teams).unwrap();
    }
    let file = |path: &str, text: String| SourceFile { path: path.to_owned(), bytes: text.into_bytes() };
    vec![
        file("org.yaml", org),
        file("nodes.yaml", machines),
        file("services.yaml", listening),
        file("users.yaml", people),
    ]
}
