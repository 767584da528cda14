//! Admission control for peers and strangers: how many handshakes, connections, windows and streams at once.
//!
//! Strangers cost little: a rate limit for each address, and the oldest that has not finished makes room for others (load
//! shedding). No peer takes the place of all others: a quota for each node.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ground::quota::{Quota, QuotaPermit};
use identity::principal::NodeName;
use tokio::sync::oneshot;

use crate::limit::address::AddressLimits;
use crate::limit::bounds::{Bounds, CONNECTIONS, CONNECTIONS_OF_ONE, STREAMS, STREAMS_OF_ONE};
use crate::limit::large::LargeMessages;

/// Connections of one node over QUIC: each carries many streams, so callers have one for each who calls there, and come over
/// TLS when that is one too many.
pub(crate) const QUIC_OF_ONE: usize = 64;
/// Connections over QUIC that may have sent much that nobody has read yet: of all nodes, and of one.
pub(crate) const WIDE: usize = 64;
pub(crate) const WIDE_OF_ONE: usize = WIDE / 8;
/// Connections that came by relays, of nodes that are believed. There, too, one leaves some to others.
pub(crate) const CARRIED: usize = 1_024;
pub(crate) const CARRIED_OF_ONE: usize = CARRIED / 4;

#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    pub bounds: Bounds,
    pub large: LargeMessages,
    strangers: Mutex<Strangers>,
    connections: NodeQuota,
    quic: NodeQuota,
    wide: NodeQuota,
    carried: NodeQuota,
    streams: NodeQuota,
    /// Connections over TLS, and streams.
    sockets: NodeQuota,
}

/// By node, whoever speaks there: else one machine with two users had all of them.
type NodeQuota = Arc<Quota<NodeName>>;

#[derive(Debug, Default)]
struct Strangers {
    next: u64,
    /// Oldest first: those that do not finish are there.
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
    addresses: AddressLimits,
}

/// A stranger's place while it shows who it is. Dropped before it is admitted: it failed.
#[derive(Debug)]
pub(crate) struct PendingHandshake {
    limits: Arc<ConnectionLimits>,
    number: u64,
    from: IpAddr,
    evicted: oneshot::Receiver<()>,
    is_peer: bool,
}

/// A connection of a peer on this node.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    _connection: QuotaPermit<NodeName>,
    _socket: Option<QuotaPermit<NodeName>>,
}

/// Room for much that nobody has read yet.
#[derive(Debug)]
pub(crate) struct WindowPermit {
    _window: QuotaPermit<NodeName>,
}

