//! The ways to a gateway: directly, by a SOCKS5 proxy, or inside a WebSocket. What comes of each is a stream, and TLS to
//! the gateway is spoken over it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use identity::principal::{Address, Host, HostPort, Way};
use pki_types::ServerName;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::carry::socks::{self, NoSocks};
use crate::carry::{self, Carried, NoSocket};
use crate::tls::{self, TlsSetup};

/// A stream to a gateway, whoever carries it.
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Carried(Box<Carried>),
}

/// Why no way led to a gateway.
#[derive(Debug, thiserror::Error)]
pub enum NoWay {
    #[error("nothing answers there")]
    Unreachable(#[source] io::Error),
    #[error("the SOCKS5 proxy at {proxy} cannot be reached")]
    NoProxy {
        proxy: HostPort,
        #[source]
        source: io::Error,
    },
    #[error("the SOCKS5 proxy at {proxy} did not lead there: {why}")]
    Socks { proxy: HostPort, why: NoSocks },
    #[error("the carrier at {at} cannot be reached")]
    NoCarrier {
        at: HostPort,
        #[source]
        source: io::Error,
    },
    #[error("the carrier at {at} does not speak TLS 1.3")]
    NoTls {
        at: HostPort,
        #[source]
        source: io::Error,
    },
    #[error("the carrier at {at} did not hand it on: {why}")]
    Socket { at: HostPort, why: NoSocket },
    #[error(transparent)]
    Setup(#[from] TlsSetup),
}

impl NoWay {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "is the gateway running, and is there a way to that address?",
            Self::NoProxy { .. } => "is the proxy (Tor, or another) running on that address and port?",
            Self::Socks { why, .. } => match why {
                NoSocks::OtherTongue => "is that the port on which the proxy speaks SOCKS5?",
                NoSocks::WantsPassword => {
                    "let the proxy take this machine without a password: Freehold has none for it"
                }
                NoSocks::NotAllowed => "let the proxy's rules allow the gateway's name and port",
                NoSocks::ConnectionRefused => "start the gateway there: freehold serve",
                NoSocks::HostUnreachable | NoSocks::Failed | NoSocks::TimedOut | NoSocks::NetworkUnreachable => {
                    "the name does not lead anywhere from the proxy, or the gateway is down; the proxy's log says more"
                }
                NoSocks::BrokenOff(_) | NoSocks::NoConnect | NoSocks::NoSuchKind | NoSocks::Unknown(_) => {
                    "the proxy's log says more"
                }
            },
            Self::NoCarrier { .. } => {
                "is the web server in front of the gateway running, and does the name lead to it?"
            }
            Self::NoTls { .. } => "let the web server in front of the gateway offer TLS 1.3 on that port",
            Self::Socket { why: NoSocket::Status(status), .. } => match status.as_u16() {
                502..=504 => {
                    "the web server in front does not reach the gateway: is that running, and is TLS 1.3 on that way?"
                }
                401 | 403 | 407 | 429 => "the web server in front does not let this machine through: its log says why",
                _ => "the web server in front must hand that path on as a WebSocket: see `behind nginx` in the guide",
            },
            Self::Socket { .. } => {
                "the web server in front must hand that path on as a WebSocket: see `behind nginx` in the guide"
            }
            Self::Setup(_) => "this program cannot do TLS here: install it afresh",
        }
    }
}

/// How long it may take until a gateway has been reached and TLS agreed on. Onion services take their time.
pub const fn patience(way: &Way) -> Duration {
    Duration::from_secs(match way {
        Way::Direct => 10,
        Way::WebSocket { .. } => 20,
        Way::Socks5 { .. } => 60,
    })
}

/// Opens a stream to a gateway. `dial`: a socket that is known to be its own, whatever the address says.
pub async fn open(address: &Address, dial: Option<SocketAddr>) -> Result<Stream, NoWay> {
    let at = address.host_port();
    if let Some(dial) = dial {
        return settled(TcpStream::connect(dial).await).map(Stream::Tcp).map_err(NoWay::Unreachable);
    }
    match &address.way {
        Way::Direct => connect(&at).await.map(Stream::Tcp).map_err(NoWay::Unreachable),
        Way::Socks5 { proxy } => {
            let stream = connect(proxy).await;
            let mut stream = stream.map_err(|source| NoWay::NoProxy { proxy: (**proxy).clone(), source })?;
            let connected = socks::connect(&mut stream, &at).await;
            connected.map_err(|why| NoWay::Socks { proxy: (**proxy).clone(), why })?;
            Ok(Stream::Tcp(stream))
        }
        Way::WebSocket { path } => {
            let stream = connect(&at).await.map_err(|source| NoWay::NoCarrier { at: at.clone(), source })?;
            let no_tls = |source| NoWay::NoTls { at: at.clone(), source };
            let name = ServerName::try_from(at.host.to_string()).map_err(|why| no_tls(io::Error::other(why)))?;
            let stream = TlsConnector::from(tls::carrier()?).connect(name, stream).await.map_err(no_tls)?;
            let carried = carry::ask(stream, &at, path).await;
            carried.map(Box::new).map(Stream::Carried).map_err(|why| NoWay::Socket { at, why })
        }
    }
}

async fn connect(at: &HostPort) -> io::Result<TcpStream> {
    settled(match &at.host {
        Host::Ip(ip) => TcpStream::connect((*ip, at.port)).await,
        Host::Dns(name) => TcpStream::connect((name.as_str(), at.port)).await,
    })
}

/// While nothing is said, this often it is asked whether the other machine is there.
const IDLE: Duration = Duration::from_secs(10);
const ASKED_EVERY: Duration = Duration::from_secs(2);
/// Whoever leaves so long unanswered what was sent is gone, or this machine is: its address may be another one by now.
const UNANSWERED: Duration = Duration::from_secs(10);

/// No waiting to fill a segment, and a connection that leads nowhere any more is found before anybody has waited for long.
fn settled(stream: io::Result<TcpStream>) -> io::Result<TcpStream> {
    let stream = stream?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, IDLE)?;
    sockopt::set_tcp_keepintvl(&stream, ASKED_EVERY)?;
    sockopt::set_tcp_user_timeout(&stream, u32::try_from(UNANSWERED.as_millis()).unwrap_or(u32::MAX))?;
    Ok(stream)
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Carried(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Carried(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Carried(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Carried(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
