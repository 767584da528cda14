//! The table: what was measured, on what, beside what, and how far it is from its target.

use serde::{Serialize, Serializer};
use trials::load::meter;

/// One way under one load; medians of the runs.
#[derive(Debug, Serialize)]
pub struct Row {
    pub part: &'static str,
    pub way: String,
    pub streams: usize,
    pub values: Values,
    /// What it is compared to, and how many times as much each value is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<&'static str>,
    pub ratios: Values,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

/// By name, which holds the unit; in the order in which they are told.
#[derive(Debug, Default, Clone)]
pub struct Values(pub Vec<(&'static str, f64)>);

impl Values {
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    pub fn push(&mut self, name: &'static str, value: f64) {
        self.0.push((name, value));
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

impl Row {
    pub fn new(part: &'static str, way: &str, streams: usize, values: Values) -> Self {
        let (against, ratios, target) = (None, Values::default(), None);
        Self { part, way: way.to_owned(), streams, values, against, ratios, target }
    }
}

#[derive(Debug, Serialize)]
pub struct Target {
    pub words: String,
    pub met: bool,
}

/// What is not better or worse than another's.
const PLAIN: [&str; 2] = ["alive", "refused first"];

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
        table.note(
            "x: times as much as the bare forwarder of the same transport, in turns with it in the same run".to_owned(),
        );
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
    pub fn row(&mut self, mut row: Row, against: Option<&'static str>) {
        let other = self.rows.iter().find(|other| {
            other.part == row.part && other.streams == row.streams && against.is_some_and(|name| other.way == name)
        });
        if let Some(other) = other {
            let ratio = |(name, value): &(&'static str, f64)| {
                let ratio = value / other.values.get(name)?;
                (ratio.is_finite() && !PLAIN.contains(name)).then_some((*name, ratio))
            };
            (row.against, row.ratios) = (against, Values(row.values.0.iter().filter_map(ratio).collect()));
        }
        let values: Vec<String> = row.values.0.iter().map(|(name, value)| told(name, *value, &row)).collect();
        self.say(&format!("  {:<18} {:>6} streams  {}", row.way, row.streams, values.join("  ")));
        if let Some(target) = &row.target {
            let met = if target.met { "met" } else { "MISSED" };
            self.say(&format!("  {:>33}  target {}: {met}", "", target.words));
        }
        self.rows.push(row);
    }

    pub fn value(&self, part: &str, way: &str, streams: usize, name: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.part == part && row.way == way && row.streams == streams)?;
        row.values.get(name)
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