/// A peer's stream.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    _stream: QuotaPermit<NodeName>,
    _socket: QuotaPermit<NodeName>,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl ConnectionLimits {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let quota = |of_all, of_one| Arc::new(Quota::new(of_all, of_one));
        Self {
            bounds,
            large: LargeMessages::default(),
            strangers: Mutex::default(),
            connections: quota(CONNECTIONS, CONNECTIONS_OF_ONE),
            quic: quota(CONNECTIONS, QUIC_OF_ONE),
            wide: quota(WIDE, WIDE_OF_ONE),
            carried: quota(CARRIED, CARRIED_OF_ONE),
            streams: quota(STREAMS, STREAMS_OF_ONE),
            sockets: quota(bounds.sockets, bounds.sockets_of_one),
        }
    }

    /// Nothing: whoever it is has to go.
    pub(crate) fn begin_handshake(self: &Arc<Self>, from: IpAddr, now: Instant) -> Option<PendingHandshake> {
        if self.connections.is_full() || self.sockets.is_full() {
            return None;
        }
        let mut strangers = self.lock();
        if !strangers.addresses.begin(from, now) {
            return None;
        }
        if strangers.waiting.len() >= self.bounds.strangers {
            // Whoever has not finished for longest makes room.
            strangers.waiting.pop_front().map(|(_, evict)| evict.send(()));
        }
        let (evict, evicted) = oneshot::channel();
        let number = strangers.next;
        strangers.next += 1;
        strangers.waiting.push_back((number, evict));
        drop(strangers);
        Some(PendingHandshake { limits: Arc::clone(self), number, from, evicted, is_peer: false })
    }

    /// Would whoever comes from there have to go? Nothing is counted.
    pub(crate) fn would_refuse(&self, from: IpAddr, now: Instant) -> bool {
        self.lock().addresses.would_refuse(from, now)
    }

    pub(crate) fn take_stream(&self, node: &NodeName) -> Option<StreamPermit> {
        Some(StreamPermit { _stream: self.streams.take(node)?, _socket: self.sockets.take(node)? })
    }

    /// For a connection over QUIC on which something is allowed.
    pub(crate) fn take_window(&self, node: &NodeName) -> Option<WindowPermit> {
        Some(WindowPermit { _window: self.wide.take(node)? })
    }

    /// A peer that a relay brought. It made no handshake with strangers here.
    pub(crate) fn admit_relayed(&self, node: &NodeName) -> Option<ConnectionPermit> {
        Some(ConnectionPermit { _connection: self.carried.take(node)?, _socket: None })
    }

    fn lock(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingHandshake {
    /// Waits until it has to make room for others.
    pub(crate) async fn evicted(&mut self) {
        if (&mut self.evicted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Nothing if that node has as many as one may have.
    pub(crate) fn admit_tls(mut self, node: &NodeName) -> Option<ConnectionPermit> {
        self.is_peer = true;
        let connection = self.limits.connections.take(node)?;
        Some(ConnectionPermit { _connection: connection, _socket: Some(self.limits.sockets.take(node)?) })
    }

    /// The same; all of them have one socket together.
    pub(crate) fn admit_quic(mut self, node: &NodeName) -> Option<ConnectionPermit> {
        self.is_peer = true;
        Some(ConnectionPermit { _connection: self.limits.quic.take(node)?, _socket: None })
    }
}

impl Drop for PendingHandshake {
    fn drop(&mut self) {
        let mut strangers = self.limits.lock();
        strangers.waiting.retain(|(number, _)| *number != self.number);
        strangers.addresses.end(self.from, self.is_peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::address::{CALM, FAILURES, PACE};
    use crate::limit::bounds::STRANGERS;

    impl ConnectionLimits {
        /// How many are showing who they are.
        pub(crate) fn strangers(&self) -> usize {
            self.lock().waiting.len()
        }
    }

    fn node(name: &str) -> NodeName {
        name.parse().unwrap()
    }

    fn is_empty(limits: &ConnectionLimits) -> bool {
        let ConnectionLimits { connections, quic, wide, carried, streams, sockets, .. } = limits;
        [connections, quic, wide, carried, streams, sockets].into_iter().all(|quota| quota.is_empty())
    }

    fn address(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        IpAddr::from([10, 0, high, low])
    }

    #[test]
    fn an_address_whose_handshakes_fail_has_one_at_a_time_until_it_is_calm() {
        let (limits, now) = (Arc::<ConnectionLimits>::default(), Instant::now());
        for _ in 0..FAILURES {
            assert!(limits.begin_handshake(address(1), now).is_some());
        }
        let now = Instant::now();
        let one = limits.begin_handshake(address(1), now).unwrap();
        assert!(limits.begin_handshake(address(1), now).is_none());
        assert!(limits.begin_handshake(address(2), now).is_some(), "others are not bothered");
        assert!(limits.begin_handshake(address(1), now + CALM * 2).is_some());
        drop(one);
    }

    #[test]
    fn a_suspect_tries_no_faster_than_the_pace() {
        let (limits, now) = (Arc::<ConnectionLimits>::default(), Instant::now());
        (0..FAILURES).for_each(|_| drop(limits.begin_handshake(address(1), now).unwrap()));
        let now = Instant::now();
        drop(limits.begin_handshake(address(1), now).unwrap());
        assert!(limits.would_refuse(address(1), now) && !limits.would_refuse(address(2), now));
        assert!(limits.begin_handshake(address(1), now + PACE / 2).is_none());
        drop(limits.begin_handshake(address(1), now + PACE).unwrap());
        assert!(limits.begin_handshake(address(1), now + PACE).is_none());
        let calm = Instant::now() + CALM;
        assert!((0..FAILURES).all(|_| limits.begin_handshake(address(1), calm).is_some()), "until it has been calm");
    }

    #[test]
    fn a_peer_that_is_known_fails_nothing() {
        let (limits, now) = (Arc::<ConnectionLimits>::default(), Instant::now());
        let guests: Vec<ConnectionPermit> = (0..FAILURES * 2)
            .map(|_| limits.begin_handshake(address(1), now).unwrap().admit_tls(&node("a")).unwrap())
            .collect();
        let both =
            (limits.begin_handshake(address(1), Instant::now()), limits.begin_handshake(address(1), Instant::now()));
        assert!(both.0.is_some() && both.1.is_some());
        assert_eq!((guests.len(), limits.strangers()), (32, 2));
        drop(both);
        for _ in 0..FAILURES {
            drop(limits.begin_handshake(address(1), Instant::now()).unwrap());
            drop(limits.begin_handshake(address(1), Instant::now()).unwrap().admit_tls(&node("a")));
        }
        assert!(!limits.would_refuse(address(1), Instant::now()), "between those that fail, some are believed");
    }

    #[test]
    fn one_node_leaves_connections_to_others() {
        let (limits, now) = (Arc::<ConnectionLimits>::default(), Instant::now());
        let let_in = |at: &str| limits.begin_handshake(address(1), now).unwrap().admit_tls(&node(at));
        let guests: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| let_in("a").unwrap()).collect();
        assert!(let_in("a").is_none());
        assert!(let_in("b").is_some());
        drop(guests);
        assert!(let_in("a").is_some());
    }

    #[test]
    fn the_oldest_stranger_makes_room() {
        let (limits, now) = (Arc::<ConnectionLimits>::default(), Instant::now());
        let mut all: Vec<PendingHandshake> =
            (0..STRANGERS).map(|n| limits.begin_handshake(address(u16::try_from(n).unwrap()), now).unwrap()).collect();
        assert!(all[0].evicted.try_recv().is_err());
        let _new = limits.begin_handshake(address(60_000), now).unwrap();
        assert!(all[0].evicted.try_recv().is_ok());
        assert!(all[1].evicted.try_recv().is_err());
        assert_eq!(limits.strangers(), STRANGERS);
    }

    #[test]
    fn one_node_leaves_streams_to_others() {
        let limits = Arc::<ConnectionLimits>::default();
        let (one, other) = (node("a"), node("b"));
        let seats: Vec<StreamPermit> = (0..STREAMS_OF_ONE).map(|_| limits.take_stream(&one).unwrap()).collect();
        assert!(limits.take_stream(&one).is_none());
        assert!(limits.take_stream(&other).is_some());
        drop(seats);
        assert!(limits.take_stream(&one).is_some());
    }

    #[test]
    fn each_share_is_counted_by_itself() {
        let limits = Arc::<ConnectionLimits>::default();
        let carried: Vec<ConnectionPermit> =
            (0..CARRIED_OF_ONE).map(|_| limits.admit_relayed(&node("a")).unwrap()).collect();
        assert!(limits.admit_relayed(&node("a")).is_none());
        assert!(limits.admit_relayed(&node("b")).is_some());
        assert!(limits.take_stream(&node("a")).is_some());
        assert!(limits.begin_handshake(address(1), Instant::now()).unwrap().admit_tls(&node("a")).is_some());
        drop(carried);
        assert!(limits.admit_relayed(&node("a")).is_some());
        assert!(is_empty(&limits));
    }

    #[test]
    fn where_there_are_few_descriptors_one_node_leaves_some_to_others() {
        let (limits, now) = (Arc::new(ConnectionLimits::new(Bounds::of(Some(1_024)))), Instant::now());
        let most = limits.bounds.sockets_of_one;
        let let_in = |at: &str| limits.begin_handshake(address(1), now)?.admit_tls(&node(at));
        let guests: Vec<_> = (0..most / 2).map(|_| let_in("a").unwrap()).collect();
        let seats: Vec<_> = (most / 2..most).map(|_| limits.take_stream(&node("a")).unwrap()).collect();
        assert!(let_in("a").is_none() && limits.take_stream(&node("a")).is_none());
        let by_quic = |at: &str| limits.begin_handshake(address(1), now)?.admit_quic(&node(at));
        assert!(by_quic("a").is_some(), "it has none of its own");
        let others: Vec<_> = (most..limits.bounds.sockets).map(|_| limits.take_stream(&node("b")).unwrap()).collect();
        assert!(
            limits.take_stream(&node("c")).is_none() && limits.begin_handshake(address(2), now).is_none(),
            "the rest is not theirs"
        );
        drop((guests, seats, others));
        assert!(is_empty(&limits));
    }
}
