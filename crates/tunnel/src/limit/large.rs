//! Who may say long words: few at once, and one of them not instead of all others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use identity::id::Digest;
use identity::verifier::Side;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Words of more bytes than that are long, and so many say long ones at once: others wait. Each may keep as many as a whole
/// `Hello` and `News` have.
pub const SHORT: usize = 64 << 10;
pub const LONG_AT_ONCE: usize = 16;
/// Of these, with one SVID.
pub const LONG_OF_ONE: usize = 4;

/// Those who call have places of their own: they do not keep this node from calling.
#[derive(Debug)]
pub struct Long {
    callers: Semaphore,
    called: Semaphore,
    by_svid: Mutex<HashMap<Digest, Weak<Semaphore>>>,
}

impl Default for Long {
    fn default() -> Self {
        let places = || Semaphore::new(LONG_AT_ONCE);
        Self { callers: places(), called: places(), by_svid: Mutex::default() }
    }
}

impl Long {
    /// For who is on that side and has shown this certificate.
    pub const fn room<'a>(&'a self, side: Side, svid: &'a [u8]) -> Room<'a> {
        Room { long: self, side, svid, taken: None }
    }

    fn of(&self, svid: &[u8]) -> Arc<Semaphore> {
        let mut all = self.by_svid.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, places| places.strong_count() > 0);
        let places = all.entry(Digest::of(svid)).or_default();
        places.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Semaphore::new(LONG_OF_ONE));
            *places = Arc::downgrade(&new);
            new
        })
    }
}

/// For the long words of one that shows who it is: taken with the first of them, and kept for those that follow.
#[derive(Debug)]
pub struct Room<'a> {
    long: &'a Long,
    side: Side,
    svid: &'a [u8],
    taken: Option<(OwnedSemaphorePermit, SemaphorePermit<'a>)>,
}

impl Room<'_> {
    pub async fn enter(&mut self) {
        if self.taken.is_some() {
            return;
        }
        let all = match self.side {
            Side::Client => &self.long.callers,
            Side::Server => &self.long.called,
        };
        // They are never closed.
        if let Ok(own) = self.long.of(self.svid).acquire_owned().await {
            self.taken = all.acquire().await.ok().map(|one| (own, one));
        }
    }
}
