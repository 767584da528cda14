//! Listeners for programs of this machine: bound by plan, tried again where that failed, ended when not wished.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use identity::id::OrgId;
use identity::principal::{HostPort, Principal};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::access::targets::Targets;
use crate::control::listener::ListenerId;
use crate::control::order::TunnelConfig;
use crate::dial::destination::Destination;
use crate::local::auth::{ProgramAuth, SocksListener, ThisNode};
use crate::local::opens::Opens;
use crate::local::plan::ListenPlan;
use crate::local::ports::ListenWish;
use crate::local::serve::{forward, resolver, socks5};
use crate::local::shared::{LocalState, PAUSE};
use crate::state::meter::Meter;
use crate::state::shared::TunnelState;
use crate::transport::bind::NotBound;

/// Of so many tries it is told what failed.
const PROBLEMS: usize = 4;

pub(crate) struct LocalListeners<O> {
    state: Arc<TunnelState>,
    listeners: Listeners<O>,
}

impl<O: Opens> LocalListeners<O> {
    pub(crate) fn new(state: Arc<TunnelState>, opens: O) -> Self {
        let (meter, most) = (Arc::clone(&state.meter), state.limits.bounds.programs);
        Self { state, listeners: Listeners::new(opens, meter, most) }
    }

    /// To be called after each order to run, to speak and to allow.
    pub(crate) async fn follow(&self, running: &TunnelConfig) -> ListenReport {
        let id = self.state.policy.load().trust.known.org();
        let here = ThisNode { id, org: &self.state.org, node: &self.state.node };
        self.listeners.settle(here, running, self.state.svids.principals(), &self.state.targets.load()).await
    }

    /// Whoever had a port may be gone. What is listened at stays where it is.
    pub(crate) async fn retry(&self, running: &TunnelConfig) -> ListenReport {
        let id = self.state.policy.load().trust.known.org();
        self.listeners.retry(id, running).await
    }

    /// How many could not be bound.
    pub(crate) async fn missing(&self) -> usize {
        self.listeners.settled.lock().await.missing.len()
    }
}

impl<O> std::fmt::Debug for LocalListeners<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalListeners").finish_non_exhaustive()
    }
}

/// Where programs are listened for, and what failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListenReport {
    pub at: BTreeMap<ListenerId, SocketAddr>,
    pub failed: BTreeMap<ListenerId, String>,
}

pub(super) struct Listeners<O> {
    pub(super) local: Arc<LocalState<O>>,
    settled: Mutex<Settled>,
}

/// What came of the last plan.
#[derive(Default)]
struct Settled {
    bound: BTreeMap<ListenerId, BoundListener>,
    /// What could not be bound, and why.
    missing: Vec<(ListenerId, ListenWish, String)>,
    /// What nobody could bind.
    impossible: BTreeMap<ListenerId, String>,
}

impl Settled {
    fn listens(&self) -> ListenReport {
        let missing = self.missing.iter().map(|(place, _, why)| (place.clone(), why.clone()));
        ListenReport {
            at: self.bound.iter().map(|(place, bound)| (place.clone(), bound.at)).collect(),
            failed: self.impossible.clone().into_iter().chain(missing).collect(),
        }
    }
}

struct BoundListener {
    wish: ListenWish,
    at: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

/// What a listener leads to.
#[derive(Debug, Clone)]
enum Leads {
    Socks(Option<Principal>),
    Forward(HostPort),
    Service(Destination),
}

impl<O: Opens> Listeners<O> {
    /// For so many programs in all.
    pub(super) fn new(opens: O, meter: Arc<Meter>, most: usize) -> Self {
        Self { local: Arc::new(LocalState::new(opens, meter, most)), settled: Mutex::default() }
    }

    pub(super) async fn settle(
        &self,
        here: ThisNode<'_>,
        running: &TunnelConfig,
        home: Vec<Principal>,
        targets: &Targets,
    ) -> ListenReport {
        let mut guard = self.settled.lock().await;
        let settled = &mut *guard;
        let auth = ProgramAuth::new(here, running, home, targets);
        let ListenPlan { wishes, failed } = ListenPlan::new(running, &auth, targets);
        // What is asked from now on is asked of the new one, also by those who connected before.
        let auth = Arc::new(auth);
        self.local.auth.store(Some(Arc::clone(&auth)));

        let stays = |place: &ListenerId, old: &BoundListener| {
            wishes.iter().any(|(p, wish)| p == place && wish.is_served_by(old.wish))
        };
        let bound = &mut settled.bound;
        let gone: Vec<ListenerId> =
            bound.iter().filter(|(place, old)| !stays(place, old)).map(|(p, _)| p.clone()).collect();
        // Before anybody else can have one of them.
        self.name(&auth, bound.iter().filter(|(place, _)| !gone.contains(place)));
        for place in gone {
            if let Some(old) = bound.remove(&place) {
                old.end().await;
            }
        }
        let told = std::mem::take(&mut settled.missing);
        let why = |place: &ListenerId| told.iter().find(|(missing, ..)| missing == place).map(|(.., why)| why.clone());
        let missing = wishes.into_iter().filter(|(place, _)| !bound.contains_key(place));
        let missing = missing.map(|(place, wish)| {
            let why = why(&place).unwrap_or_default();
            (place, wish, why)
        });
        settled.missing = missing.collect();
        settled.impossible = failed;
        self.bind_missing(settled, here.id, running).await;
        self.name(&auth, settled.bound.iter());
        settled.listens()
    }

