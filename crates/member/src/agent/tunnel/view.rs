//! How the tunnel stands, for people.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use identity::principal::{HostPort, Name};
use identity::time::Timestamp;
use manifest::stored::Forward;
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
