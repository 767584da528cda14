//! Carries bytes between a program's socket and the other node, both ways, until both have ended it or one breaks it off.
//!
//! A side that reads slowly slows the one that writes: nothing is read before what was read is written. While nothing moves,
//! no buffer is kept.

mod far;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use quinn::ConnectionError;
use tokio::io::{AsyncWriteExt as _, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::access::standing::Denied;
use crate::frame::buffer::Room;
use crate::state::meter::Row;
use crate::state::socket::{Breaker, Socket};
use crate::state::streams::{Sockets, Ticket, Way};
use crate::transport::{quic, tls};
use far::{Incoming, Outgoing};

/// Without a byte in either direction for so long, a stream ends.
pub const IDLE: Duration = Duration::from_hours(1);
/// Over TLS, a side that has nothing to say says so this often, and one that is not heard of for so long is gone.
const BEAT: Duration = Duration::from_secs(5);
pub const SILENT: Duration = Duration::from_secs(15);

/// The other node, or a service on this one.
#[derive(Debug)]
pub enum Far {
    Tls(Box<tls::Ends>),
    Quic(quic::Ends),
    Here(Socket),
}

impl Far {
    /// Over QUIC a stream is one of many on its connection, and through a relay there is none to the other node.
    fn breaker(&self) -> Option<Breaker> {
        match self {
            Self::Tls(ends) => ends.breaker.clone(),
            Self::Quic(_) => None,
            Self::Here(other) => Some(other.breaker()),
        }
    }
}

/// What holds for one stream.
#[derive(Debug)]
pub struct Terms {
    pub ticket: Ticket,
    pub row: Arc<Row>,
    pub way: Way,
    pub idle: Duration,
}

#[derive(Debug)]
pub struct Carried {
    pub end: End,
    /// From the caller to the service, and back.
    pub sent: u64,
    pub received: u64,
    /// The connection, if it can carry another stream.
    pub free: Option<Box<tls::Ends>>,
}

/// How a stream ended.
#[derive(Debug, thiserror::Error)]
pub enum End {
    #[error("both sides ended it")]
    Whole,
    #[error("the program's side broke off: {0}")]
    Near(#[source] std::io::Error),
    #[error("the other node's side broke off")]
    Broken,
    #[error("the connection to the other node failed: {0}")]
    Far(String),
    #[error("nothing was heard of the other node for {} s", SILENT.as_secs())]
    Silent,
    #[error("nothing was carried for too long")]
    Idle,
    #[error("{0}")]
    Cut(Denied),
}

/// Who takes no more may have said why before: so long it is still listened to.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// QUIC forgets what is on its way when a stream breaks off.
const ON_ITS_WAY: Duration = Duration::from_millis(250);

/// What both directions of a stream share.
struct Progress<'a> {
    row: &'a Row,
    way: Way,
    out: AtomicU64,
    back: AtomicU64,
    begun: Instant,
    /// Milliseconds from the beginning to the last byte.
    moved: AtomicU64,
    sent_end: AtomicBool,
    /// Tells whoever waits for it that the end was sent.
    told_end: Notify,
    heard_end: AtomicBool,
}

pub async fn carry(socket: Socket, far: Far, terms: &mut Terms) -> Carried {
    socket.breaks_when_dropped();
    terms.ticket.goes_over(Sockets { near: Some(socket.breaker()), far: far.breaker() });
    // A new rule that came while the service was asked: not a byte passes.
    if let Some(why) = terms.ticket.is_cut() {
        let end = End::Cut(why);
        terms.ticket.lets_go();
        return Carried { end, sent: 0, received: 0, free: None };
    }
    let row = Arc::clone(&terms.row);
    let progress = Progress::new(&row, terms.way);
    row.opened();
    let (end, free) = match far {
        Far::Tls(mut ends) => {
            let whole = AtomicBool::new(true);
            let (mut to, mut from) = far::tls(&mut ends, &whole);
            let end = both_ways(&socket, (&mut to, &mut from), &progress, (terms, pending())).await;
            hang_up(&end, socket);
            let free = end_line(&end, ends, whole.into_inner()).await;
            (end, free)
        }
        Far::Quic(mut ends) => {
            let connection = ends.connection.clone();
            let end = {
                let (mut to, mut from) = far::quic(&mut ends);
                both_ways(&socket, (&mut to, &mut from), &progress, (terms, connection.closed())).await
            };
            hang_up(&end, socket);
            match end {
                // What was written is on its way only as long as somebody holds the connection.
                End::Whole => ends.finish().await,
                End::Near(_) => ends.break_off_after(ON_ITS_WAY).await,
                End::Broken | End::Far(_) | End::Silent | End::Idle | End::Cut(_) => ends.break_off(),
            }
            (end, None)
        }
        Far::Here(other) => {
            other.breaks_when_dropped();
            let (mut to, mut from) = (far::Plain(&other), far::Plain(&other));
            let end = both_ways(&socket, (&mut to, &mut from), &progress, (terms, pending())).await;
            hang_up(&end, socket);
            hang_up(&end, other);
            (end, None)
        }
    };
    row.closed();
    let (sent, received) = match terms.way {
        Way::In => (progress.back.load(Relaxed), progress.out.load(Relaxed)),
        Way::Out => (progress.out.load(Relaxed), progress.back.load(Relaxed)),
    };
    Carried { end, sent, received, free }
}

/// A program takes an orderly end for all that there is; so one that broke off must not look like it. It does not, unless
/// that is said: see above.
fn hang_up(end: &End, socket: Socket) {
    if matches!(end, End::Whole) {
        socket.ends_when_dropped();
    }
    drop(socket);
}

/// Gives the connection back if it can carry another stream. No frame is half written if it is `whole`.
async fn end_line(end: &End, mut ends: Box<tls::Ends>, whole: bool) -> Option<Box<tls::Ends>> {
    match end {
        End::Whole => return whole.then_some(ends),
        // The one who cut it broke it off: what the service said before and the other side did not take yet is not for it.
        End::Cut(_) if ends.breaker.is_some() => {}
        End::Near(_) | End::Idle | End::Cut(_) => {
            if whole {
                far::tell_broken(&mut ends).await;
            }
        }
        // Who said so itself, or is gone, is not told.
        End::Broken | End::Far(_) | End::Silent => {}
    }
    None
}

/// Until it is over, in one way or another. The sockets are nobody else's then.
async fn both_ways<O: Outgoing, I: Incoming>(
    socket: &Socket,
    (to, from): (&mut O, &mut I),
    progress: &Progress<'_>,
    (terms, closed): (&mut Terms, impl Future<Output = ConnectionError>),
) -> End {
    let ended = tokio::select! {
        // What is cut is broken off, too: why comes first.
        biased;
        why = terms.ticket.cut() => Err(End::Cut(why)),
        ended = send(socket, to, progress) => ended,
        ended = receive(from, socket, progress) => ended,
        () = idle(progress, terms.idle) => Err(End::Idle),
        why = left_behind(closed, progress) => Err(End::Far(why.to_string())),
    };
    let cut = terms.ticket.lets_go();
    cut.map(End::Cut).or(ended.err()).unwrap_or(End::Whole)
}

/// From the program to the other node. Returns when both directions are at their end.
async fn send<O: Outgoing>(near: &Socket, to: &mut O, progress: &Progress<'_>) -> Result<(), End> {
    let ended = send_all(near, to, progress).await;
    if let Err(End::Far(_) | End::Broken) = &ended {
        // The other direction carries what it said before, and ends by itself.
        tokio::time::sleep(LAST_WORDS).await;
    }
    ended
}

async fn send_all<O: Outgoing>(near: &Socket, to: &mut O, progress: &Progress<'_>) -> Result<(), End> {
    loop {
        tokio::select! {
            ready = near.readable() => ready.map_err(End::Near)?,
            () = tokio::time::sleep(BEAT), if O::BEATS => {
                to.beat().await?;
                continue;
            }
        }
        let mut room = Room::take();
        while let Some(count) = read_now(near, room.body()).await.map_err(End::Near)? {
            if count == 0 {
                drop(room);
                return finish(to, progress).await;
            }
            to.send(&mut room, count).await?;
            progress.went_out(count);
        }
    }
}

/// What is there, or nothing if nothing is: so that no buffer is kept for what may come.
async fn read_now(near: &Socket, room: &mut [u8]) -> std::io::Result<Option<usize>> {
    std::future::poll_fn(|context| {
        let mut read = ReadBuf::new(room);
        std::task::Poll::Ready(match near.poll_read(context, &mut read) {
            std::task::Poll::Pending => Ok(None),
            std::task::Poll::Ready(Ok(())) => Ok(Some(read.filled().len())),
            std::task::Poll::Ready(Err(why)) => Err(why),
        })
    })
    .await
}

async fn finish<O: Outgoing>(to: &mut O, progress: &Progress<'_>) -> Result<(), End> {
    to.end().await?;
    progress.sent_end.store(true, Relaxed);
    progress.told_end.notify_one();
    while !progress.heard_end.load(Relaxed) {
        if O::BEATS {
            tokio::time::sleep(BEAT).await;
            to.beat().await?;
        } else {
            // The other direction returns when it is at its end.
            pending::<()>().await;
        }
    }
    Ok(())
}

/// From the other node to the program. Returns when both directions are at their end.
async fn receive<I: Incoming>(from: &mut I, mut near: &Socket, progress: &Progress<'_>) -> Result<(), End> {
    loop {
        match from.pass(&mut near, progress).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(why @ End::Near(_)) => {
                // The other direction carries what it said before, and ends by itself.
                let _ = timeout(LAST_WORDS, progress.told_end.notified()).await;
                return Err(why);
            }
            Err(why) => return Err(why),
        }
    }
    progress.heard_end.store(true, Relaxed);
    match near.shutdown().await {
        // It has hung up by itself: its other half tells how.
        Err(why) if why.kind() != std::io::ErrorKind::NotConnected => return Err(End::Near(why)),
        Ok(()) | Err(_) => {}
    }
    if progress.sent_end.load(Relaxed) { Ok(()) } else { from.listen().await }
}

