//! All that the tunnel was handed, and what it keeps count of: the one thing that its parts share.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use ground::clock;
use identity::principal::{Host, HostPort, NodeName, OrgName, Principal};
use manifest::stored::Access;
use org::member::peer::Peer;
use tokio::sync::{mpsc, watch};
use wire::known::BadKnowledge;
use wire::peer::Knows;

use crate::access::pins::Pins;
use crate::access::policy::AccessPolicy;
use crate::access::table::AccessTables;
use crate::access::targets::Targets;
use crate::access::trust::TrustSnapshot;
use crate::control::event::TunnelEvent;
use crate::control::order::{Knowledge, TunnelConfig};
use crate::limit::bounds::Bounds;
use crate::limit::connections::ConnectionLimits;
use crate::state::callers::Callers;
use crate::state::log::{AccessLog, LogEntry, LogSubject};
use crate::state::meter::Meter;
use crate::state::streams::{CutStream, OpenStreams};
use crate::state::svids::{BadSvid, LocalSvids};

/// How many events for the agent may wait; it takes them at once, or it is gone.
const EVENTS: usize = 1_024;
/// An agent that did not take in what a peer knows is not waited for again so soon.
const NOT_AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct TunnelState {
    pub(crate) org: OrgName,
    pub(crate) node: NodeName,
    /// Who is believed, and who may open what: swapped whole.
    pub policy: ArcSwap<AccessPolicy>,
    /// What may be called elsewhere, by whom here, and by which relays.
    pub(crate) targets: ArcSwap<Targets>,
    pub(crate) running: ArcSwapOption<TunnelConfig>,
    /// Where other nodes reach this one over TLS: it may be a relay for itself, too.
    pub(crate) heard_at: ArcSwapOption<SocketAddr>,
    pub streams: Arc<OpenStreams>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) log: AccessLog,
    pub(crate) limits: Arc<ConnectionLimits>,
    pub(crate) callers: Arc<Callers>,
    pub(crate) pins: Arc<Pins>,
    /// Whoever is at home here, and how TLS shows it.
    pub(crate) svids: LocalSvids,
    events: mpsc::Sender<TunnelEvent>,
    /// What a peer knew, and when it was that the agent did not take it in although it was told.
    in_vain: Mutex<Option<(Knows, Instant)>>,
    /// The head that counts, for whoever waits for a newer one.
    head: watch::Sender<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum BadOrder {
    #[error("what is known of the org does not hold")]
    Knowledge(#[from] BadKnowledge),
    #[error(transparent)]
    Svid(#[from] BadSvid),
}

impl TunnelState {
    pub fn new(
        org: OrgName,
        node: NodeName,
        first: Knowledge,
    ) -> Result<(Self, mpsc::Receiver<TunnelEvent>), BadOrder> {
        let pins = Arc::<Pins>::default();
        let trust = Arc::new(TrustSnapshot::new(&org, first, Arc::clone(&pins))?);
        let svids = LocalSvids::new(Principal::node(&org, &node), trust.judgment.clone());
        let (events, told) = mpsc::channel(EVENTS);
        let (versions, _) = watch::channel(trust.head());
        let state = Self {
            org,
            node,
            policy: ArcSwap::from_pointee(AccessPolicy { trust, tables: Arc::default() }),
            targets: ArcSwap::default(),
            running: ArcSwapOption::empty(),
            heard_at: ArcSwapOption::empty(),
            in_vain: Mutex::new(None),
            streams: Arc::default(),
            meter: Arc::default(),
            log: AccessLog::default(),
            limits: Arc::default(),
            callers: Arc::default(),
            pins,
            svids,
            events,
            head: versions,
        };
        Ok((state, told))
    }

    /// As many as the process has descriptors for; to be said before anybody is let in.
    #[must_use]
    pub(crate) fn within(mut self, bounds: Bounds) -> Self {
        self.limits = Arc::new(ConnectionLimits::new(bounds));
        self
    }

    /// Authority first: what is revoked is cut before anything else is done.
    pub(crate) fn know(&self, knowledge: Knowledge) -> Result<Vec<CutStream>, BadOrder> {
        let trust = Arc::new(TrustSnapshot::new(&self.org, knowledge, Arc::clone(&self.pins))?);
        let before = Arc::clone(&self.policy.load().trust);
        self.svids.judge_by(trust.judgment.clone());
        let head = trust.head();
        let is_other = trust.knows() != before.knows();
        let cut =
            self.put_policy(|policy| AccessPolicy { trust: Arc::clone(&trust), tables: Arc::clone(&policy.tables) });
        // What changes nothing of that wakes nobody who waits for a head.
        self.head.send_if_modified(|known| std::mem::replace(known, head) != head || is_other);
        Ok(cut)
    }

    pub fn allow(&self, all: &[Access]) -> Vec<CutStream> {
        let tables = Arc::new(AccessTables::new(all));
        self.targets.store(Arc::new(Targets::of_all(all)));
        self.put_policy(|policy| AccessPolicy { trust: Arc::clone(&policy.trust), tables: Arc::clone(&tables) })
    }

    fn put_policy(&self, next: impl Fn(&AccessPolicy) -> AccessPolicy) -> Vec<CutStream> {
        self.policy.rcu(|policy| next(policy));
        self.streams.sweep(&self.policy.load())
    }

    /// Nothing is lost by an event that finds no room: the agent is gone then, or asks anew.
    pub(crate) fn tell(&self, event: TunnelEvent) {
        if self.events.try_send(event).is_err() {
            tracing::warn!("the agent takes no words");
        }
    }

    /// A line in the access log, under the head of now.
    pub(crate) fn log_stream(&self, subject: &LogSubject, entry: LogEntry) {
        self.log.say(subject, entry, self.policy.load().trust.head());
    }

    /// An agent that stands still keeps no call waiting twice for the same news.
    pub(crate) fn waited_in_vain(&self, news: Knows) -> bool {
        let in_vain = self.in_vain.lock().unwrap_or_else(PoisonError::into_inner);
        in_vain.is_some_and(|(known, at)| known == news && at.elapsed() < NOT_AGAIN)
    }

    pub(crate) fn note_in_vain(&self, news: Knows) {
        *self.in_vain.lock().unwrap_or_else(PoisonError::into_inner) = Some((news, Instant::now()));
    }

    pub(crate) fn head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// By which relays a node without an address is looked for: if this node is one, here first.
    pub(crate) fn relays_to(&self, node: &NodeName) -> Vec<(NodeName, HostPort)> {
        let is_relay = self.running.load().as_ref().is_some_and(|running| running.relay);
        let here = self.heard_at.load().as_deref().filter(|_| is_relay).map(|at| {
            let ip = match at.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                bound => bound,
            };
            (self.node.clone(), HostPort { host: Host::Ip(ip), port: at.port() })
        });
        let others = self.targets.load().relays_of(node);
        here.into_iter().chain(others.into_iter().filter(|(relay, _)| *relay != self.node)).collect()
    }

    pub(crate) fn endures(&self, peer: &Peer) -> bool {
        self.policy.load().trust.endures(peer, clock::now()).is_ok()
    }

    /// Waits until the operators take one of them back; for ever, if they do not.
    pub(crate) async fn taken_back<const N: usize>(&self, peers: [&Peer; N]) {
        let mut heads = self.head();
        while peers.iter().all(|peer| self.endures(peer)) {
            if heads.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
