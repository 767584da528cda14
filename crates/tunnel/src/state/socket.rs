//! A socket that somebody else than who carries its bytes can break off: whoever enforces a new rule waits for nobody.

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
pub struct Socket(Arc<TcpStream>);

/// Holds the socket open: to be let go of before it is to be closed.
#[derive(Debug, Clone)]
pub struct Breaker(Arc<TcpStream>);

impl Breaker {
    /// At once, also for what was written and has not left yet. Both ends find a connection that broke, not one that ended.
    pub fn break_off(&self) {
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
    pub fn breaker(&self) -> Breaker {
        Breaker(Arc::clone(&self.0))
    }

    /// From now on also the end of this process is none of the connection: the kernel breaks off what is open then.
    pub fn breaks_when_dropped(&self) {
        let _ = self.0.set_zero_linger();
    }

    /// What was written still leaves, and then comes the end.
    pub fn ends_when_dropped(&self) {
        let _ = sockopt::set_socket_linger(&*self.0, None);
    }

    /// The own address, and that of the other end.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.0.local_addr()?, self.0.peer_addr()?))
    }

    pub async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    pub fn poll_read(&self, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let most = room.remaining();
        loop {
            ready!(self.0.poll_read_ready(context))?;
            let read = |socket: &TcpStream| Ok(recv(socket, room.initialize_unfilled(), RecvFlags::empty())?.0);
            match self.attempt(Interest::READABLE, most, read) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|count| room.advance(count))),
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
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Socket::poll_read(&self, context, room)
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
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Self::poll_read(&self, context, room)
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
