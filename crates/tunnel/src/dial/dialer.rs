//! Whoever calls a service, calls by this: finds the nodes that have it, and opens a stream to one of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ground::clock;
use identity::principal::{HostPort, Name, NodeName, Principal};
use identity::verifier::Side;
use manifest::stored::Place;
use tokio::time::timeout;
use wire::peer::{Declined, Open, Opened};

use crate::access::denied::Denied;
use crate::control::view::CalledView;
use crate::dial::connector::Connector;
use crate::dial::destination::Destination;
use crate::dial::no_stream::{FailedTry, NoStream, NotReached};
use crate::dial::pool::{AnyConnection, CallKey, PeerConnection};
use crate::dial::stream::{DialedStream, There};
use crate::state::log::{LogEntry, LogSubject};
use crate::state::shared::TunnelState;
use crate::state::streams::Direction;
use crate::stream::admit::{self, CallOrigin, HERE, StreamRequest, Verdict};
use crate::stream::pipe::{self, StreamTerms};
use crate::transport::hello::{ShownChain, prove};
use crate::transport::quic::QuicStream;
use crate::transport::relayed::RelayedIo;
use crate::transport::timeouts::{OPENED, SILENCE};

/// Connections that carry nothing are kept for so long; the other side lets go later.
const KEPT: Duration = Duration::from_mins(1);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Dialer(pub Arc<Connector>);

/// A node that has the service, and its address.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub node: NodeName,
    pub address: Option<HostPort>,
}

enum Failed {
    Tries(Vec<FailedTry>),
    Declined(Declined),
}

enum Asked {
    Dead(NotReached),
    Declined(Declined),
}

impl Dialer {
    /// To be made inside the runtime: it lets go of connections that nobody uses.
    pub(crate) fn new(state: Arc<TunnelState>) -> Self {
        let dialer = Self(Arc::new(Connector::new(state)));
        let (weak, mut heads) = (Arc::downgrade(&dialer.0), dialer.0.state.head());
        tokio::spawn(async move {
            // At once when something may have been taken back.
            while !matches!(timeout(KEPT / 6, heads.changed()).await, Ok(Err(_))) {
                let Some(connector) = weak.upgrade() else { return };
                connector.pool.let_go(KEPT, clock::now(), |peer| connector.state.endures(peer));
            }
        });
        dialer
    }

    pub(crate) async fn open(&self, who: &Principal, destination: &Destination) -> Result<DialedStream, NoStream> {
        let mut candidates = self.candidates(who, destination)?;
        // Those that were not reached lately come last; else the order stays.
        candidates.sort_by_cached_key(|candidate| self.0.health.is_dead(&candidate.node));
        let service = &destination.service;
        let (mut tries, mut declined) = (Vec::new(), None);
        for candidate in candidates {
            match self.open_at(who, &candidate, service).await {
                Ok(stream) => return Ok(stream),
                Err(Failed::Tries(more)) => tries.extend(more),
                // Another place may have it.
                Err(Failed::Declined(why)) if is_of_the_place(&why) => declined = Some((candidate.node, why)),
                Err(Failed::Declined(why)) => {
                    self.count(who, service, &why);
                    return Err(NoStream::Declined { node: candidate.node, why });
                }
            }
        }
        let Some((node, why)) = declined else {
            self.0.state.meter.service(service, who, false).refused("no_way");
            return Err(NoStream::NoWay { service: service.clone(), tries });
        };
        self.count(who, service, &why);
        Err(NoStream::Declined { node, why })
    }

    /// Waits at a relay until somebody wants this node.
    pub(crate) async fn wait_at(&self, relay: &NodeName, address: &HostPort) -> Result<RelayedIo, NotReached> {
        let state = &self.0.state;
        let (mut connection, peer) = self.0.at_relay(relay, address).await?;
        let opened = tokio::select! {
            opened = connection.ask_and_wait(&Open::Wait) => opened?,
            () = state.taken_back([&peer]) => return Err(NotReached::TakenBack),
        };
        match opened {
            Opened::Yes => Ok(RelayedIo::new(connection, Arc::clone(state), peer)),
            Opened::No(why) => Err(NotReached::Declined(why)),
        }
    }

    /// Nodes that were called lately.
    pub(crate) fn views(&self) -> Vec<CalledView> {
        self.0.health.views()
    }

