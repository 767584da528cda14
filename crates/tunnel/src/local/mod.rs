//! Ways in for programs of this machine: SOCKS5, local ports, and addresses that names resolve to. All lead to the dialer.
//!
//! What is listened at follows from what the fleet says and who is at home here. What stays is not touched by what comes or
//! goes, and a listener that is gone lets the streams be which it took in. UDP is not carried.

// What is said.
pub mod socks_words;
pub mod names;
pub mod pointers;

// What is decided.
pub mod ports;
pub mod speakers;
pub mod plan;

// What is done.
pub mod opens;
mod socks5;
mod forward;
mod resolver;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use identity::id::OrgId;
use identity::principal::{HostPort, Principal};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::control::{Place, Running};
use crate::dial::destination::Wanted;
use crate::limit::programs::{Part, Places};
use crate::state::meter::Meter;
use crate::state::shared::{Held, Targets};
use names::addresses::Addresses;
use opens::{Opens, Unopened};
use plan::Plan;
use ports::Wish;
use socks_words::Reply;
use speakers::{Desk, Door, Here};

/// To say what is wanted, a program has so long.
pub const WORDS: Duration = Duration::from_secs(10);
/// The dialer has bounds of its own; this is for all of its tries together.
pub const OPENING: Duration = Duration::from_secs(30);
/// Of so many tries it is told what failed.
const PROBLEMS: usize = 4;
/// When no connection can be taken in, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

pub struct Ways<O> {
    held: Arc<Held>,
    listeners: Listeners<O>,
}

impl<O: Opens> Ways<O> {
    pub fn new(held: Arc<Held>, opens: O) -> Self {
        let (meter, most) = (Arc::clone(&held.meter), held.door.bounds.programs);
        Self { held, listeners: Listeners::new(opens, meter, most) }
    }

    /// To be called after each order to run, to speak and to allow.
    pub async fn follow(&self, running: &Running) -> Listens {
        let id = self.held.rule.load().standing.known.org();
        let here = Here { id, org: &self.held.org, node: &self.held.node };
        self.listeners.settle(here, running, self.held.principals(), &self.held.targets.load()).await
    }

    /// Whoever had a port may be gone. What is listened at stays where it is.
    pub async fn retry(&self, running: &Running) -> Listens {
        let id = self.held.rule.load().standing.known.org();
        self.listeners.retry(id, running).await
    }

    /// How many could not be bound.
    pub async fn missing(&self) -> usize {
        self.listeners.settled.lock().await.missing.len()
    }
}

impl<O> std::fmt::Debug for Ways<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ways").finish_non_exhaustive()
    }
}

/// Where programs are listened for, and what failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listens {
    pub at: BTreeMap<Place, SocketAddr>,
    pub failed: BTreeMap<Place, String>,
}

struct Listeners<O> {
    hall: Arc<Hall<O>>,
    settled: Mutex<Settled>,
}

/// What came of the last plan.
#[derive(Default)]
struct Settled {
    bound: BTreeMap<Place, Bound>,
    /// What could not be bound, and why.
    missing: Vec<(Place, Wish, String)>,
    /// What nobody could bind.
    impossible: BTreeMap<Place, String>,
}

impl Settled {
    fn listens(&self) -> Listens {
        let missing = self.missing.iter().map(|(place, _, why)| (place.clone(), why.clone()));
        Listens {
            at: self.bound.iter().map(|(place, bound)| (place.clone(), bound.at)).collect(),
            failed: self.impossible.clone().into_iter().chain(missing).collect(),
        }
    }
}

/// What all listeners share.
struct Hall<O> {
    opens: O,
    /// Absent until something is listened at.
    desk: ArcSwapOption<Desk>,
    /// What names are answered with: addresses at which this process listens, and never another's.
    named: ArcSwap<Addresses>,
    meter: Arc<Meter>,
    places: Places,
}

