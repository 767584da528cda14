//! A socket that somebody else than who carries its bytes can reset: whoever enforces a new policy waits for nobody.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, connect_unspec, recv, sendmsg, shutdown, sockopt,
};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Socket(Arc<TcpStream>);

/// Holds the socket open: to be let go of before it is to be closed.
#[derive(Debug, Clone)]
pub(crate) struct ResetHandle(Arc<TcpStream>);

impl ResetHandle {
    /// At once, also for what was written and has not left yet. Both ends find a connection that broke, not one that ended.
    pub(crate) fn reset(&self) {
        if connect_unspec(&*self.0).is_err() {
            // With whoever lets go of it last, then.
            let _ = self.0.set_zero_linger();
        }
    }
}

impl From<TcpStream> for Socket {
    fn from(socket: TcpStream) -> Self {
        Self(Arc::new(socket))
    }
}

impl Socket {
    pub(crate) fn reset_handle(&self) -> ResetHandle {
        ResetHandle(Arc::clone(&self.0))
    }

    /// From now on also the end of this process is none of the connection: the kernel breaks off what is open then.
    pub(crate) fn resets_when_dropped(&self) {
        let _ = self.0.set_zero_linger();
    }

    /// What was written still leaves, and then comes the end.
    pub(crate) fn closes_when_dropped(&self) {
        let _ = sockopt::set_socket_linger(&*self.0, None);
    }

    /// The own address, and that of the other end.
    pub(crate) fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.0.local_addr()?, self.0.peer_addr()?))
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// What is there, or nothing if nothing is: so that no buffer is kept for what may come.
    pub(crate) async fn read_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        poll_fn(|context| {
            let mut read = ReadBuf::new(buffer);
            Poll::Ready(match self.poll_read(context, &mut read) {
                Poll::Pending => Ok(None),
                Poll::Ready(Ok(())) => Ok(Some(read.filled().len())),
                Poll::Ready(Err(why)) => Err(why),
            })
        })
        .await
    }

    pub(crate) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let most = buffer.remaining();
        loop {
            ready!(self.0.poll_read_ready(context))?;
            let read = |socket: &TcpStream| Ok(recv(socket, buffer.initialize_unfilled(), RecvFlags::empty())?.0);
            match self.attempt(Interest::READABLE, most, read) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|count| buffer.advance(count))),
            }
        }
    }

    fn poll_send(&self, context: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let most = parts.iter().map(|part| part.len()).sum();
        let write =
            |socket: &TcpStream| Ok(sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?);
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.attempt(Interest::WRITABLE, most, write) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    /// Who got less than all has got what there was: it is not asked for more before the kernel says that there is.
    fn attempt(
        &self,
        interest: Interest,
        most: usize,
        act: impl FnOnce(&TcpStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut part = None;
        let whole = self.0.try_io(interest, || {
            let count = act(&self.0)?;
            if 0 < count && count < most {
                part = Some(count);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count)
        });
        part.map_or(whole, Ok)
    }
}

impl AsyncRead for &Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Socket::poll_read(&self, context, buffer)
    }
}

impl AsyncWrite for &Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(shutdown(&*self.0, Shutdown::Write)?))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Self::poll_read(&self, context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_shutdown(context)
    }
}
