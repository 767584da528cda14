//! Bulk, small round trips and new connections: every way in turn, again and again, so that what else the machine does falls
//! on all alike; medians.

use crate::load::Kind;
use crate::report::{Row, Table, Target, Values, median};
use crate::way::{Measured, Way};

/// How often, and for how many seconds.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub rounds: usize,
    pub seconds: f64,
}

const GIB: f64 = (1_u64 << 30) as f64;
/// Connections that are opened at the same time.
const OPENERS: usize = 16;
const LEAST_BULK: f64 = 0.95;

pub fn bulk(table: &mut Table, ways: &[Way], pace: Pace) {
    table.note(
        "bulk: from the caller to the service, which compares every byte. Gbit/s per core and CPU s per GiB are of the \
         processes that carry: near and far end; relayed, also the relay, which carries TLS whatever the caller prefers"
            .to_owned(),
    );
    for streams in [1, 100] {
        let values = rounds(ways, pace, |way| {
            let measured @ Measured { done, cpu } = way.measure(Kind::Bulk, streams, pace.seconds);
            let bits = done.bytes as f64 * 8.0 / 1e9;
            let mut values = Values(vec![("Gbit/s", bits / done.seconds)]);
            if !way.processes.is_empty() {
                values.push("Gbit/s per core", bits / cpu);
                values.push("CPU s per GiB", cpu / (done.bytes as f64 / GIB));
            }
            (measured, values)
        });
        for (way, values) in ways.iter().zip(values) {
            let bare =
                way.against.filter(|_| is_direct(way)).and_then(|bare| table.value("bulk", bare, streams, "Gbit/s"));
            let times = bare.and_then(|bare| Some(values.get("Gbit/s")? / bare));
            let words = format!(">= {LEAST_BULK} x the bare forwarder");
            let target = times.map(|times| Target { words, met: times >= LEAST_BULK });
            add(table, ("bulk", streams), way, values, target);
        }
    }
}

pub fn round_trips(table: &mut Table, ways: &[Way], pace: Pace) {
    table.note(
        "round trip: 64 bytes there and back; added is over plain TCP to the same service in the same run".to_owned(),
    );
    for streams in [1, 100] {
        let values = rounds(ways, pace, |way| {
            let measured @ Measured { done, .. } = way.measure(Kind::RoundTrips, streams, pace.seconds);
            (measured, Values(vec![("us p50", done.half), ("us p99", done.most)]))
        });
        for (way, mut values) in ways.iter().zip(values) {
            let plain = |name| table.value("round trip", "plain TCP", streams, name);
            if let (Some(half), Some(most)) = (plain("us p50"), plain("us p99")) {
                let added = [("us p50 added", half, "us p50"), ("us p99 added", most, "us p99")];
                for (name, plain, of) in added {
                    values.push(name, values.get(of).unwrap_or(f64::NAN) - plain);
                }
            }
            let target = values.get("us p50 added").filter(|_| streams == 1 && is_direct(way));
            let target = target
                .map(|added| Target { words: "p50 <= 60 us added over plain TCP".to_owned(), met: added <= 60.0 });
            add(table, ("round trip", streams), way, values, target);
        }
    }
}

pub fn openings(table: &mut Table, ways: &[Way], pace: Pace) {
    table.note(format!(
        "new connections: opened at the way's port (of the tunnel: a forward), a byte there and back, ended by both sides; \
         {OPENERS} at a time. The tunnel uses connections between nodes again; bare rustls, stunnel and haproxy make a \
         handshake for each"
    ));
    let values = rounds(ways, pace, |way| {
        let measured @ Measured { done, cpu } = way.measure(Kind::Openings, OPENERS, pace.seconds);
        let count = f64::from(u32::try_from(done.count).unwrap_or(u32::MAX));
        let mut values = Values(vec![("per s", count / done.seconds), ("us p50", done.half), ("us p99", done.most)]);
        if !way.processes.is_empty() {
            values.push("CPU us each", cpu * 1e6 / count);
        }
        (measured, values)
    });
    for (way, values) in ways.iter().zip(values) {
        add(table, ("new connections", OPENERS), way, values, None);
    }
}

/// For each way the medians of its rounds.
fn rounds(ways: &[Way], pace: Pace, once: impl Fn(&Way) -> (Measured, Values)) -> Vec<Values> {
    let mut all: Vec<Vec<(&'static str, Vec<f64>)>> = ways.iter().map(|_| Vec::new()).collect();
    for _ in 0..pace.rounds {
        for (way, seen) in ways.iter().zip(&mut all) {
            let (Measured { done, .. }, mut values) = once(way);
            if done.refused > 0 {
                values.push("refused first", done.refused as f64);
            }
            for (name, value) in values.0 {
                match seen.iter_mut().find(|(own, _)| *own == name) {
                    Some((_, all)) => all.push(value),
                    None => seen.push((name, vec![value])),
                }
            }
        }
    }
    let medians = |seen: Vec<(&'static str, Vec<f64>)>| seen.into_iter().map(|(name, all)| (name, median(all)));
    all.into_iter().map(|seen| Values(medians(seen).collect())).collect()
}

/// A tunnel from node to node, with no relay between.
fn is_direct(way: &Way) -> bool {
    way.against.is_some() && way.name != "tunnel, relayed"
}

fn add(table: &mut Table, (part, streams): (&'static str, usize), way: &Way, values: Values, target: Option<Target>) {
    let row = Row::new(part, &way.name, streams, values);
    table.row(Row { target, ..row }, way.against);
}