    fn count(&self, who: &Principal, service: &Name, why: &Declined) {
        self.0.state.meter.service(service, who, false).refused(word(why));
    }

    /// Where the service is, for somebody here who may call it.
    pub(crate) fn candidates(&self, who: &Principal, destination: &Destination) -> Result<Vec<Candidate>, NoStream> {
        let (state, service) = (&self.0.state, &destination.service);
        if !state.svids.speaks_for(who) {
            return Err(NoStream::NotAtHome(who.clone()));
        }
        let targets = state.targets.load();
        let target = targets.services.get(service).ok_or_else(|| NoStream::NotATarget(service.clone()))?;
        if !targets.may_call(who, service) {
            return Err(NoStream::NotAllowed { who: who.clone(), service: service.clone() });
        }
        let (mut found, mut class) = (Vec::new(), None);
        let at =
            |node: &NodeName, address: &Option<HostPort>| Candidate { node: node.clone(), address: address.clone() };
        for dial in &target.places {
            match (&dial.at, &destination.node) {
                (Place::Node(node), None) => found.push(at(node, &dial.address)),
                (Place::Node(node), Some(one)) if node == one => found.push(at(node, &dial.address)),
                (Place::Class { .. }, Some(one)) if dial.at.covers(one) => found.push(at(one, &dial.address)),
                // Who is in a class is not known here; but this node is, if it is in it.
                (Place::Class { .. }, None) if dial.at.covers(&state.node) => found.push(at(&state.node, &None)),
                (Place::Class { class: name, .. }, None) => class = Some(name.clone()),
                (Place::Node(_) | Place::Class { .. }, Some(_)) => {}
            }
        }
        match (found.is_empty(), &destination.node, class) {
            (false, _, _) => Ok(found),
            (true, None, Some(class)) => Err(NoStream::WhichOne { service: service.clone(), class }),
            (true, Some(node), _) => Err(NoStream::NotThere { service: service.clone(), node: node.clone() }),
            (true, None, None) => Err(NoStream::NotATarget(service.clone())),
        }
    }

    async fn open_at(
        &self,
        who: &Principal,
        Candidate { node, address }: &Candidate,
        service: &Name,
    ) -> Result<DialedStream, Failed> {
        let connector = &self.0;
        if *node == connector.state.node {
            return self.open_here(who, service).await.map_err(Failed::Declined);
        }
        let key = CallKey { who: who.clone(), node: node.clone() };
        let mut tries = Vec::new();
        for (only_new, is_last) in [(false, false), (true, false), (true, true)] {
            // One that is too many over QUIC may come over TLS.
            if is_last && !connector.health.is_crowded(node) {
                break;
            }
            let connected = match address {
                Some(address) => connector.connect(&key, address, only_new).await,
                None => connector.connect_by_relay(&key, only_new).await,
            };
            let connection = match connected {
                Ok(connection) => connection,
                Err(more) => {
                    tries.extend(more);
                    break;
                }
            };
            let protocol = connection.inner.protocol();
            match self.ask(connection, !only_new, &key, service).await {
                Ok(stream) => return Ok(stream),
                Err(Asked::Declined(why)) if why.wants_new_papers() && !only_new => connector.pool.forget(&key),
                Err(Asked::Declined(why)) => return Err(Failed::Declined(why)),
                // Most likely one that was kept, and died meanwhile, and the others with it.
                Err(Asked::Dead(why)) => {
                    connector.pool.forget(&key);
                    tries.push(FailedTry::new(node, Some(protocol), why));
                }
            }
        }
        Err(Failed::Tries(tries))
    }

