//! A connection over QUIC: its first stream carries the words about who is there; each further one is a stream of its own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use identity::verifier::Side;
use pki_types::CertificateDer;
use quinn::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use quinn::{
    Connection, ConnectionError, Endpoint, IdleTimeout, Incoming, RecvStream, SendStream, TransportConfig, VarInt,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use wire::peer::{Open, Opened};

use crate::frame::format::FrameKind;
use crate::frame::reader::{FrameReader, NoFrame, send_words};
use crate::limit::bounds::STREAMS_OF_ONE;
use crate::limit::connections::WindowPermit;
use crate::state::shared::TunnelState;
use crate::transport::hello::{self, MetPeer, ShownChain};
use crate::transport::no_connection::NoConnection;
use crate::transport::timeouts::{HANDSHAKE, OPENED, QUIC_ANSWER, SILENCE};

const KEEP_ALIVE: Duration = Duration::from_secs(5);
const IDLE_MILLISECONDS: u32 = 15_000;
/// What a peer may have sent on all its streams together that no service has read yet, once one of them is allowed, and if its
/// node has not too many such connections. A stream has a window of its own.
const WINDOW: u32 = 16 << 20;
/// And else: enough for long words, which are read as they come, and to go on with.
const WINDOW_AT_FIRST: u32 = 512 << 10;
/// The same for what was sent to it, and has not arrived; before, as little.
const SENT: u32 = 10_000_000;

/// Streams of one connection that have not said what they are for, and are waited for: the next ones cost nothing until they
/// are taken. One small packet begins as many as there may be.
pub(crate) const OPENING_AT_ONCE: usize = 64;
/// So many streams a connection may have at first, since each of them is kept room for from the start; more when so many are
/// in use.
pub(crate) const STREAMS_AT_FIRST: u32 = 256;

/// What the other side hears of a stream that broke off here.
pub(crate) const BROKEN: VarInt = VarInt::from_u32(1);
/// And of a connection that is not wanted.
pub(crate) const UNWANTED: VarInt = VarInt::from_u32(2);
/// And of one that is one too many of its node: there is still room over TLS.
pub(crate) const CROWDED: VarInt = VarInt::from_u32(3);

#[derive(Debug)]
pub(crate) struct QuicConnection {
    pub connection: Connection,
    pub since: Instant,
    opening: Arc<Semaphore>,
    window: ReceiveWindow,
    streams: AtomicU32,
    /// It stays open as long as the connection is of use; what comes on it after the words is not kept.
    _words: SendStream,
}

/// How much may be under way on a connection (flow control). Whoever carries one of its streams holds it: what was sent there
/// and nobody has read is kept as long as one of them is there, also when the connection is over.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceiveWindow(Arc<Mutex<Option<WindowPermit>>>);

/// The place of a stream of which nobody knows yet what it is for.
#[derive(Debug)]
pub(crate) struct OpeningSlot {
    _place: OwnedSemaphorePermit,
    connection: Connection,
    window: ReceiveWindow,
}

impl OpeningSlot {
    /// It is allowed, and counted as what it is from now on. Its connection has room for much, if there is some.
    pub(crate) fn pass(self, more: impl FnOnce() -> Option<WindowPermit>) -> ReceiveWindow {
        let mut wide = self.window.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wide.is_none() {
            *wide = more();
            if wide.is_some() {
                self.connection.set_receive_window(VarInt::from_u32(WINDOW));
                self.connection.set_send_window(u64::from(SENT));
            }
        }
        drop(wide);
        self.window
    }
}

/// Both directions of one stream.
#[derive(Debug)]
pub(crate) struct QuicStream {
    pub to: SendStream,
    pub from: RecvStream,
    pub connection: Connection,
}

pub(crate) fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    transport.max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_MILLISECONDS))));
    // Who is called begins none.
    transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
    transport.max_concurrent_uni_streams(VarInt::from_u32(0));
    transport.datagram_receive_buffer_size(None);
    transport.receive_window(VarInt::from_u32(WINDOW));
    transport
}

pub(crate) fn server(config: rustls::ServerConfig) -> Result<quinn::ServerConfig, NoInitialCipherSuite> {
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config)?));
    let mut transport = transport();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_AT_FIRST));
    transport.receive_window(VarInt::from_u32(WINDOW_AT_FIRST));
    transport.send_window(u64::from(WINDOW_AT_FIRST));
    server.transport_config(Arc::new(transport));
    Ok(server)
}

pub(crate) fn client(config: &Arc<rustls::ClientConfig>) -> Result<quinn::ClientConfig, NoInitialCipherSuite> {
    let mut client = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(Arc::clone(config))?));
    client.transport_config(Arc::new(transport()));
    Ok(client)
}

pub(crate) async fn call(
    state: &TunnelState,
    endpoint: &Endpoint,
    config: quinn::ClientConfig,
    address: SocketAddr,
) -> Result<(QuicConnection, MetPeer), NoConnection> {
    let failed = |why: quinn::ConnectError| NoConnection::Handshake(std::io::Error::other(why));
    // A client must name somebody; the verifier looks at the SVID instead.
    let shaking = endpoint.connect_with(config, address, "127.0.0.1").map_err(failed)?;
    let connection = timeout(QUIC_ANSWER, shaking).await.map_err(|_| NoConnection::NoAnswer)??;
    let (to, from) = connection.open_bi().await?;
    introduce(state, connection, Words { to, from }, Side::Server).await
}

