//! What the gateway counts while it works.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use org::refusal::Refusal;
use wire::http::metrics::text::{Histogram, MetricKind, Page};
use wire::permit::Ask;

#[derive(Debug, Default)]
pub struct Tally {
    requests: [AtomicU64; Ask::ALL.len()],
    strays: AtomicU64,
    issued: [AtomicU64; ISSUED.len()],
    /// By code: there are as many as `Refusal` has kinds.
    refusals: Mutex<BTreeMap<String, u64>>,
    turned_away: AtomicU64,
    commits: Histogram,
    failed_commits: AtomicU64,
}

const ISSUED: [(Ask, &str); 3] = [(Ask::Enroll, "join"), (Ask::Renew, "renewal"), (Ask::Return, "return")];

impl Tally {
    /// A request came; `None` if there is no such thing here.
    pub fn asked(&self, ask: Option<Ask>) {
        let place = Ask::ALL.iter().zip(&self.requests).find(|(known, _)| Some(**known) == ask);
        place.map_or(&self.strays, |(_, count)| count).fetch_add(1, Ordering::Relaxed);
    }

    pub fn answered(&self, ask: Ask) {
        if let Some((_, count)) = ISSUED.iter().zip(&self.issued).find(|((issuing, _), _)| *issuing == ask) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn refused(&self, refusal: &Refusal) {
        *self.refusals.lock().unwrap_or_else(PoisonError::into_inner).entry(refusal.code()).or_default() += 1;
    }

    /// There was no place, or the address had its share.
    pub fn turned_away(&self) {
        self.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    /// A batch of jobs was written, or could not be.
    pub fn committed(&self, took: Duration, done: bool) {
        if done {
            self.commits.took(took);
        } else {
            self.failed_commits.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn show(&self, page: &mut Page) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let requests = Ask::ALL.iter().map(|ask| ask.path()).zip(self.requests.iter().map(count));
        let (help, requests) = ("Requests that were read, by path.", requests.chain([("other", count(&self.strays))]));
        page.labeled(MetricKind::Counter, "freehold_gateway_requests_total", help, "path", requests);
        let issued = ISSUED.iter().map(|(_, word)| *word).zip(self.issued.iter().map(count));
        let help = "SVIDs that were handed out. A machine that runs its join again counts again.";
        page.labeled(MetricKind::Counter, "freehold_gateway_svids_issued_total", help, "by", issued);
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let refusals = refusals.iter().map(|(code, count)| (code.as_str(), *count));
        let help = "Requests that were refused, by code.";
        page.labeled(MetricKind::Counter, "freehold_gateway_refusals_total", help, "code", refusals);
        let help = "Connections closed at once: no place was left, or their address had its share.";
        page.counter("freehold_gateway_connections_turned_away_total", help, count(&self.turned_away));
        let help = "From the first job of a batch until the disk had it.";
        page.histogram("freehold_gateway_ledger_commit_seconds", help, &self.commits);
        let help = "Batches that the disk did not take; nothing of them was acknowledged.";
        page.counter("freehold_gateway_ledger_commit_failures_total", help, count(&self.failed_commits));
    }
}
