//! The table: what was measured, on what, and with which words.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use trials::load::meter::{self, Spread};

/// What one step took, until every node that was waited for had done its part.
#[derive(Debug, Serialize)]
pub struct Row {
    pub what: String,
    /// How many nodes were waited for, and how many did it.
    pub nodes: usize,
    pub done: usize,
    /// In seconds from the moment at which the step began.
    pub half: f64,
    pub most: f64,
    pub all: f64,
}

/// What the processes took during a step.
#[derive(Debug, Serialize)]
pub struct Cost {
    pub what: String,
    pub seconds: f64,
    pub command_seconds: f64,
    pub gateway_cpu_seconds: f64,
    pub gateway_cpu_ms_per_node: f64,
    pub gateway_peak_mb: f64,
    pub nodes_cpu_seconds: f64,
    pub others_cores: f64,
    pub load: String,
}

/// What had been spent when a step began.
pub struct Began {
    pub at: Instant,
    pid: u32,
    spent: (Duration, Duration, Duration),
}

impl Began {
    pub fn now(pid: u32) -> Self {
        meter::forget_peak(pid);
        Self { at: Instant::now(), pid, spent: spent(pid) }
    }

    pub fn cost(&self, what: String, command: Duration, nodes: usize) -> Cost {
        let (seconds, now) = (self.at.elapsed().as_secs_f64(), spent(self.pid));
        let gateway = now.0.saturating_sub(self.spent.0);
        let own = now.1.saturating_sub(self.spent.1);
        let others = now.2.saturating_sub(self.spent.2).saturating_sub(gateway + own);
        Cost {
            what,
            seconds,
            command_seconds: command.as_secs_f64(),
            gateway_cpu_seconds: gateway.as_secs_f64(),
            gateway_cpu_ms_per_node: gateway.as_secs_f64() * 1e3 / f64::from(u32::try_from(nodes).unwrap_or(1).max(1)),
            gateway_peak_mb: meter::megabytes(meter::peak(self.pid)),
            nodes_cpu_seconds: own.as_secs_f64(),
            others_cores: others.as_secs_f64() / seconds,
            load: meter::load(),
        }
    }
}

fn spent(pid: u32) -> (Duration, Duration, Duration) {
    (meter::cpu(pid), meter::cpu(std::process::id()), meter::machine_cpu())
}

pub struct Table {
    quiet: bool,
    nodes: usize,
    rows: Vec<Row>,
    costs: Vec<Cost>,
    notes: Vec<String>,
}

impl Table {
    pub fn new(folder: &Path, (nodes, off): (usize, usize), quiet: bool) -> Self {
        let table = Self { quiet, nodes, rows: Vec::new(), costs: Vec::new(), notes: Vec::new() };
        table.say(&format!(
            "gateway and nodes share {} cores ({}); ledger on {}; load {}",
            meter::cores(),
            meter::processor(),
            meter::disk(folder),
            meter::load()
        ));
        table.say(&format!(
            "{nodes} nodes in another process, {off} of them off; each with its keys, SVID, address and long poll of 45 to \
             55 s. There is no other program to compare it with"
        ));
        table
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            println!("{text}");
        }
    }

    pub fn note(&mut self, note: String) {
        self.say(&note);
        self.notes.push(note);
    }

    pub fn row(&mut self, what: &str, nodes: usize, spread: &Spread) {
        let row = Row {
            what: what.to_owned(),
            nodes,
            done: spread.count(),
            half: spread.took(50),
            most: spread.took(99),
            all: spread.took(100),
        };
        self.say(&format!(
            "  {:<58} 50 % {:>6.2} s  99 % {:>6.2} s  all {:>6.2} s  ({} of {})",
            row.what, row.half, row.most, row.all, row.done, row.nodes
        ));
        self.rows.push(row);
    }

    pub fn cost(&mut self, cost: Cost) {
        self.say(&format!(
            "  {}: the command {:.2} s, all {:.1} s; gateway {:.1} s of processor time ({:.2} ms a node), {:.0} MB at \
             most; nodes {:.1} s; others {:.1} cores; load {}",
            cost.what,
            cost.command_seconds,
            cost.seconds,
            cost.gateway_cpu_seconds,
            cost.gateway_cpu_ms_per_node,
            cost.gateway_peak_mb,
            cost.nodes_cpu_seconds,
            cost.others_cores,
            cost.load
        ));
        self.costs.push(cost);
    }

    pub fn end(self) {
        if self.quiet {
            let table = serde_json::json!({
                "nodes": self.nodes, "rows": self.rows, "costs": self.costs, "notes": self.notes,
            });
            println!("{table}");
        }
    }
}
