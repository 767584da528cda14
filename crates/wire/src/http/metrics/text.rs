//! The text format that Prometheus reads. Names, helps and labels are words of this program, never of a stranger.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use identity::time::Timestamp;

/// A page that grows by one family at a time.
#[derive(Debug, Default)]
pub struct Page(String);

#[derive(Debug, Clone, Copy)]
pub enum MetricKind {
    Counter,
    Gauge,
}

impl Page {
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.begin(name, help, "counter");
        self.line(name, "", value);
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: i64) {
        self.begin(name, help, "gauge");
        self.line(name, "", value);
    }

    /// Absent while it is not known.
    pub fn moment(&mut self, name: &str, help: &str, at: Option<Timestamp>) {
        if let Some(at) = at {
            self.gauge(name, help, at.unix());
        }
    }

    /// One family with one label, whose values this program chose.
    pub fn labeled<'a>(
        &mut self,
        kind: MetricKind,
        name: &str,
        help: &str,
        label: &str,
        rows: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        self.begin(name, help, kind);
        for (value, count) in rows {
            self.line(name, &format!("{{{label}=\"{}\"}}", escaped(value)), count);
        }
    }

    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.begin(name, help, "histogram");
        let mut sum = 0;
        for (bound, count) in Histogram::BOUNDS.iter().zip(&histogram.counts) {
            sum += count.load(Ordering::Relaxed);
            let bound = bound.as_secs_f64();
            self.line(name, &format!("_bucket{{le=\"{bound}\"}}"), sum);
        }
        sum += histogram.beyond.load(Ordering::Relaxed);
        self.line(name, "_bucket{le=\"+Inf\"}", sum);
        let total = Duration::from_micros(histogram.micros.load(Ordering::Relaxed));
        self.line(name, "_sum", total.as_secs_f64());
        self.line(name, "_count", sum);
    }

    pub fn into_text(self) -> String {
        self.0
    }

    fn begin(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, more: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{more} {value}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// How long something took, in buckets from a tenth of a millisecond to five seconds.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; Self::BOUNDS.len()],
    beyond: AtomicU64,
    micros: AtomicU64,
}

impl Histogram {
    const BOUNDS: [Duration; 12] = [
        Duration::from_micros(100),
        Duration::from_micros(300),
        Duration::from_millis(1),
        Duration::from_millis(3),
        Duration::from_millis(10),
        Duration::from_millis(30),
        Duration::from_millis(100),
        Duration::from_millis(300),
        Duration::from_secs(1),
        Duration::from_secs(2),
        Duration::from_secs(3),
        Duration::from_secs(5),
    ];

    pub fn took(&self, time: Duration) {
        let bucket = Self::BOUNDS.iter().zip(&self.counts).find(|(bound, _)| time <= **bound);
        bucket.map_or(&self.beyond, |(_, count)| count).fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up_and_what_is_slower_than_all_is_counted() {
        let histogram = Histogram::default();
        for millis in [1, 2, 400, 60_000] {
            histogram.took(Duration::from_millis(millis));
        }
        let mut page = Page::default();
        page.histogram("x_seconds", "x", &histogram);
        let text = page.into_text();
        for line in [
            "{le=\"0.001\"} 1\n",
            "{le=\"0.003\"} 2\n",
            "{le=\"5\"} 3\n",
            "{le=\"+Inf\"} 4\n",
            "x_seconds_sum 60.403\n",
        ] {
            assert!(text.contains(line), "no `{line}` in {text}");
        }
    }

    #[test]
    fn a_label_cannot_break_out() {
        let mut page = Page::default();
        page.labeled(MetricKind::Gauge, "x", "x", "y", [("a\"} 1\nz 9", 1)]);
        assert!(page.into_text().ends_with("x{y=\"a\\\"} 1\\nz 9\"} 1\n"));
    }
}
