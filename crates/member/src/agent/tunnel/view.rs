//! How the tunnel stands, for people.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use identity::principal::{HostPort, Name};
use identity::time::Timestamp;
use manifest::stored::{Forward, Runs};
use serde::{Deserialize, Serialize};
use tunnel::control::listener::ListenerId;
use tunnel::control::view::View;

/// What the agent knows of the tunnel's process, and what that one says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelView {
    pub state: State,
    pub pid: Option<u32>,
    pub since: Option<Timestamp>,
    /// How often it ended without being told to.
    pub restarts: u32,
    /// How it ended last.
    pub problem: Option<String>,
    pub listens: BTreeMap<ListenerId, SocketAddr>,
    pub failed: BTreeMap<ListenerId, String>,
    /// What it goes without, or could not write down, and what to do.
    #[serde(default)]
    pub troubles: BTreeMap<String, String>,
    /// Which service each forward leads to.
    #[serde(default)]
    pub forwards: BTreeMap<HostPort, Forward>,
    /// Where other nodes were told to call, when the process said this.
    #[serde(default)]
    pub address: Option<HostPort>,
    /// Absent if the process does not run, or does not answer.
    pub now: Option<View>,
}

impl TunnelView {
    /// Where programs of this machine reach a service.
    pub fn ports_of(&self, service: &Name) -> Vec<(&ListenerId, SocketAddr)> {
        let leads = |place: &ListenerId| match place {
            ListenerId::Service(name) | ListenerId::ServiceAt(name, _) => name == service,
            ListenerId::Forward(wished) => self.forwards.get(wished).is_some_and(|forward| forward.service == *service),
            ListenerId::PeersTls
            | ListenerId::PeersQuic
            | ListenerId::Socks
            | ListenerId::SocksOf(_)
            | ListenerId::Resolver => false,
        };
        self.listens.iter().filter(|(place, _)| leads(place)).map(|(place, at)| (place, *at)).collect()
    }
}

/// The port at which other nodes were told to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeersPort {
    /// It is had, or nobody was told of one.
    Had,
    /// The process has not said yet.
    Awaited,
    /// Nobody reaches this node, and why.
    Missing(String),
}

impl TunnelView {
    /// Why other nodes do not reach this one where they were told to, for people.
    pub(crate) fn unreached(&self) -> Option<String> {
        self.address.as_ref().filter(|_| self.state == State::Running).and_then(|address| self.not_heard_at(address))
    }

    fn not_heard_at(&self, address: &HostPort) -> Option<String> {
        let why = [ListenerId::PeersTls, ListenerId::PeersQuic].iter().find_map(|place| self.failed.get(place))?;
        Some(format!("other nodes do not reach this one at {address}: cannot listen: {why}"))
    }

    pub(crate) fn peers_port(&self, runs: &Runs) -> PeersPort {
        let address = match (&runs.address, self.state) {
            (Some(address), State::Running) => address,
            // It fell, and is started again.
            (Some(_), State::Waiting) => return PeersPort::Awaited,
            (Some(_), State::Off) | (None, _) => return PeersPort::Had,
        };
        if let Some(why) = self.not_heard_at(address) {
            return PeersPort::Missing(why);
        }
        let wished = runs.tunnel.listen.as_ref().map_or(address.port, |listen| listen.port);
        match self.listens.get(&ListenerId::PeersTls) {
            Some(at) if at.port() == wished => PeersPort::Had,
            Some(_) | None => PeersPort::Awaited,
        }
    }
}

/// A place, with what it leads to.
pub fn told(place: &ListenerId, forwards: &BTreeMap<HostPort, Forward>) -> String {
    let name = String::from(place.clone());
    let forward = match place {
        ListenerId::Forward(wished) => forwards.get(wished),
        ListenerId::PeersTls
        | ListenerId::PeersQuic
        | ListenerId::Socks
        | ListenerId::SocksOf(_)
        | ListenerId::Service(_)
        | ListenerId::ServiceAt(..)
        | ListenerId::Resolver => None,
    };
    match forward {
        None => name,
        Some(Forward { service, user: None }) => format!("{name} (to `{service}`)"),
        Some(Forward { service, user: Some(user) }) => format!("{name} (to `{service}` for `{user}`)"),
    }
}

/// Trouble that came, or is over; logged when it changes.
pub(crate) fn note(view: &Mutex<TunnelView>, about: &str, trouble: Option<String>) {
    let mut view = view.lock().unwrap_or_else(PoisonError::into_inner);
    if view.troubles.get(about) == trouble.as_ref() {
        return;
    }
    if let Some(why) = trouble {
        tracing::error!(about, why, "the tunnel goes on without");
        view.troubles.insert(about.to_owned(), why);
    } else {
        tracing::info!(about, "what was wrong with it is over");
        view.troubles.remove(about);
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// There is nothing to carry.
    #[default]
    Off,
    Running,
    /// It ended, and is started again in a while.
    Waiting,
}

#[cfg(test)]
mod tests {
    use manifest::stored::Manifest;

    use super::*;

    #[test]
    fn the_port_of_an_address_is_had_awaited_or_missing_and_no_other_will_do() {
        let mut runs = Manifest::nothing().runs;
        let view = |port: Option<u16>, failed: Option<&str>| TunnelView {
            state: State::Running,
            listens: port.map(|port| (ListenerId::PeersTls, SocketAddr::from(([0; 16], port)))).into_iter().collect(),
            failed: failed.map(|why| (ListenerId::PeersQuic, why.to_owned())).into_iter().collect(),
            ..TunnelView::default()
        };
        assert_eq!(view(None, None).peers_port(&runs), PeersPort::Had, "nobody was told of one");
        runs.address = Some("alpha.example:7444".parse().unwrap());
        assert_eq!(view(Some(7444), None).peers_port(&runs), PeersPort::Had);
        for port in [None, Some(7544)] {
            assert_eq!(view(port, None).peers_port(&runs), PeersPort::Awaited);
        }
        let PeersPort::Missing(why) = view(Some(7444), Some("[::]:7444: in use")).peers_port(&runs) else { panic!() };
        assert_eq!(why, "other nodes do not reach this one at alpha.example:7444: cannot listen: [::]:7444: in use");
        // Whoever asks is told by the address that the process was given.
        let taken = TunnelView { address: runs.address.clone(), ..view(None, Some("[::]:7444: in use")) };
        assert_eq!(taken.unreached().as_ref(), Some(&why));
        assert_eq!(TunnelView { state: State::Waiting, ..taken.clone() }.unreached(), None);
        assert_eq!(TunnelView { address: None, ..taken }.unreached(), None);
        // Behind a router it listens elsewhere.
        runs.tunnel.listen = Some("192.0.2.1:9000".parse().unwrap());
        assert_eq!(view(Some(9000), None).peers_port(&runs), PeersPort::Had);
        assert_eq!(TunnelView { state: State::Off, ..view(None, None) }.peers_port(&runs), PeersPort::Had);
        // A tunnel that falls by what it was told is no port.
        assert_eq!(TunnelView { state: State::Waiting, ..view(None, None) }.peers_port(&runs), PeersPort::Awaited);
    }
}
