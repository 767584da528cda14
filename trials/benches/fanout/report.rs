//! The table: what was measured, on what, beside whom, and the target.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use trials::load::meter;

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub what: String,
    pub run: usize,
    #[serde(skip)]
    pub sent: Instant,
    /// The machine's load when it began: others may be at work.
    pub load: String,
    /// In seconds from the moment at which the entry was sent: until it was durable and acknowledged.
    pub accepted: f64,
    /// Until so many nodes had received and verified it.
    pub half: f64,
    pub most: f64,
    pub all: f64,
    /// Until the gateway's disk had the reports of all.
    pub stored: Option<f64>,
    /// Processor time for each node, in microseconds: with the reports, and until all had verified.
    pub gateway_us: f64,
    pub gateway_us_verified: f64,
    pub nodes_us: f64,
    pub nodes_us_verified: f64,
    pub others_cores: f64,
    pub target: Option<Target>,
    pub note: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Target {
    pub words: String,
    /// Nothing if there were fewer nodes than the target speaks of.
    pub met: Option<bool>,
}

impl Target {
    fn print(&self) {
        let met = match self.met {
            Some(true) => "MET",
            Some(false) => "MISSED",
            None => "not judged: it speaks of 10,000 nodes",
        };
        println!("{:>34} target {}: {met}", "", self.words);
    }
}

impl Row {
    #[must_use]
    pub fn asking(mut self, words: &str, seconds: f64, full: bool) -> Self {
        let met = full.then_some(self.most <= seconds);
        self.target = Some(Target { words: format!("{words} <= {seconds} s"), met });
        self
    }

    #[must_use]
    pub fn noting(mut self, note: String) -> Self {
        self.note = Some(note);
        self
    }

    fn print(&self) {
        let stored = self.stored.map_or("never".to_owned(), |seconds| format!("{seconds:.2}"));
        println!(
            "{:<34} {:>6.0} {:>6.2} {:>6.2} {:>6.2} {:>6} {:>5.0}+{:<5.0} {:>5.0}+{:<5.0} {:>5.1} {:>6}",
            format!("{} ({})", self.what, self.run),
            self.accepted * 1e3,
            self.half,
            self.most,
            self.all,
            stored,
            self.gateway_us_verified,
            self.gateway_us - self.gateway_us_verified,
            self.nodes_us_verified,
            self.nodes_us - self.nodes_us_verified,
            self.others_cores,
            self.load
        );
        if let Some(target) = &self.target {
            target.print();
        }
        if let Some(note) = &self.note {
            println!("{:>34} {note}", "");
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Rest {
    pub seconds: f64,
    pub resident_mb: f64,
    pub private_mb: f64,
    pub gateway_percent: f64,
    pub nodes_percent: f64,
    pub others_cores: f64,
}

pub struct Table {
    quiet: bool,
    nodes: usize,
    bytes_each: f64,
    rest: Option<Rest>,
    rows: Vec<Row>,
    targets: Vec<Target>,
    notes: Vec<String>,
}

impl Table {
    pub fn new(folder: &Path, nodes: usize, quiet: bool) -> Self {
        if !quiet {
            println!(
                "gateway and nodes share {} cores ({}); ledger on {}; load {}",
                meter::cores(),
                meter::processor(),
                meter::disk(folder),
                meter::load()
            );
            println!("{nodes} nodes in another process, each with its keys, SVID, address and long poll of 45 to 55 s");
        }
        Self { quiet, nodes, bytes_each: 0.0, rest: None, rows: Vec::new(), targets: Vec::new(), notes: Vec::new() }
    }

    pub fn note(&mut self, note: String) {
        if !self.quiet {
            println!("{note}");
        }
        self.notes.push(note);
    }

    pub fn connected(&mut self, bytes: u64, count: usize) {
        let wide = |number: u64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
        self.bytes_each = wide(bytes) / f64::from(u32::try_from(count).unwrap_or(1));
        if !self.quiet {
            println!("{:.1} KiB of the gateway's memory per connection", self.bytes_each / 1024.0);
        }
    }

    pub fn rested(&mut self, rest: Rest) {
        let full = self.nodes == super::NODES;
        let target = |words: &str, met: bool| Target { words: words.to_owned(), met: full.then_some(met) };
        let targets =
            [target("<= 300 MB", rest.resident_mb <= 300.0), target("< 2 % of a core", rest.gateway_percent < 2.0)];
        if !self.quiet {
            println!(
                "at rest for {:.0} s: gateway {:.0} MB resident ({:.0} its own), {:.2} % of a core; nodes {:.2} % of \
                 one; others {:.1} cores",
                rest.seconds,
                rest.resident_mb,
                rest.private_mb,
                rest.gateway_percent,
                rest.nodes_percent,
                rest.others_cores
            );
            targets.iter().for_each(Target::print);
        }
        self.targets.extend(targets);
        self.rest = Some(rest);
    }

    pub fn add(&mut self, row: Row) {
        if !self.quiet {
            if self.rows.is_empty() {
                print_head();
            }
            row.print();
        }
        self.rows.push(row);
    }

    pub fn end(self) {
        if self.quiet {
            let table = serde_json::json!({
                "nodes": self.nodes, "bytes_per_connection": self.bytes_each, "rest": self.rest,
                "rest_targets": self.targets, "rows": self.rows, "notes": self.notes,
            });
            println!("{table}");
        } else {
            let all = self.targets.iter().chain(self.rows.iter().filter_map(|row| row.target.as_ref()));
            println!("\n{} targets missed", all.filter(|target| target.met == Some(false)).count());
        }
    }
}

fn print_head() {
    println!(
        "\n{:<34} {:>6} {:>6} {:>6} {:>6} {:>6} {:>11} {:>11} {:>5} {:>6}",
        "from the moment it is sent",
        "taken",
        "50 %",
        "99 %",
        "all",
        "stored",
        "gateway us",
        "nodes us",
        "cores",
        "load"
    );
    println!(
        "{:<34} {:>6} {:>6} {:>6} {:>6} {:>6} {:>11} {:>11} {:>5}",
        "seconds; processor time each", "ms", "", "", "", "all", "until+after", "until+after", "other"
    );
}
