//! A connection over TLS: one stream at a time, everything in frames; when both sides have ended it, the next may begin.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use identity::verifier::Side;
use pki_types::CertificateDer;
use rustls::{ClientConfig, CommonState, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use wire::peer::{ALPN, Open, Opened};

use crate::frame::format::FrameKind;
use crate::frame::reader::{FrameReader, NoFrame, send_empty, send_words};
use crate::state::shared::TunnelState;
use crate::state::socket::{ResetHandle, Socket};
use crate::transport::hello::{self, MetPeer, ShownChain};
use crate::transport::no_connection::NoConnection;
use crate::transport::read_ahead::ReadAhead;
use crate::transport::timeouts::{BEAT, HANDSHAKE, OPENED};

/// What TLS goes over: a socket, or a way through a relay.
pub(crate) trait TlsIo: AsyncRead + AsyncWrite + Unpin + Send + Sync {
    /// Of the socket to the other node itself; through a relay there is none.
    fn reset_handle(&self) -> Option<ResetHandle>;
}

impl TlsIo for ReadAhead<Socket> {
    fn reset_handle(&self) -> Option<ResetHandle> {
        Some(self.below().reset_handle())
    }
}

type Inner = TlsStream<Box<dyn TlsIo>>;

/// A socket, read in large parts: TLS asks for small ones.
pub(crate) fn over(socket: TcpStream) -> Box<dyn TlsIo> {
    Box::new(ReadAhead::new(Socket::from(socket)))
}

/// Both directions, apart.
pub(crate) struct TlsConnection {
    pub frames: FrameReader<ReadHalf<Inner>>,
    pub to: WriteHalf<Inner>,
    /// If nobody is in between.
    pub reset_handle: Option<ResetHandle>,
}

impl fmt::Debug for TlsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConnection")
    }
}

pub(crate) async fn call(
    state: &TunnelState,
    config: Arc<ClientConfig>,
    below: Box<dyn TlsIo>,
) -> Result<(TlsConnection, MetPeer), NoConnection> {
    let shaking = TlsConnector::from(config).connect(wire::tls::peer::nobody(), below);
    let stream = timeout(HANDSHAKE, shaking).await.map_err(|_| NoConnection::Slow)?.map_err(NoConnection::Handshake)?;
    introduce(state, stream.into(), Side::Server).await
}

pub(crate) async fn receive(
    state: &TunnelState,
    config: Arc<ServerConfig>,
    below: Box<dyn TlsIo>,
) -> Result<(TlsConnection, MetPeer), NoConnection> {
    let shaking = TlsAcceptor::from(config).accept(below);
    let stream = timeout(HANDSHAKE, shaking).await.map_err(|_| NoConnection::Slow)?.map_err(NoConnection::Handshake)?;
    introduce(state, stream.into(), Side::Client).await
}

/// `side` is the other's.
async fn introduce(state: &TunnelState, stream: Inner, side: Side) -> Result<(TlsConnection, MetPeer), NoConnection> {
    // TLS lets pass who names no protocol at all; what an SVID is shown for elsewhere counts for nothing here.
    if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
        return Err(NoConnection::OtherProtocol);
    }
    let chain = chain_of(stream.get_ref().1);
    let reset_handle = stream.get_ref().0.reset_handle();
    let (from, mut to) = tokio::io::split(stream);
    let mut frames = FrameReader::new(from);
    let met = hello::exchange(state, &mut frames, &mut to, ShownChain { chain: &chain, side }).await?;
    Ok((TlsConnection { frames, to, reset_handle }, met))
}

fn chain_of(state: &CommonState) -> Vec<CertificateDer<'static>> {
    state.peer_certificates().unwrap_or_default().iter().map(|cert| cert.clone().into_owned()).collect()
}

impl TlsConnection {
    pub(crate) async fn ask(&mut self, open: &Open) -> Result<Opened, NoFrame> {
        timeout(OPENED, self.ask_and_wait(open)).await.map_err(|_| NoFrame::Io(std::io::ErrorKind::TimedOut.into()))?
    }

    /// The same, and not even a sign of life may be missing for so long.
    pub(crate) async fn ask_service(&mut self, open: &Open, silence: Duration) -> Result<Opened, NoFrame> {
        let late = |_| NoFrame::Io(std::io::ErrorKind::TimedOut.into());
        let asked = async {
            send_words(&mut self.to, FrameKind::Open, open).await?;
            let (kind, length) = timeout(silence, self.frames.next()).await.map_err(late)??;
            self.frames.words_from(kind, length, FrameKind::Opened).await
        };
        timeout(OPENED, asked).await.map_err(late)?
    }

    /// Says that this side lives for as long as the work takes; nothing if the other side takes no more.
    pub(crate) async fn alive_during<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                () = tokio::time::sleep(BEAT) => {
                    timeout(OPENED, send_empty(&mut self.to, FrameKind::Still)).await.ok()?.ok()?;
                }
            }
        }
    }

    /// The answer comes when it comes, or the connection ends.
    pub(crate) async fn ask_and_wait(&mut self, open: &Open) -> Result<Opened, NoFrame> {
        send_words(&mut self.to, FrameKind::Open, open).await?;
        self.frames.words(FrameKind::Opened).await
    }

    /// What the other side wants next; nothing if it wants nothing for so long, or is gone.
    pub(crate) async fn asked(&mut self, within: Duration) -> Option<Open> {
        timeout(within, self.frames.words(FrameKind::Open)).await.ok()?.ok()
    }

    pub(crate) async fn answer(&mut self, opened: &Opened) -> Result<(), NoFrame> {
        let late = |_| NoFrame::Io(std::io::ErrorKind::TimedOut.into());
        timeout(OPENED, send_words(&mut self.to, FrameKind::Opened, opened)).await.map_err(late)?
    }

    /// True while nothing was said and nobody hung up: it can be asked for a stream.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        loop {
            // One look; a header that is half there stays.
            match timeout(Duration::ZERO, self.frames.next()).await {
                Err(_) => return true,
                Ok(Ok((FrameKind::Still, _))) => {}
                Ok(Ok(_) | Err(_)) => return false,
            }
        }
    }
}
