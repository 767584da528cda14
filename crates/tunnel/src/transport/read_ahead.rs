//! Read-ahead: reads from a socket in large parts for one who asks for small ones, and keeps no buffer while nothing is there.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::frame::buffer::FrameBuffer;

/// The TLS below us reads four KiB at a time, five times for each record.
#[derive(Debug)]
pub(super) struct ReadAhead<S> {
    socket: S,
    /// What was read and not asked for yet.
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    buffer: FrameBuffer,
    from: usize,
    to: usize,
}

impl<S> ReadAhead<S> {
    pub(super) const fn new(socket: S) -> Self {
        Self { socket, kept: None }
    }

    pub(super) const fn below(&self) -> &S {
        &self.socket
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAhead<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let mut kept = if let Some(kept) = this.kept.take() {
            kept
        } else {
            let mut buffer = FrameBuffer::take();
            let mut part = ReadBuf::new(&mut buffer);
            ready!(Pin::new(&mut this.socket).poll_read(cx, &mut part))?;
            let to = part.filled().len();
            Kept { buffer, from: 0, to }
        };
        let bytes = kept.buffer.get(kept.from..kept.to).unwrap_or_default();
        let part = bytes.get(..bytes.len().min(buf.remaining())).unwrap_or_default();
        buf.put_slice(part);
        kept.from += part.len();
        if kept.from < kept.to {
            this.kept = Some(kept);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadAhead<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::ReadAhead;

    #[tokio::test]
    async fn what_is_read_ahead_comes_whole_and_in_order_and_its_buffer_is_given_back() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut near = ReadAhead::new(near);
        let sent: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        far.write_all(&sent).await.unwrap();
        drop(far);
        let mut got = Vec::new();
        let mut some = [0; 4096];
        loop {
            match near.read(&mut some).await.unwrap() {
                0 => break,
                count => got.extend_from_slice(&some[..count]),
            }
        }
        assert!(got == sent && near.kept.is_none());
    }
}
