//! What a way in leads to: something that opens streams for principals.

use std::net::SocketAddr;

use identity::principal::Principal;
use tokio::net::TcpStream;
use wire::peer::Declined;

use crate::dial::destination::Wanted;
use crate::dial::{Dialer, NoStream, Stream};
use crate::local::socks_words::Reply;

pub trait Opens: Send + Sync + 'static {
    type Stream: Carries;

    fn open(&self, who: &Principal, wanted: &Wanted) -> impl Future<Output = Result<Self::Stream, Unopened>> + Send;
}

/// A stream that is open on its far side.
pub trait Carries: Send + 'static {
    /// Both ways, until both have ended.
    fn carry(self, socket: TcpStream) -> impl Future<Output = ()> + Send;
}

/// Why there is no stream: for the program, and for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unopened {
    pub reply: Reply,
    pub why: String,
}

impl Opens for Dialer {
    type Stream = Stream;

    async fn open(&self, who: &Principal, wanted: &Wanted) -> Result<Stream, Unopened> {
        Self::open(self, who, wanted).await.map_err(|why| Unopened { reply: reply(&why), why: why.to_string() })
    }
}

impl Carries for Stream {
    async fn carry(self, socket: TcpStream) {
        Self::carry(self, socket).await;
    }
}

const fn reply(why: &NoStream) -> Reply {
    match why {
        NoStream::NotAtHome(_) | NoStream::NotAllowed { .. } => Reply::NotAllowed,
        NoStream::NotATarget(_) | NoStream::NotThere { .. } | NoStream::WhichOne { .. } => Reply::NoHost,
        NoStream::NoWay { .. } => Reply::NoWay,
        NoStream::Declined { why, .. } => match why {
            Declined::NotAllowed
            | Declined::NotBelieved { .. }
            | Declined::TooOld
            | Declined::Stale
            | Declined::Suspended { .. } => Reply::NotAllowed,
            Declined::ServiceDown => Reply::Refused,
            Declined::ServiceSilent => Reply::TimedOut,
            Declined::NoRelay | Declined::NotWaiting => Reply::NoWay,
            Declined::TooMany | Declined::Stopping => Reply::Failed,
        },
    }
}

/// Who asked for what, in the log.
pub(super) fn log_unopened(from: SocketAddr, who: &Principal, wanted: &Wanted, why: &Unopened) {
    let node = wanted.node.as_ref().map_or_else(String::new, |node| format!(" at `{node}`"));
    tracing::info!("no stream to `{}`{node} for `{who}` ({from}): {why}", wanted.service);
}
