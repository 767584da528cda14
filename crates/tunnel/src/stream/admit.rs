//! Lets a peer's stream in to a service here: entered in the book, asked of the rule, connected. In this order: so a change
//! of the rules finds it in the book, or is asked itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ground::clock;
use identity::principal::{Name, NodeName};
use manifest::stored::Listener;
use org::peer::{NotAPeer, Peer};
use org::report::plain;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;
use wire::peer::{Declined, Open};

use crate::access::standing::Denied;
use crate::frame::reader::NoFrame;
use crate::limit::connections::Seat;
use crate::state::callers::Present;
use crate::state::log::{Carried, Event, Subject};
use crate::state::shared::Held;
use crate::state::socket::Socket;
use crate::state::streams::{Sockets, Way};
use crate::stream::pipe::{self, End, Far, Terms};
use crate::stream::proxy_header;
use crate::transport::connect;
use crate::transport::quic::{Turn, Width};

/// A service on the own machine answers at once, or not at all.
const CONNECT: Duration = Duration::from_secs(10);

/// The transport of who is at home on the same node.
pub const HERE: &str = "here";

#[derive(Debug)]
pub enum Answer {
    Carry(Box<Admitted>),
    /// Yes, and nothing follows.
    Yes,
    /// It waits here until somebody wants its node.
    Keep,
    /// To a node that waits here.
    Through(NodeName),
    No(Declined),
}

/// A stream whose service has accepted.
#[derive(Debug)]
pub struct Admitted {
    pub service: Socket,
    subject: Subject,
    terms: Terms,
    since: Instant,
    _seat: Seat,
    _present: Option<Present>,
    _width: Option<Width>,
}

/// By which way a peer came.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    pub transport: &'static str,
    /// Where it was seen; nothing if it is on this node, or came by a relay.
    pub from: Option<SocketAddr>,
}

/// The one place where it is decided what becomes of what a peer wants.
/// A turn is passed on as soon as the stream is counted as one that is allowed.
pub async fn answer(
    held: &Arc<Held>,
    peer: &Result<Arc<Peer>, NotAPeer>,
    (open, origin): (Open, Origin),
    turn: &mut Option<Turn>,
) -> Answer {
    let peer = match peer {
        Ok(peer) => peer,
        Err(why) => {
            let denied = Denied::from(why.clone());
            held.meter.failed_to_shake_hands(denied.word());
            tracing::info!(%why, ?open, "refused a peer");
            return Answer::No(denied.told());
        }
    };
    match open {
        Open::Probe => Answer::Yes,
        Open::Through(_) | Open::Wait if !is_relay(held) => Answer::No(Declined::NoRelay),
        Open::Through(to) => believed(held, peer).map_or_else(Answer::No, |()| Answer::Through(to)),
        Open::Wait => believed(held, peer).map_or_else(Answer::No, |()| Answer::Keep),
        Open::Service(service) => {
            let subject = Subject {
                way: Way::In,
                who: peer.principal().clone(),
                node: peer.node().clone(),
                service,
                transport: origin.transport,
            };
            match admit(held, (peer, origin.from), subject.clone(), turn).await {
                Ok(admitted) => Answer::Carry(Box::new(admitted)),
                Err(refused) => Answer::No(refused.note(held, &subject)),
            }
        }
    }
}

fn is_relay(held: &Held) -> bool {
    held.running.load().as_ref().is_some_and(|running| running.relay)
}

/// Any member may be carried for; whom it reaches is not decided here.
fn believed(held: &Held, peer: &Peer) -> Result<(), Declined> {
    held.rule.load().standing.check(peer, clock::now()).map_err(|why| Denied::from(why).told())
}

/// Why a service is not to be had here.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("as many streams are open as are allowed")]
    TooMany,
    #[error("no such service runs here")]
    NotHere,
    #[error("the service at {at} does not accept connections: {why}")]
    Down { at: String, why: std::io::Error },
    #[error("the service at {at} did not answer within {} s", CONNECT.as_secs())]
    Silent { at: String },
}

impl Refused {
    fn parts(&self) -> (&'static str, Declined) {
        match self {
            Self::Denied(why) => (why.word(), why.told()),
            Self::TooMany => ("too_many", Declined::TooMany),
            Self::NotHere => ("not_here", Declined::ServiceDown),
            Self::Down { .. } => ("service_down", Declined::ServiceDown),
            Self::Silent { .. } => ("service_silent", Declined::ServiceSilent),
        }
    }

