//! The health of nodes that were called (outlier detection): by it the transport is chosen, and `status` tells it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use identity::principal::NodeName;
use manifest::stored::Transport;

use crate::control::view::CalledView;
use crate::dial::choose::{Choice, LATELY, Measured, RoundTrip};
use crate::transport::protocol::Protocol;

/// Nodes that are remembered although they never answered.
const MOST: usize = 16_384;

#[derive(Debug, Default)]
pub(crate) struct PeerHealth(Mutex<HashMap<NodeName, NodeHealth>>);

#[derive(Debug, Default)]
struct NodeHealth {
    tls_failed: Option<Instant>,
    quic_failed: Option<Instant>,
    crowded: Option<Instant>,
    /// As a relay, however well it is reached itself.
    brought_nobody: Option<Instant>,
    round_trip: Option<(Duration, Instant)>,
    /// Over what it did last, also if nothing was carried.
    answered: Option<Protocol>,
    used: Option<(Protocol, &'static str)>,
    head: u64,
    through: Option<NodeName>,
    problem: Option<String>,
    connections: Arc<AtomicUsize>,
    streams: Arc<AtomicUsize>,
}

/// What was learned of a node when it was reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached {
    pub round_trip: Duration,
    /// The head that it goes by.
    pub head: u64,
}

/// Counts as long as it is held.
#[derive(Debug)]
pub(crate) struct Counted {
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

impl PeerHealth {
    pub(crate) fn measured(&self, node: &NodeName) -> Measured {
        let nodes = self.nodes();
        let Some(known) = nodes.get(node) else {
            return Measured::default();
        };
        let ago = |at: Option<Instant>| at.map(|at| at.elapsed());
        let round_trip = known.round_trip.map(|(time, at)| RoundTrip { time, ago: at.elapsed() });
        Measured { tls_failed: ago(known.tls_failed), quic_failed: ago(known.quic_failed), round_trip }
    }

    /// A connection that is used again has measured on.
    pub(crate) fn still(&self, node: &NodeName, round_trip: Duration) {
        if let Some(known) = self.nodes().get_mut(node) {
            known.round_trip = Some((round_trip, Instant::now()));
        }
    }

    /// Did both transports fail lately?
    pub(crate) fn is_dead(&self, node: &NodeName) -> bool {
        self.failed_lately(node, Protocol::Tls) && self.failed_lately(node, Protocol::Quic)
    }

    pub(crate) fn failed_lately(&self, node: &NodeName, protocol: Protocol) -> bool {
        let failed = self.nodes().get(node).and_then(|known| match protocol {
            Protocol::Tls => known.tls_failed,
            Protocol::Quic => known.quic_failed,
        });
        failed.is_some_and(|at| at.elapsed() < LATELY)
    }

    /// Could it not be reached lately, or did it bring nobody? They are called over TLS alone.
    pub(crate) fn is_bad_relay(&self, relay: &NodeName) -> bool {
        let brought_nobody = self.nodes().get(relay).and_then(|known| known.brought_nobody);
        brought_nobody.is_some_and(|at| at.elapsed() < LATELY) || self.failed_lately(relay, Protocol::Tls)
    }

    /// A relay that was reached, and said nothing, or yes and then nothing.
    pub(crate) fn brought_nobody(&self, relay: &NodeName, why: &str) {
        let mut nodes = self.nodes();
        let known = nodes.entry(relay.clone()).or_default();
        (known.brought_nobody, known.problem) = (Some(Instant::now()), Some(why.to_owned()));
    }

    pub(crate) fn failed(&self, node: &NodeName, protocol: Protocol, why: &str) {
        let mut nodes = self.nodes();
        // Names that nobody ever answered under can be made up.
        if nodes.len() >= MOST && !nodes.contains_key(node) {
            return;
        }
        let known = nodes.entry(node.clone()).or_default();
        let at = Some(Instant::now());
        match protocol {
            Protocol::Tls => known.tls_failed = at,
            Protocol::Quic => known.quic_failed = at,
        }
        known.problem = Some(format!("{}: {why}", protocol.word()));
    }

    /// It took no more connections over QUIC from this node.
    pub(crate) fn crowded(&self, node: &NodeName) {
        if let Some(known) = self.nodes().get_mut(node) {
            known.crowded = Some(Instant::now());
        }
    }

    pub(crate) fn is_crowded(&self, node: &NodeName) -> bool {
        self.nodes().get(node).and_then(|known| known.crowded).is_some_and(|at| at.elapsed() < LATELY)
    }

