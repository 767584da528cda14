//! Lets a peer's stream in to a service here: registered, asked of the policy, connected.
//!
//! In this order: so a change of the policy finds it in the registry, or is asked itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ground::clock;
use identity::principal::{Name, NodeName};
use manifest::stored::Listener;
use org::member::peer::{NotAPeer, Peer};
use org::report::plain;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;
use wire::peer::{Declined, Open};

use crate::access::denied::Denied;
use crate::frame::reader::NoFrame;
use crate::limit::connections::StreamPermit;
use crate::state::callers::CountedCaller;
use crate::state::log::{CarriedBytes, LogEntry, LogEvent, LogSubject};
use crate::state::shared::TunnelState;
use crate::state::socket::Socket;
use crate::state::streams::{Direction, Sockets};
use crate::stream::end::StreamEnd;
use crate::stream::pipe::{self, FarEnd, PipeOutcome, StreamTerms};
use crate::stream::proxy_header;
use crate::transport::quic::{OpeningSlot, ReceiveWindow};
use crate::transport::tcp::connect;
use crate::transport::tls::TlsConnection;

/// A service on the own machine answers at once, or not at all.
const CONNECT: Duration = Duration::from_secs(10);

/// The transport of who is at home on the same node.
pub(crate) const HERE: &str = "here";

/// What becomes of what a peer wants.
#[derive(Debug)]
pub(crate) enum Verdict {
    Carry(Box<AdmittedStream>),
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
pub(crate) struct AdmittedStream {
    pub service: Socket,
    subject: LogSubject,
    terms: StreamTerms,
    since: Instant,
    _permit: StreamPermit,
    _caller: Option<CountedCaller>,
    _window: Option<ReceiveWindow>,
}

/// What a peer wants, and by which way it came.
#[derive(Debug)]
pub(crate) struct StreamRequest {
    pub open: Open,
    pub origin: CallOrigin,
}

/// By which way a peer came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallOrigin {
    pub transport: &'static str,
    /// Where it was seen; nothing if it is on this node, or came by a relay.
    pub from: Option<SocketAddr>,
}

/// The one place where it is decided what becomes of what a peer wants.
/// A slot is passed on as soon as the stream is counted as one that is allowed.
pub(crate) async fn answer(
    state: &Arc<TunnelState>,
    peer: &Result<Arc<Peer>, NotAPeer>,
    StreamRequest { open, origin }: StreamRequest,
    slot: &mut Option<OpeningSlot>,
) -> Verdict {
    let peer = match peer {
        Ok(peer) => peer,
        Err(why) => {
            let denied = Denied::from(why.clone());
            state.meter.failed_to_shake_hands(denied.word());
            tracing::info!(%why, ?open, "refused a peer");
            return Verdict::No(denied.told());
        }
    };
    match open {
        Open::Probe => Verdict::Yes,
        Open::Through(_) | Open::Wait if !is_relay(state) => Verdict::No(Declined::NoRelay),
        Open::Through(to) => believed(state, peer).map_or_else(Verdict::No, |()| Verdict::Through(to)),
        Open::Wait => believed(state, peer).map_or_else(Verdict::No, |()| Verdict::Keep),
        Open::Service(service) => {
            let subject = LogSubject {
                direction: Direction::In,
                who: peer.principal().clone(),
                node: peer.node().clone(),
                service,
                transport: origin.transport,
            };
            match admit(state, peer, origin.from, subject.clone(), slot).await {
                Ok(admitted) => Verdict::Carry(Box::new(admitted)),
                Err(refused) => Verdict::No(refused.note(state, &subject)),
            }
        }
    }
}

fn is_relay(state: &TunnelState) -> bool {
    state.running.load().as_ref().is_some_and(|running| running.relay)
}

/// Any member may be carried for; whom it reaches is not decided here.
fn believed(state: &TunnelState, peer: &Peer) -> Result<(), Declined> {
    state.policy.load().trust.check(peer, clock::now()).map_err(|why| Denied::from(why).told())
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
    fn note(&self, state: &TunnelState, subject: &LogSubject) -> Declined {
        let (word, told) = self.parts();
        // A peer makes up as many names as it likes: only those that are known here are counted one by one.
        if listener(state, &subject.service).is_some() {
            state.meter.service(&subject.service, &subject.who, true).refused(word);
        }
        state.log_stream(subject, LogEntry::refused(self.to_string()));
        told
    }
}