pub(crate) async fn receive(
    state: &TunnelState,
    incoming: Incoming,
) -> Result<(QuicConnection, MetPeer), NoConnection> {
    let connection = timeout(HANDSHAKE, incoming).await.map_err(|_| NoConnection::Slow)??;
    let (to, from) = timeout(HANDSHAKE, connection.accept_bi()).await.map_err(|_| NoConnection::Slow)??;
    introduce(state, connection, Words { to, from }, Side::Client).await
}

/// The first stream of a connection: for the words about who is there.
struct Words {
    to: SendStream,
    from: RecvStream,
}

async fn introduce(
    state: &TunnelState,
    connection: Connection,
    Words { mut to, from }: Words,
    side: Side,
) -> Result<(QuicConnection, MetPeer), NoConnection> {
    let identity = connection.peer_identity().and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    let chain = identity.map(|chain| *chain).unwrap_or_default();
    let mut frames = FrameReader::new(from);
    let met = hello::exchange(state, &mut frames, &mut to, ShownChain { chain: &chain, side }).await?;
    if met.peer.is_err() {
        // Closing throws away what has not arrived: also what the other side was just told, and what it may freeze for.
        let _ = to.finish();
        let _ = timeout(QUIC_ANSWER, to.stopped()).await;
    }
    // Whatever else comes there is thrown away as it comes.
    let _ = frames.into_inner().stop(VarInt::from_u32(0));
    let line = QuicConnection {
        connection,
        since: Instant::now(),
        opening: Arc::new(Semaphore::new(OPENING_AT_ONCE)),
        window: ReceiveWindow::default(),
        streams: AtomicU32::new(STREAMS_AT_FIRST),
        _words: to,
    };
    Ok((line, met))
}

impl QuicConnection {
    pub(crate) async fn ask(&self, open: &Open) -> Result<(Opened, QuicStream), NoFrame> {
        let asked = async {
            let (mut to, from) = self.connection.open_bi().await.map_err(std::io::Error::from)?;
            send_words(&mut to, FrameKind::Open, open).await?;
            let mut frames = FrameReader::new(from);
            let opened = frames.words(FrameKind::Opened).await?;
            Ok((opened, QuicStream { to, from: frames.into_inner(), connection: self.connection.clone() }))
        };
        tokio::select! {
            opened = timeout(OPENED, asked) => opened.map_err(|_| gone())?,
            () = self.silence() => Err(gone()),
        }
    }

    /// Returns when not even a sign came that something arrived there: its process is another one by now.
    async fn silence(&self) {
        let heard = || self.connection.stats().udp_rx.datagrams;
        let before = heard();
        tokio::time::sleep(SILENCE.max(self.connection.rtt() * 5)).await;
        if heard() != before {
            std::future::pending::<()>().await;
        }
    }

    /// The next stream that the other side begins, when it is its turn; nothing when the connection is over.
    pub(crate) async fn next(&self) -> Option<(QuicStream, OpeningSlot)> {
        let turn = Arc::clone(&self.opening).acquire_owned();
        let place = tokio::select! {
            place = turn => place.ok()?,
            _ = self.connection.closed() => return None,
        };
        let (to, from) = self.connection.accept_bi().await.ok()?;
        let turn = OpeningSlot { _place: place, connection: self.connection.clone(), window: self.window.clone() };
        Some((QuicStream { to, from, connection: self.connection.clone() }, turn))
    }

    /// So many streams are at work, in use or not: when half of those that there may be are in use, there may be twice as many.
    pub(crate) fn raise_stream_limit(&self, at_work: usize) {
        let in_use = (at_work + self.opening.available_permits()).saturating_sub(OPENING_AT_ONCE);
        let (most, all) = (self.streams.load(Relaxed), u32::try_from(STREAMS_OF_ONE).unwrap_or(u32::MAX));
        if most < all && u32::try_from(in_use).is_ok_and(|in_use| in_use >= most / 2) {
            let more = (most * 2).min(all);
            self.streams.store(more, Relaxed);
            self.connection.set_max_concurrent_bi_streams(VarInt::from_u32(more));
        }
    }

    /// One too many of this node.
    pub(crate) fn is_crowded(&self) -> bool {
        matches!(self.connection.close_reason(), Some(ConnectionError::ApplicationClosed(why)) if why.error_code == CROWDED)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.connection.close_reason().is_some()
    }
}

fn gone() -> NoFrame {
    NoFrame::Io(std::io::ErrorKind::TimedOut.into())
}

impl QuicStream {
    /// What is wanted of the stream.
    pub(crate) async fn asked(self) -> Option<(Open, Self)> {
        let mut frames = FrameReader::new(self.from);
        let open = timeout(OPENED, frames.words(FrameKind::Open)).await.ok()?.ok()?;
        Some((open, Self { to: self.to, from: frames.into_inner(), connection: self.connection }))
    }

    pub(crate) async fn answer(&mut self, opened: &Opened) -> Result<(), NoFrame> {
        let late = |_| NoFrame::Io(std::io::ErrorKind::TimedOut.into());
        timeout(OPENED, send_words(&mut self.to, FrameKind::Opened, opened)).await.map_err(late)?
    }

    /// Ends this side, and waits until the other one has it all.
    pub(crate) async fn finish(&mut self) {
        // Whatever comes of it: there is nobody to tell. It may have ended before, and not be acknowledged yet.
        let _ = self.to.finish();
        let _ = timeout(OPENED, self.to.stopped()).await;
    }

    /// Takes no more at once; what was sent has so long to arrive.
    pub(crate) async fn break_off_after(&mut self, grace: Duration) {
        let _ = self.from.stop(BROKEN);
        tokio::time::sleep(grace).await;
        self.break_off();
    }

    pub(crate) fn break_off(&mut self) {
        let _ = self.to.reset(BROKEN);
        let _ = self.from.stop(BROKEN);
    }
}
