//! What a node says of itself: over a socket while its agent runs, from disk otherwise.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ground::clock;
use identity::id::OrgId;
use identity::key::Sign as _;
use identity::principal::{Address, NodeName, OrgName, Principal};
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::task::AbortHandle;

use crate::apply::view::ApplyView;
use crate::store::scope::{Scope, ScopeError};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    pub org: OrgName,
    pub org_id: OrgId,
    pub name: NodeName,
    pub spiffe_id: Principal,
    /// `issued`, `member`, `expired`, `revoked`.
    pub state: String,
    pub svid_expires_at: Option<Timestamp>,
    pub head: u64,
    pub gateways: Vec<Address>,
    pub running: bool,
    pub last_check_in: Option<Timestamp>,
    pub problem: Option<String>,
    /// What this node should be, and how far that is.
    #[serde(default)]
    pub applied: ApplyView,
}

impl Status {
    pub fn from_disk(scope: &Scope) -> Result<Self, ScopeError> {
        let node = scope.node()?;
        let known = scope.known()?;
        let (Some(node), Some(known)) = (node, known) else {
            let why = "no join has finished here: run freehold-node join again".to_owned();
            return Err(ScopeError::Damaged { path: scope.folder.clone(), why });
        };
        let svid = scope.seat(&node.principal()).svid()?;
        let key = scope.node_key()?.public().digest();
        let state = if known.head.head.revocations.node_keys.contains(&key) {
            "revoked"
        } else if svid.as_ref().is_some_and(|svid| svid.not_after <= clock::now()) {
            "expired"
        } else if node.joined {
            "member"
        } else {
            "issued"
        };
        Ok(Self {
            spiffe_id: node.principal(),
            org: node.org,
            org_id: node.org_id,
            name: node.name,
            state: state.to_owned(),
            svid_expires_at: svid.map(|svid| svid.not_after),
            head: known.head.head.version,
            gateways: node.gateways,
            running: false,
            last_check_in: None,
            problem: crate::agent::trouble(&known, clock::now()),
            applied: crate::apply::view::from_disk(&scope.folder),
        })
    }

    /// From the running agent; nothing if there is none.
    pub fn from_agent(scope: &Scope) -> Option<Self> {
        let mut stream = UnixStream::connect(scope.path("agent.sock")).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// Answers on a socket for this user alone, until dropped.
#[derive(Debug)]
pub struct Socket {
    task: AbortHandle,
    path: std::path::PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

pub fn answer(scope: &Scope, status: Arc<Mutex<Status>>) -> Option<Socket> {
    let path = scope.path("agent.sock");
    let _ = std::fs::remove_file(&path);
    // The folder is private, so nobody can connect before the mode is set.
    let listener = tokio::net::UnixListener::bind(&path);
    let listener = listener.and_then(|listener| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    });
    let listener = match listener {
        Ok(listener) => listener,
        Err(why) => {
            tracing::warn!(%why, "no status socket; `freehold-node status` will read the disk");
            return None;
        }
    };
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut now = status.lock().unwrap_or_else(PoisonError::into_inner).clone();
            now.running = true;
            if now.state == "member" && now.svid_expires_at.is_some_and(|at| at <= clock::now()) {
                "expired".clone_into(&mut now.state);
            }
            let json = serde_json::to_vec(&now).unwrap_or_default();
            let _ = stream.write_all(&json).await;
        }
    });
    Some(Socket { task: task.abort_handle(), path })
}
