//! The agent's socket: whoever connects is told the status; whoever sends a line first has that done before.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use identity::principal::{Name, Principal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tunnel::control::question::{CallOutcome, CallerIdentity, ProbedWay, ServiceConnection, TunnelQuestion};

use crate::agent::errand::{AgentHandle, Errand, ErrandAnswer, Request};
use crate::agent::status::NodeStatus;
use crate::store::scope::Scope;

/// Whoever says nothing for so long only wants the status.
const SAYS_NOTHING: Duration = Duration::from_millis(200);
/// The longest line.
const LINE: u64 = 4096;
/// The longest answer that is read: a preview of a large manifest.
const ANSWER: u64 = 16 << 20;
/// Several gateways may have to be tried.
const ANSWER_TIME: Duration = Duration::from_mins(5);
/// Several ways to a service may have to be tried.
const REACH_TIME: Duration = Duration::from_secs(70);
/// As many may wait for an answer at once.
const GUESTS: usize = 16;

/// Answers for this user alone, until dropped.
#[derive(Debug)]
pub(crate) struct Socket {
    task: AbortHandle,
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

pub(crate) fn answer(scope: &Scope, handle: AgentHandle) -> Option<Socket> {
    let path = scope.path("agent.sock");
    let _ = std::fs::remove_file(&path);
    // The folder is private, so nobody can connect before the mode is set.
    let listener = UnixListener::bind(&path).and_then(|listener| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    });
    let listener = match listener {
        Ok(listener) => listener,
        Err(why) => {
            tracing::warn!(%why, "no status socket; whoever asks for the status reads the disk");
            return None;
        }
    };
    let task = tokio::spawn(async move {
        let mut guests = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            while guests.try_join_next().is_some() {}
            if guests.len() < GUESTS {
                guests.spawn(entertain(stream, handle.clone()));
            }
        }
    });
    Some(Socket { task: task.abort_handle(), path })
}

async fn entertain(mut stream: UnixStream, handle: AgentHandle) {
    let json = match request(&mut stream).await {
        Some(Request::Sync(errand)) => {
            let Some(answer) = handle.send(errand).await else {
                return;
            };
            serde_json::to_vec(&answer)
        }
        Some(Request::Caller(connection)) => serde_json::to_vec(&handle.tunnel.caller(connection).await),
        Some(Request::Reach { service, who }) => {
            serde_json::to_vec(&handle.tunnel.reach(TunnelQuestion::Reach { service, who }).await)
        }
        Some(Request::Call { service, who }) => {
            serde_json::to_vec(&handle.tunnel.call(TunnelQuestion::Call { service, who }).await)
        }
        None => serde_json::to_vec(&handle.whole_status().await),
    };
    let _ = stream.write_all(&json.unwrap_or_default()).await;
}

/// The line that was sent, if it is one that is understood and its sender may say it.
async fn request(stream: &mut UnixStream) -> Option<Request> {
    let peer = stream.peer_cred().ok()?.uid();
    let own = rustix::process::geteuid();
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream.take(LINE));
    timeout(SAYS_NOTHING, reader.read_until(b'\n', &mut line)).await.ok()?.ok()?;
    let request = serde_json::from_slice(&line).ok()?;
    (peer == own.as_raw() || peer == 0).then_some(request)
}

/// An agent that may run beside this process.
#[derive(Debug, Clone)]
pub struct Remote {
    path: PathBuf,
}

impl Remote {
    /// Nothing if none runs.
    pub async fn find(scope: &Scope) -> Option<Self> {
        let remote = Self { path: scope.path("agent.sock") };
        remote.status().await.map(|_| remote)
    }

    pub async fn status(&self) -> Option<NodeStatus> {
        self.exchange(None::<&Request>, Duration::from_secs(5)).await
    }

    /// Nothing if the agent ended, or does not understand.
    pub async fn send(&self, errand: Errand) -> Option<ErrandAnswer> {
        self.exchange(Some(&Request::Sync(errand)), ANSWER_TIME).await
    }

    /// Nothing if it is unknown, or if no tunnel runs.
    pub async fn caller(&self, connection: ServiceConnection) -> Option<CallerIdentity> {
        self.exchange::<Option<CallerIdentity>>(Some(&Request::Caller(connection)), REACH_TIME).await.flatten()
    }

    /// Nothing if no tunnel runs.
    pub async fn reach(&self, service: Name, who: Option<Principal>) -> Option<Vec<ProbedWay>> {
        let request = Request::Reach { service, who };
        self.exchange::<Option<Vec<ProbedWay>>>(Some(&request), REACH_TIME).await.flatten()
    }

    /// Nothing if no tunnel runs, or if the agent is older than this question.
    pub async fn call(&self, service: Name, who: Principal) -> Option<CallOutcome> {
        self.exchange::<Option<CallOutcome>>(Some(&Request::Call { service, who }), REACH_TIME).await.flatten()
    }

    async fn exchange<T: DeserializeOwned>(&self, line: Option<&impl Serialize>, time: Duration) -> Option<T> {
        let exchange = async {
            let mut stream = UnixStream::connect(&self.path).await.ok()?;
            if let Some(line) = line {
                let mut line = serde_json::to_vec(line).ok()?;
                line.push(b'\n');
                stream.write_all(&line).await.ok()?;
            }
            stream.shutdown().await.ok()?;
            let mut answer = Vec::new();
            stream.take(ANSWER).read_to_end(&mut answer).await.ok()?;
            serde_json::from_slice(&answer).ok()
        };
        timeout(time, exchange).await.ok()?
    }
}