    /// Tries again what could not be bound.
    pub(super) async fn retry(&self, id: OrgId, running: &TunnelConfig) -> ListenReport {
        let mut settled = self.settled.lock().await;
        if let Some(auth) = self.local.auth.load_full().filter(|_| !settled.missing.is_empty()) {
            self.bind_missing(&mut settled, id, running).await;
            self.name(&auth, settled.bound.iter());
        }
        settled.listens()
    }

    async fn bind_missing(&self, settled: &mut Settled, id: OrgId, running: &TunnelConfig) {
        for (place, wish, told) in std::mem::take(&mut settled.missing) {
            let tries = wish.tries(running.ports.get(&place).copied(), id);
            match self.bind(&place, &tries).await {
                Ok((at, tasks)) => {
                    tracing::info!("listens at {at} for `{}`", String::from(place.clone()));
                    settled.bound.insert(place, BoundListener { wish, at, tasks });
                }
                Err(why) => {
                    let why = format!("{why}; {}", cure(&place));
                    // What is so for long is said once.
                    if why != told {
                        tracing::warn!("cannot listen for `{}`: {why}", String::from(place.clone()));
                    }
                    settled.missing.push((place, wish, why));
                }
            }
        }
    }

    fn name<'a>(&self, auth: &ProgramAuth, bound: impl Iterator<Item = (&'a ListenerId, &'a BoundListener)>) {
        let of_service = |place: &ListenerId| matches!(place, ListenerId::Service(_) | ListenerId::ServiceAt(..));
        let at = bound.filter(|(place, _)| of_service(place)).map(|(_, bound)| bound.at.ip()).collect();
        self.local.named.store(Arc::new(auth.addresses.only(&at)));
    }

    /// At the first address that can be had.
    async fn bind(
        &self,
        place: &ListenerId,
        tries: &[SocketAddr],
    ) -> Result<(SocketAddr, Vec<JoinHandle<()>>), NotBound> {
        let mut failed = NotBound::default();
        for address in tries {
            match self.bind_at(place, *address).await {
                Ok(bound) => return Ok(bound),
                Err(why) => failed.add_within(PROBLEMS, *address, why),
            }
        }
        Err(failed)
    }

    async fn bind_at(&self, place: &ListenerId, address: SocketAddr) -> io::Result<(SocketAddr, Vec<JoinHandle<()>>)> {
        let leads = match place {
            ListenerId::Socks => Leads::Socks(None),
            ListenerId::SocksOf(principal) => Leads::Socks(Some(principal.clone())),
            ListenerId::Forward(wished) => Leads::Forward(wished.clone()),
            ListenerId::Service(service) => Leads::Service(Destination { service: service.clone(), node: None }),
            ListenerId::ServiceAt(service, node) => {
                Leads::Service(Destination { service: service.clone(), node: Some(node.clone()) })
            }
            ListenerId::Resolver => return resolver::start(&self.local, address).await,
            ListenerId::PeersTls | ListenerId::PeersQuic => return Err(io::Error::other("this is for peers")),
        };
        let listener = TcpListener::bind(address).await?;
        let at = listener.local_addr()?;
        Ok((at, vec![tokio::spawn(accept(listener, Arc::clone(&self.local), leads))]))
    }
}

/// What somebody can do who reads that a place could not be had.
const fn cure(place: &ListenerId) -> &'static str {
    match place {
        ListenerId::Socks | ListenerId::SocksOf(_) => {
            "end the program that has the port (`ss -ltnp`), or let the operators declare another: with passwords, or open \
             to others, it is not moved"
        }
        ListenerId::Service(_) | ListenerId::ServiceAt(..) => {
            "its name does not resolve here: use SOCKS or a forward, or end the program that has the port (`ss -ltnp`); \
             below 1024 the system has to allow it (`net.ipv4.ip_unprivileged_port_start`)"
        }
        ListenerId::Resolver => {
            "names of the org are not answered for here, and whoever has the port may: take `tunnel/resolved.conf` out of \
             systemd-resolved, end that program (`ss -lntup`) or let the operators declare another address"
        }
        ListenerId::Forward(_) | ListenerId::PeersTls | ListenerId::PeersQuic => {
            "let the operators declare another address, or end the program that has the port (`ss -lntup`)"
        }
    }
}

impl BoundListener {
    /// When this is over, the port is free.
    async fn end(mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
            // It was ended just now: that is no news.
            let _ = task.await;
        }
    }
}

impl Drop for BoundListener {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn accept<O: Opens>(listener: TcpListener, local: Arc<LocalState<O>>, leads: Leads) {
    loop {
        let (socket, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(why) => {
                tracing::warn!("cannot take in a connection: {why}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(place) = local.programs.enter() else {
            local.meter.sent_away("too_many_programs");
            continue;
        };
        let (local, leads) = (Arc::clone(&local), leads.clone());
        tokio::spawn(async move {
            lead(&local, leads, socket, from).await;
            drop(place);
        });
    }
}

async fn lead<O: Opens>(local: &LocalState<O>, leads: Leads, socket: TcpStream, from: SocketAddr) {
    // A socket that does not take this is gone, as the next thing that is done with it will show.
    let _ = socket.set_nodelay(true);
    match leads {
        Leads::Socks(None) => socks5::serve(local, SocksListener::Anyone, socket, from).await,
        Leads::Socks(Some(principal)) => socks5::serve(local, SocksListener::Only(&principal), socket, from).await,
        Leads::Forward(wished) => forward::serve_forward(local, &wished, socket, from).await,
        Leads::Service(wanted) => forward::serve_address(local, wanted, socket, from).await,
    }
}
