//! The table: what was measured, on what, beside what, and how far it is from its target.

use std::collections::BTreeMap;

use serde::Serialize;
use trials::meter;

/// One way under one load; medians of the runs.
#[derive(Debug, Serialize)]
pub struct Row {
    pub part: &'static str,
    pub way: String,
    pub streams: usize,
    /// By name, with its unit.
    pub values: BTreeMap<&'static str, f64>,
    /// What it is compared to, and by what times each value of that is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ratios: BTreeMap<&'static str, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

#[derive(Debug, Serialize)]
pub struct Target {
    pub words: String,
    pub met: bool,
}

pub struct Table {
    quiet: bool,
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Table {
    pub fn new(quiet: bool) -> Self {
        let mut table = Self { quiet, rows: Vec::new(), notes: Vec::new() };
        table.note(format!(
            "load, tunnels and service share {} cores ({}); {}; load {}",
            meter::cores(),
            meter::processor(),
            kernel(),
            meter::load()
        ));
        table
    }

    pub fn note(&mut self, note: String) {
        self.say(&note);
        self.notes.push(note);
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            println!("{text}");
        }
    }

    /// Compares it with a row of the same part that is there already.
    pub fn row(&mut self, mut row: Row, against: Option<&str>) {
        let other = self.rows.iter().find(|other| {
            other.part == row.part && other.streams == row.streams && against.is_some_and(|name| other.way == name)
        });
        if let Some(other) = other {
            row.against = against.map(str::to_owned);
            let ratio = |(name, value): (&&'static str, &f64)| Some((*name, value / other.values.get(name)?));
            row.ratios = row.values.iter().filter_map(ratio).collect();
        }
        let values: Vec<String> = row.values.iter().map(|(name, value)| told(name, *value, &row)).collect();
        self.say(&format!("  {:<18} {:>6} streams  {}", row.way, row.streams, values.join("  ")));
        if let Some(target) = &row.target {
            let met = if target.met { "met" } else { "MISSED" };
            self.say(&format!("  {:>33}  target {}: {met}", "", target.words));
        }
        self.rows.push(row);
    }

    pub fn value(&self, part: &str, way: &str, streams: usize, name: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.part == part && row.way == way && row.streams == streams)?;
        row.values.get(name).copied()
    }

    pub fn end(self) {
        if self.quiet {
            println!("{}", serde_json::json!({ "rows": self.rows, "notes": self.notes }));
        } else {
            println!("load {}", meter::load());
        }
    }
}

fn told(name: &str, value: f64, row: &Row) -> String {
    let digits = if value >= 1_000.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let ratio = row.ratios.get(name).map(|ratio| format!(" (x {ratio:.2})")).unwrap_or_default();
    format!("{value:>8.digits$} {name}{ratio}")
}

fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim())
}

/// The middle one; of an even number, the lower of the two.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}
