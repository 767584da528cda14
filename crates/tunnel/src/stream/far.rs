//! The other end of a stream: in frames over TLS, as it is over QUIC and to a service of this node.

use std::io::{ErrorKind, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use quinn::{ReadError, RecvStream, SendStream, StoppedError, VarInt, WriteError};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::frame::buffer::FrameBuffer;
use crate::frame::format::{DATA, FrameKind, HEADER, MalformedFrame, header};
use crate::frame::reader::{NoFrame, send_empty};
use crate::state::socket::Socket;
use crate::stream::end::{SILENT, StreamEnd};
use crate::stream::progress::Progress;
use crate::transport::{quic, tls};

pub(super) trait OutgoingBytes {
    /// Does it say that it lives while it has nothing to say?
    const BEATS: bool;
    /// Sends so many bytes of the buffer's body.
    async fn send(&mut self, buffer: &mut FrameBuffer, count: usize) -> Result<(), StreamEnd>;
    async fn end(&mut self) -> Result<(), StreamEnd>;
    async fn beat(&mut self) -> Result<(), StreamEnd>;
}

pub(super) trait IncomingBytes {
    /// Passes on what comes next; false at the end.
    async fn pass(&mut self, near: &mut &Socket, progress: &Progress<'_>) -> Result<bool, StreamEnd>;
    /// After the end: returns only if something is wrong.
    async fn listen(&mut self) -> Result<(), StreamEnd>;
}

// ---- TLS ----

pub(super) struct TlsOut<'a> {
    ends: &'a mut tokio::io::WriteHalf<AnyTls>,
    /// No frame is half written.
    whole: &'a AtomicBool,
}

pub(super) struct TlsIn<'a>(&'a mut crate::frame::reader::FrameReader<tokio::io::ReadHalf<AnyTls>>);

type AnyTls = tokio_rustls::TlsStream<Box<dyn tls::TlsIo>>;

pub(super) fn tls<'a>(ends: &'a mut tls::TlsConnection, whole: &'a AtomicBool) -> (TlsOut<'a>, TlsIn<'a>) {
    (TlsOut { ends: &mut ends.to, whole }, TlsIn(&mut ends.frames))
}

/// As far as it goes: a connection that ends without a word says the same.
pub(super) async fn tell_broken(ends: &mut tls::TlsConnection) {
    let _ = timeout(Duration::from_millis(50), send_empty(&mut ends.to, FrameKind::Broken)).await;
}

impl TlsOut<'_> {
    async fn send_empty(&mut self, kind: FrameKind) -> Result<(), StreamEnd> {
        self.whole.store(false, Relaxed);
        send_empty(self.ends, kind).await.map_err(far)?;
        self.whole.store(true, Relaxed);
        Ok(())
    }
}

impl OutgoingBytes for TlsOut<'_> {
    const BEATS: bool = true;

    async fn send(&mut self, buffer: &mut FrameBuffer, count: usize) -> Result<(), StreamEnd> {
        let head = header(FrameKind::Data, count).map_err(far)?;
        if let Some(start) = buffer.first_chunk_mut::<HEADER>() {
            *start = head;
        }
        let frame = buffer.get(..HEADER + count).unwrap_or_default();
        self.whole.store(false, Relaxed);
        self.ends.write_all(frame).await.map_err(far)?;
        self.ends.flush().await.map_err(far)?;
        self.whole.store(true, Relaxed);
        Ok(())
    }

    async fn end(&mut self) -> Result<(), StreamEnd> {
        self.send_empty(FrameKind::End).await
    }

    async fn beat(&mut self) -> Result<(), StreamEnd> {
        self.send_empty(FrameKind::Still).await
    }
}

impl TlsIn<'_> {
    async fn next(&mut self) -> Result<(FrameKind, usize), StreamEnd> {
        timeout(SILENT, self.0.next()).await.map_err(|_| StreamEnd::Silent)?.map_err(far)
    }
}

impl IncomingBytes for TlsIn<'_> {
    async fn pass(&mut self, near: &mut &Socket, progress: &Progress<'_>) -> Result<bool, StreamEnd> {
        let mut left = match self.next().await? {
            (FrameKind::Data, length) => length,
            (FrameKind::Still, _) => 0,
            (FrameKind::End, _) => return Ok(false),
            (FrameKind::Broken, _) => return Err(StreamEnd::Broken),
            (found @ (FrameKind::Hello | FrameKind::News | FrameKind::Open | FrameKind::Opened), _) => {
                return Err(out_of_turn(found));
            }
        };
        if left == 0 {
            return Ok(true);
        }
        let mut buffer = FrameBuffer::take();
        while left > 0 {
            let most = buffer.get_mut(..left.min(DATA)).unwrap_or_default();
            let count = timeout(SILENT, self.0.some(most)).await.map_err(|_| StreamEnd::Silent)?.map_err(far)?;
            near.write_all(buffer.get(..count).unwrap_or_default()).await.map_err(StreamEnd::Near)?;
            progress.came_in(count);
            left = left.saturating_sub(count);
        }
        Ok(true)
    }

    async fn listen(&mut self) -> Result<(), StreamEnd> {
        loop {
            match self.next().await? {
                (FrameKind::Still, _) => {}
                (FrameKind::Broken, _) => return Err(StreamEnd::Broken),
                (
                    found @ (FrameKind::Hello
                    | FrameKind::News
                    | FrameKind::Open
                    | FrameKind::Opened
                    | FrameKind::Data
                    | FrameKind::End),
                    _,
                ) => return Err(out_of_turn(found)),
            }
        }
    }
}