impl<O: Opens> Hall<O> {
    async fn open(&self, who: &Principal, wanted: &Wanted) -> Result<(O::Stream, Part), Unopened> {
        let crowded = || Unopened { reply: Reply::Failed, why: "it has as many open as one may have".to_owned() };
        let part = self.places.of(who).ok_or_else(crowded)?;
        // In a place of its own, which is given back before the stream begins: there may be thousands that are idle.
        let opening = Box::pin(self.opens.open(who, wanted));
        let late = || Unopened { reply: Reply::TimedOut, why: "it took too long".to_owned() };
        let stream = timeout(OPENING, opening).await.unwrap_or_else(|_| Err(late()))?;
        Ok((stream, part))
    }
}

struct Bound {
    wish: Wish,
    at: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

/// What a listener leads to.
#[derive(Debug, Clone)]
enum Leads {
    Socks(Option<Principal>),
    Forward(HostPort),
    Service(Wanted),
}

impl<O: Opens> Listeners<O> {
    /// For so many programs in all.
    fn new(opens: O, meter: Arc<Meter>, most: usize) -> Self {
        let (desk, places) = (ArcSwapOption::empty(), Places::new(most));
        let hall = Hall { opens, desk, named: ArcSwap::default(), meter, places };
        Self { hall: Arc::new(hall), settled: Mutex::default() }
    }

    async fn settle(&self, here: Here<'_>, running: &Running, home: Vec<Principal>, targets: &Targets) -> Listens {
        let mut guard = self.settled.lock().await;
        let settled = &mut *guard;
        let desk = Desk::new(here, running, home, targets);
        let Plan { wishes, failed } = Plan::new(running, &desk, targets);
        // What is asked from now on is asked of the new desk, also by those who connected before.
        let desk = Arc::new(desk);
        self.hall.desk.store(Some(Arc::clone(&desk)));

        let stays =
            |place: &Place, old: &Bound| wishes.iter().any(|(p, wish)| p == place && wish.is_served_by(old.wish));
        let bound = &mut settled.bound;
        let gone: Vec<Place> = bound.iter().filter(|(place, old)| !stays(place, old)).map(|(p, _)| p.clone()).collect();
        // Before anybody else can have one of them.
        self.name(&desk, bound.iter().filter(|(place, _)| !gone.contains(place)));
        for place in gone {
            if let Some(old) = bound.remove(&place) {
                old.end().await;
            }
        }
        let told = std::mem::take(&mut settled.missing);
        let why = |place: &Place| told.iter().find(|(missing, ..)| missing == place).map(|(.., why)| why.clone());
        let missing = wishes.into_iter().filter(|(place, _)| !bound.contains_key(place));
        let missing = missing.map(|(place, wish)| {
            let why = why(&place).unwrap_or_default();
            (place, wish, why)
        });
        settled.missing = missing.collect();
        settled.impossible = failed;
        self.bind_missing(settled, here.id, running).await;
        self.name(&desk, settled.bound.iter());
        settled.listens()
    }

    /// Tries again what could not be bound.
    async fn retry(&self, id: OrgId, running: &Running) -> Listens {
        let mut settled = self.settled.lock().await;
        if let Some(desk) = self.hall.desk.load_full().filter(|_| !settled.missing.is_empty()) {
            self.bind_missing(&mut settled, id, running).await;
            self.name(&desk, settled.bound.iter());
        }
        settled.listens()
    }

