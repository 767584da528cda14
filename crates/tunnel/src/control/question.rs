//! What the agent may ask of the tunnel, and its answers: who calls (a whois), and whether a service is reached.

use std::net::SocketAddr;

use identity::principal::{Name, NodeName, Principal};
use identity::time::Timestamp;
use manifest::stored::Transport;
use serde::{Deserialize, Serialize};
use wire::peer::Declined;

use crate::control::view::View;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TunnelQuestion {
    /// Everything that is open and counted.
    View,
    /// Who is at the other end of a connection that a service here accepted?
    Caller(ServiceConnection),
    /// Can this service be reached, and by which way?
    Reach { service: Name, who: Option<Principal> },
    /// Does it take a call of somebody here? It is begun, and ended without a byte.
    Call { service: Name, who: Principal },
}

/// A connection that a service here accepted, as the service sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum ServiceConnection {
    /// By both of its ends: that very one.
    Between { far: SocketAddr, near: SocketAddr },
    /// By its far end alone, which connections to other services may have, too.
    From(SocketAddr),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TunnelAnswer {
    View(View),
    Caller(Option<CallerIdentity>),
    Reach(Vec<ProbedWay>),
    Call(CallOutcome),
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerIdentity {
    pub principal: Principal,
    pub node: NodeName,
    pub service: Name,
    /// Where the service took the connection that this is about. To any other address it is another's.
    pub at: SocketAddr,
    pub since: Timestamp,
}

/// One way to a service, tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedWay {
    pub node: NodeName,
    pub transport: Transport,
    pub through: Option<NodeName>,
    /// What was found; an error says what failed.
    pub outcome: Result<String, String>,
}

/// What came of a call that was only to be tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CallOutcome {
    /// The service on that node took it, over `tls` or `quic`; `here` if it is this node.
    Taken { node: NodeName, by: String },
    /// That node said no.
    Declined { node: NodeName, why: Declined },
    /// No node that has the service was reached.
    NoWay,
    /// Nothing came of it in time.
    Late,
    /// It is on the nodes of a class, and none of them was named.
    WhichOne { class: Name },
    /// Nobody was called: this node itself does not let it out.
    Kept(String),
}
