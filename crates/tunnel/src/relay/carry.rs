//! Carries bytes between two nodes of which one has no address (as DERP and TURN do): it waits here until it is wanted.
//!
//! What is carried is the TLS between those two: this node reads nothing of it, and decides nothing for them. It knows who
//! meets whom, when, and how much they say.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ground::clock;
use identity::principal::NodeName;
use org::member::peer::Peer;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use wire::peer::{Declined, Opened};

use crate::frame::buffer::FrameBuffer;
use crate::frame::format::{DATA, FrameKind, HEADER, header};
use crate::frame::reader::{FrameReader, NoFrame, send_empty};
use crate::limit::connections::StreamPermit;
use crate::relay::rendezvous::{Lookup, Rendezvous, WaitingConnection, WaitingNode};
use crate::state::shared::TunnelState;
use crate::stream::pipe::IDLE;
use crate::transport::tls::TlsConnection;

/// A caller waits so long for a node that brings its next connection.
const COMES: Duration = Duration::from_secs(5);
/// For the node that waited: it answers at once, or it is gone.
const WAKE: Duration = Duration::from_secs(5);
/// In the middle of a frame: whoever has begun one goes on at once, or is gone.
const SILENT: Duration = Duration::from_secs(15);

/// Keeps a node's connection until somebody wants that node, and hands it over then. Returns when it is of no more use here.
pub(crate) async fn keep(
    state: &TunnelState,
    rendezvous: &Rendezvous,
    peer: &Arc<Peer>,
    mut waiting: WaitingConnection,
) {
    let connection = &mut waiting.connection;
    let Some(wanted) = rendezvous.enter(peer) else {
        let _ = connection.answer(&Opened::No(Declined::TooMany)).await;
        return;
    };
    state.meter.relayed.waiting.fetch_add(1, Ordering::Relaxed);
    let taker = tokio::select! {
        taker = wanted => taker.ok(),
        // It has nothing to say before it is wanted: whatever comes ends it.
        _ = connection.frames.next() => None,
        () = state.taken_back([peer]) => None,
    };
    state.meter.relayed.waiting.fetch_sub(1, Ordering::Relaxed);
    if let Some(taker) = taker {
        // If nobody takes it, the connection ends with it.
        drop(taker.send(waiting));
    }
}

/// Brings a caller together with a node that waits, and carries until one of them ends.
pub(crate) async fn carry(
    state: &TunnelState,
    rendezvous: &Rendezvous,
    caller: &Arc<Peer>,
    mut connection: TlsConnection,
    to: &NodeName,
) {
    let mut found = match find_waiting(state, rendezvous, caller, &mut connection, to).await {
        Ok(found) => found,
        Err(why) => {
            let _ = connection.answer(&Opened::No(why)).await;
            return;
        }
    };
    let is_open = tokio::select! {
        () = state.taken_back([caller, &found.peer]) => false,
        answered = connection.answer(&Opened::Yes) => answered.is_ok(),
    };
    if !is_open {
        return;
    }
    let relayed = &state.meter.relayed;
    relayed.open.fetch_add(1, Ordering::Relaxed);
    relayed.carried.fetch_add(1, Ordering::Relaxed);
    tracing::info!(from = %caller.node(), %to, "carries");
    let near = RelayEnd { connection: &mut connection, peer: caller };
    let far = RelayEnd { connection: &mut found.waiting.connection, peer: &found.peer };
    let ended = pump(state, near, far).await;
    tracing::info!(from = %caller.node(), %to, ended, "carried");
    relayed.open.fetch_sub(1, Ordering::Relaxed);
}

/// A node that waited, and what its caller takes of what there is.
struct Found {
    peer: Arc<Peer>,
    waiting: WaitingConnection,
    _permit: StreamPermit,
}

async fn find_waiting(
    state: &TunnelState,
    rendezvous: &Rendezvous,
    caller: &Arc<Peer>,
    connection: &mut TlsConnection,
    to: &NodeName,
) -> Result<Found, Declined> {
    // Nobody waits for itself: a node that did would have two connections here for each that it needs.
    if caller.node() == to {
        return Err(Declined::NotWaiting);
    }
    let permit = state.limits.take_stream(caller.node()).ok_or(Declined::TooMany)?;
    let end = Instant::now() + COMES;
    let meeting = async {
        loop {
            let waiting = match rendezvous.take(to, caller.node()) {
                Lookup::Waiting(waiting) => waiting,
                Lookup::Soon(turn) => in_turn(turn, end, let_go(state, caller, connection)).await?,
                Lookup::Nothing => return None,
            };
            // By what is known now: it may have waited long.
            if state.policy.load().trust.check(&waiting.peer, clock::now()).is_err() {
                continue;
            }
            let peer = Arc::clone(&waiting.peer);
            if let Some(waiting) = wake(waiting, let_go(state, caller, connection)).await {
                return Some((peer, waiting));
            }
        }
    };
    let found = timeout_at(end + WAKE, meeting).await.ok().flatten();
    found.map(|(peer, waiting)| Found { peer, waiting, _permit: permit }).ok_or(Declined::NotWaiting)
}

