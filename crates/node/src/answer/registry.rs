//! Live connections of members, so that a revocation reaches the ones that are already open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use identity::key::PublicKey;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub struct Registry {
    next: AtomicU64,
    live: Mutex<HashMap<u64, Live>>,
}

#[derive(Debug)]
struct Live {
    node_key: PublicKey,
    cut: Arc<Notify>,
}

/// A place in the registry; left when dropped.
#[derive(Debug)]
pub struct Place {
    registry: Arc<Registry>,
    number: u64,
    pub cut: Arc<Notify>,
}

impl Registry {
    pub fn enter(self: &Arc<Self>, node_key: PublicKey) -> Place {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let cut = Arc::new(Notify::new());
        self.lock().insert(number, Live { node_key, cut: Arc::clone(&cut) });
        Place { registry: Arc::clone(self), number, cut }
    }

    /// Cuts every connection whose holder no longer passes.
    pub fn cut_unless(&self, passes: impl Fn(&PublicKey) -> bool) -> usize {
        let live = self.lock();
        let doomed = live.values().filter(|live| !passes(&live.node_key));
        doomed.map(|live| live.cut.notify_one()).count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.number);
    }
}
