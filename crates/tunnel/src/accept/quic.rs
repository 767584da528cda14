//! Where peers come in over QUIC.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use org::member::peer::Peer;
use quinn::crypto::rustls::NoInitialCipherSuite;
use quinn::{Endpoint, EndpointConfig, Incoming, TokioRuntime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::peer::{Declined, Open, Opened};
use wire::tls::TlsSetup;

use crate::accept::handshake::{Counted, Shaken, count_caller, shake_hands};
use crate::accept::streams::{UNUSED, judge};
use crate::limit::connections::PendingHandshake;
use crate::state::shared::TunnelState;
use crate::stream::admit::{CallOrigin, StreamRequest, Verdict};
use crate::stream::pipe::FarEnd;
use crate::transport::hello::MetPeer;
use crate::transport::protocol::Protocol;
use crate::transport::quic::{self, OpeningSlot, QuicConnection, QuicStream};
use crate::transport::timeouts::OPENED;

/// Streams that are cut are over by then.
const CUT: Duration = Duration::from_secs(1);
/// What carries nothing has so long to be heard.
const TOLD: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(crate) enum CannotListen {
    #[error(transparent)]
    Tls(#[from] TlsSetup),
    #[error("QUIC could not be set up")]
    Quic(#[from] NoInitialCipherSuite),
    #[error("the socket for QUIC cannot be used: {0}")]
    Socket(#[from] std::io::Error),
}

/// Until it is told to stop, or nobody is left to tell it. What was let in goes on.
pub(crate) async fn serve_quic(
    state: Arc<TunnelState>,
    socket: UdpSocket,
    mut stop: watch::Receiver<bool>,
) -> Result<(), CannotListen> {
    let config = quic::server(state.svids.server()?)?;
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))?;
    loop {
        let incoming = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            incoming = endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else { return Ok(()) };
        if state.limits.would_refuse(incoming.remote_address().ip(), Instant::now()) {
            state.meter.failed_to_shake_hands("too_many");
            incoming.ignore();
            continue;
        }
        if !incoming.remote_address_validated() {
            // Whoever only says that it is somewhere is counted nowhere, and keeps nobody there out. The answer is no longer
            // than what was sent: nobody is flooded by this node.
            let _ = incoming.retry();
            continue;
        }
        if let Some(pending) = state.limits.begin_handshake(incoming.remote_address().ip(), Instant::now()) {
            tokio::spawn(let_in(Arc::clone(&state), incoming, pending));
        } else {
            state.meter.failed_to_shake_hands("too_many");
            incoming.ignore();
        }
    }
    // The socket is the endpoint's: what was let in goes on until its last connection is over.
    endpoint.set_server_config(None);
    endpoint.wait_idle().await;
    Ok(())
}

/// Who is at the other end of a connection. Whoever carries one of its streams to the end counts as it.
struct QuicCaller {
    met: MetPeer,
    origin: CallOrigin,
    _counted: Counted,
}

async fn let_in(state: Arc<TunnelState>, incoming: Incoming, pending: PendingHandshake) {
    let from = incoming.remote_address();
    let receiving = quic::receive(&state, incoming);
    let shaken = Box::pin(shake_hands(&state, from, Protocol::Quic, pending, receiving)).await;
    let Some(Shaken { connection, met, counted }) = shaken else { return };
    let _present = count_caller(&state, &met, Protocol::Quic.word());
    let origin = CallOrigin { transport: Protocol::Quic.word(), from: Some(from) };
    let caller = Arc::new(QuicCaller { met, origin, _counted: counted });
    let why = if let Ok(peer) = &caller.met.peer {
        serve_connection(&state, &connection, peer, &caller).await
    } else {
        if let Ok(Some((stream, slot))) = timeout(OPENED, connection.next()).await {
            serve_stream(state, Arc::clone(&caller), stream, slot).await;
        }
        "not believed"
    };
    connection.connection.close(quic::UNWANTED, why.as_bytes());
}

/// Until it is over, carries nothing for long, or its peer is taken back.
async fn serve_connection(
    state: &Arc<TunnelState>,
    connection: &QuicConnection,
    peer: &Peer,
    caller: &Arc<QuicCaller>,
) -> &'static str {
    let mut streams = JoinSet::new();
    let mut taken_back = std::pin::pin!(state.taken_back([peer]));
    loop {
        tokio::select! {
            next = connection.next() => {
                let Some((stream, slot)) = next else {
                    // Each finds out by itself, and tells.
                    streams.detach_all();
                    return "over";
                };
                streams.spawn(serve_stream(Arc::clone(state), Arc::clone(caller), stream, slot));
                connection.raise_stream_limit(streams.len());
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
async fn serve_stream(state: Arc<TunnelState>, caller: Arc<QuicCaller>, stream: QuicStream, slot: OpeningSlot) {
    let Some((open, stream)) = stream.asked().await else { return };
    Box::pin(serve_open(&state, &caller, stream, slot, open)).await;
}

async fn serve_open(
    state: &Arc<TunnelState>,
    caller: &QuicCaller,
    mut stream: QuicStream,
    slot: OpeningSlot,
    open: Open,
) {
    let QuicCaller { met, origin, .. } = caller;
    // Kept to the end by what is not carried.
    let mut slot = Some(slot);
    let told = match judge(state, met, StreamRequest { open, origin: *origin }, &mut slot).await {
        Verdict::Carry(mut admitted) => {
            if admitted.is_opened_by(state, stream.answer(&Opened::Yes)).await {
                admitted.carry(state, FarEnd::Quic(stream)).await;
            } else {
                stream.break_off();
            }
            return;
        }
        Verdict::Yes => Opened::Yes,
        Verdict::No(why) => Opened::No(why),
        // What is carried for others goes over TLS.
        Verdict::Keep | Verdict::Through(_) => Opened::No(Declined::NoRelay),
    };
    let tell = async {
        let _ = stream.answer(&told).await;
        stream.finish().await;
    };
    // The connection of whoever is not believed ends with it.
    let _ = timeout(if met.peer.is_ok() { TOLD } else { OPENED }, tell).await;
}
