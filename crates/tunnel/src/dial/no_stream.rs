//! Why there is no stream: what is not allowed, who declined, and which ways were tried in vain.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use identity::principal::{HostPort, Name, NodeName, Principal};
use org::member::peer::NotAPeer;
use org::report::plain;
use quinn::crypto::rustls::NoInitialCipherSuite;
use wire::peer::Declined;
use wire::tls::TlsSetup;

use crate::frame::reader::NoFrame;
use crate::transport::no_connection::NoConnection;
use crate::transport::protocol::Protocol;

/// A machine that answers does so within a few round trips.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoStream {
    #[error("`{0}` is not at home on this node")]
    NotAtHome(Principal),
    #[error("no service `{0}` is declared that may be called from this node")]
    NotATarget(Name),
    #[error("`{who}` may not call `{service}` from this node")]
    NotAllowed { who: Principal, service: Name },
    #[error("`{service}` is not on node `{node}`")]
    NotThere { service: Name, node: NodeName },
    #[error("`{service}` is on the nodes of class `{class}`: say which one, as SERVICE.NODE.ORG.internal")]
    WhichOne { service: Name, class: Name },
    #[error("no way leads to `{service}`: {}", joined(tries))]
    NoWay { service: Name, tries: Vec<FailedTry> },
    #[error("node `{node}` declined: {why}")]
    Declined { node: NodeName, why: Declined },
}

/// One way that was tried in vain.
#[derive(Debug, Clone)]
pub(crate) struct FailedTry {
    pub node: NodeName,
    /// Nothing if it did not come to that.
    pub protocol: Option<Protocol>,
    pub why: Arc<NotReached>,
}

impl FailedTry {
    pub(crate) fn new(node: &NodeName, protocol: Option<Protocol>, why: NotReached) -> Self {
        Self { node: node.clone(), protocol, why: Arc::new(why) }
    }
}

impl fmt::Display for FailedTry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Some(protocol) => write!(f, "`{}` by {}: {}", self.node, protocol.word(), self.why.plain()),
            None => write!(f, "`{}`: {}", self.node, self.why.plain()),
        }
    }
}

/// Why a node was not reached by one way.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotReached {
    #[error(transparent)]
    Tls(#[from] TlsSetup),
    #[error(transparent)]
    Quic(#[from] NoInitialCipherSuite),
    #[error("{at} did not answer within {} s", CONNECT.as_secs())]
    NoAnswer { at: HostPort },
    #[error("{at}: {why}")]
    Address { at: HostPort, why: io::Error },
    #[error(transparent)]
    Socket(io::Error),
    #[error("{at}: {why}")]
    NoQuic { at: SocketAddr, why: NoConnection },
    #[error(transparent)]
    NoConnection(#[from] NoConnection),
    #[error("it is not believed: {0}")]
    NotBelieved(NotAPeer),
    #[error("`{found}` answers there, and not node `{wanted}`")]
    AnotherNode { found: Principal, wanted: NodeName },
    #[error("no map lists it, and its invite is for any name: it is not the one that is meant")]
    NotMeant,
    #[error("it did not answer")]
    Late,
    #[error("it did not answer a moment ago")]
    LateBefore,
    #[error("it has as many connections over QUIC as it takes from one node")]
    Crowded,
    #[error("it has no address, and no relay leads to it")]
    NoAddress,
    #[error("by relay `{relay}`: {why}")]
    ByRelay { relay: NodeName, why: Box<Self> },
    #[error("the relay was reached by QUIC")]
    RelayByQuic,
    #[error("{}", .0.iter().map(|one| one.why.plain()).collect::<Vec<_>>().join("; "))]
    Tries(Vec<FailedTry>),
    #[error(transparent)]
    NoFrame(#[from] NoFrame),
    #[error("{0}")]
    Declined(Declined),
    #[error("it declined: {0}")]
    ProbeDeclined(Declined),
    #[error("the operators took it back")]
    TakenBack,
    /// Of a connection that was kept.
    #[error("{0}")]
    Ended(NotAPeer),
}

impl NotReached {
    /// Some of it may be the other side's words.
    pub(crate) fn plain(&self) -> String {
        plain(&self.to_string())
    }
}

fn joined(tries: &[FailedTry]) -> String {
    tries.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
