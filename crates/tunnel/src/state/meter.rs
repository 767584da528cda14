//! Metrics, what is counted: per service and principal, per reason of refusal, and what was carried for others.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use identity::principal::{Name, Principal};

use crate::control::view::{HandshakeCounts, RelayCounts, ServiceCounts};

/// So many pairs of service and principal are told apart; a flood of further ones is counted together with none of them.
const MOST: usize = 20_000;
/// Reasons are few words of ours, never a stranger's.
const REASONS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Meter {
    rows: Mutex<HashMap<Key, Arc<ServiceMeter>>>,
    failed: Mutex<BTreeMap<&'static str, u64>>,
    /// Programs of this machine that were sent away.
    programs: Mutex<BTreeMap<&'static str, u64>>,
    handshakes: AtomicU64,
    calls: AtomicU64,
    pub relayed: RelayMeter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    service: Name,
    principal: Principal,
    incoming: bool,
}

/// Of one service and one principal.
#[derive(Debug, Default)]
pub(crate) struct ServiceMeter {
    open: AtomicU64,
    streams: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct RelayMeter {
    pub waiting: AtomicU64,
    pub open: AtomicU64,
    pub carried: AtomicU64,
    pub bytes: AtomicU64,
}

impl Meter {
    pub(crate) fn service(&self, service: &Name, principal: &Principal, incoming: bool) -> Arc<ServiceMeter> {
        let key = Key { service: service.clone(), principal: principal.clone(), incoming };
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.len() >= MOST && !rows.contains_key(&key) {
            return Arc::default();
        }
        Arc::clone(rows.entry(key).or_default())
    }

    pub(crate) fn shook_hands(&self) {
        self.handshakes.fetch_add(1, Ordering::Relaxed);
    }

    /// The same, with one that was called.
    pub(crate) fn called(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed_to_shake_hands(&self, why: &'static str) {
        add(&mut self.failed.lock().unwrap_or_else(PoisonError::into_inner), why);
    }

    /// A program of this machine, and no peer.
    pub(crate) fn sent_away(&self, why: &'static str) {
        add(&mut self.programs.lock().unwrap_or_else(PoisonError::into_inner), why);
    }

    pub(crate) fn programs(&self) -> BTreeMap<String, u64> {
        owned(&self.programs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn handshakes(&self) -> HandshakeCounts {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, called) = (self.handshakes.load(Ordering::Relaxed), self.calls.load(Ordering::Relaxed));
        HandshakeCounts { done, called, failed: owned(&failed) }
    }

    pub(crate) fn counts(&self) -> Vec<ServiceCounts> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts: Vec<ServiceCounts> = rows.iter().map(|(key, row)| row.count(key)).collect();
        counts.sort_by(|a, b| (&a.service, &a.principal, a.incoming).cmp(&(&b.service, &b.principal, b.incoming)));
        counts
    }
}

impl ServiceMeter {
    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// From the caller to the service.
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self, why: &'static str) {
        add(&mut self.refused.lock().unwrap_or_else(PoisonError::into_inner), why);
    }

    fn count(&self, key: &Key) -> ServiceCounts {
        ServiceCounts {
            service: key.service.clone(),
            principal: key.principal.clone(),
            incoming: key.incoming,
            open: self.open.load(Ordering::Relaxed),
            streams: self.streams.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            refused: owned(&self.refused.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl RelayMeter {
    pub(crate) fn view(&self) -> RelayCounts {
        RelayCounts {
            waiting: self.waiting.load(Ordering::Relaxed),
            open: self.open.load(Ordering::Relaxed),
            carried: self.carried.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

fn add(counts: &mut BTreeMap<&'static str, u64>, why: &'static str) {
    if counts.len() < REASONS || counts.contains_key(why) {
        *counts.entry(why).or_default() += 1;
    }
}

fn owned(counts: &BTreeMap<&'static str, u64>) -> BTreeMap<String, u64> {
    counts.iter().map(|(why, count)| ((*why).to_owned(), *count)).collect()
}