fn out_of_turn(found: FrameKind) -> StreamEnd {
    far(MalformedFrame::OutOfTurn { wanted: FrameKind::Data, found })
}

/// A process that is gone says nothing more: the kernel does, or TLS misses its last word.
fn is_broken(why: &std::io::Error) -> bool {
    matches!(why.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof)
}

/// One that breaks off without a word is heard of by the kernel alone.
fn far(why: impl Into<NoFrame>) -> StreamEnd {
    match why.into() {
        NoFrame::Io(why) if is_broken(&why) => StreamEnd::Broken,
        why => StreamEnd::Far(why.into()),
    }
}

// ---- QUIC: the transport itself sees that the other side lives ----

/// Packets whose bytes are taken at once.
const CHUNKS: usize = 32;

pub(super) struct QuicOut<'a>(&'a mut SendStream);
pub(super) struct QuicIn<'a, S> {
    from: &'a mut RecvStream,
    /// When the other side takes no more of what is sent to it.
    stopped: Option<S>,
}

type QuicStopped = Result<Option<VarInt>, StoppedError>;

pub(super) fn quic(ends: &mut quic::QuicStream) -> (QuicOut<'_>, QuicIn<'_, impl Future<Output = QuicStopped>>) {
    let stopped = Some(ends.to.stopped());
    (QuicOut(&mut ends.to), QuicIn { from: &mut ends.from, stopped })
}

impl OutgoingBytes for QuicOut<'_> {
    const BEATS: bool = false;

    async fn send(&mut self, buffer: &mut FrameBuffer, count: usize) -> Result<(), StreamEnd> {
        let bytes = buffer.body().get(..count).unwrap_or_default();
        self.0.write_all(bytes).await.map_err(|why| match why {
            WriteError::Stopped(_) => StreamEnd::Broken,
            why @ (WriteError::ConnectionLost(_) | WriteError::ClosedStream | WriteError::ZeroRttRejected) => {
                StreamEnd::Far(why.into())
            }
        })
    }

    async fn end(&mut self) -> Result<(), StreamEnd> {
        self.0.finish().map_err(|why| StreamEnd::Far(why.into()))
    }

    async fn beat(&mut self) -> Result<(), StreamEnd> {
        Ok(())
    }
}

impl<S: Future<Output = QuicStopped>> IncomingBytes for QuicIn<'_, S> {
    async fn pass(&mut self, near: &mut &Socket, progress: &Progress<'_>) -> Result<bool, StreamEnd> {
        let mut chunks: [Bytes; CHUNKS] = std::array::from_fn(|_| Bytes::new());
        match self.from.read_chunks(&mut chunks).await {
            Ok(Some(count)) => {
                let chunks = chunks.get_mut(..count).unwrap_or_default();
                let bytes = chunks.iter().map(Bytes::len).sum();
                write_chunks(near, chunks).await.map_err(StreamEnd::Near)?;
                progress.came_in(bytes);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(ReadError::Reset(_)) => Err(StreamEnd::Broken),
            Err(why) => Err(StreamEnd::Far(why.into())),
        }
    }

    async fn listen(&mut self) -> Result<(), StreamEnd> {
        // Without it, one that ended its side before it was gone is heard of only when there is something to send.
        if let Some(stopped) = self.stopped.take()
            && !matches!(stopped.await, Ok(None))
        {
            return Err(StreamEnd::Broken);
        }
        std::future::pending().await
    }
}

/// What arrived goes out together: a packet holds little, and a system call costs as much as many of them.
async fn write_chunks(near: &mut &Socket, chunks: &mut [Bytes]) -> std::io::Result<()> {
    while chunks.iter().any(|chunk| !chunk.is_empty()) {
        let slices: [IoSlice<'_>; CHUNKS] =
            std::array::from_fn(|n| IoSlice::new(chunks.get(n).map_or(&[], AsRef::as_ref)));
        let mut written = near.write_vectored(&slices).await?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        for chunk in chunks.iter_mut() {
            let part = written.min(chunk.len());
            chunk.advance(part);
            written -= part;
        }
    }
    Ok(())
}

// ---- a service of this node ----

pub(super) struct Plain<'a>(pub &'a Socket);

impl OutgoingBytes for Plain<'_> {
    const BEATS: bool = false;

    async fn send(&mut self, buffer: &mut FrameBuffer, count: usize) -> Result<(), StreamEnd> {
        self.0.write_all(buffer.body().get(..count).unwrap_or_default()).await.map_err(far)
    }

    async fn end(&mut self) -> Result<(), StreamEnd> {
        self.0.shutdown().await.map_err(far)
    }

    async fn beat(&mut self) -> Result<(), StreamEnd> {
        Ok(())
    }
}

impl IncomingBytes for Plain<'_> {
    async fn pass(&mut self, near: &mut &Socket, progress: &Progress<'_>) -> Result<bool, StreamEnd> {
        self.0.readable().await.map_err(far)?;
        let mut buffer = FrameBuffer::take();
        let read = self.0.read_now(buffer.body()).await.map_err(far)?;
        let Some(count) = read else { return Ok(true) };
        near.write_all(buffer.body().get(..count).unwrap_or_default()).await.map_err(StreamEnd::Near)?;
        progress.came_in(count);
        Ok(count > 0)
    }

    async fn listen(&mut self) -> Result<(), StreamEnd> {
        std::future::pending().await
    }
}
