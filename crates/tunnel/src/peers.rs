//! Where other nodes reach this one: bound when it is told to listen, and bound anew only if that is somewhere else.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use identity::principal::{Host, HostPort};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::accept;
use crate::held::Held;
use crate::orders::{Place, Running};

#[derive(Debug, Default)]
pub struct Peers {
    bound: Option<Bound>,
}

/// It is listened until this is dropped. Connections that were accepted go on.
#[derive(Debug)]
struct Bound {
    wished: Vec<SocketAddr>,
    at: BTreeMap<Place, SocketAddr>,
    failed: BTreeMap<Place, String>,
    /// Whoever listens ends when it is gone.
    stop: watch::Sender<bool>,
}

impl Peers {
    pub async fn follow(&mut self, held: &Arc<Held>, running: &Running) {
        self.bind(held, running).await;
        held.heard_at.store(self.at().get(&Place::PeersTls).copied().map(Arc::new));
    }

    async fn bind(&mut self, held: &Arc<Held>, running: &Running) {
        let wished = wished(running).await;
        if wished.is_empty() {
            self.bound = None;
            return;
        }
        if self.bound.as_ref().is_some_and(|bound| bound.wished == wished && bound.failed.is_empty()) {
            return;
        }
        // The old sockets go first: they may have the port.
        self.bound = None;
        let mut bound = Bound { wished, at: BTreeMap::new(), failed: BTreeMap::new(), stop: watch::Sender::new(false) };
        let before = |place: &Place| running.ports.get(place).copied();
        match bind(&bound.wished, before(&Place::PeersTls), TcpListener::bind).await {
            Ok(listener) => bound.listen_tls(held, listener),
            Err(why) => drop(bound.failed.insert(Place::PeersTls, why.to_string())),
        }
        match bind(&bound.wished, before(&Place::PeersQuic), UdpSocket::bind).await {
            Ok(socket) => bound.listen_quic(held, socket),
            Err(why) => drop(bound.failed.insert(Place::PeersQuic, why.to_string())),
        }
        self.bound = Some(bound);
    }

    pub fn at(&self) -> BTreeMap<Place, SocketAddr> {
        self.bound.as_ref().map(|bound| bound.at.clone()).unwrap_or_default()
    }

    pub fn failed(&self) -> BTreeMap<Place, String> {
        self.bound.as_ref().map(|bound| bound.failed.clone()).unwrap_or_default()
    }
}

impl Bound {
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
async fn wished(running: &Running) -> Vec<SocketAddr> {
    match (&running.policy.listen, &running.address) {
        (Some(listen), _) => resolved(listen).await,
        (None, Some(address)) => {
            let any = [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED)];
            any.map(|ip| SocketAddr::new(ip, address.port)).to_vec()
        }
        (None, None) => Vec::new(),
    }
}

async fn resolved(place: &HostPort) -> Vec<SocketAddr> {
    match &place.host {
        Host::Ip(ip) => vec![SocketAddr::new(*ip, place.port)],
        name @ Host::Dns(_) => {
            // An order waits for it.
            let found = timeout(LOOK_UP, tokio::net::lookup_host((name.to_string(), place.port))).await;
            match found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(found) => found.collect(),
                Err(why) => {
                    tracing::error!(%why, listen = %place, "the name to listen at does not lead anywhere");
                    Vec::new()
                }
            }
        }
    }
}

/// A wished port that is taken becomes the one that was had before, or else a free one.
async fn bind<S, F>(wished: &[SocketAddr], before: Option<SocketAddr>, bind: impl Fn(SocketAddr) -> F) -> io::Result<S>
where
    F: Future<Output = io::Result<S>>,
{
    let had = before.iter().flat_map(|had| wished.iter().map(|at| SocketAddr::new(at.ip(), had.port())));
    let free = wished.iter().map(|at| SocketAddr::new(at.ip(), 0));
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for at in wished.iter().copied().chain(had).chain(free) {
        match bind(at).await {
            Ok(bound) => return Ok(bound),
            Err(why) => {
                tracing::warn!(%at, %why, "could not listen for other nodes there");
                last = why;
            }
        }
    }
    Err(last)
}
