//! What a tunnel costs: bulk, small round trips and new connections per transport, direct and relayed, beside plain TCP, bare
//! forwarders and other programs; memory per connection at rest; how fast access that was taken back ends.
//!
//! `cargo build --release && cargo bench -p trials --bench tunnel -- [--quick] [--json] [--only PART]... [--ways WORD]...`
//!
//! PART is one of `bulk`, `trips`, `openings`, `idle`, `cuts`. WORD picks ways whose name holds it (`tls`, `quinn`, `bare`).
//! An org is founded, its gateway serves, nodes join: all real processes, as is the service, and the load. Which process took
//! how much processor time is read from `/proc`. Nothing is asserted of times; each byte must arrive.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench fails by panicking")]
#![expect(clippy::cast_precision_loss, reason = "what is measured is not exact to sixteen digits")]

mod service;
mod load;
mod hold;
mod papers;
mod forwarders;
mod way;
mod peers;
mod namespaces;
mod town;
mod report;
mod carrying;
mod rest;
mod cuts;

use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use trials::load::meter;

use crate::carrying::Pace;
use crate::papers::Papers;
use crate::peers::Ground;
use crate::report::Table;
use crate::town::Town;
use crate::way::{Way, bare, in_namespace, listening, loopback};

fn main() {
    meter::raise_files();
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, role, what, ..] = words.as_slice()
        && first == "role"
    {
        play(role, what);
    } else {
        Wishes::read(&words).bench();
    }
}

/// What one of the other processes does.
fn play(role: &str, what: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match role {
            "service" => service::serve(read::<SocketAddr>(what)).await,
            "forward" => read::<forwarders::Forward>(what).run().await,
            "load" => println!("{}", serde_json::json!(read::<load::Load>(what).run().await)),
            _ => panic!("there is no role `{role}`"),
        }
    });
}

fn read<T: DeserializeOwned>(what: &str) -> T {
    serde_json::from_str(what).unwrap_or_else(|why| panic!("{what}: {why}"))
}

struct Wishes {
    quick: bool,
    json: bool,
    only: Vec<String>,
    ways: Vec<String>,
}

impl Wishes {
    fn read(words: &[String]) -> Self {
        let has = |word: &str| words.iter().any(|given| given == word);
        let all = |word: &str| {
            let at = words.iter().enumerate().filter(|(_, given)| *given == word).map(|(at, _)| at);
            at.filter_map(|at| words.get(at + 1).cloned()).collect()
        };
        Self { quick: has("--quick"), json: has("--json"), only: all("--only"), ways: all("--ways") }
    }

    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }

    fn wants_way(&self, way: &Way) -> bool {
        self.ways.is_empty() || way.name == "plain TCP" || self.ways.iter().any(|word| way.name.contains(word.as_str()))
    }

    fn bench(&self) {
        let mut table = Table::new(self.json);
        let (_service, at) = listening(in_namespace(None, "service", &loopback()));
        if ["bulk", "trips", "openings"].iter().any(|part| self.wants(part)) {
            self.carry(&mut table, at);
        }
        if self.wants("idle") {
            rest::idle(&mut table, at, self.quick);
        }
        if self.wants("cuts") {
            cuts::cuts(&mut table, at, if self.quick { 200 } else { 1_000 });
        }
        table.end();
    }

    /// The same ways for all that is carried.
    fn carry(&self, table: &mut Table, service: SocketAddr) {
        let town = Town::new(service);
        let papers = Papers::make(&town.place.path("papers"));
        let mut ways = bare(service, &papers);
        ways.extend(town.ways());
        let (others, missing) = peers::all(&Ground { service, papers: &papers, folder: town.place.path("peers") });
        ways.extend(others);
        ways.retain(|way| self.wants_way(way));
        for way in ways.iter().filter(|way| !way.version.is_empty()) {
            table.note(format!("  {}: {}", way.name, way.version));
        }
        for missing in missing {
            table.note(format!("  {missing}"));
        }
        let pace = if self.quick { Pace { rounds: 3, seconds: 1.0 } } else { Pace { rounds: 7, seconds: 3.0 } };
        if self.wants("bulk") {
            carrying::bulk(table, &ways, pace);
        }
        if self.wants("trips") {
            carrying::round_trips(table, &ways, pace);
        }
        if self.wants("openings") {
            carrying::openings(table, &ways, pace);
        }
    }
}
