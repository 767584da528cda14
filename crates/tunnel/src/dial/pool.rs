//! The connection pool: connections over TLS that carry nothing, and those over QUIC, which carry many streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ground::clock;
use identity::principal::{NodeName, Principal};
use identity::time::Timestamp;
use org::member::peer::Peer;

use crate::access::trust::TrustSnapshot;
use crate::dial::health::Counted;
use crate::transport::hello::SharedKnowledge;
use crate::transport::protocol::Protocol;
use crate::transport::quic::QuicConnection;
use crate::transport::tls::TlsConnection;

/// Free ones of one principal to one node, and in all: as many as a busy program uses at once.
const OF_ONE: usize = 64;
const IN_ALL: usize = 2_048;

/// In whose name, to which node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    pub who: Principal,
    pub node: NodeName,
}

#[derive(Debug, Default)]
pub(crate) struct ConnectionPool(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    /// The last that was used is the first that is used again: the others grow old.
    tls: HashMap<CallKey, Vec<Kept>>,
    quic: HashMap<CallKey, Kept>,
    /// Whoever opens a QUIC connection holds it, so that it is opened once (single flight).
    opening: HashMap<CallKey, Arc<tokio::sync::Mutex<()>>>,
}

#[derive(Debug)]
struct Kept {
    used: Instant,
    connection: PeerConnection,
}

/// A connection whose other end is the node that was called.
#[derive(Debug)]
pub(crate) struct PeerConnection {
    pub inner: AnyConnection,
    pub peer: Arc<Peer>,
    /// The relay in between.
    pub via: Option<Arc<Peer>>,
    /// The end of either SVID: no new stream after it.
    pub until: Timestamp,
    /// What both ends knew when they met: one that knows more by now tells it by another connection.
    pub shared: SharedKnowledge,
    pub counted: Arc<Counted>,
}

#[derive(Debug)]
pub(crate) enum AnyConnection {
    Tls(Box<TlsConnection>),
    Quic(Arc<QuicConnection>),
}

impl AnyConnection {
    pub(crate) const fn protocol(&self) -> Protocol {
        match self {
            Self::Tls(_) => Protocol::Tls,
            Self::Quic(_) => Protocol::Quic,
        }
    }
}

impl PeerConnection {
    /// The same once more: one over QUIC carries many streams.
    pub(crate) fn share(&self) -> Option<Self> {
        match &self.inner {
            AnyConnection::Tls(_) => None,
            AnyConnection::Quic(quic) => Some(Self {
                inner: AnyConnection::Quic(Arc::clone(quic)),
                peer: Arc::clone(&self.peer),
                via: self.via.clone(),
                until: self.until,
                shared: self.shared,
                counted: Arc::clone(&self.counted),
            }),
        }
    }
}

impl ConnectionPool {
    /// One by which nothing is left to tell of what is known now.
    pub(crate) async fn take(
        &self,
        key: &CallKey,
        protocol: Protocol,
        trust: &TrustSnapshot,
    ) -> Option<PeerConnection> {
        match protocol {
            Protocol::Tls => self.take_tls(key, trust).await,
            Protocol::Quic => self.take_quic(key, trust),
        }
    }

    async fn take_tls(&self, key: &CallKey, trust: &TrustSnapshot) -> Option<PeerConnection> {
        loop {
            let mut kept = self.idle().tls.get_mut(key).and_then(Vec::pop)?.connection;
            if let AnyConnection::Tls(tls) = &mut kept.inner
                && kept.until >= clock::now()
                && kept.shared.is_all_of(trust)
                && tls.is_quiet().await
            {
                return Some(kept);
            }
        }
    }

    fn take_quic(&self, key: &CallKey, trust: &TrustSnapshot) -> Option<PeerConnection> {
        let mut idle = self.idle();
        let Kept { used, connection: kept } = idle.quic.get_mut(key)?;
        let AnyConnection::Quic(quic) = &kept.inner else { return None };
        if kept.until < clock::now() || !kept.shared.is_all_of(trust) || quic.is_over() {
            idle.quic.remove(key);
            return None;
        }
        *used = Instant::now();
        kept.share()
    }

    /// Keeps it, if there is room. One over QUIC is kept while it is used, too.
    pub(crate) fn put(&self, key: &CallKey, connection: PeerConnection) {
        let mut idle = self.idle();
        let protocol = connection.inner.protocol();
        let kept = Kept { used: Instant::now(), connection };
        match protocol {
            Protocol::Quic => {
                idle.quic.insert(key.clone(), kept);
            }
            Protocol::Tls => {
                let in_all: usize = idle.tls.values().map(Vec::len).sum();
                let own = idle.tls.entry(key.clone()).or_default();
                if own.len() < OF_ONE && in_all < IN_ALL {
                    own.push(kept);
                }
            }
        }
    }

    pub(crate) fn opening(&self, key: &CallKey) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.idle().opening.entry(key.clone()).or_default())
    }

    /// The other side knows more than these connections showed it. Streams on them go on.
    pub(crate) fn forget(&self, key: &CallKey) {
        let mut idle = self.idle();
        idle.tls.remove(key);
        idle.quic.remove(key);
    }

    /// Those that nobody uses, and those whose peer, or the relay on the way to it, was taken back. One over QUIC ends with
    /// the last of its streams, which are cut then.
    pub(crate) fn let_go(&self, unused: Duration, now: Timestamp, endures: impl Fn(&Peer) -> bool) {
        let mut idle = self.idle();
        let endures = |kept: &PeerConnection| endures(&kept.peer) && kept.via.as_deref().is_none_or(&endures);
        for all in idle.tls.values_mut() {
            all.retain(|Kept { used, connection }| {
                used.elapsed() < unused && connection.until >= now && endures(connection)
            });
        }
        idle.tls.retain(|_, all| !all.is_empty());
        idle.quic.retain(|_, Kept { used, connection }| match &connection.inner {
            AnyConnection::Quic(_) if !endures(connection) => false,
            AnyConnection::Quic(quic) if Arc::strong_count(quic) > 1 => {
                *used = Instant::now();
                !quic.is_over()
            }
            AnyConnection::Quic(quic) => !quic.is_over() && used.elapsed() < unused && connection.until >= now,
            AnyConnection::Tls(_) => false,
        });
        idle.opening.retain(|_, opening| Arc::strong_count(opening) > 1);
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
