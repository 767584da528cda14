//! The registry of open streams (connection registry): each is in it before it is decided, so that no change of the
//! policy passes one by.
//!
//! Whoever opens a stream enters it here first, and asks the policy then. A change puts the new policy in place first, and
//! looks through the registry then. So a stream is either asked by the new policy, or found in the registry.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ground::clock;
use identity::principal::{Name, NodeName, Principal};
use identity::time::Timestamp;
use org::member::peer::Peer;
use tokio::sync::watch;

use crate::access::denied::Denied;
use crate::access::policy::AccessPolicy;
use crate::control::question::{CallerIdentity, ServiceConnection};
use crate::state::socket::ResetHandle;

#[derive(Debug, Default)]
pub struct OpenStreams {
    next: AtomicU64,
    streams: Mutex<HashMap<u64, Entry>>,
}

/// Which end of the stream is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The service is here, and the peer calls.
    In,
    /// Somebody here calls; the peer has the service.
    Out,
}

#[derive(Debug)]
struct Entry {
    peer: Arc<Peer>,
    service: Name,
    direction: Direction,
    since: Timestamp,
    /// While the service has it.
    seen_as: Option<SeenEnds>,
    sockets: Sockets,
    cut: watch::Sender<Option<Denied>>,
}

/// What a stream goes over, while it is carried.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sockets {
    /// A program's.
    pub near: Option<ResetHandle>,
    /// To the other node, if it carries nothing else.
    pub far: Option<ResetHandle>,
}

/// Of the connection to a service, as the service sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenEnds {
    far: SocketAddr,
    near: SocketAddr,
}

impl SeenEnds {
    fn fit(self, connection: ServiceConnection) -> bool {
        match connection {
            ServiceConnection::Between { far, near } => self.far == canonical(far) && self.near == canonical(near),
            ServiceConnection::From(far) => self.far == canonical(far),
        }
    }
}

/// A service that listens for both versions sees addresses of the one as such of the other.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// An entry's holder: gone from the registry when dropped.
#[derive(Debug)]
pub struct OpenStream {
    number: u64,
    registry: Arc<OpenStreams>,
    cut: watch::Receiver<Option<Denied>>,
}

/// A stream that a new policy ended.
#[derive(Debug)]
pub struct CutStream {
    pub principal: Principal,
    pub node: NodeName,
    pub service: Name,
    pub direction: Direction,
    pub why: Denied,
}

impl OpenStreams {
    pub fn register(self: &Arc<Self>, peer: Arc<Peer>, service: Name, direction: Direction) -> OpenStream {
        let (sender, cut) = watch::channel(None);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            peer,
            service,
            direction,
            since: clock::now(),
            seen_as: None,
            sockets: Sockets::default(),
            cut: sender,
        };
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).insert(number, entry);
        OpenStream { number, registry: Arc::clone(self), cut }
    }

    /// Ends what the policy no longer allows; what it allows is not touched. When it returns, no program has a connection any
    /// more that it must not have: nobody who carries has to do anything for that.
    pub fn sweep(&self, policy: &AccessPolicy) -> Vec<CutStream> {
        let (cut, sockets) = self.take_out(policy);
        // Services first.
        sockets.iter().filter_map(|stream| stream.near.as_ref()).for_each(ResetHandle::reset);
        sockets.iter().filter_map(|stream| stream.far.as_ref()).for_each(ResetHandle::reset);
        cut
    }

    fn take_out(&self, policy: &AccessPolicy) -> (Vec<CutStream>, Vec<Sockets>) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut out, now) = ((Vec::new(), Vec::new()), clock::now());
        // One peer has thousands of streams, and is judged by its papers once.
        let mut judged: HashMap<*const Peer, Result<(), Denied>> = HashMap::new();
        for entry in streams.values_mut() {
            let endures = judged.entry(Arc::as_ptr(&entry.peer)).or_insert_with(|| policy.endures(&entry.peer, now));
            let stays = match (endures.clone(), entry.direction) {
                (Ok(()), Direction::In) => policy.check_allowed(&entry.peer, &entry.service),
                (endures, Direction::In | Direction::Out) => endures,
            };
            if let Err(why) = stays {
                // Whoever carries it must know why before it finds that it is broken.
                entry.cut.send_replace(Some(why.clone()));
                let (principal, node) = (entry.peer.principal().clone(), entry.peer.node().clone());
                out.0.push(CutStream {
                    principal,
                    node,
                    service: entry.service.clone(),
                    direction: entry.direction,
                    why,
                });
                out.1.push(std::mem::take(&mut entry.sockets));
                // What is broken off may be anybody's address at once.
                entry.seen_as = None;
            }
        }
        out
    }

    /// Who calls a service here, by what the service sees.
    pub(crate) fn caller(&self, connection: ServiceConnection) -> Option<CallerIdentity> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = streams.values().filter_map(|entry| Some((entry, entry.seen_as?)));
        let mut fits = seen.filter(|(_, ends)| ends.fit(connection));
        // Two services may see one address at the same time: then nobody can say which of the two is meant.
        let (Some((entry, ends)), None) = (fits.next(), fits.next()) else { return None };
        let (principal, node) = (entry.peer.principal().clone(), entry.peer.node().clone());
        Some(CallerIdentity { principal, node, service: entry.service.clone(), at: ends.near, since: entry.since })
    }
}

impl OpenStream {
    /// Where the service sees the call come from, and at which of its own addresses.
    pub(crate) fn is_seen_as(&self, far: SocketAddr, near: SocketAddr) {
        let ends = SeenEnds { far: canonical(far), near: canonical(near) };
        self.change(|entry| {
            if entry.cut.borrow().is_none() {
                entry.seen_as = Some(ends);
            }
        });
    }

    /// From now on a new policy breaks them off; one that was put before has spoken already.
    pub(crate) fn goes_over(&self, sockets: Sockets) {
        self.change(|entry| entry.sockets = sockets);
    }

    /// Before the sockets are closed, or used again: whose they are then is nobody's business here. Says why a new policy has
    /// ended the stream by now: then somebody else may be about to break them off.
    pub(crate) fn lets_go(&self) -> Option<Denied> {
        self.change(|entry| {
            (entry.seen_as, entry.sockets) = (None, Sockets::default());
            entry.cut.borrow().clone()
        })
        .flatten()
    }

    /// Nothing if it is not in the registry, which it is as long as somebody holds it.
    fn change<T>(&self, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut streams = self.registry.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.get_mut(&self.number).map(change)
    }

    /// Why a new policy has ended it by now.
    pub fn is_cut(&self) -> Option<Denied> {
        self.cut.borrow().clone()
    }

    /// Waits until a new policy ends the stream; for ever, if none does.
    pub(crate) async fn cut(&mut self) -> Denied {
        loop {
            if let Some(why) = self.cut.borrow_and_update().clone() {
                return why;
            }
            if self.cut.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.registry.streams.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl OpenStreams {
        pub(crate) fn open(&self) -> usize {
            self.streams.lock().unwrap_or_else(PoisonError::into_inner).len()
        }
    }
}
