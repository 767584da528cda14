//! Calls services elsewhere: finds where one is, gets a connection to that node by the better transport, and opens a stream.

pub mod destination;
pub mod choose;
mod health;
mod pool;
mod queue;
mod race;
mod probe;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ground::clock;
use identity::principal::{HostPort, Name, NodeName, Principal};
use identity::verifier::Side;
use manifest::stored::Place;
use org::report::plain;
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::peer::{Declined, Open, Opened};

use crate::access::standing::Denied;
use crate::control::PeerView;
use crate::dial::choose::By;
use crate::dial::destination::Wanted;
use crate::state::log::{Event, Subject};
use crate::state::shared::Held;
use crate::state::streams::Way as Direction;
use crate::stream::admit::{self, Admitted, Answer, Origin, note_end};
use crate::stream::pipe::{self, Far, Terms};
use crate::transport::hello::{Shown, prove};
use crate::transport::relayed::Through;
use crate::transport::{OPENED, SILENCE};
use health::Facts;
use pool::{Call, Key, Line, Stock};
use race::Ring;

/// Connections that carry nothing are kept for so long; the other side lets go later.
const KEPT: Duration = Duration::from_mins(1);

/// Whoever calls, calls by this. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Dialer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    held: Arc<Held>,
    stock: Stock,
    facts: Facts,
    ring: Ring,
}

impl Inner {
    /// A connection that can be used once more.
    async fn kept(&self, key: &Key, by: By) -> Option<Call> {
        let standing = Arc::clone(&self.held.rule.load().standing);
        self.stock.take(key, by, &standing).await
    }

    /// Only one that was opened after that time, if one is named: over TLS nobody knows that of those that are free.
    async fn kept_since(&self, key: &Key, by: By, begun: Option<Instant>) -> Option<Call> {
        match (by, begun) {
            (_, None) => self.kept(key, by).await,
            (By::Tls, Some(_)) => None,
            (By::Quic, Some(begun)) => {
                let call = self.kept(key, by).await?;
                matches!(&call.line, Line::Quic(line) if line.since > begun).then_some(call)
            }
        }
    }
}

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub enum NoStream {
    #[error("`{0}` is not at home on this node")]
    NotAtHome(Principal),
    #[error("no service `{0}` is declared that may be called from this node")]
    NotATarget(Name),
    #[error("`{who}` may not call `{service}` from this node")]
    NotAllowed { who: Principal, service: Name },
    #[error("`{service}` is not on node `{node}`")]
    NotThere { service: Name, node: NodeName },
    #[error("`{service}` is on the nodes of class `{class}`: say which one, as SERVICE.NODE.ORG.internal")]
    WhichOne { service: Name, class: Name },
    #[error("no way leads to `{service}`: {}", tries.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    NoWay { service: Name, tries: Vec<Try> },
    #[error("node `{node}` declined: {why}")]
    Declined { node: NodeName, why: Declined },
}

/// One way that was tried in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    pub node: NodeName,
    /// Nothing if it did not come to that.
    pub by: Option<By>,
    pub why: String,
}

impl std::fmt::Display for Try {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.by {
            Some(by) => write!(f, "`{}` by {}: {}", self.node, by.word(), self.why),
            None => write!(f, "`{}`: {}", self.node, self.why),
        }
    }
}

/// A node that has the service, and its address.
type At = (NodeName, Option<HostPort>);

enum Failed {
    Tries(Vec<Try>),
    Declined(Declined),
}

impl Dialer {
    /// To be made inside the runtime: it lets go of connections that nobody uses.
    pub fn new(held: Arc<Held>) -> Self {
        let inner = Inner { held, stock: Stock::default(), facts: Facts::default(), ring: Ring::default() };
        let dialer = Self(Arc::new(inner));
        let (weak, mut heads) = (Arc::downgrade(&dialer.0), dialer.0.held.head());
        tokio::spawn(async move {
            // At once when something may have been taken back.
            while !matches!(timeout(KEPT / 6, heads.changed()).await, Ok(Err(_))) {
                let Some(inner) = weak.upgrade() else { return };
                inner.stock.let_go(KEPT, clock::now(), |peer| inner.held.endures(peer));
            }
        });
        dialer
    }

    pub async fn open(&self, who: &Principal, wanted: &Wanted) -> Result<Stream, NoStream> {
        let places = self.places(who, wanted)?;
        let service = &wanted.service;
        let (mut tries, mut declined) = (Vec::new(), None);
        for at in self.0.facts.best_first(places) {
            match self.open_at(who, &at, service).await {
                Ok(stream) => return Ok(stream),
                Err(Failed::Tries(more)) => tries.extend(more),
                // Another place may have it.
                Err(Failed::Declined(why)) if is_of_the_place(&why) => declined = Some((at.0, why)),
                Err(Failed::Declined(why)) => {
                    self.count(who, service, &why);
                    return Err(NoStream::Declined { node: at.0, why });
                }
            }
        }
        let Some((node, why)) = declined else {
            self.0.held.meter.row(service, who, false).refused("no_way");
            return Err(NoStream::NoWay { service: service.clone(), tries });
        };
        self.count(who, service, &why);
        Err(NoStream::Declined { node, why })
    }

