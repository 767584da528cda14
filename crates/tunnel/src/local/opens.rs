//! What a way in leads to: something that opens streams for principals.

use std::net::SocketAddr;

use identity::principal::Principal;
use tokio::net::TcpStream;
use wire::peer::Declined;

use crate::dial::destination::Destination;
use crate::dial::dialer::Dialer;
use crate::dial::no_stream::NoStream;
use crate::dial::stream::DialedStream;
use crate::local::socks_words::SocksReply;

pub(crate) trait Opens: Send + Sync + 'static {
    type Stream: Carries;

    fn open(
        &self,
        who: &Principal,
        wanted: &Destination,
    ) -> impl Future<Output = Result<Self::Stream, Unopened>> + Send;
}

/// A stream that is open on its far side.
pub(crate) trait Carries: Send + 'static {
    /// Both ways, until both have ended.
    fn carry(self, socket: TcpStream) -> impl Future<Output = ()> + Send;
}

/// Why there is no stream: for the program, and for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Unopened {
    pub reply: SocksReply,
    pub why: String,
}

impl Opens for Dialer {
    type Stream = DialedStream;

    async fn open(&self, who: &Principal, wanted: &Destination) -> Result<DialedStream, Unopened> {
        Self::open(self, who, wanted).await.map_err(|why| Unopened { reply: reply(&why), why: why.to_string() })
    }
}

impl Carries for DialedStream {
    async fn carry(self, socket: TcpStream) {
        Self::carry(self, socket).await;
    }
}

const fn reply(why: &NoStream) -> SocksReply {
    match why {
        NoStream::NotAtHome(_) | NoStream::NotAllowed { .. } => SocksReply::NotAllowed,
        NoStream::NotATarget(_) | NoStream::NotThere { .. } | NoStream::WhichOne { .. } => SocksReply::NoHost,
        NoStream::NoWay { .. } => SocksReply::NoWay,
        NoStream::Declined { why, .. } => match why {
            Declined::NotAllowed
            | Declined::NotBelieved { .. }
            | Declined::TooOld
            | Declined::Stale
            | Declined::Suspended { .. } => SocksReply::NotAllowed,
            Declined::ServiceDown => SocksReply::Refused,
            Declined::ServiceSilent => SocksReply::TimedOut,
            Declined::NoRelay | Declined::NotWaiting => SocksReply::NoWay,
            Declined::TooMany | Declined::Stopping => SocksReply::Failed,
        },
    }
}

/// Who asked for what, in the log.
pub(super) fn log_unopened(from: SocketAddr, who: &Principal, wanted: &Destination, why: &Unopened) {
    let node = wanted.node.as_ref().map_or_else(String::new, |node| format!(" at `{node}`"));
    tracing::info!("no stream to `{}`{node} for `{who}` ({from}): {why}", wanted.service);
}
