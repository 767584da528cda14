//! Ten thousand connected nodes at one gateway: what they take, and how soon all of them have what was published.
//!
//! `cargo build --release && cargo bench -p trials --bench fanout -- [--quick] [--json] [--nodes N] [--runs N]`

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod followers;
mod fleet;
mod operator;
mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use identity::head::Cause;
use manifest::compile::compile;
use manifest::stored::SCHEMA;
use trials::load::meter;
use trials::place::{Place, Running, succeeded};

use crate::fleet::Shape;
use crate::followers::Followers;
use crate::operator::Operator;
use crate::report::{Rest, Row, Table};

const NODES: usize = 10_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let number = |word: &str| {
        let at = words.iter().position(|given| given == word)?;
        words.get(at + 1)?.parse::<usize>().ok()
    };
    let quick = has("--quick");
    let nodes = number("--nodes").unwrap_or(if quick { 1_000 } else { NODES });
    let runs = number("--runs").unwrap_or(if quick { 1 } else { 3 });
    let span = Duration::from_secs(if quick { 10 } else { 60 });
    meter::raise_files();
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let mut table = Table::new(&place.org(), nodes, has("--json"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut bench = Bench::begin(&place, &gateway, nodes, &mut table).await;
        bench.rest(span, &mut table).await;
        bench.real_publish(&mut table).await;
        for shape in [Shape::EachItsOwn, Shape::OneForAll] {
            for run in 1..=runs {
                let row = bench.publish(shape, run).await;
                table.add(row);
            }
        }
        for run in 1..=runs {
            let row = bench.revoke(run).await;
            table.add(row);
        }
        table.note(format!("the gateway took {:.0} MB at most", meter::megabytes(meter::peak(gateway.0.id()))));
        table.note(format!("{} answers were `busy`", bench.followers.busy));
    });
    table.end();
}

struct Bench<'a> {
    place: &'a Place,
    gateway: &'a Running,
    operator: Arc<Operator>,
    followers: Followers,
    wave: usize,
}

impl<'a> Bench<'a> {
    /// All nodes have joined, are connected, and wait for news.
    async fn begin(place: &'a Place, gateway: &'a Running, nodes: usize, table: &mut Table) -> Self {
        let begun = Instant::now();
        let pid = gateway.0.id();
        let operator = Arc::new(Operator::new(place));
        let joined = followers::join(place, nodes).await;
        table.note(format!("{nodes} nodes joined in {:.1} s", begun.elapsed().as_secs_f64()));
        tokio::time::sleep(Duration::from_secs(2)).await;
        let alone = meter::private(pid);
        let begun = Instant::now();
        let followers = Followers::connect(place, joined).await;
        table.note(format!("and connected in {:.1} s", begun.elapsed().as_secs_f64()));
        tokio::time::sleep(Duration::from_secs(2)).await;
        table.connected(meter::private(pid).saturating_sub(alone), followers.count);
        Self { place, gateway, operator, followers, wave: 0 }
    }

    async fn rest(&self, span: Duration, table: &mut Table) {
        let (pid, own) = (self.gateway.0.id(), std::process::id());
        let (before, begun) = ((meter::fine_cpu(pid), meter::cpu(own), meter::machine_cpu()), Instant::now());
        tokio::time::sleep(span).await;
        let took = begun.elapsed().as_secs_f64();
        let percent = |spent: Duration| spent.as_secs_f64() / took * 100.0;
        let gateway = meter::fine_cpu(pid).saturating_sub(before.0);
        let nodes = meter::cpu(own).saturating_sub(before.1);
        let others = meter::machine_cpu().saturating_sub(before.2).saturating_sub(gateway + nodes);
        table.rested(Rest {
            seconds: took,
            resident_mb: meter::megabytes(meter::resident(pid)),
            private_mb: meter::megabytes(meter::private(pid)),
            gateway_percent: percent(gateway),
            nodes_percent: percent(nodes),
            others_cores: others.as_secs_f64() / took,
        });
    }

