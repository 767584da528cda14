//! A file on its way to anybody: in chunks, within bounds, from any place on.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use ground::quota::{Quota, QuotaPermit, network};
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{ACCEPT_RANGES, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use identity::id::Digest;
use identity::time::Seconds;
use org::refusal::{Fault, Refusal};
use tokio::io::{AsyncRead as _, AsyncSeekExt as _, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::http;

use crate::fault::OrFault as _;
use crate::limit::limits::quota_per_address;
use crate::store::files::Files;

/// How many can download at once, in all and from one address. Each takes about a hundred KiB.
const DOWNLOADS: usize = 512;
const DOWNLOADS_PER_ADDRESS: usize = 128;
const CHUNK: usize = 32 << 10;
const BUSY: Seconds = Seconds(5);

pub(crate) type Reply = Response<Either<Full<Bytes>, Download>>;

/// The gateway's files, and who is downloading.
#[derive(Debug)]
pub struct Shelves {
    pub store: Arc<Files>,
    places: Arc<Semaphore>,
    per_address: Arc<Quota<IpAddr>>,
}

impl Shelves {
    pub fn new(store: Files) -> Self {
        let per_address = quota_per_address(DOWNLOADS, DOWNLOADS_PER_ADDRESS);
        Self { store: Arc::new(store), places: Arc::new(Semaphore::new(DOWNLOADS)), per_address }
    }
}

/// How far the downloads of one connection have come.
#[derive(Debug, Default)]
pub struct Progress {
    open: AtomicUsize,
    moved: AtomicU64,
}

impl Progress {
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }
}

/// A download goes on while it moves so many bytes each minute: slow lines do, and who only holds a place does not.
const LEAST_PER_MINUTE: u64 = 128 << 10;

/// What becomes of a connection after another minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Minute {
    GoesOn,
    /// It gets what it has asked for, if it takes it; then its place is another's.
    SeenOut,
    Ends,
}

impl Progress {
    /// A stranger has a minute for everything but a download. Whoever `has_time` has it for ever, but for a download that
    /// does not move; one that began just now has not had its minute yet.
    pub fn after_a_minute(&self, has_time: bool, was_open: bool) -> Minute {
        let moved = self.moved.swap(0, Ordering::Relaxed);
        match (has_time, self.is_open()) {
            (true, true) if was_open && moved < LEAST_PER_MINUTE => Minute::Ends,
            (true, _) => Minute::GoesOn,
            (false, true) => Minute::SeenOut,
            (false, false) => Minute::Ends,
        }
    }
}

/// A file on its way: never more than a chunk of it in memory.
#[derive(Debug)]
pub struct Download {
    file: tokio::fs::File,
    left: u64,
    chunk: Box<[u8]>,
    progress: Arc<Progress>,
    _permit: QuotaPermit<IpAddr>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Download {
    fn drop(&mut self) {
        self.progress.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if this.left == 0 {
            return Poll::Ready(None);
        }
        let want = usize::try_from(this.left).unwrap_or(CHUNK).min(CHUNK);
        let mut chunk = ReadBuf::new(this.chunk.get_mut(..want).unwrap_or_default());
        ready!(Pin::new(&mut this.file).poll_read(cx, &mut chunk))?;
        let read = chunk.filled().len() as u64;
        if read == 0 {
            return Poll::Ready(Some(Err(std::io::ErrorKind::UnexpectedEof.into())));
        }
        this.left -= read;
        this.progress.moved.fetch_add(read, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(chunk.filled())))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Hands a file out, from a place on.
pub(crate) async fn hand_out(
    shelves: &Shelves,
    digest: Digest,
    range: Option<&HeaderValue>,
    source: IpAddr,
    progress: &Arc<Progress>,
) -> Result<Reply, Refusal> {
    let busy = || Refusal::Busy { retry_after: BUSY };
    let place = Arc::clone(&shelves.places).try_acquire_owned().map_err(|_| busy())?;
    let permit = shelves.per_address.take(&network(source)).ok_or_else(busy)?;
    let store = Arc::clone(&shelves.store);
    let opened = tokio::task::spawn_blocking(move || store.open(digest)).await;
    let opened = opened.or_fault(Fault::Program)?.or_fault(Fault::Disk)?;
    let (file, length) = opened.ok_or_else(|| Refusal::NotFound { what: format!("file {digest}") })?;
    let from = http::begins_at(range);
    if from.is_some_and(|from| from >= length) {
        return Ok(http::beyond(length).map(Either::Left));
    }
    let mut file = tokio::fs::File::from_std(file);
    if let Some(from) = from {
        file.seek(std::io::SeekFrom::Start(from)).await.or_fault(Fault::Disk)?;
    }
    progress.open.fetch_add(1, Ordering::Relaxed);
    let left = length - from.unwrap_or(0);
    let size = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
    let chunk = vec![0; size].into_boxed_slice();
    let body = Download { file, left, chunk, progress: Arc::clone(progress), _permit: permit, _place: place };
    Ok(respond(body, from, length))
}

fn respond(body: Download, from: Option<u64>, length: u64) -> Reply {
    let mut response = Response::new(Either::Right(body));
    if let Some(from) = from {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        if let Ok(range) = format!("bytes {from}-{}/{length}", length - 1).parse() {
            response.headers_mut().insert(CONTENT_RANGE, range);
        }
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_goes_on_while_it_moves_and_a_stranger_has_a_minute_else() {
        for (has_time, was_open, open, moved, expected) in [
            (false, false, 0, 0, Minute::Ends),
            (false, false, 0, u64::MAX, Minute::Ends),
            (false, false, 1, 0, Minute::SeenOut),
            (true, true, 1, LEAST_PER_MINUTE, Minute::GoesOn),
            (true, true, 1, LEAST_PER_MINUTE - 1, Minute::Ends),
            (true, false, 1, 0, Minute::GoesOn),
            (true, true, 0, 0, Minute::GoesOn),
        ] {
            let progress = Progress { open: AtomicUsize::new(open), moved: AtomicU64::new(moved) };
            let case = (has_time, was_open, open, moved);
            assert_eq!(progress.after_a_minute(has_time, was_open), expected, "{case:?}");
            assert_eq!(progress.moved.load(Ordering::Relaxed), 0, "the next minute is counted by itself");
        }
    }
}