/// Where the transport says that the other node is gone. What it said before is passed on for as long as somebody takes it.
async fn left_behind<W>(closed: impl Future<Output = W>, progress: &Progress<'_>) -> W {
    let why = closed.await;
    loop {
        let before = progress.moved.load(Relaxed);
        tokio::time::sleep(SILENT).await;
        if progress.moved.load(Relaxed) == before {
            return why;
        }
    }
}

async fn idle(progress: &Progress<'_>, most: Duration) {
    loop {
        let end = progress.begun + Duration::from_millis(progress.moved.load(Relaxed)) + most;
        if end <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(end).await;
    }
}

impl<'a> Progress<'a> {
    fn new(row: &'a Row, way: Way) -> Self {
        Self {
            row,
            way,
            out: AtomicU64::new(0),
            back: AtomicU64::new(0),
            begun: Instant::now(),
            moved: AtomicU64::new(0),
            sent_end: AtomicBool::new(false),
            told_end: Notify::new(),
            heard_end: AtomicBool::new(false),
        }
    }

    fn touch(&self) {
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved.store(passed, Relaxed);
    }

    fn went_out(&self, bytes: usize) {
        self.out.fetch_add(bytes as u64, Relaxed);
        self.touch();
        match self.way {
            Way::In => self.row.received(bytes),
            Way::Out => self.row.sent(bytes),
        }
    }

    fn came_in(&self, bytes: usize) {
        self.back.fetch_add(bytes as u64, Relaxed);
        self.touch();
        match self.way {
            Way::In => self.row.sent(bytes),
            Way::Out => self.row.received(bytes),
        }
    }
}
