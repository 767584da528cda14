//! A concurrency limit for large messages: few are read at once, and one peer's not instead of all others'.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use identity::id::Digest;
use identity::verifier::Side;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Messages of more bytes than that are large, and so many send large ones at once: others wait. Each may keep as many as a whole
/// `Hello` and `News` have.
pub(crate) const LARGE_ABOVE: usize = 64 << 10;
pub(crate) const LARGE_AT_ONCE: usize = 16;
/// Of these, with one SVID.
pub(crate) const LARGE_OF_ONE: usize = 4;

/// Those who call have places of their own: they do not keep this node from calling.
#[derive(Debug)]
pub(crate) struct LargeMessages {
    callers: Semaphore,
    called: Semaphore,
    by_svid: Mutex<HashMap<Digest, Weak<Semaphore>>>,
}

impl Default for LargeMessages {
    fn default() -> Self {
        let places = || Semaphore::new(LARGE_AT_ONCE);
        Self { callers: places(), called: places(), by_svid: Mutex::default() }
    }
}

impl LargeMessages {
    /// For who is on that side and has shown this certificate.
    pub(crate) const fn permit<'a>(&'a self, side: Side, svid: &'a [u8]) -> LargePermit<'a> {
        LargePermit { limit: self, side, svid, taken: None }
    }

    fn of(&self, svid: &[u8]) -> Arc<Semaphore> {
        let mut all = self.by_svid.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, places| places.strong_count() > 0);
        let places = all.entry(Digest::of(svid)).or_default();
        places.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Semaphore::new(LARGE_OF_ONE));
            *places = Arc::downgrade(&new);
            new
        })
    }
}

/// For the large messages of one that shows who it is: taken with the first of them, and kept for those that follow.
#[derive(Debug)]
pub(crate) struct LargePermit<'a> {
    limit: &'a LargeMessages,
    side: Side,
    svid: &'a [u8],
    taken: Option<(OwnedSemaphorePermit, SemaphorePermit<'a>)>,
}

impl LargePermit<'_> {
    pub(crate) async fn take(&mut self) {
        if self.taken.is_some() {
            return;
        }
        let all = match self.side {
            Side::Client => &self.limit.callers,
            Side::Server => &self.limit.called,
        };
        // They are never closed.
        if let Ok(own) = self.limit.of(self.svid).acquire_owned().await {
            self.taken = all.acquire().await.ok().map(|one| (own, one));
        }
    }
}
