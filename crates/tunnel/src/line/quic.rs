//! A connection over QUIC: its first stream carries the words about who is there; each further one is a stream of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use identity::verifier::Side;
use pki_types::CertificateDer;
use quinn::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use quinn::{Connection, Endpoint, IdleTimeout, Incoming, RecvStream, SendStream, TransportConfig, VarInt};
use tokio::time::timeout;
use wire::peer::{Open, Opened};

use super::frames::{Frames, NoFrame, say};
use super::meet::{Met, Shown, meet};
use super::tls::NoLine;
use super::{HANDSHAKE, OPENED, SILENCE};
use crate::door::STREAMS_OF_ONE;
use crate::frame::Kind;
use crate::held::Held;

/// Nobody says over UDP that nobody is there.
pub const ANSWER: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_secs(5);
const IDLE_MILLISECONDS: u32 = 15_000;
/// What a peer may have sent on all its streams together that no service has read yet. A stream has a window of its own.
const WINDOW: u32 = 16 << 20;

/// What the other side hears of a stream that broke off here.
pub const BROKEN: VarInt = VarInt::from_u32(1);
/// And of a connection that is not wanted.
pub const UNWANTED: VarInt = VarInt::from_u32(2);

#[derive(Debug)]
pub struct Line {
    pub connection: Connection,
    pub since: Instant,
    /// It stays open as long as the connection is of use.
    _words: (SendStream, RecvStream),
}

/// Both directions of one stream.
#[derive(Debug)]
pub struct Ends {
    pub to: SendStream,
    pub from: RecvStream,
}

pub fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    transport.max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_MILLISECONDS))));
    transport.max_concurrent_bidi_streams(VarInt::from_u32(u32::try_from(STREAMS_OF_ONE).unwrap_or(u32::MAX)));
    transport.max_concurrent_uni_streams(VarInt::from_u32(0));
    transport.datagram_receive_buffer_size(None);
    transport.receive_window(VarInt::from_u32(WINDOW));
    transport
}

pub fn server(config: rustls::ServerConfig) -> Result<quinn::ServerConfig, NoInitialCipherSuite> {
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config)?));
    server.transport_config(Arc::new(transport()));
    Ok(server)
}

pub fn client(config: &Arc<rustls::ClientConfig>) -> Result<quinn::ClientConfig, NoInitialCipherSuite> {
    let mut client = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(Arc::clone(config))?));
    client.transport_config(Arc::new(transport()));
    Ok(client)
}

pub async fn call(
    held: &Held,
    (endpoint, config): (&Endpoint, quinn::ClientConfig),
    address: SocketAddr,
) -> Result<(Line, Met), NoLine> {
    let failed = |why: quinn::ConnectError| NoLine::Handshake(std::io::Error::other(why));
    // A client must name somebody; the verifier looks at the SVID instead.
    let shaking = endpoint.connect_with(config, address, "127.0.0.1").map_err(failed)?;
    let connection = timeout(ANSWER, shaking).await.map_err(|_| NoLine::NoAnswer)??;
    let words = connection.open_bi().await?;
    introduce(held, connection, words, Side::Server).await
}

pub async fn receive(held: &Held, incoming: Incoming) -> Result<(Line, Met), NoLine> {
    let connection = timeout(HANDSHAKE, incoming).await.map_err(|_| NoLine::Slow)??;
    let words = timeout(HANDSHAKE, connection.accept_bi()).await.map_err(|_| NoLine::Slow)??;
    introduce(held, connection, words, Side::Client).await
}

async fn introduce(
    held: &Held,
    connection: Connection,
    (mut to, from): (SendStream, RecvStream),
    side: Side,
) -> Result<(Line, Met), NoLine> {
    let identity = connection.peer_identity().and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    let chain = identity.map(|chain| *chain).unwrap_or_default();
    let mut frames = Frames::new(from);
    let met = meet(held, (&mut frames, &mut to), Shown { chain: &chain, side }).await?;
    Ok((Line { connection, since: Instant::now(), _words: (to, frames.into_inner()) }, met))
}

impl Line {
    pub async fn ask(&self, open: &Open) -> Result<(Opened, Ends), NoFrame> {
        let asked = async {
            let (mut to, from) = self.connection.open_bi().await.map_err(std::io::Error::from)?;
            say(&mut to, Kind::Open, open).await?;
            let mut frames = Frames::new(from);
            let opened = frames.words(Kind::Opened).await?;
            Ok((opened, Ends { to, from: frames.into_inner() }))
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

    /// The next stream that the other side begins; nothing when the connection is over.
    pub async fn next(&self) -> Option<Ends> {
        self.connection.accept_bi().await.ok().map(|(to, from)| Ends { to, from })
    }

    pub fn is_over(&self) -> bool {
        self.connection.close_reason().is_some()
    }
}

fn gone() -> NoFrame {
    NoFrame::Io(std::io::ErrorKind::TimedOut.into())
}

impl Ends {
    /// What is wanted of the stream.
    pub async fn asked(self) -> Option<(Open, Self)> {
        let mut frames = Frames::new(self.from);
        let open = timeout(OPENED, frames.words(Kind::Open)).await.ok()?.ok()?;
        Some((open, Self { to: self.to, from: frames.into_inner() }))
    }

    pub async fn answer(&mut self, opened: &Opened) -> Result<(), NoFrame> {
        let late = |_| NoFrame::Io(std::io::ErrorKind::TimedOut.into());
        timeout(OPENED, say(&mut self.to, Kind::Opened, opened)).await.map_err(late)?
    }

    /// Ends this side, and waits until the other one has it all.
    pub async fn finish(&mut self) {
        // Whatever comes of it: there is nobody to tell. It may have ended before, and not be acknowledged yet.
        let _ = self.to.finish();
        let _ = timeout(OPENED, self.to.stopped()).await;
    }

    /// Takes no more at once; what was sent has so long to arrive.
    pub async fn break_off_after(&mut self, grace: Duration) {
        let _ = self.from.stop(BROKEN);
        tokio::time::sleep(grace).await;
        self.break_off();
    }

    pub fn break_off(&mut self) {
        let _ = self.to.reset(BROKEN);
        let _ = self.from.stop(BROKEN);
    }
}
