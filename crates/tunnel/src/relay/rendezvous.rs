//! The rendezvous at a relay: nodes without an address wait here, and so do callers of those that bring their next.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use identity::principal::{NodeName, PrincipalKind};
use org::member::peer::Peer;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::limit::connections::ConnectionPermit;
use crate::relay::fair_queue::FairQueue;
use crate::transport::tls::TlsConnection;

/// Connections of one node that wait: each is used once, and the node brings another.
const WAITING_OF_ONE: usize = 8;
const WAITING: usize = 4_096;
/// Whoever was here so lately brings its next connection.
const LATELY: Duration = Duration::from_secs(30);

/// Nodes that wait here.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    nodes: Mutex<HashMap<NodeName, Queue>>,
    /// Of nodes that have waited before that, nothing is known.
    since: Instant,
}

impl Default for Rendezvous {
    fn default() -> Self {
        Self { nodes: Mutex::default(), since: Instant::now() }
    }
}

/// Of one node: either connections wait for callers, or callers for connections.
#[derive(Debug)]
struct Queue {
    waiting: VecDeque<WaitingNode>,
    callers: FairQueue<oneshot::Sender<WaitingNode>>,
    /// When one was seen.
    last: Instant,
}

/// What there is of a node.
#[derive(Debug)]
pub(crate) enum Lookup {
    Waiting(WaitingNode),
    /// It was here a moment ago: its next connection comes in turn.
    Soon(oneshot::Receiver<WaitingNode>),
    Nothing,
}

/// A connection that waits; dropped, its keeper is told that nobody comes.
#[derive(Debug)]
pub(crate) struct WaitingNode {
    pub peer: Arc<Peer>,
    pub wanted: oneshot::Sender<oneshot::Sender<WaitingConnection>>,
}

/// A connection that waited, counted among those of its node for as long as it is there, whoever has it.
#[derive(Debug)]
pub(crate) struct WaitingConnection {
    pub connection: TlsConnection,
    pub _permit: Option<ConnectionPermit>,
}

impl Rendezvous {
    /// Nothing if it is full, or the peer is not a node itself.
    pub(crate) fn enter(&self, peer: &Arc<Peer>) -> Option<oneshot::Receiver<oneshot::Sender<WaitingConnection>>> {
        let (mut nodes, now) = (self.nodes(), Instant::now());
        nodes.retain(|_, queue| queue.is_of_use(now));
        let in_all: usize = nodes.values().map(|queue| queue.waiting.len()).sum();
        if peer.principal().kind() != PrincipalKind::Node || in_all >= WAITING {
            return None;
        }
        let own = nodes.entry(peer.node().clone()).or_insert_with(|| Queue::seen(now));
        if own.waiting.len() >= WAITING_OF_ONE {
            return None;
        }
        let (wanted, receiver) = oneshot::channel();
        own.arrive(WaitingNode { peer: Arc::clone(peer), wanted });
        own.last = now;
        drop(nodes);
        Some(receiver)
    }

    /// The one that came last is the likeliest to be there.
    pub(crate) fn take(&self, node: &NodeName, caller: &NodeName) -> Lookup {
        let (mut nodes, now) = (self.nodes(), Instant::now());
        // After a start, those who waited here before come back within seconds.
        if now.duration_since(self.since) < LATELY && nodes.len() < WAITING {
            nodes.entry(node.clone()).or_insert_with(|| Queue::seen(self.since));
        }
        let Some(queue) = nodes.get_mut(node) else { return Lookup::Nothing };
        match (queue.is_of_use(now), queue.waiting.pop_back()) {
            (_, Some(waiting)) => Lookup::Waiting(waiting),
            (true, None) => queue.park(caller),
            (false, None) => Lookup::Nothing,
        }
    }

    /// This node carries no more: whoever waits is let go.
    pub(crate) fn close(&self) {
        self.nodes().clear();
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<NodeName, Queue>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn seen(last: Instant) -> Self {
        Self { waiting: VecDeque::new(), callers: FairQueue::default(), last }
    }

    /// After those that are gone are forgotten.
    fn is_of_use(&mut self, now: Instant) -> bool {
        self.waiting.retain(|one| !one.wanted.is_closed());
        if !self.waiting.is_empty() {
            self.last = now;
        }
        let is_lately = now.duration_since(self.last) < LATELY;
        if !is_lately {
            self.callers.retain(|caller| !caller.is_closed());
        }
        is_lately || !self.callers.is_empty()
    }

    /// Whose turn it is has it, or it waits.
    fn arrive(&mut self, mut waiting: WaitingNode) {
        self.callers.retain(|caller| !caller.is_closed());
        while let Some(caller) = self.callers.pop() {
            match caller.send(waiting) {
                Ok(()) => return,
                Err(back) => waiting = back,
            }
        }
        self.waiting.push_back(waiting);
    }

    fn park(&mut self, caller: &NodeName) -> Lookup {
        self.callers.retain(|one| !one.is_closed());
        let (give, turn) = oneshot::channel();
        if self.callers.push(caller, give) { Lookup::Soon(turn) } else { Lookup::Nothing }
    }
}
