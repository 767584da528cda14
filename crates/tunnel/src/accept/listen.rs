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

use crate::accept::{quic, tls};
use crate::control::listener::ListenerId;
use crate::control::order::TunnelConfig;
use crate::state::shared::TunnelState;
use crate::transport::bind::NotBound;

#[derive(Debug, Default)]
pub(crate) struct PeerListeners {
    bound: Option<Bound>,
}

/// It is listened until this is dropped. Connections that were accepted go on.
#[derive(Debug)]
struct Bound {
    wished: ListenAddresses,
    at: BTreeMap<ListenerId, SocketAddr>,
    failed: BTreeMap<ListenerId, String>,
    /// Whoever listens ends when it is gone.
    stop: watch::Sender<bool>,
}

impl PeerListeners {
    pub(crate) async fn follow(&mut self, state: &Arc<TunnelState>, running: &TunnelConfig) {
        self.settle(state, running, wished(running).await).await;
    }

    /// What is listened at and is still wished stays, whatever becomes of the rest.
    pub(crate) async fn settle(&mut self, state: &Arc<TunnelState>, running: &TunnelConfig, wished: ListenAddresses) {
        if wished.is_nowhere() {
            self.bound = None;
        } else {
            // The old sockets go first: they may have the port.
            let old = self.bound.take().filter(|old| old.wished.is_served_by(&wished));
            let mut bound = old.unwrap_or_else(|| Bound::new(wished));
            bound.bind_missing(state, running).await;
            self.bound = Some(bound);
        }
        state.heard_at.store(self.at().get(&ListenerId::PeersTls).copied().map(Arc::new));
    }

    pub(crate) fn at(&self) -> BTreeMap<ListenerId, SocketAddr> {
        self.bound.as_ref().map(|bound| bound.at.clone()).unwrap_or_default()
    }

    pub(crate) fn failed(&self) -> BTreeMap<ListenerId, String> {
        self.bound.as_ref().map(|bound| bound.failed.clone()).unwrap_or_default()
    }
}

impl Bound {
    fn new(wished: ListenAddresses) -> Self {
        Self { wished, at: BTreeMap::new(), failed: BTreeMap::new(), stop: watch::Sender::new(false) }
    }

    async fn bind_missing(&mut self, state: &Arc<TunnelState>, running: &TunnelConfig) {
        let before = |place: &ListenerId| running.ports.get(place).copied();
        let told = std::mem::take(&mut self.failed);
        if !self.at.contains_key(&ListenerId::PeersTls) {
            match bind(&self.wished, before(&ListenerId::PeersTls), TcpListener::bind).await {
                Ok(listener) => self.listen_tls(state, listener),
                Err(why) => drop(self.failed.insert(ListenerId::PeersTls, why.to_string())),
            }
        }
        if !self.at.contains_key(&ListenerId::PeersQuic) {
            match bind(&self.wished, before(&ListenerId::PeersQuic), UdpSocket::bind).await {
                Ok(socket) => self.listen_quic(state, socket),
                Err(why) => drop(self.failed.insert(ListenerId::PeersQuic, why.to_string())),
            }
        }
        // What is so for long is said once.
        for (place, why) in self.failed.iter().filter(|(place, why)| told.get(place) != Some(why)) {
            tracing::error!("cannot listen for other nodes at `{}`: {why}", String::from(place.clone()));
        }
    }

    fn listen_tls(&mut self, state: &Arc<TunnelState>, listener: TcpListener) {
        match listener.local_addr() {
            Ok(at) => _ = self.at.insert(ListenerId::PeersTls, at),
            Err(why) => drop(self.failed.insert(ListenerId::PeersTls, why.to_string())),
        }
        let served = tls::serve_tls(Arc::clone(state), listener, self.stop.subscribe());
        tokio::spawn(async {
            if let Err(why) = served.await {
                tracing::error!(%why, "other nodes are not heard over TLS");
            }
        });
    }

    fn listen_quic(&mut self, state: &Arc<TunnelState>, socket: UdpSocket) {
        match socket.local_addr().and_then(|at| Ok((at, socket.into_std()?))) {
            Ok((at, socket)) => {
                self.at.insert(ListenerId::PeersQuic, at);
                let served = quic::serve_quic(Arc::clone(state), socket, self.stop.subscribe());
                tokio::spawn(async {
                    if let Err(why) = served.await {
                        tracing::error!(%why, "other nodes are not heard over QUIC");
                    }
                });
            }
            Err(why) => drop(self.failed.insert(ListenerId::PeersQuic, why.to_string())),
        }
    }
}

const LOOK_UP: Duration = Duration::from_secs(2);

/// Where to listen, best first; nowhere if no other node reaches this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListenAddresses {
    /// What was said: an address to listen at, and one at which it is reached.
    said: Said,
    at: Result<Vec<SocketAddr>, NoAddress>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Said {
    listen: Option<HostPort>,
    address: Option<HostPort>,
}

/// Why a name gives no address to listen at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAddress {
    #[error("{0}: the name has no address")]
    Empty(HostPort),
    #[error("{at}: the name does not lead anywhere: {why}")]
    NotResolved { at: HostPort, why: String },
}

