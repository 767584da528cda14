//! What somebody on this machine asks of the agent (control socket), and what comes of it.

use std::sync::{Arc, Mutex, PoisonError};

use ground::clock;
use identity::principal::{Name, Principal};
use identity::time::Seconds;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tunnel::control::question::ServiceConnection;

use crate::agent::status::NodeStatus;
use crate::agent::tunnel::TunnelDesk;
use crate::apply::engine::Urge;
use crate::apply::preview::Preview;
use crate::ask::source::Source;

/// One line of JSON on the agent's socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    Sync(Errand),
    /// Who is at the other end of a connection that a service here accepted?
    Caller(ServiceConnection),
    /// Can this service be reached, by this user or service, or by the node itself?
    Reach {
        service: Name,
        who: Option<Principal>,
    },
    /// Does this service take a call of somebody here?
    Call {
        service: Name,
        who: Principal,
    },
}

/// Asks for news at once, and takes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Errand {
    /// Tries again what went back.
    pub now: bool,
    /// The time of the trial, if not what the manifest says. Whoever sets it wants the trial.
    pub within: Option<Seconds>,
    /// Takes authority alone, and tells what the rest would change.
    pub dry_run: bool,
    /// Reads this tree instead of asking a gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Source>,
}

impl Errand {
    pub fn urge(&self) -> Option<Urge> {
        (self.now || self.within.is_some()).then_some(Urge { within: self.within })
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrandAnswer {
    pub status: NodeStatus,
    /// Why there was no exchange.
    pub failed: Option<String>,
    /// Of a dry run.
    pub preview: Option<Preview>,
}

/// An errand that somebody waits for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub errand: Errand,
    pub preview: Option<Preview>,
    pub answer: oneshot::Sender<ErrandAnswer>,
}

/// Where an agent that runs is asked.
#[derive(Debug, Clone)]
pub struct AgentHandle {
    status: Arc<Mutex<NodeStatus>>,
    errands: mpsc::Sender<Asked>,
    pub tunnel: TunnelDesk,
}

pub(crate) fn handle(status: Arc<Mutex<NodeStatus>>, tunnel: TunnelDesk) -> (AgentHandle, mpsc::Receiver<Asked>) {
    let (errands, receiver) = mpsc::channel(4);
    (AgentHandle { status, errands, tunnel }, receiver)
}

impl AgentHandle {
    pub fn status(&self) -> NodeStatus {
        let mut now = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        now.running = true;
        if now.state == "member" && now.svid_expires_at.is_some_and(|at| at <= clock::now()) {
            "expired".clone_into(&mut now.state);
        }
        now
    }

    /// With what the tunnel's process says of itself, now: what keeps others away waits for no exchange.
    pub async fn whole_status(&self) -> NodeStatus {
        let (tunnel, status) = (self.tunnel.view().await, self.status());
        let problem = status.problem.into_iter().chain(tunnel.unreached()).reduce(|all, one| format!("{all}; {one}"));
        NodeStatus { problem, tunnel, ..status }
    }

    /// Nothing if the agent ended meanwhile.
    pub async fn send(&self, errand: Errand) -> Option<ErrandAnswer> {
        let (answer, answered) = oneshot::channel();
        self.errands.send(Asked { errand, preview: None, answer }).await.ok()?;
        answered.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_named_by_its_far_end_or_by_both() {
        let asked = |json: &str| match serde_json::from_str(json) {
            Ok(Request::Caller(connection)) => Some(connection),
            Ok(_) | Err(_) => None,
        };
        let (far, near) = ("127.0.0.1:54321".parse().unwrap(), "127.0.0.1:8080".parse().unwrap());
        assert_eq!(asked(r#"{"caller": "127.0.0.1:54321"}"#), Some(ServiceConnection::From(far)));
        let both = r#"{"caller": {"far": "127.0.0.1:54321", "near": "127.0.0.1:8080"}}"#;
        assert_eq!(asked(both), Some(ServiceConnection::Between { far, near }));
        // Whoever meant to name both is not answered by one.
        assert_eq!(asked(&both.replace("near", "to")), None);
        assert_eq!(asked(r#"{"caller": {"far": "127.0.0.1:54321"}}"#), None);
    }
}
