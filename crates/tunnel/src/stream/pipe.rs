//! A bidirectional copy between a program's socket and the other node, until both have ended it or one breaks it off.
//!
//! A side that reads slowly slows the one that writes: nothing is read before what was read is written. While nothing moves,
//! no buffer is kept.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use quinn::ConnectionError;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout};

use crate::frame::buffer::FrameBuffer;
use crate::state::meter::ServiceMeter;
use crate::state::socket::{ResetHandle, Socket};
use crate::state::streams::{Direction, OpenStream, Sockets};
use crate::stream::end::{SILENT, StreamEnd};
use crate::stream::far::{self, IncomingBytes, OutgoingBytes};
use crate::stream::progress::Progress;
use crate::transport::{quic, tls};

/// Without a byte in either direction for so long, a stream ends.
pub(crate) const IDLE: Duration = Duration::from_hours(1);
/// Over TLS, a side that has nothing to say says so this often (a heartbeat).
const BEAT: Duration = Duration::from_secs(5);

/// The other node, or a service on this one.
#[derive(Debug)]
pub(crate) enum FarEnd {
    Tls(Box<tls::TlsConnection>),
    Quic(quic::QuicStream),
    Here(Socket),
}

impl FarEnd {
    /// Over QUIC a stream is one of many on its connection, and through a relay there is none to the other node.
    fn reset_handle(&self) -> Option<ResetHandle> {
        match self {
            Self::Tls(ends) => ends.reset_handle.clone(),
            Self::Quic(_) => None,
            Self::Here(other) => Some(other.reset_handle()),
        }
    }
}

/// What holds for one stream.
#[derive(Debug)]
pub(crate) struct StreamTerms {
    pub stream: OpenStream,
    pub meter: Arc<ServiceMeter>,
    pub direction: Direction,
    pub idle: Duration,
}

#[derive(Debug)]
pub(crate) struct PipeOutcome {
    pub end: StreamEnd,
    /// From the caller to the service, and back.
    pub sent: u64,
    pub received: u64,
    /// The connection, if it can carry another stream.
    pub free: Option<Box<tls::TlsConnection>>,
}

/// Who takes no more may have said why before: so long it is still listened to.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// QUIC forgets what is on its direction when a stream breaks off.
const ON_ITS_WAY: Duration = Duration::from_millis(250);

pub(crate) async fn carry(socket: Socket, far: FarEnd, terms: &mut StreamTerms) -> PipeOutcome {
    socket.resets_when_dropped();
    terms.stream.goes_over(Sockets { near: Some(socket.reset_handle()), far: far.reset_handle() });
    // A new policy that came while the service was asked: not a byte passes.
    if let Some(why) = terms.stream.is_cut() {
        let end = StreamEnd::Cut(why);
        terms.stream.lets_go();
        return PipeOutcome { end, sent: 0, received: 0, free: None };
    }
    let meter = Arc::clone(&terms.meter);
    let progress = Progress::new(&meter, terms.direction);
    meter.opened();
    let (end, free) = match far {
        FarEnd::Tls(mut ends) => {
            let whole = AtomicBool::new(true);
            let (mut to, mut from) = far::tls(&mut ends, &whole);
            let end = both_ways(&socket, Halves { to: &mut to, from: &mut from }, &progress, terms, pending()).await;
            hang_up(&end, socket);
            let free = end_connection(&end, ends, whole.into_inner()).await;
            (end, free)
        }
        FarEnd::Quic(mut ends) => {
            let connection = ends.connection.clone();
            let end = {
                let (mut to, mut from) = far::quic(&mut ends);
                both_ways(&socket, Halves { to: &mut to, from: &mut from }, &progress, terms, connection.closed()).await
            };
            hang_up(&end, socket);
            match end {
                // What was written is on its direction only as long as somebody holds the connection.
                StreamEnd::Whole => ends.finish().await,
                StreamEnd::Near(_) => ends.break_off_after(ON_ITS_WAY).await,
                StreamEnd::Broken | StreamEnd::Far(_) | StreamEnd::Silent | StreamEnd::Idle | StreamEnd::Cut(_) => {
                    ends.break_off();
                }
            }
            (end, None)
        }
        FarEnd::Here(other) => {
            other.resets_when_dropped();
            let (mut to, mut from) = (far::Plain(&other), far::Plain(&other));
            let end = both_ways(&socket, Halves { to: &mut to, from: &mut from }, &progress, terms, pending()).await;
            hang_up(&end, socket);
            hang_up(&end, other);
            (end, None)
        }
    };
    meter.closed();
    let (sent, received) = match terms.direction {
        Direction::In => (progress.back.load(Relaxed), progress.out.load(Relaxed)),
        Direction::Out => (progress.out.load(Relaxed), progress.back.load(Relaxed)),
    };
    PipeOutcome { end, sent, received, free }
}