    /// Waits at a relay until somebody wants this node.
    pub async fn wait_at(&self, relay: &NodeName, address: &HostPort) -> Result<Through, String> {
        let (mut ends, peer) = self.0.ring.at_relay(&self.0, relay, address).await?;
        let opened = tokio::select! {
            opened = ends.ask_and_wait(&Open::Wait) => opened.map_err(|why| plain(&why.to_string()))?,
            () = self.0.held.taken_back([&peer]) => return Err("the operators took it back".to_owned()),
        };
        match opened {
            Opened::Yes => Ok(Through::new(ends, self.0.held.clone(), peer)),
            Opened::No(why) => Err(why.to_string()),
        }
    }

    /// Nodes that were called lately.
    pub fn views(&self) -> Vec<PeerView> {
        self.0.facts.views()
    }

    fn count(&self, who: &Principal, service: &Name, why: &Declined) {
        self.0.held.meter.row(service, who, false).refused(word(why));
    }

    /// Where the service is, for somebody here who may call it.
    fn places(&self, who: &Principal, wanted: &Wanted) -> Result<Vec<At>, NoStream> {
        let (held, service) = (&self.0.held, &wanted.service);
        if !held.speaks_for(who) {
            return Err(NoStream::NotAtHome(who.clone()));
        }
        let targets = held.targets.load();
        let target = targets.services.get(service).ok_or_else(|| NoStream::NotATarget(service.clone()))?;
        if !targets.may_call(who, service) {
            return Err(NoStream::NotAllowed { who: who.clone(), service: service.clone() });
        }
        let (mut places, mut class) = (Vec::new(), None);
        for dial in &target.places {
            match (&dial.at, &wanted.node) {
                (Place::Node(node), None) => places.push((node.clone(), dial.address.clone())),
                (Place::Node(node), Some(one)) if node == one => places.push((node.clone(), dial.address.clone())),
                (Place::Class { .. }, Some(one)) if dial.at.covers(one) => {
                    places.push((one.clone(), dial.address.clone()));
                }
                // Who is in a class is not known here; but this node is, if it is in it.
                (Place::Class { .. }, None) if dial.at.covers(&held.node) => places.push((held.node.clone(), None)),
                (Place::Class { class: name, .. }, None) => class = Some(name.clone()),
                (Place::Node(_) | Place::Class { .. }, Some(_)) => {}
            }
        }
        match (places.is_empty(), &wanted.node, class) {
            (false, _, _) => Ok(places),
            (true, None, Some(class)) => Err(NoStream::WhichOne { service: service.clone(), class }),
            (true, Some(node), _) => Err(NoStream::NotThere { service: service.clone(), node: node.clone() }),
            (true, None, None) => Err(NoStream::NotATarget(service.clone())),
        }
    }

    async fn open_at(&self, who: &Principal, (node, address): &At, service: &Name) -> Result<Stream, Failed> {
        if *node == self.0.held.node {
            return self.open_here(who, service).await.map_err(Failed::Declined);
        }
        let key = (who.clone(), node.clone());
        let mut tries = Vec::new();
        for (only_new, is_last) in [(false, false), (true, false), (true, true)] {
            // One that is too many over QUIC may come over TLS.
            if is_last && !self.0.facts.is_crowded(node) {
                break;
            }
            let line = match address {
                Some(address) => self.0.ring.line(&self.0, (&key, address), only_new).await,
                None => self.0.ring.line_by_relay(&self.0, &key, only_new).await,
            };
            let call = match line {
                Ok(call) => call,
                Err(more) => {
                    tries.extend(more);
                    break;
                }
            };
            let by = call.line.by();
            match self.ask((call, !only_new), &key, service).await {
                Ok(stream) => return Ok(stream),
                Err(Asked::Declined(why)) if why.wants_new_papers() && !only_new => self.0.stock.forget(&key),
                Err(Asked::Declined(why)) => return Err(Failed::Declined(why)),
                // Most likely one that was kept, and died meanwhile, and the others with it.
                Err(Asked::Dead(why)) => {
                    self.0.stock.forget(&key);
                    tries.push(Try { node: node.clone(), by: Some(by), why });
                }
            }
        }
        Err(Failed::Tries(tries))
    }

