//! The connection registry: live connections of members, so that a revocation reaches the ones that are already open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use identity::id::Fingerprint;
use identity::key::PublicKey;
use identity::time::Timestamp;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub struct Registry {
    next: AtomicU64,
    live: Mutex<Present>,
}

#[derive(Debug, Default)]
struct Present {
    connections: HashMap<u64, Live>,
    by_key: HashMap<PublicKey, Online>,
}

/// A machine that is connected.
#[derive(Debug)]
struct Online {
    connections: usize,
    /// There was a connection at every moment since.
    since: Timestamp,
}

/// A machine needs one or two; a few more while it comes and goes.
const MAX_PER_NODE: usize = 64;

#[derive(Debug)]
struct Live {
    node_key: PublicKey,
    /// The roots that its SVID leads to.
    roots: Box<[Fingerprint]>,
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
    /// Nothing if the machine has too many already.
    pub fn enter(self: &Arc<Self>, node_key: PublicKey, roots: &[Fingerprint], now: Timestamp) -> Option<Place> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let cut = Arc::new(Notify::new());
        let mut live = self.lock();
        let online = live.by_key.entry(node_key).or_insert(Online { connections: 0, since: now });
        if online.connections >= MAX_PER_NODE {
            return None;
        }
        online.connections += 1;
        live.connections.insert(number, Live { node_key, roots: roots.into(), cut: Arc::clone(&cut) });
        Some(Place { registry: Arc::clone(self), number, cut })
    }

    /// How many connections of members are open.
    pub fn count(&self) -> usize {
        self.lock().connections.len()
    }

    /// Since when a machine is connected without a gap; nothing if it is not.
    pub fn online_since(&self, node_key: &PublicKey) -> Option<Timestamp> {
        self.lock().by_key.get(node_key).map(|online| online.since)
    }

    /// How many machines are connected.
    pub fn online(&self) -> usize {
        self.lock().by_key.len()
    }

    /// Cuts every connection whose holder no longer passes.
    pub fn cut_unless(&self, passes: impl Fn(&PublicKey, &[Fingerprint]) -> bool) -> usize {
        let live = self.lock();
        let doomed = live.connections.values().filter(|live| !passes(&live.node_key, &live.roots));
        doomed.map(|live| live.cut.notify_one()).count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Present> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut live = self.registry.lock();
        if let Some(gone) = live.connections.remove(&self.number) {
            match live.by_key.get_mut(&gone.node_key) {
                Some(online) if online.connections > 1 => online.connections -= 1,
                _ => drop(live.by_key.remove(&gone.node_key)),
            }
        }
    }
}
