//! Carries bytes between two nodes of which one has no address: it waits here until somebody wants it.
//!
//! What is carried is the TLS between those two: this node reads nothing of it, and decides nothing for them. It knows who
//! meets whom, when, and how much they say.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ground::clock;
use identity::principal::{Kind as PrincipalKind, NodeName};
use org::peer::Peer;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use wire::peer::{Declined, Opened};

use crate::door::Seat;
use crate::frame::{DATA, HEADER, Kind, header};
use crate::held::Held;
use crate::line::frames::{Frames, NoFrame, sign};
use crate::line::tls::Ends;
use crate::room::Room;

/// Connections of one node that wait: each is used once, and the node brings another.
const WAITING_OF_ONE: usize = 8;
const WAITING: usize = 4_096;
/// For the node that waited: it answers at once, or it is gone.
const WAKE: Duration = Duration::from_secs(5);

/// A caller waits so long for a node that brings its next connection.
const COMES: Duration = Duration::from_secs(5);
/// Whoever was here so lately does.
const LATELY: Duration = Duration::from_secs(30);

/// Nodes that wait here.
#[derive(Debug, Default)]
pub struct Lobby(Mutex<HashMap<NodeName, Queue>>);

/// Connections of one node.
#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Waiting>,
    arrived: Arc<Notify>,
    /// When one was seen.
    last: Instant,
}

/// What there is of a node.
#[derive(Debug)]
enum Found {
    Waiting(Waiting),
    /// It was here a moment ago.
    Soon(Arc<Notify>),
    Nothing,
}

/// A connection that waits; dropped, its keeper is told that nobody comes.
#[derive(Debug)]
struct Waiting {
    peer: Arc<Peer>,
    wanted: oneshot::Sender<oneshot::Sender<Ends>>,
}

/// Keeps a node's connection until somebody wants that node, and hands it over then. Returns when it is of no more use here.
pub async fn keep(held: &Held, lobby: &Lobby, peer: &Arc<Peer>, mut ends: Ends) {
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
        drop(taker.send(ends));
    }
}

/// Brings a caller together with a node that waits, and carries until one of them ends.
pub async fn carry(held: &Held, lobby: &Lobby, (caller, mut ends): (&Arc<Peer>, Ends), to: &NodeName) {
    let mut met = match meet(held, lobby, caller, to).await {
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
    let ended = pump(held, (&mut ends, caller), (&mut met.ends, &met.peer)).await;
    tracing::info!(from = %caller.node(), %to, ended, "carried");
    relayed.open.fetch_sub(1, Ordering::Relaxed);
}

struct Met {
    peer: Arc<Peer>,
    ends: Ends,
    _seat: Seat,
}

async fn meet(held: &Held, lobby: &Lobby, caller: &Arc<Peer>, to: &NodeName) -> Result<Met, Declined> {
    let seat = held.door.sit(caller.node()).ok_or(Declined::TooMany)?;
    let end = Instant::now() + COMES;
    loop {
        let waiting = match lobby.take(to) {
            Found::Waiting(waiting) => waiting,
            Found::Soon(arrived) => {
                timeout_at(end, arrived.notified()).await.map_err(|_| Declined::NotWaiting)?;
                continue;
            }
            Found::Nothing => return Err(Declined::NotWaiting),
        };
        // By what is known now: it may have waited long.
        if held.rule.load().standing.check(&waiting.peer, clock::now()).is_err() {
            continue;
        }
        let (give, given) = oneshot::channel();
        if waiting.wanted.send(give).is_err() {
            continue;
        }
        let Ok(Ok(mut ends)) = timeout(WAKE, given).await else { continue };
        if matches!(timeout(WAKE, ends.answer(&Opened::Yes)).await, Ok(Ok(()))) {
            return Ok(Met { peer: waiting.peer, ends, _seat: seat });
        }
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

async fn pass<R, W>(from: &mut Frames<R>, to: &mut W, count: &impl Fn(usize)) -> Result<(), NoFrame>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        let mut left = match from.next().await? {
            (Kind::Data, length) => length,
            (kind @ Kind::Still, _) => {
                sign(to, kind).await?;
                continue;
            }
            (kind @ Kind::End, _) => return sign(to, kind).await,
            (Kind::Broken | Kind::Hello | Kind::News | Kind::Open | Kind::Opened, _) => return Err(NoFrame::Over),
        };
        while left > 0 {
            let mut room = Room::take();
            let most = room.body().get_mut(..left.min(DATA)).unwrap_or_default();
            let read = from.some(most).await?;
            let head = header(Kind::Data, read)?;
            if let Some(start) = room.first_chunk_mut::<HEADER>() {
                *start = head;
            }
            to.write_all(room.get(..HEADER + read).unwrap_or_default()).await?;
            to.flush().await?;
            count(read);
            left = left.saturating_sub(read);
        }
    }
}

impl Lobby {
    /// Nothing if it is full, or the peer is not a node itself.
    fn enter(&self, peer: &Arc<Peer>) -> Option<oneshot::Receiver<oneshot::Sender<Ends>>> {
        let (mut nodes, now) = (self.nodes(), Instant::now());
        nodes.retain(|_, queue| queue.is_of_use(now));
        let in_all: usize = nodes.values().map(|queue| queue.waiting.len()).sum();
        if peer.principal().kind() != PrincipalKind::Node || in_all >= WAITING {
            return None;
        }
        let new = || Queue { waiting: VecDeque::new(), arrived: Arc::default(), last: now };
        let own = nodes.entry(peer.node().clone()).or_insert_with(new);
        if own.waiting.len() >= WAITING_OF_ONE {
            return None;
        }
        let (wanted, receiver) = oneshot::channel();
        own.waiting.push_back(Waiting { peer: Arc::clone(peer), wanted });
        own.arrived.notify_one();
        Some(receiver)
    }

    /// This node carries no more: whoever waits is let go.
    pub fn close(&self) {
        self.nodes().clear();
    }

    /// The one that came last is the likeliest to be there.
    fn take(&self, node: &NodeName) -> Found {
        let (mut nodes, now) = (self.nodes(), Instant::now());
        let Some(queue) = nodes.get_mut(node) else { return Found::Nothing };
        match (queue.is_of_use(now), queue.waiting.pop_back()) {
            (_, Some(waiting)) => Found::Waiting(waiting),
            (true, None) => Found::Soon(Arc::clone(&queue.arrived)),
            (false, None) => Found::Nothing,
        }
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<NodeName, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// After those that are gone are forgotten.
    fn is_of_use(&mut self, now: Instant) -> bool {
        self.waiting.retain(|one| !one.wanted.is_closed());
        if !self.waiting.is_empty() {
            self.last = now;
        }
        now.duration_since(self.last) < LATELY
    }
}
