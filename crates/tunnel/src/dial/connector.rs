//! Gets a connection to a node: a free one of the pool, or a new one, for which two transports race (happy eyeballs).
//!
//! The better one has a head start.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use identity::principal::{HostPort, NodeName, Principal};
use identity::time::Timestamp;
use org::member::peer::Peer;
use quinn::Endpoint;
use tokio::time::timeout;
use wire::peer::{Open, Opened};

use crate::dial::choose::{Choice, LATELY, choose};
use crate::dial::health::{PeerHealth, Reached};
use crate::dial::no_stream::{CONNECT, FailedTry, NotReached};
use crate::dial::pool::{AnyConnection, CallKey, ConnectionPool, PeerConnection};
use crate::dial::queue::DialQueue;
use crate::state::shared::TunnelState;
use crate::transport::hello::MetPeer;
use crate::transport::protocol::Protocol;
use crate::transport::relayed::RelayedIo;
use crate::transport::tcp::{connect, resolve};
use crate::transport::tls::TlsConnection;
use crate::transport::{quic, tls};

/// So long the first transport is tried alone, or five round trips: it takes three.
const HEAD_START: Duration = Duration::from_millis(300);
/// And so long the other one, when the first was turned down within that time.
const AFTER_A_NO: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Connector {
    pub state: Arc<TunnelState>,
    pub pool: ConnectionPool,
    pub health: PeerHealth,
    queue: DialQueue,
    /// Sockets for calls over QUIC: of the older addresses, and of the newer.
    four: OnceLock<Endpoint>,
    six: OnceLock<Endpoint>,
}

impl Connector {
    pub(crate) fn new(state: Arc<TunnelState>) -> Self {
        let (pool, health, queue) = (ConnectionPool::default(), PeerHealth::default(), DialQueue::default());
        Self { state, pool, health, queue, four: OnceLock::new(), six: OnceLock::new() }
    }

    pub(crate) async fn connect(
        &self,
        key: &CallKey,
        address: &HostPort,
        only_new: bool,
    ) -> Result<PeerConnection, Vec<FailedTry>> {
        let (node, begun) = (&key.node, Instant::now());
        let wanted = self.state.running.load().as_ref().map(|running| running.policy.transport).unwrap_or_default();
        let measured = self.health.measured(node);
        let choice = choose(wanted, measured);
        if !only_new {
            let failed = match choice.first {
                Protocol::Tls => measured.tls_failed,
                Protocol::Quic => measured.quic_failed,
            };
            // What works is not left for what has just failed.
            let other = failed.is_some_and(|ago| ago < LATELY).then_some(choice.first.other());
            for protocol in [Some(choice.first), other].into_iter().flatten() {
                if let Some(kept) = self.kept(key, protocol).await {
                    if let AnyConnection::Quic(quic) = &kept.inner {
                        self.health.still(node, quic.connection.rtt());
                    }
                    return Ok(kept);
                }
            }
        }
        // Before the race: who waits for a turn is not slow.
        let race = async {
            // Somebody else may have opened one meanwhile.
            match self.kept_since(key, choice.first, only_new.then_some(begun)).await {
                Some(kept) => Ok(kept),
                None => self.race(key, address, choice, measured.round_trip()).await,
            }
        };
        let connection = self.queue.take(key, self.health.is_dead(node), Box::pin(race)).await?;
        self.health.used(node, connection.inner.protocol(), choice);
        Ok(connection)
    }

    /// A connection that can be used once more.
    async fn kept(&self, key: &CallKey, protocol: Protocol) -> Option<PeerConnection> {
        let trust = Arc::clone(&self.state.policy.load().trust);
        self.pool.take(key, protocol, &trust).await
    }

    /// Only one that was opened after that time, if one is named: over TLS nobody knows that of those that are free.
    async fn kept_since(&self, key: &CallKey, protocol: Protocol, begun: Option<Instant>) -> Option<PeerConnection> {
        match (protocol, begun) {
            (_, None) => self.kept(key, protocol).await,
            (Protocol::Tls, Some(_)) => None,
            (Protocol::Quic, Some(begun)) => {
                let kept = self.kept(key, protocol).await?;
                matches!(&kept.inner, AnyConnection::Quic(quic) if quic.since > begun).then_some(kept)
            }
        }
    }

    /// To a node without an address: by one of the relays at which it waits.
    pub(crate) async fn connect_by_relay(
        &self,
        key: &CallKey,
        only_new: bool,
    ) -> Result<PeerConnection, Vec<FailedTry>> {
        if !only_new && let Some(kept) = self.kept(key, Protocol::Tls).await {
            return Ok(kept);
        }
        self.queue.wait(key, 1, Box::pin(self.by_any_relay(key))).await
    }

