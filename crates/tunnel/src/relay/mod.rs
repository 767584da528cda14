//! Carries bytes between two nodes of which one has no address: it waits here until somebody wants it.
//!
//! What is carried is the TLS between those two: this node reads nothing of it, and decides nothing for them. It knows who
//! meets whom, when, and how much they say.

mod fair_queue;
mod rendezvous;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ground::clock;
use identity::principal::NodeName;
use org::peer::Peer;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use wire::peer::{Declined, Opened};

use crate::frame::buffer::Room;
use crate::frame::format::{DATA, HEADER, Kind, header};
use crate::frame::reader::{Frames, NoFrame, sign};
use crate::limit::connections::{Guest, Seat};
use crate::state::shared::Held;
use crate::stream::pipe::IDLE;
use crate::transport::tls::Ends;
pub use rendezvous::Lobby;
use rendezvous::{Found, Kept, Waiting};

/// A caller waits so long for a node that brings its next connection.
const COMES: Duration = Duration::from_secs(5);
/// For the node that waited: it answers at once, or it is gone.
const WAKE: Duration = Duration::from_secs(5);
/// In the middle of a frame: whoever has begun one goes on at once, or is gone.
const SILENT: Duration = Duration::from_secs(15);

/// Keeps a node's connection until somebody wants that node, and hands it over then. Returns when it is of no more use here.
pub async fn keep(held: &Held, lobby: &Lobby, peer: &Arc<Peer>, (mut ends, guest): (Ends, Option<Guest>)) {
    let Some(wanted) = lobby.enter(peer) else {
        let _ = ends.answer(&Opened::No(Declined::TooMany)).await;
        return;
    };
    held.meter.relayed.waiting.fetch_add(1, Ordering::Relaxed);
    let taker = tokio::select! {
        taker = wanted => taker.ok(),
        // It has nothing to say before it is wanted: whatever comes ends it.
        _ = ends.frames.next() => None,
        () = held.taken_back([peer]) => None,
    };
    held.meter.relayed.waiting.fetch_sub(1, Ordering::Relaxed);
    if let Some(taker) = taker {
        // If nobody takes it, the connection ends with it.
        drop(taker.send(Kept { ends, guest }));
    }
}

/// Brings a caller together with a node that waits, and carries until one of them ends.
pub async fn carry(held: &Held, lobby: &Lobby, (caller, mut ends): (&Arc<Peer>, Ends), to: &NodeName) {
    let mut met = match meet(held, lobby, (caller, &mut ends), to).await {
        Ok(met) => met,
        Err(why) => {
            let _ = ends.answer(&Opened::No(why)).await;
            return;
        }
    };
    let is_open = tokio::select! {
        () = held.taken_back([caller, &met.peer]) => false,
        answered = ends.answer(&Opened::Yes) => answered.is_ok(),
    };
    if !is_open {
        return;
    }
    let relayed = &held.meter.relayed;
    relayed.open.fetch_add(1, Ordering::Relaxed);
    relayed.carried.fetch_add(1, Ordering::Relaxed);
    tracing::info!(from = %caller.node(), %to, "carries");
    let ended = pump(held, (&mut ends, caller), (&mut met.kept.ends, &met.peer)).await;
    tracing::info!(from = %caller.node(), %to, ended, "carried");
    relayed.open.fetch_sub(1, Ordering::Relaxed);
}

struct Met {
    peer: Arc<Peer>,
    kept: Kept,
    _seat: Seat,
}

async fn meet(
    held: &Held,
    lobby: &Lobby,
    (caller, ends): (&Arc<Peer>, &mut Ends),
    to: &NodeName,
) -> Result<Met, Declined> {
    // Nobody waits for itself: a node that did would have two connections here for each that it needs.
    if caller.node() == to {
        return Err(Declined::NotWaiting);
    }
    let seat = held.door.sit(caller.node()).ok_or(Declined::TooMany)?;
    let end = Instant::now() + COMES;
    let meeting = async {
        loop {
            let waiting = match lobby.take(to, caller.node()) {
                Found::Waiting(waiting) => waiting,
                Found::Soon(turn) => in_turn(turn, end, let_go(held, caller, ends)).await?,
                Found::Nothing => return None,
            };
            // By what is known now: it may have waited long.
            if held.rule.load().standing.check(&waiting.peer, clock::now()).is_err() {
                continue;
            }
            let peer = Arc::clone(&waiting.peer);
            if let Some(kept) = wake(waiting, let_go(held, caller, ends)).await {
                return Some((peer, kept));
            }
        }
    };
    let met = timeout_at(end + WAKE, meeting).await.ok().flatten();
    met.map(|(peer, kept)| Met { peer, kept, _seat: seat }).ok_or(Declined::NotWaiting)
}

/// The next connection, if it comes in time and the caller is not let go before.
async fn in_turn(
    mut turn: oneshot::Receiver<Waiting>,
    end: Instant,
    let_go: impl Future<Output = ()>,
) -> Option<Waiting> {
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
async fn wake(waiting: Waiting, let_go: impl Future<Output = ()>) -> Option<Kept> {
    let (give, given) = oneshot::channel();
    waiting.wanted.send(give).ok()?;
    let mut kept = timeout(WAKE, given).await.ok()?.ok()?;
    tokio::select! {
        biased;
        answered = timeout(WAKE, kept.ends.answer(&Opened::Yes)) => answered.ok()?.ok()?,
        () = let_go => return None,
    }
    Some(kept)
}

/// When the caller hangs up, or is taken back. It has nothing to say before it is answered: whatever comes ends it.
async fn let_go(held: &Held, caller: &Peer, ends: &mut Ends) {
    tokio::select! {
        _ = ends.frames.next() => {}
        () = held.taken_back([caller]) => {}
    }
}

/// Both directions, until both have ended, one breaks, or the operators took one of the two back.
async fn pump(
    held: &Held,
    (near, caller): (&mut Ends, &Arc<Peer>),
    (far, waited): (&mut Ends, &Arc<Peer>),
) -> &'static str {
    let count = |bytes: usize| {
        held.meter.relayed.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    };
    let both = async {
        let there = pass(&mut near.frames, &mut far.to, &count);
        let back = pass(&mut far.frames, &mut near.to, &count);
        tokio::try_join!(there, back).is_ok()
    };
    tokio::select! {
        whole = both => if whole { "whole" } else { "broken off" },
        () = held.taken_back([caller, waited]) => "ended by the operators",
    }
}

/// What comes before the next frame, and what takes one, may be as slow as a stream may.
async fn pass<R, W>(from: &mut Frames<R>, to: &mut W, count: &impl Fn(usize)) -> Result<(), NoFrame>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        let mut left = match within(IDLE, from.next()).await? {
            (Kind::Data, length) => length,
            (kind @ Kind::Still, _) => {
                within(IDLE, sign(to, kind)).await?;
                continue;
            }
            (kind @ Kind::End, _) => return within(IDLE, sign(to, kind)).await,
            (Kind::Broken | Kind::Hello | Kind::News | Kind::Open | Kind::Opened, _) => return Err(NoFrame::Over),
        };
        while left > 0 {
            let mut room = Room::take();
            let most = room.body().get_mut(..left.min(DATA)).unwrap_or_default();
            let read = within(SILENT, from.some(most)).await?;
            let head = header(Kind::Data, read)?;
            if let Some(start) = room.first_chunk_mut::<HEADER>() {
                *start = head;
            }
            let write = async {
                to.write_all(room.get(..HEADER + read).unwrap_or_default()).await?;
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
