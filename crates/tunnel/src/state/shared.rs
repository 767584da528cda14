//! All that the tunnel was handed, and what it keeps count of: the one thing that its parts share.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use ground::clock;
use identity::id::Digest;
use identity::key::P256Key;
use identity::principal::{Host, HostPort, Name, NodeName, OrgName, Principal};
use manifest::stored::{Access, Target};
use org::peer::Peer;
use pki_types::CertificateDer;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig, SignatureScheme};
use tokio::sync::{mpsc, watch};
use wire::known::BadKnowledge;
use wire::peer::Knows;
use wire::tls::peer::{self, Bench};
use wire::tls::{TlsSetup, Vouched};

use crate::access::pins::Pins;
use crate::access::standing::{Rule, Standing};
use crate::access::table::Tables;
use crate::control::{Identity, Knowledge, Running, Word};
use crate::limit::bounds::Bounds;
use crate::limit::connections::Door;
use crate::state::callers::Callers;
use crate::state::log::AccessLog;
use crate::state::meter::Meter;
use crate::state::streams::{Book, CutOff};

/// How many words to the agent may wait; it takes them at once, or it is gone.
const WORDS: usize = 1_024;
/// An agent that did not take in what a peer knows is not waited for again so soon.
const NOT_AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Held {
    pub org: OrgName,
    pub node: NodeName,
    pub rule: ArcSwap<Rule>,
    /// What may be called elsewhere, by whom here, and by which relays.
    pub targets: ArcSwap<Targets>,
    pub running: ArcSwapOption<Running>,
    /// Where other nodes reach this one over TLS: it may be a relay for itself, too.
    pub heard_at: ArcSwapOption<SocketAddr>,
    pub book: Arc<Book>,
    pub meter: Arc<Meter>,
    pub log: AccessLog,
    pub door: Arc<Door>,
    pub callers: Arc<Callers>,
    pub pins: Arc<Pins>,
    speakers: Arc<ArcSwap<Speakers>>,
    bench: Bench,
    clients: Mutex<HashMap<Principal, Arc<ClientConfig>>>,
    words: mpsc::Sender<Word>,
    /// What a peer knew, and when it was that the agent did not take it in although it was told.
    in_vain: Mutex<Option<(Knows, Instant)>>,
    /// The head that counts, for whoever waits for a newer one.
    head: watch::Sender<u64>,
}

/// What of the access tables is for the calling side.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Targets {
    pub services: BTreeMap<Name, Target>,
    pub relays: BTreeMap<NodeName, HostPort>,
}

/// SVIDs with their keys, ready for TLS.
#[derive(Debug, Default)]
struct Speakers(HashMap<Principal, Arc<CertifiedKey>>);

#[derive(Debug, thiserror::Error)]
pub enum BadOrder {
    #[error("what is known of the org does not hold")]
    Knowledge(#[from] BadKnowledge),
    #[error("the key of `{0}` cannot be used")]
    Key(Principal),
    #[error(transparent)]
    Tls(#[from] TlsSetup),
}

impl Held {
    pub fn new(org: OrgName, node: NodeName, first: Knowledge) -> Result<(Self, mpsc::Receiver<Word>), BadOrder> {
        let pins = Arc::<Pins>::default();
        let standing = Arc::new(Standing::new(&org, first, Arc::clone(&pins))?);
        let judgment = Arc::new(ArcSwap::from_pointee(standing.judgment.clone()));
        let bench = Bench { judgment, vouched: Arc::<Vouched>::default() };
        let (words, told) = mpsc::channel(WORDS);
        let (versions, _) = watch::channel(standing.head());
        let held = Self {
            org,
            node,
            rule: ArcSwap::from_pointee(Rule { standing, tables: Arc::default() }),
            targets: ArcSwap::default(),
            running: ArcSwapOption::empty(),
            heard_at: ArcSwapOption::empty(),
            in_vain: Mutex::new(None),
            book: Arc::default(),
            meter: Arc::default(),
            log: AccessLog::default(),
            door: Arc::default(),
            callers: Arc::default(),
            pins,
            speakers: Arc::default(),
            bench,
            clients: Mutex::default(),
            words,
            head: versions,
        };
        Ok((held, told))
    }

    /// As many as the process has descriptors for; to be said before anybody is let in.
    #[must_use]
    pub fn within(mut self, bounds: Bounds) -> Self {
        self.door = Arc::new(Door::new(bounds));
        self
    }

    /// Authority first: what is revoked is cut before anything else is done.
    pub fn know(&self, knowledge: Knowledge) -> Result<Vec<CutOff>, BadOrder> {
        let standing = Arc::new(Standing::new(&self.org, knowledge, Arc::clone(&self.pins))?);
        let before = Arc::clone(&self.rule.load().standing);
        self.bench.judgment.store(Arc::new(standing.judgment.clone()));
        let head = standing.head();
        let is_other = standing.knows() != before.knows();
        let cut = self.put_rule(|rule| Rule { standing: Arc::clone(&standing), tables: Arc::clone(&rule.tables) });
        // What changes nothing of that wakes nobody who waits for a head.
        self.head.send_if_modified(|known| std::mem::replace(known, head) != head || is_other);
        Ok(cut)
    }

    pub fn allow(&self, all: &[Access]) -> Vec<CutOff> {
        let tables = Arc::new(Tables::new(all));
        self.targets.store(Arc::new(Targets::of_all(all)));
        self.put_rule(|rule| Rule { standing: Arc::clone(&rule.standing), tables: Arc::clone(&tables) })
    }

    fn put_rule(&self, next: impl Fn(&Rule) -> Rule) -> Vec<CutOff> {
        self.rule.rcu(|rule| next(rule));
        self.book.sweep(&self.rule.load())
    }

    pub fn speak(&self, identities: &[Identity]) -> Result<(), BadOrder> {
        let mut speakers = HashMap::new();
        for identity in identities {
            let bad = || BadOrder::Key(identity.principal.clone());
            let key = P256Key::from_pkcs8(&identity.key.0).map_err(|_| bad())?;
            let chain = identity.chain.iter().map(|der| der.0.clone().into()).collect();
            let certified = wire::tls::certified(chain, &key)?;
            speakers.insert(identity.principal.clone(), Arc::new(certified));
        }
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|principal, _| speakers.contains_key(principal));
        self.speakers.store(Arc::new(Speakers(speakers)));
        Ok(())
    }

    pub fn speaks_for(&self, principal: &Principal) -> bool {
        self.speakers.load().0.contains_key(principal)
    }

    /// What a principal at home here shows of itself.
    pub fn chain_of(&self, principal: &Principal) -> Option<Vec<CertificateDer<'static>>> {
        self.speakers.load().0.get(principal).map(|own| own.cert.clone())
    }