/// Why other nodes are not listened for.
#[derive(Debug, thiserror::Error)]
enum CannotBind {
    #[error(transparent)]
    NoAddress(#[from] NoAddress),
    #[error(transparent)]
    NotBound(#[from] NotBound),
}

impl ListenAddresses {
    fn is_nowhere(&self) -> bool {
        self.said == Said::default()
    }

    /// A name that leads nowhere for a while takes nothing away, nor does another order of its addresses.
    fn is_served_by(&self, other: &Self) -> bool {
        let sorted = |at: &[SocketAddr]| at.iter().copied().collect::<BTreeSet<_>>();
        // By which name others call is nothing to a socket: what it is bound at, and whether it may be elsewhere, is.
        let alike =
            self.said.listen == other.said.listen && self.said.address.is_some() == other.said.address.is_some();
        match (&self.at, &other.at) {
            (Ok(one), Ok(two)) => alike && sorted(one) == sorted(two),
            (Ok(_), Err(_)) => alike,
            (Err(one), Err(two)) => alike && one == two,
            (Err(_), Ok(_)) => false,
        }
    }
}

pub(crate) async fn wished(running: &TunnelConfig) -> ListenAddresses {
    let at = match (&running.policy.listen, &running.address) {
        (Some(listen), _) => resolved(listen).await,
        (None, Some(address)) => {
            let any = [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED)];
            Ok(any.map(|ip| SocketAddr::new(ip, address.port)).to_vec())
        }
        (None, None) => Ok(Vec::new()),
    };
    ListenAddresses { said: Said { listen: running.policy.listen.clone(), address: running.address.clone() }, at }
}

async fn resolved(place: &HostPort) -> Result<Vec<SocketAddr>, NoAddress> {
    match &place.host {
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, place.port)]),
        name @ Host::Dns(_) => {
            // An order waits for it.
            let found = timeout(LOOK_UP, tokio::net::lookup_host((name.to_string(), place.port))).await;
            let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map(Iterator::collect::<Vec<_>>);
            match found {
                Ok(found) if !found.is_empty() => Ok(found),
                Ok(_) => Err(NoAddress::Empty(place.clone())),
                Err(why) => Err(NoAddress::NotResolved { at: place.clone(), why: why.to_string() }),
            }
        }
    }
}

/// Where other nodes were told to call, it is that port or none. A wished port of a node that nobody was told of becomes, if it
/// is taken, the one that was had before, or else a free one.
async fn bind<S, F>(
    wished: &ListenAddresses,
    before: Option<SocketAddr>,
    bind: impl Fn(SocketAddr) -> F,
) -> Result<S, CannotBind>
where
    F: Future<Output = io::Result<S>>,
{
    let exact = wished.said.address.is_some();
    let wished = wished.at.as_ref().map_err(Clone::clone)?;
    let had = before.iter().flat_map(|had| wished.iter().map(|at| SocketAddr::new(at.ip(), had.port())));
    let free = wished.iter().map(|at| SocketAddr::new(at.ip(), 0));
    let mut failed = NotBound::default();
    let others = had.chain(free).filter(|_| !exact);
    for at in wished.iter().copied().chain(others) {
        match bind(at).await {
            Ok(bound) => {
                if !failed.is_empty() {
                    tracing::warn!(%at, why = failed.to_string(), "other nodes are listened for elsewhere");
                }
                return Ok(bound);
            }
            Err(why) => failed.add(at, why),
        }
    }
    Err(failed.into())
}

#[cfg(test)]
mod tests {
    use trials::port::Claim;

    use super::*;

    fn addresses(address: Option<&str>, port: u16) -> ListenAddresses {
        let said = Said { listen: None, address: address.map(|at| at.parse().unwrap()) };
        ListenAddresses { said, at: Ok(vec![SocketAddr::from(([0; 16], port))]) }
    }

    #[test]
    fn another_name_for_the_same_port_moves_no_socket() {
        let before = addresses(Some("alpha.example:7444"), 7444);
        assert!(before.is_served_by(&addresses(Some("alpha.harbor.example:7444"), 7444)));
        assert!(!before.is_served_by(&addresses(Some("alpha.example:7445"), 7445)));
        assert!(!before.is_served_by(&addresses(None, 7444)), "then it is a wish");
    }

    #[tokio::test]
    async fn a_declared_port_is_that_port_or_none() {
        let claim = Claim::new();
        let at = claim.at();
        let squatter = TcpListener::bind(at).await.unwrap();
        let wished = |address: Option<String>| {
            let said = Said { listen: None, address: address.map(|at| at.parse().unwrap()) };
            ListenAddresses { said, at: Ok(vec![at]) }
        };
        let declared = bind(&wished(Some(at.to_string())), None, TcpListener::bind).await;
        assert!(matches!(declared, Err(CannotBind::NotBound(_))));
        let moved = bind(&wished(None), None, TcpListener::bind).await.unwrap();
        assert_ne!(moved.local_addr().unwrap().port(), at.port());
        drop(squatter);
        assert_eq!(
            bind(&wished(Some(at.to_string())), None, TcpListener::bind).await.unwrap().local_addr().unwrap(),
            at
        );
    }
}
