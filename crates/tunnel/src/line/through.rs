//! A stream's bytes as something to read and write: what TLS between two nodes goes over when a relay is in between.
//!
//! The relay ends the outer TLS and sees the inner one's records. It can keep them back, and nothing else.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use org::peer::Peer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::NoFrame;
use super::tls::Ends;
use crate::frame::{self, Kind};
use crate::held::Held;

/// A TLS record of the inner connection fits.
const ROOM: usize = 17 << 10;

pub struct Through {
    ends: Ends,
    /// Over when the operators take the relay back.
    taken_back: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
    /// Bytes of the frame that is being read.
    left: usize,
    over: bool,
    /// A frame that is being written, and how much of it went out.
    frame: Vec<u8>,
    gone: usize,
}

impl fmt::Debug for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Through")
    }
}

impl Through {
    /// To be made between frames: after the answer that opened the stream.
    pub fn new(ends: Ends, held: Arc<Held>, relay: Arc<Peer>) -> Self {
        let taken_back = Some(Box::pin(async move { held.taken_back([&relay]).await }) as _);
        Self { ends, taken_back, left: 0, over: false, frame: Vec::new(), gone: 0 }
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
        while let Some(rest) = self.frame.get(self.gone..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.ends.to).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.gone += sent,
            }
        }
        self.frame.clear();
        self.gone = 0;
        Poll::Ready(Ok(()))
    }

    fn put(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        let header = frame::header(kind, bytes.len()).map_err(io::Error::other)?;
        self.frame.extend_from_slice(&header);
        self.frame.extend_from_slice(bytes);
        Ok(())
    }
}

impl AsyncRead for Through {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.poll_relay(cx)?;
        while this.left == 0 && !this.over {
            match ready!(this.ends.frames.poll_next(cx)) {
                Ok((Kind::Data, length)) => this.left = length,
                Ok((Kind::Still, _)) => {}
                Ok((Kind::End, _)) => this.over = true,
                Ok((Kind::Broken, _)) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                Ok((Kind::Hello | Kind::News | Kind::Open | Kind::Opened, _)) => {
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

impl AsyncWrite for Through {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        let taken = bytes.get(..bytes.len().min(ROOM)).unwrap_or_default();
        if taken.is_empty() {
            return Poll::Ready(Ok(0));
        }
        this.put(Kind::Data, taken)?;
        // What does not go out now goes before what comes next.
        match this.poll_send(cx) {
            Poll::Ready(Err(why)) => Poll::Ready(Err(why)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(taken.len())),
        }
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