    async fn bind_missing(&self, settled: &mut Settled, id: OrgId, running: &Running) {
        for (place, wish, told) in std::mem::take(&mut settled.missing) {
            let tries = wish.tries(running.ports.get(&place).copied(), id);
            match self.bind(&place, &tries).await {
                Ok((at, tasks)) => {
                    tracing::info!("listens at {at} for `{}`", String::from(place.clone()));
                    settled.bound.insert(place, Bound { wish, at, tasks });
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

    fn name<'a>(&self, desk: &Desk, bound: impl Iterator<Item = (&'a Place, &'a Bound)>) {
        let of_service = |place: &Place| matches!(place, Place::Service(_) | Place::ServiceAt(..));
        let at = bound.filter(|(place, _)| of_service(place)).map(|(_, bound)| bound.at.ip()).collect();
        self.hall.named.store(Arc::new(desk.addresses.only(&at)));
    }

    /// At the first address that can be had.
    async fn bind(&self, place: &Place, tries: &[SocketAddr]) -> Result<(SocketAddr, Vec<JoinHandle<()>>), String> {
        let mut problems = Vec::new();
        for address in tries {
            match self.bind_at(place, *address).await {
                Ok(bound) => return Ok(bound),
                // A whole row of them says no more than its end.
                Err(why) if problems.len() < PROBLEMS => problems.push(format!("{address}: {why}")),
                Err(why) => *problems.last_mut().unwrap_or(&mut String::new()) = format!("{address}: {why}"),
            }
        }
        Err(problems.join("; "))
    }

    async fn bind_at(&self, place: &Place, address: SocketAddr) -> io::Result<(SocketAddr, Vec<JoinHandle<()>>)> {
        let leads = match place {
            Place::Socks => Leads::Socks(None),
            Place::SocksOf(principal) => Leads::Socks(Some(principal.clone())),
            Place::Forward(wished) => Leads::Forward(wished.clone()),
            Place::Service(service) => Leads::Service(Wanted { service: service.clone(), node: None }),
            Place::ServiceAt(service, node) => {
                Leads::Service(Wanted { service: service.clone(), node: Some(node.clone()) })
            }
            Place::Resolver => return resolver::start(&self.hall, address).await,
            Place::PeersTls | Place::PeersQuic => return Err(io::Error::other("this is for peers")),
        };
        let listener = TcpListener::bind(address).await?;
        let at = listener.local_addr()?;
        Ok((at, vec![tokio::spawn(accept(listener, Arc::clone(&self.hall), leads))]))
    }
}

/// What somebody can do who reads that a place could not be had.
const fn cure(place: &Place) -> &'static str {
    match place {
        Place::Socks | Place::SocksOf(_) => {
            "end the program that has the port (`ss -ltnp`), or let the operators declare another: with passwords, or open \
             to others, it is not moved"
        }
        Place::Service(_) | Place::ServiceAt(..) => {
            "its name does not resolve here: use SOCKS or a forward, or end the program that has the port (`ss -ltnp`); \
             below 1024 the system has to allow it (`net.ipv4.ip_unprivileged_port_start`)"
        }
        Place::Resolver => {
            "names of the org are not answered for here, and whoever has the port may: take `tunnel/resolved.conf` out of \
             systemd-resolved, end that program (`ss -lntup`) or let the operators declare another address"
        }
        Place::Forward(_) | Place::PeersTls | Place::PeersQuic => {
            "let the operators declare another address, or end the program that has the port (`ss -lntup`)"
        }
    }
}

impl Bound {
    /// When this is over, the port is free.
    async fn end(mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
            // It was ended just now: that is no news.
            let _ = task.await;
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn accept<O: Opens>(listener: TcpListener, hall: Arc<Hall<O>>, leads: Leads) {
    loop {
        let (socket, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(why) => {
                tracing::warn!("cannot take in a connection: {why}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(place) = hall.places.enter() else {
            hall.meter.sent_away("too_many_programs");
            continue;
        };
        let (hall, leads) = (Arc::clone(&hall), leads.clone());
        tokio::spawn(async move {
            lead(&hall, leads, socket, from).await;
            drop(place);
        });
    }
}

async fn lead<O: Opens>(hall: &Hall<O>, leads: Leads, socket: TcpStream, from: SocketAddr) {
    // A socket that does not take this is gone, as the next thing that is done with it will show.
    let _ = socket.set_nodelay(true);
    match leads {
        Leads::Socks(None) => socks5::serve(hall, Door::Anyone, socket, from).await,
        Leads::Socks(Some(principal)) => socks5::serve(hall, Door::Only(&principal), socket, from).await,
        Leads::Forward(wished) => forward::serve_forward(hall, &wished, socket, from).await,
        Leads::Service(wanted) => forward::serve_address(hall, wanted, socket, from).await,
    }
}

#[cfg(test)]
mod tests;