async fn admit(
    state: &Arc<TunnelState>,
    peer: &Arc<Peer>,
    from: Option<SocketAddr>,
    subject: LogSubject,
    slot: &mut Option<OpeningSlot>,
) -> Result<AdmittedStream, Refused> {
    let since = Instant::now();
    let permit = state.limits.take_stream(&subject.node).ok_or(Refused::TooMany)?;
    let mut stream = state.streams.register(Arc::clone(peer), subject.service.clone(), Direction::In);
    state.policy.load().may_open(peer, &subject.service, clock::now())?;
    let listener = listener(state, &subject.service).ok_or(Refused::NotHere)?;
    // A service that takes its time holds up no other.
    let window = slot.take().map(|slot| slot.pass(|| state.limits.take_window(&subject.node)));
    let service = tokio::select! {
        why = stream.cut() => return Err(why.into()),
        service = reach(&listener) => service?,
    };
    let down = |why| Refused::Down { at: listener.addr.to_string(), why };
    let (own, destination) = service.addresses().map_err(down)?;
    // From now on whoever puts a new policy ends it.
    service.resets_when_dropped();
    stream.goes_over(Sockets { near: Some(service.reset_handle()), far: None });
    stream.is_seen_as(own, destination);
    // The service may have taken its time, and the operators may have spoken since.
    state.policy.load().may_open(peer, &subject.service, clock::now())?;
    if listener.tells_caller {
        let header = proxy_header::v2(from, destination, &subject.who, &subject.node);
        let broken = |why| stream.is_cut().map_or_else(|| down(why), Refused::from);
        (&service).write_all(&header).await.map_err(broken)?;
    }
    let meter = state.meter.service(&subject.service, &subject.who, true);
    let terms = StreamTerms { stream, meter, direction: Direction::In, idle: pipe::IDLE };
    let is_caller = subject.transport != HERE;
    let caller = is_caller.then(|| state.callers.opened(&subject.node, subject.transport));
    Ok(AdmittedStream { service, subject, terms, since, _permit: permit, _caller: caller, _window: window })
}

fn listener(state: &TunnelState, service: &Name) -> Option<Listener> {
    state.running.load().as_ref().and_then(|running| running.services.get(service).cloned())
}

async fn reach(listener: &Listener) -> Result<Socket, Refused> {
    let at = || listener.addr.to_string();
    let connected = timeout(CONNECT, connect(&listener.addr)).await.map_err(|_| Refused::Silent { at: at() })?;
    connected.map(Socket::from).map_err(|why| Refused::Down { at: at(), why })
}

impl AdmittedStream {
    /// Is it open for the other side, too? Not if the operators end it while that is said.
    pub(crate) async fn is_opened_by(
        &mut self,
        state: &TunnelState,
        answer: impl Future<Output = Result<(), NoFrame>>,
    ) -> bool {
        tokio::select! {
            biased;
            why = self.terms.stream.cut() => {
                Refused::from(why).note(state, &self.subject);
                false
            }
            answered = answer => answered.is_ok(),
        }
    }

    /// Carries the stream to its end; gives the connection back if it can carry another.
    pub(crate) async fn carry(self, state: &TunnelState, far: FarEnd) -> Option<Box<TlsConnection>> {
        let Self { service, subject, mut terms, since, _permit, _caller, _window } = self;
        state.log_stream(&subject, LogEntry::opened());
        let carried = pipe::carry(service, far, &mut terms).await;
        note_end(state, &subject, &carried, since);
        carried.free
    }
}

/// The last line of a stream.
pub(crate) fn note_end(state: &TunnelState, subject: &LogSubject, carried: &PipeOutcome, since: Instant) {
    let (event, reason) = match &carried.end {
        StreamEnd::Whole => (LogEvent::Closed, None),
        why @ StreamEnd::Cut(_) => (LogEvent::Cut, Some(why.to_string())),
        why @ (StreamEnd::Near(_) | StreamEnd::Broken | StreamEnd::Far(_) | StreamEnd::Silent | StreamEnd::Idle) => {
            // A connection may have ended with words of the other side.
            (LogEvent::Closed, Some(plain(&why.to_string())))
        }
    };
    let milliseconds = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let counted = CarriedBytes { sent: carried.sent, received: carried.received, milliseconds };
    state.log_stream(subject, LogEntry { event, reason, carried: Some(counted) });
}
