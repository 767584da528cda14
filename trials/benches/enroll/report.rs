//! The table: what was measured, on what, and the target beside it.

use serde::Serialize;
use trials::load::meter;

use crate::floor::Floor;

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub what: String,
    pub clients: usize,
    pub done: usize,
    pub seconds: f64,
    pub per_second: f64,
    /// Processor time for each, in milliseconds.
    pub gateway_ms: f64,
    pub client_ms: f64,
    /// The crypto floor of the gateway's part, and how often it fits in.
    pub floor_ms: f64,
    pub times_floor: f64,
    /// Cores that others took meanwhile: with much of it, a rate says little.
    pub others_cores: f64,
    pub targets: Vec<Target>,
    pub note: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Target {
    pub words: String,
    pub met: bool,
}

impl Row {
    #[must_use]
    pub fn at_least(mut self, per_second: f64) -> Self {
        let met = self.per_second >= per_second;
        self.targets.push(Target { words: format!(">= {per_second}/s"), met });
        self
    }

    #[must_use]
    pub fn within(mut self, seconds: f64) -> Self {
        let met = self.seconds <= seconds;
        self.targets.push(Target { words: format!("<= {seconds} s"), met });
        self
    }

    #[must_use]
    pub fn half_within(mut self, median_ms: f64, target_ms: f64) -> Self {
        self.targets.push(Target { words: format!("half within {target_ms} ms"), met: median_ms <= target_ms });
        self
    }

    #[must_use]
    pub fn costing(mut self, gateway_ms: f64) -> Self {
        let met = self.gateway_ms <= gateway_ms;
        self.targets.push(Target { words: format!("<= {gateway_ms} ms of the gateway's CPU"), met });
        self
    }

    #[must_use]
    pub fn noting(mut self, note: String) -> Self {
        self.note = Some(note);
        self
    }

    pub fn print(&self) {
        println!(
            "{:<38} {:>4} {:>8.0} {:>8.2} {:>9.3} {:>8.3} {:>7.1}x {:>7.1}",
            self.what,
            self.clients,
            self.per_second,
            self.seconds,
            self.gateway_ms,
            self.client_ms,
            self.times_floor,
            self.others_cores
        );
        for target in &self.targets {
            println!("{:>43} target {}: {}", "", target.words, if target.met { "met" } else { "MISSED" });
        }
        if let Some(note) = &self.note {
            println!("{:>43} {note}", "");
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Surroundings {
    pub processor: String,
    pub cores: usize,
    pub disk: String,
    pub fsync_us_median: u128,
    pub fsync_us_slowest: u128,
    pub floor: Floor,
}

impl Surroundings {
    pub fn look(folder: &std::path::Path) -> Self {
        let (median, slowest) = meter::fsync(folder).unwrap();
        Self {
            processor: meter::processor(),
            cores: meter::cores(),
            disk: meter::disk(folder),
            fsync_us_median: median.as_micros(),
            fsync_us_slowest: slowest.as_micros(),
            floor: Floor::measure(),
        }
    }

    pub fn print(&self) {
        println!(
            "gateway and clients share {} cores ({}); ledger on {}, where 4 KiB take {} us to be durable (slowest {} us)",
            self.cores, self.processor, self.disk, self.fsync_us_median, self.fsync_us_slowest
        );
        println!("clients are another process, at many 127/8 addresses; every answer is on disk before it is given");
        println!("crypto floor, processor time: {}", self.floor.words());
        println!(
            "\n{:<38} {:>4} {:>8} {:>8} {:>9} {:>8} {:>8} {:>7}",
            "", "at", "per", "seconds", "gateway's", "client's", "times", "cores"
        );
        println!(
            "{:<38} {:>4} {:>8} {:>8} {:>9} {:>8} {:>8} {:>7}",
            "", "once", "second", "in all", "ms each", "ms each", "floor", "others"
        );
    }
}