    async fn by_any_relay(&self, key: &CallKey) -> Result<PeerConnection, Vec<FailedTry>> {
        let mut relays = self.state.relays_to(&key.node);
        relays.sort_by_cached_key(|(relay, _)| self.health.is_bad_relay(relay));
        let mut tries = Vec::new();
        for (relay, address) in relays {
            match self.through(key, &relay, &address).await {
                Ok(connection) => return Ok(connection),
                Err(why) => {
                    let why = NotReached::ByRelay { relay, why: Box::new(why) };
                    tries.push(FailedTry::new(&key.node, None, why));
                }
            }
        }
        if tries.is_empty() {
            tries.push(FailedTry::new(&key.node, None, NotReached::NoAddress));
        }
        Err(tries)
    }

    /// TLS with the node inside TLS with the relay, which sees neither who calls nor what is said.
    pub(crate) async fn through(
        &self,
        key: &CallKey,
        relay: &NodeName,
        address: &HostPort,
    ) -> Result<PeerConnection, NotReached> {
        let begun = Instant::now();
        let (mut outer, via) = self.at_relay(relay, address).await?;
        // One that is silent, or brings nobody after a yes, would else be the first again for the next call.
        let failed = |why: NotReached| {
            self.health.brought_nobody(relay, &format!("as a relay to `{}`: {}", key.node, why.plain()));
            why
        };
        match outer.ask(&Open::Through(key.node.clone())).await.map_err(|why| failed(why.into()))? {
            Opened::Yes => {}
            Opened::No(why) => return Err(NotReached::Declined(why)),
        }
        let config = self.state.svids.client(&key.who)?;
        let below = RelayedIo::new(outer, Arc::clone(&self.state), Arc::clone(&via));
        let shaking = Box::pin(tls::call(&self.state, config, Box::new(below)));
        let (connection, met) = shaking.await.map_err(|why| failed(why.into()))?;
        let (head, shared, known) = (met.head, met.shared, self.known(key, met)?);
        let reached = Reached { round_trip: begun.elapsed(), head };
        let counted = Arc::new(self.health.reached_through(&key.node, relay, reached));
        let inner = AnyConnection::Tls(Box::new(connection));
        Ok(PeerConnection { inner, peer: known.peer, via: Some(via), until: known.until, shared, counted })
    }

    /// A new connection to a relay, in this node's own name.
    pub(crate) async fn at_relay(
        &self,
        relay: &NodeName,
        address: &HostPort,
    ) -> Result<(TlsConnection, Arc<Peer>), NotReached> {
        let key = CallKey { who: Principal::node(&self.state.org, &self.state.node), node: relay.clone() };
        let dial = async { self.dial(&key, address, Protocol::Tls).await.map_err(|why| vec![why]) };
        let dialed = self.queue.take(&key, self.health.failed_lately(relay, Protocol::Tls), Box::pin(dial)).await;
        let connection = dialed.map_err(NotReached::Tries)?;
        self.health.is_relay(relay);
        match connection.inner {
            AnyConnection::Tls(tls) => Ok((*tls, connection.peer)),
            AnyConnection::Quic(_) => Err(NotReached::RelayByQuic),
        }
    }