    /// Counted and logged; what the other side is told is less.
    fn note(&self, held: &Held, subject: &Subject) -> Declined {
        let (word, told) = self.parts();
        // A peer makes up as many names as it likes: only those that are known here are counted one by one.
        if listener(held, &subject.service).is_some() {
            held.meter.row(&subject.service, &subject.who, true).refused(word);
        }
        held.log.say((Event::Refused, Some(self.to_string())), subject, held.rule.load().standing.head(), None);
        told
    }
}

async fn admit(
    held: &Arc<Held>,
    (peer, from): (&Arc<Peer>, Option<SocketAddr>),
    subject: Subject,
    turn: &mut Option<Turn>,
) -> Result<Admitted, Refused> {
    let since = Instant::now();
    let seat = held.door.sit(&subject.node).ok_or(Refused::TooMany)?;
    let mut ticket = held.book.enter(Arc::clone(peer), subject.service.clone(), Way::In);
    held.rule.load().may_open(peer, &subject.service, clock::now())?;
    let listener = listener(held, &subject.service).ok_or(Refused::NotHere)?;
    // A service that takes its time holds up no other.
    let width = turn.take().map(|turn| turn.pass(|| held.door.widen(&subject.node)));
    let service = tokio::select! {
        why = ticket.cut() => return Err(why.into()),
        service = reach(&listener) => service?,
    };
    let down = |why| Refused::Down { at: listener.addr.to_string(), why };
    let (own, destination) = service.addresses().map_err(down)?;
    // From now on whoever puts a new rule ends it.
    service.breaks_when_dropped();
    ticket.goes_over(Sockets { near: Some(service.breaker()), far: None });
    ticket.is_seen_as(own, destination);
    // The service may have taken its time, and the operators may have spoken since.
    held.rule.load().may_open(peer, &subject.service, clock::now())?;
    if listener.tells_caller {
        let header = proxy_header::v2(from, destination, &subject.who, &subject.node);
        let broken = |why| ticket.is_cut().map_or_else(|| down(why), Refused::from);
        (&service).write_all(&header).await.map_err(broken)?;
    }
    let row = held.meter.row(&subject.service, &subject.who, true);
    let terms = Terms { ticket, row, way: Way::In, idle: pipe::IDLE };
    let is_caller = subject.transport != HERE;
    let present = is_caller.then(|| held.callers.opened(&subject.node, subject.transport));
    Ok(Admitted { service, subject, terms, since, _seat: seat, _present: present, _width: width })
}

fn listener(held: &Held, service: &Name) -> Option<Listener> {
    held.running.load().as_ref().and_then(|running| running.services.get(service).cloned())
}

async fn reach(listener: &Listener) -> Result<Socket, Refused> {
    let at = || listener.addr.to_string();
    let connected = timeout(CONNECT, connect(&listener.addr)).await.map_err(|_| Refused::Silent { at: at() })?;
    connected.map(Socket::from).map_err(|why| Refused::Down { at: at(), why })
}

impl Admitted {
    /// Is it open for the other side, too? Not if the operators end it while that is said.
    pub async fn is_opened_by(&mut self, held: &Held, answer: impl Future<Output = Result<(), NoFrame>>) -> bool {
        tokio::select! {
            biased;
            why = self.terms.ticket.cut() => {
                Refused::from(why).note(held, &self.subject);
                false
            }
            answered = answer => answered.is_ok(),
        }
    }

    /// Carries the stream to its end; gives the connection back if it can carry another.
    pub async fn carry(self, held: &Held, far: Far) -> Option<Box<crate::transport::tls::Ends>> {
        let Self { service, subject, mut terms, since, _seat, _present, _width } = self;
        held.log.say((Event::Opened, None), &subject, held.rule.load().standing.head(), None);
        let carried = pipe::carry(service, far, &mut terms).await;
        note_end(held, &subject, &carried, since);
        carried.free
    }
}

/// The last line of a stream.
pub fn note_end(held: &Held, subject: &Subject, carried: &pipe::Carried, since: Instant) {
    let (event, reason) = match &carried.end {
        End::Whole => (Event::Closed, None),
        why @ End::Cut(_) => (Event::Cut, Some(why.to_string())),
        why @ (End::Near(_) | End::Broken | End::Far(_) | End::Silent | End::Idle) => {
            // A connection may have ended with words of the other side.
            (Event::Closed, Some(plain(&why.to_string())))
        }
    };
    let milliseconds = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let counted = Carried { sent: carried.sent, received: carried.received, milliseconds };
    held.log.say((event, reason), subject, held.rule.load().standing.head(), Some(counted));
}
