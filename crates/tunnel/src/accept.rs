//! Where peers come in: over TLS and over QUIC, and what becomes of what they want.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::NoInitialCipherSuite;
use quinn::{Endpoint, EndpointConfig, Incoming, TokioRuntime};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use wire::peer::{Declined, Opened};
use wire::tls::TlsSetup;

use crate::admit::{Answer, Origin, answer};
use crate::choose::By;
use crate::door::{Guest, Knock};
use crate::held::Held;
use crate::line::meet::Met;
use crate::line::tls::NoLine;
use crate::line::{OPENED, quic, settle, tls};
use crate::pipe::Far;
use crate::relay::{self, Lobby};

/// A connection that carries nothing for so long ends. Callers let go of it earlier, so that none asks at the last moment.
const UNUSED: Duration = Duration::from_secs(90);

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
    let received = Box::pin(shake_hands(&held, from, knock, tls::receive(&held, config, Box::new(socket)))).await;
    if let Some((ends, met, _standing)) = received {
        let origin = Origin { transport: By::Tls.word(), from: Some(from) };
        serve_streams(&held, Some(&lobby), (Box::new(ends), origin), met).await;
    }
}

/// A stranger that takes long makes room for others.
async fn shake_hands<L>(
    held: &Held,
    from: SocketAddr,
    mut knock: Knock,
    receiving: impl Future<Output = Result<(L, Met), NoLine>>,
) -> Option<(L, Met, Result<Guest, Knock>)> {
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
            // Whoever is not believed stays a stranger, and is only told why.
            let standing = match &met.peer {
                Ok(peer) => Ok(knock.let_in(peer.node())?),
                Err(_) => Err(knock),
            };
            Some((line, met, standing))
        }
        Err(why) => {
            held.meter.failed_to_shake_hands(why.word());
            tracing::debug!(%from, %why, "no handshake");
            None
        }
    }
}

/// One after the other. Where no others can wait, nothing is carried for them.
pub async fn serve_streams(
    held: &Arc<Held>,
    lobby: Option<&Lobby>,
    (mut ends, origin): (Box<tls::Ends>, Origin),
    met: Met,
) {
    let patience = if met.peer.is_ok() { UNUSED } else { OPENED };
    while let Some(open) = ends.asked(patience).await {
        let answered = answer(held, &met.peer, (open, origin)).await;
        match (answered, &met.peer, lobby) {
            (Answer::Carry(admitted), _, _) => {
                if ends.answer(&Opened::Yes).await.is_err() {
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
            (Answer::Keep, Ok(peer), Some(lobby)) => return relay::keep(held, lobby, peer, *ends).await,
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
    let received = Box::pin(shake_hands(&held, from, knock, quic::receive(&held, incoming))).await;
    let Some((line, met, _standing)) = received else { return };
    let met = Arc::new(met);
    if met.peer.is_err() {
        if let Ok(Some(ends)) = timeout(OPENED, line.next()).await {
            serve_stream(held, met, (ends, from)).await;
        }
        line.connection.close(quic::UNWANTED, b"not believed");
        return;
    }
    while let Some(ends) = line.next().await {
        tokio::spawn(serve_stream(Arc::clone(&held), Arc::clone(&met), (ends, from)));
    }
}

async fn serve_stream(held: Arc<Held>, met: Arc<Met>, (ends, from): (quic::Ends, SocketAddr)) {
    let origin = Origin { transport: By::Quic.word(), from: Some(from) };
    let Some((open, mut ends)) = ends.asked().await else { return };
    match answer(&held, &met.peer, (open, origin)).await {
        Answer::Carry(admitted) => {
            if ends.answer(&Opened::Yes).await.is_ok() {
                admitted.carry(&held, Far::Quic(ends)).await;
            }
        }
        Answer::Yes => {
            let _ = ends.answer(&Opened::Yes).await;
            ends.finish().await;
        }
        no @ (Answer::No(_) | Answer::Keep | Answer::Through(_)) => {
            // What is carried for others goes over TLS.
            let why = if let Answer::No(why) = no { why } else { Declined::NoRelay };
            let _ = timeout(Duration::from_secs(1), ends.answer(&Opened::No(why))).await;
            ends.finish().await;
        }
    }
}
