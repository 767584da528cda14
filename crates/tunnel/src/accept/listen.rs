//! Where other nodes reach this one: bound when it is told to listen, and bound anew only if that is somewhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use identity::principal::{Host, HostPort};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::accept;
use crate::control::{Place, Running};
use crate::state::shared::Held;

#[derive(Debug, Default)]
pub struct Peers {
    bound: Option<Bound>,
}

/// It is listened until this is dropped. Connections that were accepted go on.
#[derive(Debug)]
struct Bound {
    wished: Wished,
    at: BTreeMap<Place, SocketAddr>,
    failed: BTreeMap<Place, String>,
    /// Whoever listens ends when it is gone.
    stop: watch::Sender<bool>,
}

impl Peers {
    pub async fn follow(&mut self, held: &Arc<Held>, running: &Running) {
        self.settle(held, running, wished(running).await).await;
    }

    /// What is listened at and is still wished stays, whatever becomes of the rest.
    pub async fn settle(&mut self, held: &Arc<Held>, running: &Running, wished: Wished) {
        if wished.is_nowhere() {
            self.bound = None;
        } else {
            // The old sockets go first: they may have the port.
            let old = self.bound.take().filter(|old| old.wished.is_served_by(&wished));
            let mut bound = old.unwrap_or_else(|| Bound::new(wished));
            bound.bind_missing(held, running).await;
            self.bound = Some(bound);
        }
        held.heard_at.store(self.at().get(&Place::PeersTls).copied().map(Arc::new));
    }

    pub fn at(&self) -> BTreeMap<Place, SocketAddr> {
        self.bound.as_ref().map(|bound| bound.at.clone()).unwrap_or_default()
    }

    pub fn failed(&self) -> BTreeMap<Place, String> {
        self.bound.as_ref().map(|bound| bound.failed.clone()).unwrap_or_default()
    }
}

impl Bound {
    fn new(wished: Wished) -> Self {
        Self { wished, at: BTreeMap::new(), failed: BTreeMap::new(), stop: watch::Sender::new(false) }
    }

    async fn bind_missing(&mut self, held: &Arc<Held>, running: &Running) {
        let before = |place: &Place| running.ports.get(place).copied();
        let told = std::mem::take(&mut self.failed);
        if !self.at.contains_key(&Place::PeersTls) {
            match bind(&self.wished, before(&Place::PeersTls), TcpListener::bind).await {
                Ok(listener) => self.listen_tls(held, listener),
                Err(why) => drop(self.failed.insert(Place::PeersTls, why)),
            }
        }
        if !self.at.contains_key(&Place::PeersQuic) {
            match bind(&self.wished, before(&Place::PeersQuic), UdpSocket::bind).await {
                Ok(socket) => self.listen_quic(held, socket),
                Err(why) => drop(self.failed.insert(Place::PeersQuic, why)),
            }
        }
        // What is so for long is said once.
        for (place, why) in self.failed.iter().filter(|(place, why)| told.get(place) != Some(why)) {
            tracing::error!("cannot listen for other nodes at `{}`: {why}", String::from(place.clone()));
        }
    }

    fn listen_tls(&mut self, held: &Arc<Held>, listener: TcpListener) {
        match listener.local_addr() {
            Ok(at) => _ = self.at.insert(Place::PeersTls, at),
            Err(why) => drop(self.failed.insert(Place::PeersTls, why.to_string())),
        }
        let served = accept::serve_tls(Arc::clone(held), listener, self.stop.subscribe());
        tokio::spawn(async {
            if let Err(why) = served.await {
                tracing::error!(%why, "other nodes are not heard over TLS");
            }
        });
    }

    fn listen_quic(&mut self, held: &Arc<Held>, socket: UdpSocket) {
        match socket.local_addr().and_then(|at| Ok((at, socket.into_std()?))) {
            Ok((at, socket)) => {
                self.at.insert(Place::PeersQuic, at);
                let served = accept::serve_quic(Arc::clone(held), socket, self.stop.subscribe());
                tokio::spawn(async {
                    if let Err(why) = served.await {
                        tracing::error!(%why, "other nodes are not heard over QUIC");
                    }
                });
            }
            Err(why) => drop(self.failed.insert(Place::PeersQuic, why.to_string())),
        }
    }
}

const LOOK_UP: Duration = Duration::from_secs(2);

/// Where to listen, best first; nowhere if no other node reaches this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wished {
    /// What was said: an address to listen at, and one at which it is reached.
    words: (Option<HostPort>, Option<HostPort>),
    at: Result<Vec<SocketAddr>, String>,
}

impl Wished {
    fn is_nowhere(&self) -> bool {
        self.words == (None, None)
    }

    /// A name that leads nowhere for a while takes nothing away, nor does another order of its addresses.
    fn is_served_by(&self, other: &Self) -> bool {
        let sorted = |at: &[SocketAddr]| at.iter().copied().collect::<BTreeSet<_>>();
        match (&self.at, &other.at) {
            (Ok(one), Ok(two)) => self.words == other.words && sorted(one) == sorted(two),
            (Ok(_), Err(_)) => self.words == other.words,
            (Err(one), Err(two)) => self.words == other.words && one == two,
            (Err(_), Ok(_)) => false,
        }
    }
}

pub async fn wished(running: &Running) -> Wished {
    let at = match (&running.policy.listen, &running.address) {
        (Some(listen), _) => resolved(listen).await,
        (None, Some(address)) => {
            let any = [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED)];
            Ok(any.map(|ip| SocketAddr::new(ip, address.port)).to_vec())
        }
        (None, None) => Ok(Vec::new()),
    };
    Wished { words: (running.policy.listen.clone(), running.address.clone()), at }
}

async fn resolved(place: &HostPort) -> Result<Vec<SocketAddr>, String> {
    match &place.host {
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, place.port)]),
        name @ Host::Dns(_) => {
            // An order waits for it.
            let found = timeout(LOOK_UP, tokio::net::lookup_host((name.to_string(), place.port))).await;
            let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map(Iterator::collect::<Vec<_>>);
            match found {
                Ok(found) if !found.is_empty() => Ok(found),
                Ok(_) => Err(format!("{place}: the name has no address")),
                Err(why) => Err(format!("{place}: the name does not lead anywhere: {why}")),
            }
        }
    }
}

/// A wished port that is taken becomes the one that was had before, or else a free one.
async fn bind<S, F>(wished: &Wished, before: Option<SocketAddr>, bind: impl Fn(SocketAddr) -> F) -> Result<S, String>
where
    F: Future<Output = io::Result<S>>,
{
    let wished = wished.at.as_ref().map_err(Clone::clone)?;
    let had = before.iter().flat_map(|had| wished.iter().map(|at| SocketAddr::new(at.ip(), had.port())));
    let free = wished.iter().map(|at| SocketAddr::new(at.ip(), 0));
    let mut problems: Vec<String> = Vec::new();
    for at in wished.iter().copied().chain(had).chain(free) {
        match bind(at).await {
            Ok(bound) => {
                if !problems.is_empty() {
                    tracing::warn!(%at, why = problems.join("; "), "other nodes are listened for elsewhere");
                }
                return Ok(bound);
            }
            Err(why) => problems.push(format!("{at}: {why}")),
        }
    }
    Err(problems.join("; "))
}
