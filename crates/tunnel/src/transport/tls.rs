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

use crate::frame::format::Kind;
use crate::frame::reader::{Frames, NoFrame, say, sign};
use crate::state::shared::Held;
use crate::state::socket::{Breaker, Socket};
use crate::transport::hello::{Met, Shown, Unmet, meet};
use crate::transport::read_ahead::Ahead;
use crate::transport::relayed::Through;
use crate::transport::{BEAT, HANDSHAKE, OPENED};

/// What TLS goes over: a socket, or a way through a relay.
pub trait Below: AsyncRead + AsyncWrite + Unpin + Send + Sync {
    /// Of the socket to the other node itself; through a relay there is none.
    fn breaker(&self) -> Option<Breaker>;
}

impl Below for Ahead<Socket> {
    fn breaker(&self) -> Option<Breaker> {
        Some(self.below().breaker())
    }
}

impl Below for Through {
    fn breaker(&self) -> Option<Breaker> {
        None
    }
}

type Inner = TlsStream<Box<dyn Below>>;

/// A socket, read in large parts: TLS asks for small ones.
pub fn over(socket: TcpStream) -> Box<dyn Below> {
    Box::new(Ahead::new(Socket::from(socket)))
}

/// Both directions, apart.
pub struct Ends {
    pub frames: Frames<ReadHalf<Inner>>,
    pub to: WriteHalf<Inner>,
    /// If nobody is in between.
    pub breaker: Option<Breaker>,
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ends")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NoLine {
    #[error("the TLS handshake did not end within {} s", HANDSHAKE.as_secs())]
    Slow,
    #[error("nobody answered over QUIC within {} s", crate::transport::quic::ANSWER.as_secs())]
    NoAnswer,
    #[error("the TLS handshake failed: {0}")]
    Handshake(#[source] std::io::Error),
    #[error("the TLS handshake failed: {0}")]
    Quic(#[from] quinn::ConnectionError),
    #[error("it does not say that it speaks the tunnel's protocol")]
    OtherProtocol,
    #[error(transparent)]
    Unmet(#[from] Unmet),
}

impl NoLine {
    /// A word for counters.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::NoAnswer => "no_answer",
            Self::Handshake(_) | Self::Quic(_) => "handshake",
            Self::OtherProtocol => "other_protocol",
            Self::Unmet(Unmet::NothingToShow) => "nothing_to_show",
            Self::Unmet(Unmet::Silent) => "silent",
            Self::Unmet(Unmet::OtherWords(_)) => "other_version",
            Self::Unmet(Unmet::NoFrame(_)) => "bad_words",
            Self::Unmet(Unmet::NoChain) => "no_chain",
        }
    }
}

pub async fn call(held: &Held, config: Arc<ClientConfig>, below: Box<dyn Below>) -> Result<(Ends, Met), NoLine> {
    let shaking = TlsConnector::from(config).connect(wire::tls::peer::nobody(), below);
    let stream = timeout(HANDSHAKE, shaking).await.map_err(|_| NoLine::Slow)?.map_err(NoLine::Handshake)?;
    introduce(held, stream.into(), Side::Server).await
}

pub async fn receive(held: &Held, config: Arc<ServerConfig>, below: Box<dyn Below>) -> Result<(Ends, Met), NoLine> {
    let shaking = TlsAcceptor::from(config).accept(below);
    let stream = timeout(HANDSHAKE, shaking).await.map_err(|_| NoLine::Slow)?.map_err(NoLine::Handshake)?;
    introduce(held, stream.into(), Side::Client).await
}

/// `side` is the other's.
async fn introduce(held: &Held, stream: Inner, side: Side) -> Result<(Ends, Met), NoLine> {
    // TLS lets pass who names no protocol at all; what an SVID is shown for elsewhere counts for nothing here.
    if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
        return Err(NoLine::OtherProtocol);
    }
    let chain = chain_of(stream.get_ref().1);
    let breaker = stream.get_ref().0.breaker();
    let (from, mut to) = tokio::io::split(stream);
    let mut frames = Frames::new(from);
    let met = meet(held, (&mut frames, &mut to), Shown { chain: &chain, side }).await?;
    Ok((Ends { frames, to, breaker }, met))
}

fn chain_of(state: &CommonState) -> Vec<CertificateDer<'static>> {
    state.peer_certificates().unwrap_or_default().iter().map(|cert| cert.clone().into_owned()).collect()
}

impl Ends {
    pub async fn ask(&mut self, open: &Open) -> Result<Opened, NoFrame> {
        timeout(OPENED, self.ask_and_wait(open)).await.map_err(|_| NoFrame::Io(std::io::ErrorKind::TimedOut.into()))?
    }

    /// The same, and not even a sign of life may be missing for so long.
    pub async fn ask_service(&mut self, open: &Open, silence: Duration) -> Result<Opened, NoFrame> {
        let late = |_| NoFrame::Io(std::io::ErrorKind::TimedOut.into());
        let asked = async {
            say(&mut self.to, Kind::Open, open).await?;
            let first = timeout(silence, self.frames.next()).await.map_err(late)??;
            self.frames.words_from(first, Kind::Opened).await
        };
        timeout(OPENED, asked).await.map_err(late)?
    }

    /// Says that this side lives for as long as the work takes; nothing if the other side takes no more.
    pub async fn alive_during<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                () = tokio::time::sleep(BEAT) => {
                    timeout(OPENED, sign(&mut self.to, Kind::Still)).await.ok()?.ok()?;
                }
            }
        }
    }

    /// The answer comes when it comes, or the connection ends.
    pub async fn ask_and_wait(&mut self, open: &Open) -> Result<Opened, NoFrame> {
        say(&mut self.to, Kind::Open, open).await?;
        self.frames.words(Kind::Opened).await
    }

    /// What the other side wants next; nothing if it wants nothing for so long, or is gone.
    pub async fn asked(&mut self, within: Duration) -> Option<Open> {
        timeout(within, self.frames.words(Kind::Open)).await.ok()?.ok()
    }

    pub async fn answer(&mut self, opened: &Opened) -> Result<(), NoFrame> {
        let late = |_| NoFrame::Io(std::io::ErrorKind::TimedOut.into());
        timeout(OPENED, say(&mut self.to, Kind::Opened, opened)).await.map_err(late)?
    }

    /// True while nothing was said and nobody hung up: it can be asked for a stream.
    pub async fn is_quiet(&mut self) -> bool {
        loop {
            // One look; a header that is half there stays.
            match timeout(Duration::ZERO, self.frames.next()).await {
                Err(_) => return true,
                Ok(Ok((Kind::Still, _))) => {}
                Ok(Ok(_) | Err(_)) => return false,
            }
        }
    }
}