    /// As an operator does it. Every admission is new to the operator's tool, which checks each.
    async fn real_publish(&mut self, table: &mut Table) {
        let folder = self.place.path("fleet");
        std::fs::create_dir_all(&folder).unwrap();
        let org = self.followers.known.org();
        self.wave += 1;
        std::fs::write(folder.join("fleet.yaml"), fleet::yaml(org, self.followers.count, Shape::EachItsOwn, self.wave))
            .unwrap();
        let begun = Instant::now();
        let command = self.place.freehold_command(&["publish", "fleet", "--yes", "--dirty", "--no-wait", "--json"]);
        let output = tokio::task::spawn_blocking(move || trials::place::output(command)).await.unwrap();
        succeeded(&output);
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let version = told.get("head").and_then(serde_json::Value::as_u64).unwrap();
        let took = begun.elapsed();
        let spread = self.followers.all_have(version, begun).await;
        table.note(format!(
            "`freehold publish`, with {} admissions to check: done after {:.1} s, on all nodes after {:.1} s",
            self.followers.count,
            took.as_secs_f64(),
            spread.took(100)
        ));
        self.followers.settle(self.place, version).await;
    }

    async fn publish(&mut self, shape: Shape, run: usize) -> Row {
        self.wave += 1;
        let begun = Instant::now();
        let members = self.operator.members();
        let listing = begun.elapsed();
        let yaml = fleet::yaml(self.followers.known.org(), self.followers.count, shape, self.wave);
        let compiled = compile(&fleet::fleet(yaml), &members, SCHEMA).unwrap();
        let mut line = self.operator.line().await;
        let begun = Instant::now();
        line.stage(&compiled).await;
        let staging = begun.elapsed();
        let root = compiled.root;
        let (version, head) = line
            .head(Cause::FleetPublish, |head| {
                head.members = Some(root);
                head.placements.clear();
            })
            .await;
        let what = match shape {
            Shape::EachItsOwn => "publish, a manifest each",
            Shape::OneForAll => "publish, one manifest for all",
        };
        let row = self.spread((what, run), &mut line, (version, head)).await;
        row.asking("received and verified by 99 % in", 1.0, self.followers.count == NODES).noting(format!(
            "list of nodes {:.0} ms, handing in {:.0} ms",
            listing.as_secs_f64() * 1e3,
            staging.as_secs_f64() * 1e3
        ))
    }

    async fn revoke(&mut self, run: usize) -> Row {
        let (name, node_key) = self.followers.victim();
        let mut line = self.operator.line().await;
        let cause = Cause::NodeRevoke { name, node_key };
        let add = |head: &mut identity::head::Head| head.revocations.node_keys.extend([node_key]);
        let head = line.head(cause, add).await;
        self.followers.count -= 1;
        let row = self.spread(("revoke one node", run), &mut line, head).await;
        let cut = self.followers.ended.first().map(|(why, at)| (why.clone(), at.saturating_duration_since(row.sent)));
        let cut = cut.map_or("the revoked node was NOT cut off".to_owned(), |(why, after)| {
            format!("the revoked node was cut off after {:.0} ms ({why})", after.as_secs_f64() * 1e3)
        });
        self.followers.ended.clear();
        let full = self.followers.count + run == NODES;
        row.asking("refused by 99 % of the other nodes in", 1.0, full).noting(cut)
    }

    /// From the moment at which the head is sent until every node has it, and the gateway every report.
    async fn spread(
        &mut self,
        (what, run): (&str, usize),
        line: &mut operator::Line,
        (version, head): (u64, identity::envelope::Envelope),
    ) -> Row {
        let (pid, own) = (self.gateway.0.id(), std::process::id());
        let used = || (meter::cpu(pid), meter::cpu(own), meter::machine_cpu());
        let before = used();
        let load = meter::load();
        let (sent, accepted) = line.hand_in(head).await;
        let verified = self.followers.all_have(version, sent).await;
        let at_verified = used();
        let stored = self.followers.settle(self.place, version).await.map(|at| at.saturating_duration_since(sent));
        let after = used();
        let seconds = sent.elapsed().as_secs_f64();
        let (gateway, nodes) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        let others = after.2.saturating_sub(before.2).saturating_sub(gateway + nodes);
        Row {
            what: what.to_owned(),
            run,
            sent,
            load,
            accepted: accepted.saturating_duration_since(sent).as_secs_f64(),
            half: verified.took(50),
            most: verified.took(99),
            all: verified.took(100),
            stored: stored.map(|took| took.as_secs_f64()),
            gateway_us: each(gateway, self.followers.count),
            gateway_us_verified: each(at_verified.0.saturating_sub(before.0), self.followers.count),
            nodes_us: each(nodes, self.followers.count),
            nodes_us_verified: each(at_verified.1.saturating_sub(before.1), self.followers.count),
            others_cores: others.as_secs_f64() / seconds,
            target: None,
            note: None,
        }
    }
}

fn each(spent: Duration, count: usize) -> f64 {
    spent.as_secs_f64() * 1e6 / f64::from(u32::try_from(count).unwrap())
}