    /// One that may have been kept for long is given up soon if nothing at all is heard on it.
    async fn ask(
        &self,
        mut connection: PeerConnection,
        is_old: bool,
        key: &CallKey,
        service: &Name,
    ) -> Result<DialedStream, Asked> {
        let (state, since) = (&self.0.state, Instant::now());
        let subject = LogSubject {
            direction: Direction::Out,
            who: key.who.clone(),
            node: key.node.clone(),
            service: service.clone(),
            transport: connection.inner.protocol().word(),
        };
        let registered = state.streams.register(Arc::clone(&connection.peer), service.clone(), Direction::Out);
        let trust = Arc::clone(&state.policy.load().trust);
        trust.endures(&connection.peer, clock::now()).map_err(|why| Asked::Dead(NotReached::Ended(why)))?;
        let (opened, stream) = self.ask_for(&mut connection.inner, is_old, &key.node, service).await?;
        if let Opened::No(why) = opened {
            // Over TLS the connection is as free as before.
            if !why.wants_new_papers() {
                self.0.pool.put(key, connection);
            }
            // It is asked again at once.
            if !matches!(why, Declined::TooOld) {
                state.log_stream(&subject, LogEntry::refused(why.to_string()));
            }
            return Err(Asked::Declined(why));
        }
        state.log_stream(&subject, LogEntry::opened());
        let meter = state.meter.service(service, &key.who, false);
        let terms = StreamTerms { stream: registered, meter, direction: Direction::Out, idle: pipe::IDLE };
        let counted = self.0.health.streams(&key.node);
        let connector = Arc::clone(&self.0);
        Ok(DialedStream::there(There { connector, connection, stream, terms, subject, since, counted }))
    }

    async fn ask_for(
        &self,
        connection: &mut AnyConnection,
        is_old: bool,
        node: &NodeName,
        service: &Name,
    ) -> Result<(Opened, Option<QuicStream>), Asked> {
        let open = Open::Service(service.clone());
        match connection {
            AnyConnection::Tls(tls) => {
                let round_trip = self.0.health.measured(node).round_trip().unwrap_or_default();
                let silence = if is_old { SILENCE.max(round_trip * 5) } else { OPENED };
                let opened = tls.ask_service(&open, silence).await;
                Ok((opened.map_err(|why| Asked::Dead(why.into()))?, None))
            }
            AnyConnection::Quic(quic) => {
                let asked = quic.ask(&open).await;
                if asked.is_err() && quic.is_crowded() {
                    self.0.health.crowded(node);
                }
                let (opened, stream) = asked.map_err(|why| Asked::Dead(why.into()))?;
                Ok((opened, Some(stream)))
            }
        }
    }

    /// The service is on this node. The caller is judged as if it came from elsewhere, by its own SVID and this node's place.
    async fn open_here(&self, who: &Principal, service: &Name) -> Result<DialedStream, Declined> {
        let state = &self.0.state;
        let own = || {
            let unknown = Declined::NotBelieved { why: "this node was never shown its place in the org".to_owned() };
            let chain = state.svids.chain_of(who).ok_or_else(|| unknown.clone())?;
            let hello = state.policy.load().trust.hello().ok_or(unknown)?;
            let judged = prove(state, ShownChain { chain: &chain, side: Side::Client })
                .map_err(Into::into)
                .and_then(|svid| state.policy.load().trust.recognize(&svid, &hello.presented, clock::now()));
            judged.map_err(|why| Denied::from(why).told())
        };
        let peer = Ok(Arc::new(own()?));
        let origin = CallOrigin { transport: HERE, from: None };
        let request = StreamRequest { open: Open::Service(service.clone()), origin };
        match admit::answer(state, &peer, request, &mut None).await {
            Verdict::Carry(admitted) => Ok(DialedStream::here(Arc::clone(state), admitted)),
            Verdict::No(why) => Err(why),
            Verdict::Yes | Verdict::Keep | Verdict::Through(_) => Err(Declined::ServiceDown),
        }
    }
}

/// Would another node with the same service do?
const fn is_of_the_place(why: &Declined) -> bool {
    match why {
        Declined::ServiceDown | Declined::ServiceSilent | Declined::TooMany | Declined::Stopping | Declined::Stale => {
            true
        }
        Declined::NotAllowed
        | Declined::NotBelieved { .. }
        | Declined::TooOld
        | Declined::Suspended { .. }
        | Declined::NoRelay
        | Declined::NotWaiting => false,
    }
}

/// For counters.
const fn word(why: &Declined) -> &'static str {
    match why {
        Declined::NotAllowed => "not_allowed",
        Declined::NotBelieved { .. } => "not_believed",
        Declined::TooOld => "too_old",
        Declined::Stale => "stale_head",
        Declined::Suspended { .. } => "suspended",
        Declined::ServiceDown => "service_down",
        Declined::ServiceSilent => "service_silent",
        Declined::TooMany => "too_many",
        Declined::NoRelay => "no_relay",
        Declined::NotWaiting => "not_waiting",
        Declined::Stopping => "stopping",
    }
}
