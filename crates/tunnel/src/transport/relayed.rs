//! A stream's bytes as something to read and write: what TLS between two nodes goes over when a relay is in between.
//!
//! The relay ends the outer TLS and sees the inner one's records. It can keep them back, and nothing else.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use org::member::peer::Peer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::frame::buffer::FrameBuffer;
use crate::frame::format::{self, DATA, FrameKind, HEADER};
use crate::frame::reader::NoFrame;
use crate::state::shared::TunnelState;
use crate::state::socket::ResetHandle;
use crate::transport::tls::{TlsConnection, TlsIo};

pub(crate) struct RelayedIo {
    ends: TlsConnection,
    /// Over when the operators take the relay back.
    taken_back: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
    /// Bytes of the frame that is being read.
    left: usize,
    over: bool,
    frame: Option<UnsentFrame>,
}

/// What is being written.
#[derive(Debug)]
struct UnsentFrame {
    buffer: FrameBuffer,
    gone: usize,
    end: usize,
}

impl fmt::Debug for RelayedIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RelayedIo")
    }
}

impl RelayedIo {
    /// To be made between frames: after the answer that opened the stream.
    pub(crate) fn new(ends: TlsConnection, state: Arc<TunnelState>, relay: Arc<Peer>) -> Self {
        let taken_back = Some(Box::pin(async move { state.taken_back([&relay]).await }) as _);
        Self { ends, taken_back, left: 0, over: false, frame: None }
    }

    fn poll_relay(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let is_over = self.taken_back.as_mut().is_none_or(|taken| taken.as_mut().poll(cx).is_ready());
        if is_over {
            self.taken_back = None;
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the operators took the relay back"));
        }
        Ok(())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(frame) = &mut self.frame {
            let rest = frame.buffer.get(frame.gone..frame.end).unwrap_or_default();
            if rest.is_empty() {
                self.frame = None;
                break;
            }
            match ready!(Pin::new(&mut self.ends.to).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => frame.gone += sent,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// As much as one frame holds: the inner records go together, so that the outer ones are full.
    fn put(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut buffer = FrameBuffer::take();
        let mut rest = buffer.body();
        for part in parts {
            let count = part.len().min(rest.len());
            let (taken, left) = rest.split_at_mut(count);
            taken.copy_from_slice(part.get(..count).unwrap_or_default());
            rest = left;
        }
        let count = DATA - rest.len();
        if count > 0 {
            let header = format::header(FrameKind::Data, count).map_err(io::Error::other)?;
            if let Some(start) = buffer.first_chunk_mut::<HEADER>() {
                *start = header;
            }
            self.frame = Some(UnsentFrame { buffer, gone: 0, end: HEADER + count });
        }
        Ok(count)
    }
}

impl TlsIo for RelayedIo {
    fn reset_handle(&self) -> Option<ResetHandle> {
        None
    }
}

impl AsyncRead for RelayedIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.poll_relay(cx)?;
        while this.left == 0 && !this.over {
            match ready!(this.ends.frames.poll_next(cx)) {
                Ok((FrameKind::Data, length)) => this.left = length,
                Ok((FrameKind::Still, _)) => {}
                Ok((FrameKind::End, _)) => this.over = true,
                Ok((FrameKind::Broken, _)) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                Ok((FrameKind::Hello | FrameKind::News | FrameKind::Open | FrameKind::Opened, _)) => {
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                }
                Err(NoFrame::Io(why)) => return Poll::Ready(Err(why)),
                Err(why @ (NoFrame::Over | NoFrame::Bad(_))) => return Poll::Ready(Err(io::Error::other(why))),
            }
        }
        if this.over {
            return Poll::Ready(Ok(()));
        }
        let most = this.left.min(buf.remaining());
        let mut part = buf.take(most);
        ready!(Pin::new(this.ends.frames.inner()).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        if read == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        this.left -= read;
        buf.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for RelayedIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        let taken = this.put(parts)?;
        // What does not go out now goes before what comes next.
        match this.poll_send(cx) {
            Poll::Ready(Err(why)) => Poll::Ready(Err(why)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(taken)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.ends.to).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        ready!(Pin::new(&mut this.ends.to).poll_flush(cx))?;
        Pin::new(&mut this.ends.to).poll_shutdown(cx)
    }
}
