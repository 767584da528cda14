//! Where peers come in: over TLS and over QUIC, and what becomes of what they want.

pub mod by_relay;
pub mod listen;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ground::clock;
use identity::causes::describe;
use org::peer::{NotAPeer, Peer};
use org::report::plain;
use quinn::crypto::rustls::NoInitialCipherSuite;
use quinn::{Endpoint, EndpointConfig, Incoming, TokioRuntime};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::peer::{Declined, Open, Opened};
use wire::tls::TlsSetup;

use crate::dial::choose::By;
use crate::limit::connections::{Guest, Knock};
use crate::relay::{self, Lobby};
use crate::state::callers::Present;
use crate::state::log::{Event, Stranger};
use crate::state::shared::Held;
use crate::stream::admit::{Answer, Origin, answer};
use crate::stream::pipe::Far;
use crate::transport::hello::Met;
use crate::transport::quic::Turn;
use crate::transport::tls::NoLine;
use crate::transport::{OPENED, quic, settle, tls};

/// A connection that carries nothing for so long ends. Callers let go of it earlier, so that none asks at the last moment.
const UNUSED: Duration = Duration::from_secs(90);
/// Streams that are cut are over by then.
const CUT: Duration = Duration::from_secs(1);
/// What carries nothing over QUIC has so long to be heard.
const TOLD: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum NoService {
    #[error(transparent)]
    Tls(#[from] TlsSetup),
    #[error("QUIC could not be set up")]
    Quic(#[from] NoInitialCipherSuite),
    #[error("the socket for QUIC cannot be used: {0}")]
    Socket(#[from] std::io::Error),
}

/// Until it is told to stop, or nobody is left to tell it. What was let in goes on.
pub async fn serve_tls(
    held: Arc<Held>,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
) -> Result<(), NoService> {
    let config = Arc::new(held.server()?);
    let lobby = Arc::<Lobby>::default();
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {
                lobby.close();
                return Ok(());
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, from)) => match held.door.knock(from.ip(), Instant::now()) {
                Some(knock) => {
                    let place = (Arc::clone(&held), Arc::clone(&lobby));
                    tokio::spawn(let_in_by_tls(place, Arc::clone(&config), (socket, from), knock));
                }
                None => turn_away(&held, &socket),
            },
            // Out of descriptors, most likely: others end meanwhile.
            Err(why) => {
                tracing::warn!(%why, "cannot accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Without a word, and without anything left behind in the kernel.
fn turn_away(held: &Held, socket: &TcpStream) {
    held.meter.failed_to_shake_hands("too_many");
    let _ = socket.set_zero_linger();
}

async fn let_in_by_tls(
    (held, lobby): (Arc<Held>, Arc<Lobby>),
    config: Arc<ServerConfig>,
    (socket, from): (TcpStream, SocketAddr),
    knock: Knock,
) {
    if settle(&socket).is_err() {
        return;
    }
    // Apart, so that what stays in memory for long is small.
    let shaking = shake_hands(&held, (from, By::Tls), knock, tls::receive(&held, config, tls::over(socket)));
    let received = Box::pin(shaking).await;
    if let Some((ends, met, standing)) = received {
        let _present = present(&held, &met, By::Tls.word());
        let origin = Origin { transport: By::Tls.word(), from: Some(from) };
        let (guest, _stranger) = match standing {
            Ok(guest) => (Some(guest), None),
            Err(knock) => (None, Some(knock)),
        };
        serve_streams(&held, (Some(&lobby), guest), (Box::new(ends), origin), met).await;
    }
}

/// A connection of a node that has as many as one may have.
trait TooMany {
    fn is_one_too_many(&self);
}

impl TooMany for tls::Ends {
    fn is_one_too_many(&self) {}
}

impl TooMany for quic::Line {
    fn is_one_too_many(&self) {
        self.connection.close(quic::CROWDED, b"too many");
    }
}

/// As what it is counted: whoever is not believed stays a stranger.
type Standing = Result<Guest, Knock>;

/// A stranger that takes long makes room for others.
async fn shake_hands<L: TooMany>(
    held: &Held,
    (from, by): (SocketAddr, By),
    mut knock: Knock,
    receiving: impl Future<Output = Result<(L, Met), NoLine>>,
) -> Option<(L, Met, Standing)> {
    let received = tokio::select! {
        () = knock.evicted() => {
            held.meter.failed_to_shake_hands("made_room");
            return None;
        }
        received = receiving => received,
    };
    match received {
        Ok((line, met)) => {
            held.meter.shook_hands();
            turned_away(held, &met, (Some(from), by.word()));
            // Whoever is not believed stays a stranger, and is only told why.
            let standing = match &met.peer {
                Ok(peer) => {
                    let Some(guest) = knock.let_in(peer.node(), by) else {
                        line.is_one_too_many();
                        return None;
                    };
                    Ok(guest)
                }
                Err(_) => Err(knock),
            };
            Some((line, met, standing))
        }
        Err(why) => {
            held.meter.failed_to_shake_hands(why.word());
            not_met(held, &why, (Some(from), by.word()));
            None
        }
    }
}

/// Counted among those who are here.
pub fn present(held: &Held, met: &Met, transport: &'static str) -> Option<Present> {
    met.peer.as_ref().ok().map(|peer| held.callers.connected(peer.node(), transport, met.head))
}

/// Who is not believed stands in the log: whom it says to be, from where, and why it is not.
pub fn turned_away(held: &Held, met: &Met, (from, transport): (Option<SocketAddr>, &'static str)) {
    if let Err(why) = &met.peer {
        let event = match why {
            NotAPeer::Suspended { .. } => Event::Suspended,
            _ => Event::NotBelieved,
        };
        let stranger = Stranger { event, claims: met.claims.clone(), from, transport, why: plain(&describe(why)) };
        held.log.turned_away(stranger, held.rule.load().standing.head());
    }
}

/// With whom it did not come to that.
pub fn not_met(held: &Held, why: &NoLine, (from, transport): (Option<SocketAddr>, &'static str)) {
    let stranger = Stranger { event: Event::NotBelieved, claims: None, from, transport, why: plain(&describe(why)) };
    held.log.turned_away(stranger, held.rule.load().standing.head());
}

/// One after the other. Where no others can wait, nothing is carried for them. A connection that waits stays a guest.
pub async fn serve_streams(
    held: &Arc<Held>,
    (lobby, guest): (Option<&Lobby>, Option<Guest>),
    (mut ends, origin): (Box<tls::Ends>, Origin),
    met: Met,
) {
    while let Some(open) = next(held, &mut ends, &met).await {
        let Some(answered) = ends.alive_during(judge(held, &met, (open, origin), &mut None)).await else { return };
        match (answered, &met.peer, lobby) {
            (Answer::Carry(mut admitted), _, _) => {
                if !admitted.is_opened_by(held, ends.answer(&Opened::Yes)).await {
                    return;
                }
                match admitted.carry(held, Far::Tls(ends)).await {
                    Some(free) => ends = free,
                    None => return,
                }
            }
            (Answer::Yes, _, _) => {
                if ends.answer(&Opened::Yes).await.is_err() {
                    return;
                }
            }
            (Answer::Keep, Ok(peer), Some(lobby)) => return relay::keep(held, lobby, peer, (*ends, guest)).await,
            (Answer::Through(to), Ok(peer), Some(lobby)) => {
                return relay::carry(held, lobby, (peer, *ends), &to).await;
            }
            (Answer::Keep | Answer::Through(_), _, _) => {
                let _ = ends.answer(&Opened::No(Declined::NoRelay)).await;
            }
            (Answer::No(why), peer, _) => {
                // Whoever is not believed is told once.
                if ends.answer(&Opened::No(why)).await.is_err() || peer.is_err() {
                    return;
                }
            }
        }
    }
}

/// What the other side wants next. Whoever is not believed has less time for it, and whoever is taken back has none.
async fn next(held: &Held, ends: &mut tls::Ends, met: &Met) -> Option<Open> {
    match &met.peer {
        Ok(peer) => tokio::select! {
            open = ends.asked(UNUSED) => open,
            () = held.taken_back([peer]) => None,
        },
        Err(_) => ends.asked(OPENED).await,
    }
}

/// Who has something to tell since the two met has the other one come anew, and then it is told: so a busy connection keeps no
/// revocation from a node that no gateway reaches.
async fn judge(held: &Arc<Held>, met: &Met, (open, origin): (Open, Origin), turn: &mut Option<Turn>) -> Answer {
    let standing = Arc::clone(&held.rule.load().standing);
    if let (Open::Service(_), Ok(peer)) = (&open, &met.peer)
        && !met.shared.is_all_of(&standing)
        && standing.check(peer, clock::now()).is_ok()
    {
        return Answer::No(Declined::TooOld);
    }
    answer(held, &met.peer, (open, origin), turn).await
}

/// The same over QUIC.
pub async fn serve_quic(held: Arc<Held>, socket: UdpSocket, mut stop: watch::Receiver<bool>) -> Result<(), NoService> {
    let config = quic::server(held.server()?)?;
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))?;
    loop {
        let incoming = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            incoming = endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else { return Ok(()) };
        if held.door.turns_away(incoming.remote_address().ip(), Instant::now()) {
            held.meter.failed_to_shake_hands("too_many");
            incoming.ignore();
            continue;
        }
        if !incoming.remote_address_validated() {
            // Whoever only says that it is somewhere is counted nowhere, and keeps nobody there out. The answer is no longer
            // than what was sent: nobody is flooded by this node.
            let _ = incoming.retry();
            continue;
        }
        if let Some(knock) = held.door.knock(incoming.remote_address().ip(), Instant::now()) {
            tokio::spawn(let_in_by_quic(Arc::clone(&held), incoming, knock));
        } else {
            held.meter.failed_to_shake_hands("too_many");
            incoming.ignore();
        }
    }
    // The socket is the endpoint's: what was let in goes on until its last connection is over.
    endpoint.set_server_config(None);
    endpoint.wait_idle().await;
    Ok(())
}

async fn let_in_by_quic(held: Arc<Held>, incoming: Incoming, knock: Knock) {
    let from = incoming.remote_address();
    let received = Box::pin(shake_hands(&held, (from, By::Quic), knock, quic::receive(&held, incoming))).await;
    let Some((line, met, standing)) = received else { return };
    // Whoever carries one of its streams to the end counts as it.
    let standing = Arc::new(standing);
    let _present = present(&held, &met, By::Quic.word());
    let met = Arc::new(met);
    let why = if let Ok(peer) = &met.peer {
        serve_line(&held, (&line, &standing), (peer, &met), from).await
    } else {
        if let Ok(Some(stream)) = timeout(OPENED, line.next()).await {
            serve_stream((held, standing), Arc::clone(&met), stream, from).await;
        }
        "not believed"
    };
    line.connection.close(quic::UNWANTED, why.as_bytes());
}

/// Until it is over, carries nothing for long, or its peer is taken back.
async fn serve_line(
    held: &Arc<Held>,
    (line, standing): (&quic::Line, &Arc<Standing>),
    (peer, met): (&Peer, &Arc<Met>),
    from: SocketAddr,
) -> &'static str {
    let mut streams = JoinSet::new();
    let mut taken_back = std::pin::pin!(held.taken_back([peer]));
    loop {
        tokio::select! {
            next = line.next() => {
                let Some(stream) = next else {
                    // Each finds out by itself, and tells.
                    streams.detach_all();
                    return "over";
                };
                let counted = (Arc::clone(held), Arc::clone(standing));
                streams.spawn(serve_stream(counted, Arc::clone(met), stream, from));
                line.make_room(streams.len());
            }
            Some(_) = streams.join_next() => {}
            () = tokio::time::sleep(UNUSED), if streams.is_empty() => return "unused",
            () = &mut taken_back => {
                // They were cut, each for itself, and say so first.
                let _ = timeout(CUT, async { while streams.join_next().await.is_some() {} }).await;
                streams.detach_all();
                return "taken back";
            }
        }
    }
}

/// Small until it is known what the stream is for: others begin as many as they like.
async fn serve_stream(
    (held, _standing): (Arc<Held>, Arc<Standing>),
    met: Arc<Met>,
    (ends, turn): (quic::Ends, Turn),
    from: SocketAddr,
) {
    let Some((open, ends)) = ends.asked().await else { return };
    let origin = Origin { transport: By::Quic.word(), from: Some(from) };
    Box::pin(serve_open(&held, &met, (ends, turn), (open, origin))).await;
}

async fn serve_open(held: &Arc<Held>, met: &Met, (mut ends, turn): (quic::Ends, Turn), wanted: (Open, Origin)) {
    // Kept to the end by what is not carried.
    let mut turn = Some(turn);
    let told = match judge(held, met, wanted, &mut turn).await {
        Answer::Carry(mut admitted) => {
            if admitted.is_opened_by(held, ends.answer(&Opened::Yes)).await {
                admitted.carry(held, Far::Quic(ends)).await;
            } else {
                ends.break_off();
            }
            return;
        }
        Answer::Yes => Opened::Yes,
        Answer::No(why) => Opened::No(why),
        // What is carried for others goes over TLS.
        Answer::Keep | Answer::Through(_) => Opened::No(Declined::NoRelay),
    };
    let tell = async {
        let _ = ends.answer(&told).await;
        ends.finish().await;
    };
    // The connection of whoever is not believed ends with it.
    let _ = timeout(if met.peer.is_ok() { TOLD } else { OPENED }, tell).await;
}
