//! Streams that a peer opens on a connection: judged, carried, or handed to the relay.

use std::sync::Arc;
use std::time::Duration;

use ground::clock;
use wire::peer::{Declined, Open, Opened};

use crate::limit::connections::ConnectionPermit;
use crate::relay::carry;
use crate::relay::rendezvous::{Rendezvous, WaitingConnection};
use crate::state::shared::TunnelState;
use crate::stream::admit::{CallOrigin, StreamRequest, Verdict, answer};
use crate::stream::pipe::FarEnd;
use crate::transport::hello::MetPeer;
use crate::transport::quic::OpeningSlot;
use crate::transport::timeouts::OPENED;
use crate::transport::tls::TlsConnection;

/// A connection that carries nothing for so long ends. Callers let go of it earlier, so that none asks at the last moment.
pub(super) const UNUSED: Duration = Duration::from_secs(90);

/// A connection over TLS, and who is at its other end.
#[derive(Debug)]
pub(super) struct TlsCaller {
    pub connection: Box<TlsConnection>,
    pub met: MetPeer,
    pub origin: CallOrigin,
    /// Nothing if it is not believed.
    pub permit: Option<ConnectionPermit>,
}

/// One after the other. Where no others can wait, nothing is carried for them. A connection that waits keeps its permit.
pub(super) async fn serve_streams(state: &Arc<TunnelState>, caller: TlsCaller, rendezvous: Option<&Rendezvous>) {
    let TlsCaller { mut connection, met, origin, permit } = caller;
    while let Some(open) = next(state, &mut connection, &met).await {
        let mut no_slot = None;
        let judging = judge(state, &met, StreamRequest { open, origin }, &mut no_slot);
        let Some(verdict) = connection.alive_during(judging).await else { return };
        match (verdict, &met.peer, rendezvous) {
            (Verdict::Carry(mut admitted), _, _) => {
                if !admitted.is_opened_by(state, connection.answer(&Opened::Yes)).await {
                    return;
                }
                match admitted.carry(state, FarEnd::Tls(connection)).await {
                    Some(free) => connection = free,
                    None => return,
                }
            }
            (Verdict::Yes, _, _) => {
                if connection.answer(&Opened::Yes).await.is_err() {
                    return;
                }
            }
            (Verdict::Keep, Ok(peer), Some(rendezvous)) => {
                let waiting = WaitingConnection { connection: *connection, _permit: permit };
                return carry::keep(state, rendezvous, peer, waiting).await;
            }
            (Verdict::Through(to), Ok(peer), Some(rendezvous)) => {
                return carry::carry(state, rendezvous, peer, *connection, &to).await;
            }
            (Verdict::Keep | Verdict::Through(_), _, _) => {
                let _ = connection.answer(&Opened::No(Declined::NoRelay)).await;
            }
            (Verdict::No(why), peer, _) => {
                // Whoever is not believed is told once.
                if connection.answer(&Opened::No(why)).await.is_err() || peer.is_err() {
                    return;
                }
            }
        }
    }
}

/// What the other side wants next. Whoever is not believed has less time for it, and whoever is taken back has none.
async fn next(state: &TunnelState, connection: &mut TlsConnection, met: &MetPeer) -> Option<Open> {
    match &met.peer {
        Ok(peer) => tokio::select! {
            open = connection.asked(UNUSED) => open,
            () = state.taken_back([peer]) => None,
        },
        Err(_) => connection.asked(OPENED).await,
    }
}

/// Who has something to tell since the two met has the other one come anew, and then it is told: so a busy connection keeps no
/// revocation from a node that no gateway reaches.
pub(super) async fn judge(
    state: &Arc<TunnelState>,
    met: &MetPeer,
    request: StreamRequest,
    slot: &mut Option<OpeningSlot>,
) -> Verdict {
    let trust = Arc::clone(&state.policy.load().trust);
    if let (Open::Service(_), Ok(peer)) = (&request.open, &met.peer)
        && !met.shared.is_all_of(&trust)
        && trust.check(peer, clock::now()).is_ok()
    {
        return Verdict::No(Declined::TooOld);
    }
    answer(state, &met.peer, request, slot).await
}