/// A program takes an orderly end for all that there is; so one that broke off must not look like it. It does not, unless
/// that is said: see above.
fn hang_up(end: &StreamEnd, socket: Socket) {
    if matches!(end, StreamEnd::Whole) {
        socket.closes_when_dropped();
    }
    drop(socket);
}

/// Gives the connection back if it can carry another stream. No frame is half written if it is `whole`.
async fn end_connection(
    end: &StreamEnd,
    mut ends: Box<tls::TlsConnection>,
    whole: bool,
) -> Option<Box<tls::TlsConnection>> {
    match end {
        StreamEnd::Whole => return whole.then_some(ends),
        // The one who cut it broke it off: what the service said before and the other side did not take yet is not for it.
        StreamEnd::Cut(_) if ends.reset_handle.is_some() => {}
        StreamEnd::Near(_) | StreamEnd::Idle | StreamEnd::Cut(_) => {
            if whole {
                far::tell_broken(&mut ends).await;
            }
        }
        // Who said so itself, or is gone, is not told.
        StreamEnd::Broken | StreamEnd::Far(_) | StreamEnd::Silent => {}
    }
    None
}

/// Of the far end.
struct Halves<'a, O, I> {
    to: &'a mut O,
    from: &'a mut I,
}

/// Until it is over, in one way or another. The sockets are nobody else's then.
async fn both_ways<O: OutgoingBytes, I: IncomingBytes>(
    socket: &Socket,
    Halves { to, from }: Halves<'_, O, I>,
    progress: &Progress<'_>,
    terms: &mut StreamTerms,
    closed: impl Future<Output = ConnectionError>,
) -> StreamEnd {
    let ended = tokio::select! {
        // What is cut is broken off, too: why comes first.
        biased;
        why = terms.stream.cut() => Err(StreamEnd::Cut(why)),
        ended = send(socket, to, progress) => ended,
        ended = receive(from, socket, progress) => ended,
        () = idle(progress, terms.idle) => Err(StreamEnd::Idle),
        why = left_behind(closed, progress) => Err(StreamEnd::Far(why.into())),
    };
    let cut = terms.stream.lets_go();
    cut.map(StreamEnd::Cut).or(ended.err()).unwrap_or(StreamEnd::Whole)
}

/// From the program to the other node. Returns when both directions are at their end.
async fn send<O: OutgoingBytes>(near: &Socket, to: &mut O, progress: &Progress<'_>) -> Result<(), StreamEnd> {
    let ended = send_all(near, to, progress).await;
    if let Err(StreamEnd::Far(_) | StreamEnd::Broken) = &ended {
        // The other direction carries what it said before, and ends by itself.
        tokio::time::sleep(LAST_WORDS).await;
    }
    ended
}

async fn send_all<O: OutgoingBytes>(near: &Socket, to: &mut O, progress: &Progress<'_>) -> Result<(), StreamEnd> {
    loop {
        tokio::select! {
            ready = near.readable() => ready.map_err(StreamEnd::Near)?,
            () = tokio::time::sleep(BEAT), if O::BEATS => {
                to.beat().await?;
                continue;
            }
        }
        let mut buffer = FrameBuffer::take();
        while let Some(count) = near.read_now(buffer.body()).await.map_err(StreamEnd::Near)? {
            if count == 0 {
                drop(buffer);
                return finish(to, progress).await;
            }
            to.send(&mut buffer, count).await?;
            progress.went_out(count);
        }
    }
}

async fn finish<O: OutgoingBytes>(to: &mut O, progress: &Progress<'_>) -> Result<(), StreamEnd> {
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
async fn receive<I: IncomingBytes>(from: &mut I, mut near: &Socket, progress: &Progress<'_>) -> Result<(), StreamEnd> {
    loop {
        match from.pass(&mut near, progress).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(why @ StreamEnd::Near(_)) => {
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
        Err(why) if why.kind() != std::io::ErrorKind::NotConnected => return Err(StreamEnd::Near(why)),
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
