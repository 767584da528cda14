//! Handshakes with whoever comes in: counted as strangers until they are believed, and logged if they are not.

use std::net::SocketAddr;

use identity::causes::describe;
use org::member::peer::NotAPeer;
use org::report::plain;

use crate::limit::connections::{ConnectionPermit, PendingHandshake};
use crate::state::callers::CountedCaller;
use crate::state::log::{LogEvent, Stranger};
use crate::state::shared::TunnelState;
use crate::stream::admit::CallOrigin;
use crate::transport::hello::MetPeer;
use crate::transport::no_connection::NoConnection;
use crate::transport::protocol::Protocol;
use crate::transport::quic::{CROWDED, QuicConnection};
use crate::transport::tls::TlsConnection;

/// A connection of a node that has as many as one may have.
pub(super) trait TooMany {
    fn is_one_too_many(&self);
}

impl TooMany for TlsConnection {
    fn is_one_too_many(&self) {}
}

impl TooMany for QuicConnection {
    fn is_one_too_many(&self) {
        self.connection.close(CROWDED, b"too many");
    }
}

/// As what it is counted: whoever is not believed stays a stranger.
pub(super) type Counted = Result<ConnectionPermit, PendingHandshake>;

/// A connection, and who is at its other end.
#[derive(Debug)]
pub(super) struct Shaken<C> {
    pub connection: C,
    pub met: MetPeer,
    pub counted: Counted,
}

/// A stranger that takes long makes room for others.
pub(super) async fn shake_hands<C: TooMany>(
    state: &TunnelState,
    from: SocketAddr,
    protocol: Protocol,
    mut pending: PendingHandshake,
    receiving: impl Future<Output = Result<(C, MetPeer), NoConnection>>,
) -> Option<Shaken<C>> {
    let received = tokio::select! {
        () = pending.evicted() => {
            state.meter.failed_to_shake_hands("made_room");
            return None;
        }
        received = receiving => received,
    };
    let origin = CallOrigin { transport: protocol.word(), from: Some(from) };
    match received {
        Ok((connection, met)) => {
            state.meter.shook_hands();
            log_unbelieved(state, &met, origin);
            // Whoever is not believed stays a stranger, and is only told why.
            let counted = match &met.peer {
                Ok(peer) => {
                    let permit = match protocol {
                        Protocol::Tls => pending.admit_tls(peer.node()),
                        Protocol::Quic => pending.admit_quic(peer.node()),
                    };
                    let Some(permit) = permit else {
                        connection.is_one_too_many();
                        return None;
                    };
                    Ok(permit)
                }
                Err(_) => Err(pending),
            };
            Some(Shaken { connection, met, counted })
        }
        Err(why) => {
            state.meter.failed_to_shake_hands(why.word());
            log_failed(state, &why, origin);
            None
        }
    }
}

/// Counted among those who are here.
pub(super) fn count_caller(state: &TunnelState, met: &MetPeer, transport: &'static str) -> Option<CountedCaller> {
    met.peer.as_ref().ok().map(|peer| state.callers.connected(peer.node(), transport, met.head))
}

/// Who is not believed stands in the log: whom it says to be, from where, and why it is not.
pub(super) fn log_unbelieved(state: &TunnelState, met: &MetPeer, CallOrigin { transport, from }: CallOrigin) {
    if let Err(why) = &met.peer {
        let event = match why {
            NotAPeer::Suspended { .. } => LogEvent::Suspended,
            _ => LogEvent::NotBelieved,
        };
        let stranger = Stranger { event, claims: met.claims.clone(), from, transport, why: plain(&describe(why)) };
        state.log.turned_away(stranger, state.policy.load().trust.head());
    }
}

/// With whom it did not come to that.
pub(super) fn log_failed(state: &TunnelState, why: &NoConnection, CallOrigin { transport, from }: CallOrigin) {
    let stranger = Stranger { event: LogEvent::NotBelieved, claims: None, from, transport, why: plain(&describe(why)) };
    state.log.turned_away(stranger, state.policy.load().trust.head());
}
