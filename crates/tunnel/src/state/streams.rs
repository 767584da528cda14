//! Streams that are open: each is in the book before it is decided, so that no change of the rules passes one by.
//!
//! Whoever opens a stream enters it here first, and asks the rule then. A change puts the new rule in place first, and looks
//! through the book then. So a stream is either asked by the new rule, or found in the book.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ground::clock;
use identity::principal::{Name, NodeName, Principal};
use identity::time::Timestamp;
use org::peer::Peer;
use tokio::sync::watch;

use crate::access::standing::{Denied, Rule};
use crate::control::{Caller, Connection};
use crate::state::socket::Breaker;

#[derive(Debug, Default)]
pub struct Book {
    next: AtomicU64,
    streams: Mutex<HashMap<u64, Entry>>,
}

/// Which end of the stream is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The service is here, and the peer calls.
    In,
    /// Somebody here calls; the peer has the service.
    Out,
}

#[derive(Debug)]
struct Entry {
    peer: Arc<Peer>,
    service: Name,
    way: Way,
    since: Timestamp,
    /// While the service has it.
    seen_as: Option<Ends>,
    sockets: Sockets,
    cut: watch::Sender<Option<Denied>>,
}

/// What a stream goes over, while it is carried.
#[derive(Debug, Clone, Default)]
pub struct Sockets {
    /// A program's.
    pub near: Option<Breaker>,
    /// To the other node, if it carries nothing else.
    pub far: Option<Breaker>,
}

/// Of the connection to a service, as the service sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    far: SocketAddr,
    near: SocketAddr,
}

impl Ends {
    fn fit(self, connection: Connection) -> bool {
        match connection {
            Connection::Between { far, near } => self.far == canonical(far) && self.near == canonical(near),
            Connection::From(far) => self.far == canonical(far),
        }
    }
}

/// A service that listens for both versions sees addresses of the one as such of the other.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// An entry's holder: gone from the book when dropped.
#[derive(Debug)]
pub struct Ticket {
    number: u64,
    book: Arc<Book>,
    cut: watch::Receiver<Option<Denied>>,
}

/// A stream that a new rule ended.
#[derive(Debug)]
pub struct CutOff {
    pub principal: Principal,
    pub node: NodeName,
    pub service: Name,
    pub way: Way,
    pub why: Denied,
}

impl Book {
    pub fn enter(self: &Arc<Self>, peer: Arc<Peer>, service: Name, way: Way) -> Ticket {
        let (sender, cut) = watch::channel(None);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let entry =
            Entry { peer, service, way, since: clock::now(), seen_as: None, sockets: Sockets::default(), cut: sender };
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).insert(number, entry);
        Ticket { number, book: Arc::clone(self), cut }
    }

    /// Ends what the rule no longer allows; what it allows is not touched. When it returns, no program has a connection any
    /// more that it must not have: nobody who carries has to do anything for that.
    pub fn sweep(&self, rule: &Rule) -> Vec<CutOff> {
        let (cut, sockets) = self.take_out(rule);
        // Services first.
        sockets.iter().filter_map(|stream| stream.near.as_ref()).for_each(Breaker::break_off);
        sockets.iter().filter_map(|stream| stream.far.as_ref()).for_each(Breaker::break_off);
        cut
    }

    fn take_out(&self, rule: &Rule) -> (Vec<CutOff>, Vec<Sockets>) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut out, now) = ((Vec::new(), Vec::new()), clock::now());
        for entry in streams.values_mut() {
            let stays = match entry.way {
                Way::In => rule.may_stay(&entry.peer, &entry.service, now),
                Way::Out => rule.standing.endures(&entry.peer, now).map_err(Denied::ended),
            };
            if let Err(why) = stays {
                // Whoever carries it must know why before it finds that it is broken.
                entry.cut.send_replace(Some(why.clone()));
                let (principal, node) = (entry.peer.principal().clone(), entry.peer.node().clone());
                out.0.push(CutOff { principal, node, service: entry.service.clone(), way: entry.way, why });
                out.1.push(std::mem::take(&mut entry.sockets));
                // What is broken off may be anybody's address at once.
                entry.seen_as = None;
            }
        }
        out
    }

    /// Who calls a service here, by what the service sees.
    pub fn caller(&self, connection: Connection) -> Option<Caller> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = streams.values().filter_map(|entry| Some((entry, entry.seen_as?)));
        let mut fits = seen.filter(|(_, ends)| ends.fit(connection));
        // Two services may see one address at the same time: then nobody can say which of the two is meant.
        let (Some((entry, ends)), None) = (fits.next(), fits.next()) else { return None };
        let (principal, node) = (entry.peer.principal().clone(), entry.peer.node().clone());
        Some(Caller { principal, node, service: entry.service.clone(), at: ends.near, since: entry.since })
    }

    pub fn open(&self) -> usize {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Ticket {
    /// Where the service sees the call come from, and at which of its own addresses.
    pub fn is_seen_as(&self, far: SocketAddr, near: SocketAddr) {
        let ends = Ends { far: canonical(far), near: canonical(near) };
        self.change(|entry| {
            if entry.cut.borrow().is_none() {
                entry.seen_as = Some(ends);
            }
        });
    }

    /// From now on a new rule breaks them off; one that was put before has spoken already.
    pub fn goes_over(&self, sockets: Sockets) {
        self.change(|entry| entry.sockets = sockets);
    }

    /// Before the sockets are closed, or used again: whose they are then is nobody's business here. Says why a new rule has
    /// ended the stream by now: then somebody else may be about to break them off.
    pub fn lets_go(&self) -> Option<Denied> {
        self.change(|entry| {
            (entry.seen_as, entry.sockets) = (None, Sockets::default());
            entry.cut.borrow().clone()
        })
        .flatten()
    }

    /// Nothing if it is not in the book, which it is as long as there is a ticket.
    fn change<T>(&self, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut streams = self.book.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.get_mut(&self.number).map(change)
    }

    /// Why a new rule has ended it by now.
    pub fn is_cut(&self) -> Option<Denied> {
        self.cut.borrow().clone()
    }

    /// Waits until a new rule ends the stream; for ever, if none does.
    pub async fn cut(&mut self) -> Denied {
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

impl Drop for Ticket {
    fn drop(&mut self) {
        self.book.streams.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}
