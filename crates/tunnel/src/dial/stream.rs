//! A stream to a service that was called: open, and ready to carry a program's bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use identity::principal::NodeName;
use tokio::net::TcpStream;

use crate::dial::connector::Connector;
use crate::dial::health::Counted;
use crate::dial::pool::{AnyConnection, CallKey, PeerConnection};
use crate::state::log::LogSubject;
use crate::state::shared::TunnelState;
use crate::stream::admit::{AdmittedStream, HERE, note_end};
use crate::stream::pipe::{self, FarEnd, StreamTerms};
use crate::transport::quic::QuicStream;
use crate::transport::tcp::settle;

#[derive(Debug)]
pub(crate) struct DialedStream(Where);

#[derive(Debug)]
enum Where {
    There(Box<There>),
    Here { state: Arc<TunnelState>, admitted: Box<AdmittedStream> },
}

/// On another node.
#[derive(Debug)]
pub(crate) struct There {
    pub connector: Arc<Connector>,
    pub connection: PeerConnection,
    /// Over QUIC, where a connection has many.
    pub stream: Option<QuicStream>,
    pub terms: StreamTerms,
    pub subject: LogSubject,
    pub since: Instant,
    pub counted: Counted,
}

impl DialedStream {
    pub(crate) fn there(there: There) -> Self {
        Self(Where::There(Box::new(there)))
    }

    pub(crate) const fn here(state: Arc<TunnelState>, admitted: Box<AdmittedStream>) -> Self {
        Self(Where::Here { state, admitted })
    }

    /// How it goes: `tls`, `quic`, or `here` if the service is on this node.
    pub(crate) fn transport(&self) -> &'static str {
        match &self.0 {
            Where::There(there) => there.subject.transport,
            Where::Here { .. } => HERE,
        }
    }

    /// The node that has the service.
    pub(crate) fn node(&self) -> &NodeName {
        match &self.0 {
            Where::There(there) => &there.subject.node,
            Where::Here { state, .. } => &state.node,
        }
    }

    /// Carries a program's bytes both ways until the end.
    pub(crate) async fn carry(self, socket: TcpStream) {
        // Programs' sockets come from others; without it, the last bytes of a small answer would wait.
        let _ = settle(&socket);
        match self.0 {
            Where::Here { state, admitted } => {
                admitted.carry(&state, FarEnd::Here(socket.into())).await;
            }
            Where::There(there) => there.carry(socket).await,
        }
    }

    /// The same for one that hung up at once; a service here is spared even that.
    pub(crate) async fn carry_briefly(self, socket: TcpStream, idle: Duration) {
        match self.0 {
            Where::There(mut there) => {
                there.terms.idle = idle;
                there.carry(socket).await;
            }
            Where::Here { .. } => {}
        }
    }
}

impl There {
    async fn carry(self, socket: TcpStream) {
        let Self { connector, connection, stream, mut terms, subject, since, counted } = self;
        let PeerConnection { inner, peer, via, until, shared, counted: of_connection } = connection;
        let (far, kept) = match (inner, stream) {
            (AnyConnection::Quic(quic), Some(stream)) => (FarEnd::Quic(stream), Some(quic)),
            (AnyConnection::Tls(tls), _) => (FarEnd::Tls(tls), None),
            (AnyConnection::Quic(_), None) => return,
        };
        let mut carried = pipe::carry(socket.into(), far, &mut terms).await;
        note_end(&connector.state, &subject, &carried, since);
        if let Some(tls) = carried.free.take() {
            let inner = AnyConnection::Tls(tls);
            let connection = PeerConnection { inner, peer, via, until, shared, counted: of_connection };
            connector.pool.put(&CallKey { who: subject.who, node: subject.node }, connection);
        }
        // Over QUIC the connection is held until the last byte is there.
        drop(kept);
        drop(counted);
    }
}
