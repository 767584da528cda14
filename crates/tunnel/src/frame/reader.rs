//! Framing: reads and writes whole frames on a connection; a reader that is dropped half way goes on where it was.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::Instant;

use crate::frame::format::{self, FrameKind, HEADER, MalformedFrame};
use crate::limit::large::{LARGE_ABOVE, LargePermit};

#[derive(Debug, thiserror::Error)]
pub enum NoFrame {
    #[error("the connection ended")]
    Over,
    #[error("the connection broke: {0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Bad(#[from] MalformedFrame),
}

/// The side of a connection that frames come from. What is read of a header stays here, so that whoever waits for the next
/// frame may stop waiting at any time.
#[derive(Debug)]
pub struct FrameReader<R> {
    from: R,
    header: [u8; HEADER],
    have: usize,
    signs: u64,
    since: Instant,
}

/// Frames that say nothing, of which there may be so many, and so many more for each second since the beginning: whoever did not
/// read for an hour finds those of an hour.
const SIGNS: u64 = 64;
const SIGNS_A_SECOND: u64 = 8;

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub fn new(from: R) -> Self {
        Self { from, header: [0; HEADER], have: 0, signs: 0, since: Instant::now() }
    }

    /// The next frame's kind, and how many bytes follow. May be dropped at any await.
    pub async fn next(&mut self) -> Result<(FrameKind, usize), NoFrame> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(FrameKind, usize), NoFrame>> {
        while let Some(rest) = self.header.get_mut(self.have..).filter(|rest| !rest.is_empty()) {
            let mut buffer = ReadBuf::new(rest);
            ready!(Pin::new(&mut self.from).poll_read(cx, &mut buffer))?;
            match buffer.filled().len() {
                0 => return Poll::Ready(Err(NoFrame::Over)),
                read => self.have += read,
            }
        }
        self.have = 0;
        let (kind, length) = format::read_header(self.header)?;
        if length == 0 && matches!(kind, FrameKind::Still | FrameKind::Data) {
            self.signs += 1;
            if self.signs > SIGNS && self.signs > SIGNS + SIGNS_A_SECOND * self.since.elapsed().as_secs() {
                return Poll::Ready(Err(MalformedFrame::Restless.into()));
            }
        }
        Poll::Ready(Ok((kind, length)))
    }

    /// For the bytes that follow a header.
    pub(crate) const fn inner(&mut self) -> &mut R {
        &mut self.from
    }

    /// Some of the bytes that follow the header: at least one, and then all that is there without waiting. Decrypted bytes
    /// come in small parts, and each time that they are passed on costs a call to the system.
    pub async fn some(&mut self, buffer: &mut [u8]) -> Result<usize, NoFrame> {
        let mut buffer = ReadBuf::new(buffer);
        poll_fn(|cx| self.poll_some(cx, &mut buffer)).await?;
        Ok(buffer.filled().len())
    }

    fn poll_some(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<(), NoFrame>> {
        while buffer.remaining() > 0 {
            let before = buffer.filled().len();
            let read = Pin::new(&mut self.from).poll_read(cx, buffer);
            match read {
                Poll::Ready(Ok(())) if buffer.filled().len() > before => {}
                // What is wrong is found again by whoever reads on.
                _ if before > 0 => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => return Poll::Ready(Err(NoFrame::Over)),
                Poll::Ready(Err(why)) => return Poll::Ready(Err(why.into())),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The words of the wanted kind; signs of life before them are passed over.
    pub async fn words<T: DeserializeOwned>(&mut self, wanted: FrameKind) -> Result<T, NoFrame> {
        let (kind, length) = self.next().await?;
        self.words_from(kind, length, wanted).await
    }

    /// The same, from a frame on whose header is read.
    pub(crate) async fn words_from<T: DeserializeOwned>(
        &mut self,
        kind: FrameKind,
        length: usize,
        wanted: FrameKind,
    ) -> Result<T, NoFrame> {
        let length = self.length_from(kind, length, wanted).await?;
        self.read(wanted, length).await
    }

    /// The same of a kind that may be large: then only when there is room for it.
    pub(crate) async fn large_words<T: DeserializeOwned>(
        &mut self,
        wanted: FrameKind,
        permit: &mut LargePermit<'_>,
    ) -> Result<T, NoFrame> {
        let (kind, length) = self.next().await?;
        let length = self.length_from(kind, length, wanted).await?;
        if length > LARGE_ABOVE {
            permit.take().await;
        }
        self.read(wanted, length).await
    }

    async fn length_from(
        &mut self,
        mut found: FrameKind,
        mut length: usize,
        wanted: FrameKind,
    ) -> Result<usize, NoFrame> {
        while found == FrameKind::Still {
            (found, length) = self.next().await?;
        }
        // Asked before anything is kept: nobody sends a long frame of another kind.
        if found == wanted { Ok(length) } else { Err(MalformedFrame::OutOfTurn { wanted, found }.into()) }
    }

    async fn read<T: DeserializeOwned>(&mut self, kind: FrameKind, length: usize) -> Result<T, NoFrame> {
        let mut body = Vec::new();
        let limit = u64::try_from(length).unwrap_or(u64::MAX);
        if (&mut self.from).take(limit).read_to_end(&mut body).await? < length {
            return Err(NoFrame::Over);
        }
        Ok(format::read_words(kind, kind, &body)?)
    }

    pub(crate) fn into_inner(self) -> R {
        self.from
    }
}

pub(crate) async fn send_words<W: AsyncWrite + Unpin>(
    to: &mut W,
    kind: FrameKind,
    words: &impl Serialize,
) -> Result<(), NoFrame> {
    send_frame(to, &format::words(kind, words)?).await
}

/// The same of words that are in a frame already.
pub(crate) async fn send_frame<W: AsyncWrite + Unpin>(to: &mut W, frame: &[u8]) -> Result<(), NoFrame> {
    to.write_all(frame).await?;
    Ok(to.flush().await?)
}

/// A frame that is nothing but its kind.
pub(crate) async fn send_empty<W: AsyncWrite + Unpin>(to: &mut W, kind: FrameKind) -> Result<(), NoFrame> {
    to.write_all(&format::header(kind, 0)?).await?;
    Ok(to.flush().await?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Each costs who sends it four bytes, and who reads it a turn.
    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_over_and_over_is_not_heard_for_ever() {
        for kind in [FrameKind::Still, FrameKind::Data] {
            let said = format::header(kind, 0).unwrap().repeat(1_000);
            let mut frames = FrameReader::new(said.as_slice());
            for _ in 0..SIGNS {
                assert_eq!(frames.next().await.unwrap(), (kind, 0));
            }
            tokio::time::advance(Duration::from_secs(2)).await;
            for _ in 0..SIGNS_A_SECOND * 2 {
                assert_eq!(frames.next().await.unwrap(), (kind, 0));
            }
            assert!(matches!(frames.next().await, Err(NoFrame::Bad(MalformedFrame::Restless))));
        }
    }
}