    /// Everybody at home here, in order.
    pub fn principals(&self) -> Vec<Principal> {
        let mut all: Vec<Principal> = self.speakers.load().0.keys().cloned().collect();
        all.sort();
        all
    }

    /// Peers meet the node itself.
    pub fn server(&self) -> Result<ServerConfig, TlsSetup> {
        let own = Principal::node(&self.org, &self.node);
        peer::server(self.bench.clone(), Arc::new(Speaker { own, speakers: Arc::clone(&self.speakers) }))
    }

    /// Calls are in the name of whoever calls. One that is not at home here has nothing to show, and is refused.
    pub fn client(&self, own: &Principal) -> Result<Arc<ClientConfig>, TlsSetup> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = clients.get(own) {
            return Ok(Arc::clone(config));
        }
        let speaker = Speaker { own: own.clone(), speakers: Arc::clone(&self.speakers) };
        let config = Arc::new(peer::client(self.bench.clone(), Arc::new(speaker))?);
        clients.insert(own.clone(), Arc::clone(&config));
        Ok(config)
    }

    /// What a handshake proved of the peer; once.
    pub fn vouched(&self) -> &Vouched {
        &self.bench.vouched
    }

    /// Nothing is lost by a word that finds no room: the agent is gone then, or asks anew.
    pub fn tell(&self, word: Word) {
        if self.words.try_send(word).is_err() {
            tracing::warn!("the agent takes no words");
        }
    }

    /// An agent that stands still keeps no call waiting twice for the same news.
    pub fn waited_in_vain(&self, news: Knows) -> bool {
        let in_vain = self.in_vain.lock().unwrap_or_else(PoisonError::into_inner);
        in_vain.is_some_and(|(known, at)| known == news && at.elapsed() < NOT_AGAIN)
    }

    pub fn note_in_vain(&self, news: Knows) {
        *self.in_vain.lock().unwrap_or_else(PoisonError::into_inner) = Some((news, Instant::now()));
    }

    pub fn head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// By which relays a node without an address is looked for: if this node is one, here first.
    pub fn relays_to(&self, node: &NodeName) -> Vec<(NodeName, HostPort)> {
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

    pub fn endures(&self, peer: &Peer) -> bool {
        self.rule.load().standing.endures(peer, clock::now()).is_ok()
    }

    /// Waits until the operators take one of them back; for ever, if they do not.
    pub async fn taken_back<const N: usize>(&self, peers: [&Peer; N]) {
        let mut heads = self.head();
        while peers.iter().all(|peer| self.endures(peer)) {
            if heads.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Targets {
    /// What all tables allow; where the places differ, those of the first count, which is obeyed.
    pub fn of_all(all: &[Access]) -> Self {
        let Some((first, more)) = all.split_first() else {
            return Self::default();
        };
        let mut services = first.targets.clone();
        for access in more {
            services.retain(|name, target| {
                let Some(other) = access.targets.get(name) else {
                    return false;
                };
                target.node &= other.node;
                target.callers.retain(|caller| other.callers.contains(caller));
                target.node || !target.callers.is_empty()
            });
        }
        Self { services, relays: first.relays.clone() }
    }

    /// In the order in which this node waits at them, and others look for it: another one for each node, so that the relays
    /// share the work.
    pub fn relays_of(&self, node: &NodeName) -> Vec<(NodeName, HostPort)> {
        let mut relays: Vec<_> = self.relays.iter().map(|(relay, at)| (relay.clone(), at.clone())).collect();
        relays.sort_by_key(|(relay, _)| Digest::of(format!("{node} {relay}").as_bytes()));
        relays
    }

    pub fn may_call(&self, who: &Principal, service: &Name) -> bool {
        self.services.get(service).is_some_and(|target| match who.node_name() {
            Some(_) => target.node,
            None => target.callers.contains(who),
        })
    }
}

/// Shows one principal's SVID of now.
#[derive(Debug)]
struct Speaker {
    own: Principal,
    speakers: Arc<ArcSwap<Speakers>>,
}

impl Speaker {
    fn current(&self) -> Option<Arc<CertifiedKey>> {
        self.speakers.load().0.get(&self.own).cloned()
    }
}

impl ResolvesServerCert for Speaker {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

impl ResolvesClientCert for Speaker {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current()
    }

    fn has_certs(&self) -> bool {
        self.current().is_some()
    }
}
