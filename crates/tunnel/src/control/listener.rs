//! Which listener is meant: for peers, or for programs of this machine.

use identity::principal::{HostPort, Name, NodeName, Principal};
use serde::{Deserialize, Serialize};

/// A place where the tunnel listens for programs of this machine, or for peers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[serde(try_from = "String", into = "String")]
pub enum ListenerId {
    /// For peers, over TLS and over QUIC.
    PeersTls,
    PeersQuic,
    /// SOCKS5 for whoever is there by default: the one user at home here, or the node.
    Socks,
    /// SOCKS5 for one principal.
    SocksOf(Principal),
    /// The forward that was wished for at this address.
    Forward(HostPort),
    /// A service that its name resolves to.
    Service(Name),
    /// The same at one of several nodes.
    ServiceAt(Name, NodeName),
    Resolver,
}

impl ListenerId {
    /// Nobody on this machine is sent there.
    pub const fn is_for_peers(&self) -> bool {
        matches!(self, Self::PeersTls | Self::PeersQuic)
    }
}

impl From<ListenerId> for String {
    fn from(place: ListenerId) -> Self {
        match place {
            ListenerId::PeersTls => "peers/tls".to_owned(),
            ListenerId::PeersQuic => "peers/quic".to_owned(),
            ListenerId::Socks => "socks".to_owned(),
            ListenerId::SocksOf(principal) => format!("socks/{principal}"),
            ListenerId::Forward(wished) => format!("forward/{wished}"),
            ListenerId::Service(name) => format!("service/{name}"),
            ListenerId::ServiceAt(name, node) => format!("service/{name}/{node}"),
            ListenerId::Resolver => "resolver".to_owned(),
        }
    }
}

/// A text that names no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no place")]
pub struct BadListenerId(pub String);

impl TryFrom<String> for ListenerId {
    type Error = BadListenerId;

    fn try_from(text: String) -> Result<Self, BadListenerId> {
        let odd = || BadListenerId(text.clone());
        Ok(match text.split_once('/') {
            None if text == "socks" => Self::Socks,
            None if text == "resolver" => Self::Resolver,
            Some(("peers", "tls")) => Self::PeersTls,
            Some(("peers", "quic")) => Self::PeersQuic,
            Some(("socks", principal)) => Self::SocksOf(principal.parse().map_err(|_| odd())?),
            Some(("forward", wished)) => Self::Forward(wished.parse().map_err(|_| odd())?),
            Some(("service", name)) => match name.split_once('/') {
                None => Self::Service(name.parse().map_err(|_| odd())?),
                Some((name, node)) => {
                    Self::ServiceAt(name.parse().map_err(|_| odd())?, node.parse().map_err(|_| odd())?)
                }
            },
            None | Some(_) => return Err(odd()),
        })
    }
}