    /// A new connection; counted as long as the answer is held.
    pub(crate) fn reached(&self, node: &NodeName, protocol: Protocol, reached: Reached) -> Counted {
        let mut nodes = self.nodes();
        let known = nodes.entry(node.clone()).or_default();
        match protocol {
            Protocol::Tls => known.tls_failed = None,
            Protocol::Quic => known.quic_failed = None,
        }
        if known.tls_failed.is_none() && known.quic_failed.is_none() {
            known.problem = None;
        }
        (known.round_trip, known.head) = (Some((reached.round_trip, Instant::now())), reached.head);
        known.answered = Some(protocol);
        Counted::new(&known.connections)
    }

    /// The same, by a relay.
    pub(crate) fn reached_through(&self, node: &NodeName, relay: &NodeName, reached: Reached) -> Counted {
        let mut counted = self.reached(node, Protocol::Tls, reached);
        let mut nodes = self.nodes();
        let between = nodes.entry(relay.clone()).or_default();
        between.brought_nobody = None;
        counted.goes_through(&between.connections);
        let known = nodes.entry(node.clone()).or_default();
        known.through = Some(relay.clone());
        known.used = Some((Protocol::Tls, "it has no address: a relay carries to it"));
        counted
    }

    /// A relay that was reached to carry to others, or to be waited at.
    pub(crate) fn is_relay(&self, relay: &NodeName) {
        self.nodes().entry(relay.clone()).or_default().used.get_or_insert((Protocol::Tls, "as a relay"));
    }

    /// What carries streams to it now, and why.
    pub(crate) fn used(&self, node: &NodeName, protocol: Protocol, choice: Choice) {
        let why = if protocol == choice.first { choice.why } else { "the other one did not answer" };
        let mut nodes = self.nodes();
        let known = nodes.entry(node.clone()).or_default();
        (known.used, known.through) = (Some((protocol, why)), None);
    }

    pub(crate) fn streams(&self, node: &NodeName) -> Counted {
        Counted::new(&self.nodes().entry(node.clone()).or_default().streams)
    }

    pub(crate) fn views(&self) -> Vec<CalledView> {
        let nodes = self.nodes();
        let view = |(node, known): (&NodeName, &NodeHealth)| CalledView {
            node: node.clone(),
            transport: match known.used.map(|(protocol, _)| protocol).or(known.answered) {
                Some(Protocol::Tls) => Transport::Tls,
                Some(Protocol::Quic) => Transport::Quic,
                None => Transport::Auto,
            },
            why: match (known.used, known.answered) {
                (Some((_, why)), _) => why,
                (None, Some(_)) => "it was only tried",
                (None, None) => "it was not reached yet",
            }
            .to_owned(),
            through: known.through.clone(),
            connections: known.connections.load(Ordering::Relaxed),
            streams: known.streams.load(Ordering::Relaxed),
            head: known.head,
            round_trip_us: known.round_trip.and_then(|(time, _)| u64::try_from(time.as_micros()).ok()),
            problem: known.problem.clone(),
        };
        let mut views: Vec<CalledView> = nodes.iter().map(view).collect();
        views.sort_by(|a, b| a.node.cmp(&b.node));
        views
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<NodeName, NodeHealth>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(health: &PeerHealth, node: &str) -> (Transport, String) {
        let view = health.views().into_iter().find(|view| view.node.as_str() == node).unwrap();
        (view.transport, view.why)
    }

    #[test]
    fn a_relay_that_was_reached_is_told_so() {
        let health = PeerHealth::default();
        let [nas, vm] = ["nas", "vm"].map(|name| name.parse::<NodeName>().unwrap());
        health.failed(&vm, Protocol::Tls, "it did not answer");
        assert_eq!(told(&health, "vm"), (Transport::Auto, "it was not reached yet".to_owned()));
        let way = Reached { round_trip: Duration::from_micros(167), head: 3 };
        drop(health.reached(&vm, Protocol::Tls, way));
        assert_eq!(told(&health, "vm"), (Transport::Tls, "it was only tried".to_owned()));
        health.is_relay(&vm);
        let connections = || health.views().iter().map(|view| view.connections).collect::<Vec<_>>();
        let to_nas = health.reached_through(&nas, &vm, way);
        assert_eq!(connections(), [1, 1]);
        drop(to_nas);
        assert_eq!(connections(), [0, 0]);
        assert_eq!(told(&health, "vm"), (Transport::Tls, "as a relay".to_owned()));
        assert_eq!(told(&health, "nas").1, "it has no address: a relay carries to it");
        health.used(&vm, Protocol::Quic, Choice { first: Protocol::Quic, why: "it is far away" });
        assert_eq!(told(&health, "vm"), (Transport::Quic, "it is far away".to_owned()));
    }
}