    /// One that may have been kept for long is given up soon if nothing at all is heard on it.
    async fn ask(&self, (mut call, is_old): (Call, bool), key: &Key, service: &Name) -> Result<Stream, Asked> {
        let (held, (who, node)) = (&self.0.held, key);
        let since = Instant::now();
        let subject = Subject {
            way: Direction::Out,
            who: who.clone(),
            node: node.clone(),
            service: service.clone(),
            transport: call.line.by().word(),
        };
        let ticket = held.book.enter(Arc::clone(&call.peer), service.clone(), Direction::Out);
        let standing = Arc::clone(&held.rule.load().standing);
        standing.endures(&call.peer, clock::now()).map_err(|why| Asked::Dead(why.to_string()))?;
        let open = Open::Service(service.clone());
        let (opened, stream) = match &mut call.line {
            Line::Tls(ends) => {
                let round_trip = self.0.facts.measured(node).round_trip().unwrap_or_default();
                let silence = if is_old { SILENCE.max(round_trip * 5) } else { OPENED };
                (ends.ask_service(&open, silence).await.map_err(dead)?, None)
            }
            Line::Quic(line) => {
                let asked = line.ask(&open).await;
                if asked.is_err() && line.is_crowded() {
                    self.0.facts.crowded(node);
                }
                let (opened, ends) = asked.map_err(dead)?;
                (opened, Some(ends))
            }
        };
        if let Opened::No(why) = opened {
            // Over TLS the connection is as free as before.
            if !why.wants_new_papers() {
                self.0.stock.put(key, call);
            }
            // It is asked again at once.
            if !matches!(why, Declined::TooOld) {
                held.log.say((Event::Refused, Some(why.to_string())), &subject, held.rule.load().standing.head(), None);
            }
            return Err(Asked::Declined(why));
        }
        held.log.say((Event::Opened, None), &subject, held.rule.load().standing.head(), None);
        let row = held.meter.row(service, who, false);
        let terms = Terms { ticket, row, way: Direction::Out, idle: pipe::IDLE };
        let streams = self.0.facts.streams(node);
        Ok(Stream(Kind::There(Box::new(There {
            dialer: self.clone(),
            call,
            stream,
            terms,
            subject,
            since,
            _streams: streams,
        }))))
    }

    /// The service is on this node. The caller is judged as if it came from elsewhere, by its own SVID and this node's place.
    async fn open_here(&self, who: &Principal, service: &Name) -> Result<Stream, Declined> {
        let held = &self.0.held;
        let own = || {
            let unknown = Declined::NotBelieved { why: "this node was never shown its place in the org".to_owned() };
            let chain = held.chain_of(who).ok_or_else(|| unknown.clone())?;
            let hello = held.rule.load().standing.hello().ok_or(unknown)?;
            let judged = prove(held, Shown { chain: &chain, side: Side::Client })
                .map_err(Into::into)
                .and_then(|svid| held.rule.load().standing.recognize(&svid, &hello.presented, clock::now()));
            judged.map_err(|why| Denied::from(why).told())
        };
        let peer = Ok(Arc::new(own()?));
        let origin = Origin { transport: "here", from: None };
        match admit::answer(held, &peer, (Open::Service(service.clone()), origin), &mut None).await {
            Answer::Carry(admitted) => Ok(Stream(Kind::Here { held: Arc::clone(held), admitted })),
            Answer::No(why) => Err(why),
            Answer::Yes | Answer::Keep | Answer::Through(_) => Err(Declined::ServiceDown),
        }
    }
}

const NO_ADDRESS: &str = "it has no address, and no relay leads to it";

enum Asked {
    Dead(String),
    Declined(Declined),
}

#[expect(clippy::needless_pass_by_value, reason = "shape of map_err")]
fn dead(why: crate::frame::reader::NoFrame) -> Asked {
    Asked::Dead(plain(&why.to_string()))
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

/// Open, and ready to carry a program's bytes.
#[derive(Debug)]
pub struct Stream(Kind);

#[derive(Debug)]
enum Kind {
    There(Box<There>),
    Here { held: Arc<Held>, admitted: Box<Admitted> },
}

#[derive(Debug)]
struct There {
    dialer: Dialer,
    call: Call,
    /// Over QUIC, where a connection has many.
    stream: Option<crate::transport::quic::Ends>,
    terms: Terms,
    subject: Subject,
    since: Instant,
    _streams: health::Counted,
}

impl Stream {
    /// How it goes: `tls`, `quic`, or `here` if the service is on this node.
    pub fn transport(&self) -> &'static str {
        match &self.0 {
            Kind::There(there) => there.subject.transport,
            Kind::Here { .. } => "here",
        }
    }

    /// Carries a program's bytes both ways until the end.
    pub async fn carry(self, socket: TcpStream) {
        // Programs' sockets come from others; without it, the last bytes of a small answer would wait.
        let _ = crate::transport::settle(&socket);
        match self.0 {
            Kind::Here { held, admitted } => {
                admitted.carry(&held, Far::Here(socket.into())).await;
            }
            Kind::There(there) => there.carry(socket).await,
        }
    }
}

impl There {
    async fn carry(self, socket: TcpStream) {
        let Self { dialer, call, stream, mut terms, subject, since, _streams } = self;
        let Call { line, peer, via, until, shared, counted } = call;
        let (far, kept) = match (line, stream) {
            (Line::Quic(line), Some(ends)) => (Far::Quic(ends), Some(line)),
            (Line::Tls(ends), _) => (Far::Tls(ends), None),
            (Line::Quic(_), None) => return,
        };
        let mut carried = pipe::carry(socket.into(), far, &mut terms).await;
        note_end(&dialer.0.held, &subject, &carried, since);
        if let Some(ends) = carried.free.take() {
            let call = Call { line: Line::Tls(ends), peer, via, until, shared, counted };
            dialer.0.stock.put(&(subject.who, subject.node), call);
        }
        // Over QUIC the connection is held until the last byte is there.
        drop(kept);
    }
}
