//! A stream whose bytes are all there already, and come so many at a time. What is written to it is kept.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Debug)]
pub struct Pieces<'a> {
    /// What was not read yet.
    pub data: &'a [u8],
    pub size: usize,
    pub told: Vec<u8>,
}

impl<'a> Pieces<'a> {
    pub const fn of(data: &'a [u8], size: usize) -> Self {
        Self { data, size, told: Vec::new() }
    }
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let count = self.size.min(to.remaining()).min(self.data.len());
        let (now, later) = self.data.split_at(count);
        to.put_slice(now);
        self.data = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pieces<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.told.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Nothing here ever waits.
pub fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(found) => found,
        Poll::Pending => panic!("it waits for bytes that are there"),
    }
}
