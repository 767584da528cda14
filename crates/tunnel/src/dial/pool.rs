//! Connections that can be used again: those over TLS that carry nothing, and those over QUIC, which carry many streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ground::clock;
use identity::principal::{NodeName, Principal};
use identity::time::Timestamp;
use org::peer::Peer;

use crate::access::standing::Standing;
use crate::dial::choose::By;
use crate::dial::health::Counted;
use crate::transport::hello::Shared;
use crate::transport::{quic, tls};

/// Free ones of one principal to one node, and in all: as many as a busy program uses at once.
const OF_ONE: usize = 64;
const IN_ALL: usize = 2_048;

/// In whose name, to which node.
pub type Key = (Principal, NodeName);

#[derive(Debug, Default)]
pub struct Stock(Mutex<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    /// The last that was used is the first that is used again: the others grow old.
    tls: HashMap<Key, Vec<(Instant, Call)>>,
    quic: HashMap<Key, (Instant, Call)>,
    /// Whoever opens a QUIC connection holds it, so that it is opened once.
    opening: HashMap<Key, Arc<tokio::sync::Mutex<()>>>,
}

/// A connection whose other end is the node that was called.
#[derive(Debug)]
pub struct Call {
    pub line: Line,
    pub peer: Arc<Peer>,
    /// The relay in between.
    pub via: Option<Arc<Peer>>,
    /// The end of either SVID: no new stream after it.
    pub until: Timestamp,
    /// What both ends knew when they met: one that knows more by now tells it by another connection.
    pub shared: Shared,
    pub counted: Arc<Counted>,
}

#[derive(Debug)]
pub enum Line {
    Tls(Box<tls::Ends>),
    Quic(Arc<quic::Line>),
}

impl Line {
    pub const fn by(&self) -> By {
        match self {
            Self::Tls(_) => By::Tls,
            Self::Quic(_) => By::Quic,
        }
    }
}

impl Stock {
    /// One by which nothing is left to tell of what is known now.
    pub async fn take(&self, key: &Key, by: By, standing: &Standing) -> Option<Call> {
        match by {
            By::Tls => loop {
                let (_, mut call) = self.shelves().tls.get_mut(key).and_then(Vec::pop)?;
                if let Line::Tls(ends) = &mut call.line
                    && call.until >= clock::now()
                    && call.shared.is_all_of(standing)
                    && ends.is_quiet().await
                {
                    return Some(call);
                }
            },
            By::Quic => {
                let mut shelves = self.shelves();
                let (used, call) = shelves.quic.get_mut(key)?;
                let Line::Quic(line) = &call.line else { return None };
                if call.until < clock::now() || !call.shared.is_all_of(standing) || line.is_over() {
                    shelves.quic.remove(key);
                    return None;
                }
                *used = Instant::now();
                let (line, peer, via) = (Line::Quic(Arc::clone(line)), Arc::clone(&call.peer), call.via.clone());
                let (until, shared) = (call.until, call.shared);
                Some(Call { line, peer, via, until, shared, counted: Arc::clone(&call.counted) })
            }
        }
    }

    /// Keeps it, if there is room. One over QUIC is kept while it is used, too.
    pub fn put(&self, key: &Key, call: Call) {
        let mut shelves = self.shelves();
        match &call.line {
            Line::Quic(_) => {
                shelves.quic.insert(key.clone(), (Instant::now(), call));
            }
            Line::Tls(_) => {
                let in_all: usize = shelves.tls.values().map(Vec::len).sum();
                let own = shelves.tls.entry(key.clone()).or_default();
                if own.len() < OF_ONE && in_all < IN_ALL {
                    own.push((Instant::now(), call));
                }
            }
        }
    }

    pub fn opening(&self, key: &Key) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.shelves().opening.entry(key.clone()).or_default())
    }

    /// The other side knows more than these connections showed it. Streams on them go on.
    pub fn forget(&self, key: &Key) {
        let mut shelves = self.shelves();
        shelves.tls.remove(key);
        shelves.quic.remove(key);
    }

    /// Those that nobody uses, and those whose peer, or the relay on the way to it, was taken back. One over QUIC ends with
    /// the last of its streams, which are cut then.
    pub fn let_go(&self, unused: Duration, now: Timestamp, endures: impl Fn(&Peer) -> bool) {
        let mut shelves = self.shelves();
        let endures = |call: &Call| endures(&call.peer) && call.via.as_deref().is_none_or(&endures);
        for calls in shelves.tls.values_mut() {
            calls.retain(|(since, call)| since.elapsed() < unused && call.until >= now && endures(call));
        }
        shelves.tls.retain(|_, calls| !calls.is_empty());
        shelves.quic.retain(|_, (used, call)| match &call.line {
            Line::Quic(_) if !endures(call) => false,
            Line::Quic(line) if Arc::strong_count(line) > 1 => {
                *used = Instant::now();
                !line.is_over()
            }
            Line::Quic(line) => !line.is_over() && used.elapsed() < unused && call.until >= now,
            Line::Tls(_) => false,
        });
        shelves.opening.retain(|_, opening| Arc::strong_count(opening) > 1);
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