/// The next connection, if it comes in time and the caller is not let go before.
async fn in_turn(
    mut turn: oneshot::Receiver<WaitingNode>,
    end: Instant,
    let_go: impl Future<Output = ()>,
) -> Option<WaitingNode> {
    tokio::select! {
        biased;
        waiting = &mut turn => return waiting.ok(),
        () = tokio::time::sleep_until(end) => {}
        () = let_go => {}
    }
    // One that came at the last moment is woken all the same: it would take it for a failure of this relay.
    turn.close();
    turn.try_recv().ok()
}

/// Tells a node that it is wanted, and has its connection then.
async fn wake(waiting: WaitingNode, let_go: impl Future<Output = ()>) -> Option<WaitingConnection> {
    let (give, given) = oneshot::channel();
    waiting.wanted.send(give).ok()?;
    let mut kept = timeout(WAKE, given).await.ok()?.ok()?;
    tokio::select! {
        biased;
        answered = timeout(WAKE, kept.connection.answer(&Opened::Yes)) => answered.ok()?.ok()?,
        () = let_go => return None,
    }
    Some(kept)
}

/// When the caller hangs up, or is taken back. It has nothing to say before it is answered: whatever comes ends it.
async fn let_go(state: &TunnelState, caller: &Peer, connection: &mut TlsConnection) {
    tokio::select! {
        _ = connection.frames.next() => {}
        () = state.taken_back([caller]) => {}
    }
}

/// One of the two between whom is carried.
struct RelayEnd<'a> {
    connection: &'a mut TlsConnection,
    peer: &'a Arc<Peer>,
}

/// Both directions, until both have ended, one breaks, or the operators took one of the two back.
async fn pump(state: &TunnelState, near: RelayEnd<'_>, far: RelayEnd<'_>) -> &'static str {
    let count = |bytes: usize| {
        state.meter.relayed.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    };
    let both = async {
        let there = pass(&mut near.connection.frames, &mut far.connection.to, &count);
        let back = pass(&mut far.connection.frames, &mut near.connection.to, &count);
        tokio::try_join!(there, back).is_ok()
    };
    tokio::select! {
        whole = both => if whole { "whole" } else { "broken off" },
        () = state.taken_back([near.peer, far.peer]) => "ended by the operators",
    }
}

/// What comes before the next frame, and what takes one, may be as slow as a stream may.
async fn pass<R, W>(from: &mut FrameReader<R>, to: &mut W, count: &impl Fn(usize)) -> Result<(), NoFrame>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        let mut left = match within(IDLE, from.next()).await? {
            (FrameKind::Data, length) => length,
            (kind @ FrameKind::Still, _) => {
                within(IDLE, send_empty(to, kind)).await?;
                continue;
            }
            (kind @ FrameKind::End, _) => return within(IDLE, send_empty(to, kind)).await,
            (FrameKind::Broken | FrameKind::Hello | FrameKind::News | FrameKind::Open | FrameKind::Opened, _) => {
                return Err(NoFrame::Over);
            }
        };
        while left > 0 {
            let mut buffer = FrameBuffer::take();
            let most = buffer.body().get_mut(..left.min(DATA)).unwrap_or_default();
            let read = within(SILENT, from.some(most)).await?;
            let head = header(FrameKind::Data, read)?;
            if let Some(start) = buffer.first_chunk_mut::<HEADER>() {
                *start = head;
            }
            let write = async {
                to.write_all(buffer.get(..HEADER + read).unwrap_or_default()).await?;
                Ok(to.flush().await?)
            };
            within(IDLE, write).await?;
            count(read);
            left = left.saturating_sub(read);
        }
    }
}

async fn within<T>(time: Duration, work: impl Future<Output = Result<T, NoFrame>>) -> Result<T, NoFrame> {
    timeout(time, work).await.map_err(|_| NoFrame::Io(std::io::ErrorKind::TimedOut.into()))?
}