    async fn race(
        &self,
        key: &CallKey,
        address: &HostPort,
        choice: Choice,
        round_trip: Option<Duration>,
    ) -> Result<PeerConnection, Vec<FailedTry>> {
        let other = choice.first.other();
        let mut first = std::pin::pin!(self.dial(key, address, choice.first));
        let alone = HEAD_START.max(round_trip.unwrap_or_default() * 5);
        match timeout(alone, &mut first).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(failed)) => {
                // Whoever says no at once is near. Over UDP a no is not heard, so it is not waited for long.
                let late = || FailedTry::new(&key.node, Some(other), NotReached::Late);
                let second = timeout(AFTER_A_NO, self.dial(key, address, other)).await;
                return second.unwrap_or_else(|_| Err(late())).map_err(|also| vec![failed, also]);
            }
            Err(_) => {}
        }
        let mut second = std::pin::pin!(self.dial(key, address, other));
        tokio::select! {
            one = &mut first => match one {
                Ok(connection) => Ok(connection),
                Err(failed) => second.await.map_err(|also| vec![failed, also]),
            },
            other = &mut second => match other {
                Ok(connection) => {
                    self.health.failed(&key.node, choice.first, "it took longer than the other one");
                    Ok(connection)
                }
                Err(failed) => first.await.map_err(|also| vec![also, failed]),
            },
        }
    }

    pub(crate) async fn dial(
        &self,
        key: &CallKey,
        address: &HostPort,
        protocol: Protocol,
    ) -> Result<PeerConnection, FailedTry> {
        let dialed = match protocol {
            Protocol::Tls => self.by_tls(key, address).await,
            Protocol::Quic => self.by_quic(key, address).await,
        };
        dialed.map_err(|why| {
            self.health.failed(&key.node, protocol, &why.plain());
            self.state.meter.failed_to_shake_hands("calling");
            FailedTry::new(&key.node, Some(protocol), why)
        })
    }

    async fn by_tls(&self, key: &CallKey, address: &HostPort) -> Result<PeerConnection, NotReached> {
        let config = self.state.svids.client(&key.who)?;
        let begun = Instant::now();
        let late = |_| NotReached::NoAnswer { at: address.clone() };
        let socket = timeout(CONNECT, connect(address)).await.map_err(late)?;
        let socket = socket.map_err(|why| NotReached::Address { at: address.clone(), why })?;
        let round_trip = begun.elapsed();
        // Apart: a handshake takes much room for a short time.
        let shaking = Box::pin(tls::call(&self.state, config, tls::over(socket)));
        let (connection, met) = shaking.await?;
        let (head, shared, known) = (met.head, met.shared, self.known(key, met)?);
        let counted = Arc::new(self.health.reached(&key.node, Protocol::Tls, Reached { round_trip, head }));
        let inner = AnyConnection::Tls(Box::new(connection));
        Ok(PeerConnection { inner, peer: known.peer, via: None, until: known.until, shared, counted })
    }

    async fn by_quic(&self, key: &CallKey, address: &HostPort) -> Result<PeerConnection, NotReached> {
        let opening = self.pool.opening(key);
        let begun = Instant::now();
        let _one = opening.lock().await;
        // Opened by somebody else while this one waited.
        if let Some(kept) = self.kept_since(key, Protocol::Quic, Some(begun)).await {
            return Ok(kept);
        }
        // Somebody else has found out meanwhile that nobody answers.
        if self.health.measured(&key.node).quic_failed.is_some_and(|ago| ago < begun.elapsed()) {
            return Err(NotReached::LateBefore);
        }
        if self.health.is_crowded(&key.node) {
            return Err(NotReached::Crowded);
        }
        let config = quic::client(&self.state.svids.client(&key.who)?)?;
        let addresses = resolve(address).await.map_err(|why| NotReached::Address { at: address.clone(), why })?;
        let mut failed = None;
        for at in addresses {
            let endpoint = self.endpoint(at).map_err(NotReached::Socket)?;
            let shaking = Box::pin(quic::call(&self.state, &endpoint, config.clone(), at));
            match shaking.await {
                Ok((connection, met)) => return self.keep_quic(key, Arc::new(connection), met),
                Err(why) => failed = Some(NotReached::NoQuic { at, why }),
            }
        }
        Err(failed.unwrap_or(NotReached::NoAddress))
    }

    /// One over QUIC is in the pool while it is used, too.
    fn keep_quic(
        &self,
        key: &CallKey,
        quic: Arc<quic::QuicConnection>,
        met: MetPeer,
    ) -> Result<PeerConnection, NotReached> {
        let (head, shared, KnownPeer { peer, until }) = (met.head, met.shared, self.known(key, met)?);
        let reached = Reached { round_trip: quic.connection.rtt(), head };
        let counted = Arc::new(self.health.reached(&key.node, Protocol::Quic, reached));
        let connection = PeerConnection { inner: AnyConnection::Quic(quic), peer, via: None, until, shared, counted };
        if let Some(same) = connection.share() {
            self.pool.put(key, same);
        }
        Ok(connection)
    }

    fn endpoint(&self, to: SocketAddr) -> std::io::Result<Endpoint> {
        let (kept, own): (_, SocketAddr) = match to {
            SocketAddr::V4(_) => (&self.four, ([0, 0, 0, 0], 0).into()),
            SocketAddr::V6(_) => (&self.six, ([0_u16; 8], 0).into()),
        };
        if let Some(endpoint) = kept.get() {
            return Ok(endpoint.clone());
        }
        let made = Endpoint::client(own)?;
        Ok(kept.get_or_init(|| made).clone())
    }

    /// The node that was called, and no other; and until when that holds.
    fn known(&self, key: &CallKey, met: MetPeer) -> Result<KnownPeer, NotReached> {
        let peer = met.peer.map_err(NotReached::NotBelieved)?;
        if *peer.principal() != Principal::node(&self.state.org, &key.node) {
            return Err(NotReached::AnotherNode { found: peer.principal().clone(), wanted: key.node.clone() });
        }
        // Whom the operators wrote down is called, not whoever came under that name by an invite for any, or on its word.
        if !peer.may_carry() {
            return Err(NotReached::NotMeant);
        }
        let chain = self.state.svids.chain_of(&key.who).unwrap_or_default();
        let own = chain.first().and_then(|leaf| identity::certificate::read(leaf).ok());
        let until = own.map_or(peer.until(), |own| own.validity.not_after.min(peer.until()));
        Ok(KnownPeer { peer, until })
    }
}

/// Whoever was called.
struct KnownPeer {
    peer: Arc<Peer>,
    until: Timestamp,
}
