//! What is known of the nodes that were called: by it the transport is chosen, and `status` tells it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use identity::principal::NodeName;
use manifest::stored::Transport;

use crate::control::PeerView;
use crate::dial::At;
use crate::dial::choose::{By, Choice, LATELY, Measured, RoundTrip};

/// Nodes that are remembered although they never answered.
const MOST: usize = 16_384;

#[derive(Debug, Default)]
pub struct Facts(Mutex<HashMap<NodeName, Fact>>);

#[derive(Debug, Default)]
struct Fact {
    tls_failed: Option<Instant>,
    quic_failed: Option<Instant>,
    crowded: Option<Instant>,
    /// As a relay, however well it is reached itself.
    brought_nobody: Option<Instant>,
    round_trip: Option<(Duration, Instant)>,
    /// Over what it did last, also if nothing was carried.
    answered: Option<By>,
    used: Option<(By, &'static str)>,
    head: u64,
    through: Option<NodeName>,
    problem: Option<String>,
    connections: Arc<AtomicUsize>,
    streams: Arc<AtomicUsize>,
}

/// Counts as long as it is held.
#[derive(Debug)]
pub struct Counted {
    at: Arc<AtomicUsize>,
    /// At the relay in between, too.
    through: Option<Arc<AtomicUsize>>,
}

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self { at: Arc::clone(count), through: None }
    }

    fn goes_through(&mut self, relay: &Arc<AtomicUsize>) {
        relay.fetch_add(1, Ordering::Relaxed);
        self.through = Some(Arc::clone(relay));
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        for count in std::iter::once(&self.at).chain(&self.through) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Facts {
    pub fn measured(&self, node: &NodeName) -> Measured {
        let facts = self.facts();
        let Some(fact) = facts.get(node) else {
            return Measured::default();
        };
        let ago = |at: Option<Instant>| at.map(|at| at.elapsed());
        let round_trip = fact.round_trip.map(|(time, at)| RoundTrip { time, ago: at.elapsed() });
        Measured { tls_failed: ago(fact.tls_failed), quic_failed: ago(fact.quic_failed), round_trip }
    }

    /// A connection that is used again has measured on.
    pub fn still(&self, node: &NodeName, round_trip: Duration) {
        if let Some(fact) = self.facts().get_mut(node) {
            fact.round_trip = Some((round_trip, Instant::now()));
        }
    }

    /// Those that were not reached lately come last; else the order stays.
    pub fn best_first(&self, mut places: Vec<At>) -> Vec<At> {
        places.sort_by_cached_key(|(node, _)| self.is_dead(node));
        places
    }

    /// Did both transports fail lately?
    pub fn is_dead(&self, node: &NodeName) -> bool {
        self.failed_lately(node, By::Tls) && self.failed_lately(node, By::Quic)
    }

    pub fn failed_lately(&self, node: &NodeName, by: By) -> bool {
        let failed = self.facts().get(node).and_then(|fact| match by {
            By::Tls => fact.tls_failed,
            By::Quic => fact.quic_failed,
        });
        failed.is_some_and(|at| at.elapsed() < LATELY)
    }

    /// Could it not be reached lately, or did it bring nobody? They are called over TLS alone.
    pub fn is_bad_relay(&self, relay: &NodeName) -> bool {
        let brought_nobody = self.facts().get(relay).and_then(|fact| fact.brought_nobody);
        brought_nobody.is_some_and(|at| at.elapsed() < LATELY) || self.failed_lately(relay, By::Tls)
    }

    /// A relay that was reached, and said nothing, or yes and then nothing.
    pub fn brought_nobody(&self, relay: &NodeName, why: &str) {
        let mut facts = self.facts();
        let fact = facts.entry(relay.clone()).or_default();
        (fact.brought_nobody, fact.problem) = (Some(Instant::now()), Some(why.to_owned()));
    }

    pub fn failed(&self, node: &NodeName, by: By, why: &str) {
        let mut facts = self.facts();
        // Names that nobody ever answered under can be made up.
        if facts.len() >= MOST && !facts.contains_key(node) {
            return;
        }
        let fact = facts.entry(node.clone()).or_default();
        let at = Some(Instant::now());
        match by {
            By::Tls => fact.tls_failed = at,
            By::Quic => fact.quic_failed = at,
        }
        fact.problem = Some(format!("{}: {why}", by.word()));
    }

    /// It took no more connections over QUIC from this node.
    pub fn crowded(&self, node: &NodeName) {
        if let Some(fact) = self.facts().get_mut(node) {
            fact.crowded = Some(Instant::now());
        }
    }

    pub fn is_crowded(&self, node: &NodeName) -> bool {
        self.facts().get(node).and_then(|fact| fact.crowded).is_some_and(|at| at.elapsed() < LATELY)
    }

    /// A new connection; counted as long as the answer is held.
    pub fn reached(&self, node: &NodeName, by: By, (round_trip, head): (Duration, u64)) -> Counted {
        let mut facts = self.facts();
        let fact = facts.entry(node.clone()).or_default();
        match by {
            By::Tls => fact.tls_failed = None,
            By::Quic => fact.quic_failed = None,
        }
        if fact.tls_failed.is_none() && fact.quic_failed.is_none() {
            fact.problem = None;
        }
        (fact.round_trip, fact.head) = (Some((round_trip, Instant::now())), head);
        fact.answered = Some(by);
        Counted::new(&fact.connections)
    }

    /// The same, by a relay.
    pub fn reached_through(&self, node: &NodeName, relay: &NodeName, way: (Duration, u64)) -> Counted {
        let mut counted = self.reached(node, By::Tls, way);
        let mut facts = self.facts();
        let between = facts.entry(relay.clone()).or_default();
        between.brought_nobody = None;
        counted.goes_through(&between.connections);
        let fact = facts.entry(node.clone()).or_default();
        fact.through = Some(relay.clone());
        fact.used = Some((By::Tls, "it has no address: a relay carries to it"));
        counted
    }

    /// A relay that was reached to carry to others, or to be waited at.
    pub fn is_relay(&self, relay: &NodeName) {
        self.facts().entry(relay.clone()).or_default().used.get_or_insert((By::Tls, "as a relay"));
    }

    /// What carries streams to it now, and why.
    pub fn used(&self, node: &NodeName, by: By, choice: Choice) {
        let why = if by == choice.first { choice.why } else { "the other one did not answer" };
        let mut facts = self.facts();
        let fact = facts.entry(node.clone()).or_default();
        (fact.used, fact.through) = (Some((by, why)), None);
    }

    pub fn streams(&self, node: &NodeName) -> Counted {
        Counted::new(&self.facts().entry(node.clone()).or_default().streams)
    }

    pub fn views(&self) -> Vec<PeerView> {
        let facts = self.facts();
        let view = |(node, fact): (&NodeName, &Fact)| PeerView {
            node: node.clone(),
            transport: match fact.used.map(|(by, _)| by).or(fact.answered) {
                Some(By::Tls) => Transport::Tls,
                Some(By::Quic) => Transport::Quic,
                None => Transport::Auto,
            },
            why: match (fact.used, fact.answered) {
                (Some((_, why)), _) => why,
                (None, Some(_)) => "it was only tried",
                (None, None) => "it was not reached yet",
            }
            .to_owned(),
            through: fact.through.clone(),
            connections: fact.connections.load(Ordering::Relaxed),
            streams: fact.streams.load(Ordering::Relaxed),
            head: fact.head,
            round_trip_us: fact.round_trip.and_then(|(time, _)| u64::try_from(time.as_micros()).ok()),
            problem: fact.problem.clone(),
        };
        let mut views: Vec<PeerView> = facts.iter().map(view).collect();
        views.sort_by(|a, b| a.node.cmp(&b.node));
        views
    }

    fn facts(&self) -> MutexGuard<'_, HashMap<NodeName, Fact>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(facts: &Facts, node: &str) -> (Transport, String) {
        let view = facts.views().into_iter().find(|view| view.node.as_str() == node).unwrap();
        (view.transport, view.why)
    }

    #[test]
    fn a_relay_that_was_reached_is_told_so() {
        let facts = Facts::default();
        let [nas, vm] = ["nas", "vm"].map(|name| name.parse::<NodeName>().unwrap());
        facts.failed(&vm, By::Tls, "it did not answer");
        assert_eq!(told(&facts, "vm"), (Transport::Auto, "it was not reached yet".to_owned()));
        let way = (Duration::from_micros(167), 3);
        drop(facts.reached(&vm, By::Tls, way));
        assert_eq!(told(&facts, "vm"), (Transport::Tls, "it was only tried".to_owned()));
        facts.is_relay(&vm);
        let connections = || facts.views().iter().map(|view| view.connections).collect::<Vec<_>>();
        let to_nas = facts.reached_through(&nas, &vm, way);
        assert_eq!(connections(), [1, 1]);
        drop(to_nas);
        assert_eq!(connections(), [0, 0]);
        assert_eq!(told(&facts, "vm"), (Transport::Tls, "as a relay".to_owned()));
        assert_eq!(told(&facts, "nas").1, "it has no address: a relay carries to it");
        facts.used(&vm, By::Quic, Choice { first: By::Quic, why: "it is far away" });
        assert_eq!(told(&facts, "vm"), (Transport::Quic, "it is far away".to_owned()));
    }
}
