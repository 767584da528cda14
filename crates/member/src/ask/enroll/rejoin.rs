//! A join on a machine that has joined before: one at a time, what waits goes on, what is done stays, a revoked key goes.

use std::path::Path;
use std::time::{Duration, Instant};

use ground::file::{self, FileError, Lock};
use identity::principal::OrgName;
use org::invite::code::InviteCode;
use wire::connect::{CallError, GatewayAddress};

use crate::ask::call::is_revoked;
use crate::ask::error::AskError;
use crate::ask::{enroll, renew};
use crate::store::scope::{NodeFile, Scope, ScopeError, Wish};

/// A join that must wait for another one gives up after this.
const TURN_TIME: Duration = Duration::from_mins(1);
/// Longer than an agent rests between two check-ins.
const AGENT_TIME: Duration = Duration::from_secs(90);

#[derive(Debug, thiserror::Error)]
pub enum NotRejoined {
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("another join of this machine is still running")]
    StillJoining,
    #[error("the agent of this machine's old key, which was revoked, still runs")]
    AgentRuns,
    #[error("this machine is already in another org that is also called `{name}`")]
    OtherOrg { name: OrgName },
    /// It came back before, or has yet to.
    #[error("{why}")]
    Asking { why: AskError, joined: bool },
}

/// A join that waits for a person.
#[derive(Debug)]
pub struct Begun {
    pub wish: Wish,
    pub code: InviteCode,
}

/// The one join that waits under this root, or in this scope of it. If several wait, what is meant must be said.
pub fn begun(root: &Path, wanted: Option<&OrgName>) -> Result<Option<Begun>, ScopeError> {
    let fits =
        |scope: &Scope| wanted.is_none_or(|org| scope.folder.file_name().is_some_and(|name| name == org.as_str()));
    let mut begun = Vec::new();
    for scope in Scope::all(root).into_iter().filter(fits) {
        let waiting = scope.waiting()?;
        let wish = scope.wish()?;
        begun.extend(wish.zip(waiting).map(|(wish, (_, code))| Begun { wish, code }));
    }
    if begun.len() > 1 { Ok(None) } else { Ok(begun.pop()) }
}

/// One join of a scope at a time, or each would draw a node key of its own. The second waits, and finds the work done.
/// The lock lies beside the scope, not in it: a join that comes to nothing leaves no scope.
pub async fn take_turn(root: &Path, scope: &OrgName) -> Result<Lock, NotRejoined> {
    file::make_private_folder(root)?;
    let path = root.join(format!(".{scope}.joining"));
    locked_within(TURN_TIME, || Lock::take(&path)).await?.ok_or(NotRejoined::StillJoining)
}

/// A second run: finishes what was begun, touches nothing that is done. Says no if this machine is to join as if it had
/// never been a member.
pub async fn finish(scope: &Scope, code: &InviteCode) -> Result<bool, NotRejoined> {
    let Some(node) = scope.node()? else { return Ok(false) };
    if is_over(scope, &node, code).await? {
        return Ok(false);
    }
    again(scope, node, code).await?;
    Ok(true)
}

/// A fresh code on a machine whose key was revoked: the old keys are of no use to anybody, and go. Not a refusal's
/// word counts but the signed head.
async fn is_over(scope: &Scope, node: &NodeFile, code: &InviteCode) -> Result<bool, NotRejoined> {
    if node.org_id != code.org || (node.invite.is_some() && node.invite == code.ticket.invite()) {
        return Ok(false);
    }
    let gateways: Vec<GatewayAddress> =
        node.gateways.iter().chain(&code.gateways).cloned().map(GatewayAddress::from).collect();
    if !is_revoked(scope, &gateways).await.unwrap_or(false) {
        return Ok(false);
    }
    // Its agent ends by itself when it next asks. Held until the scope is gone: a new one gets a lock of its own.
    let _agent = locked_within(AGENT_TIME, || scope.lock()).await?.ok_or(NotRejoined::AgentRuns)?;
    scope.wipe()?;
    tracing::info!(name = %node.name, "this machine's old key was revoked and is wiped; it joins as a new machine");
    Ok(true)
}

async fn again(scope: &Scope, mut node: NodeFile, code: &InviteCode) -> Result<(), NotRejoined> {
    if node.org_id != code.org {
        return Err(NotRejoined::OtherOrg { name: code.name.clone() });
    }
    let joined = node.joined;
    // The operators may have moved since this machine last asked: a fresh code says where they are.
    for address in &code.gateways {
        if !node.gateways.contains(address) {
            node.gateways.push(address.clone());
        }
    }
    scope.save_node(&node)?;
    let came = match enroll::come_back(scope, node.clone()).await {
        Err(AskError::Call(CallError::NotAccepted { .. })) if joined => return_by_key(scope, node).await,
        other => other,
    };
    came.map(drop).map_err(|why| NotRejoined::Asking { why, joined })
}

/// Its certificate counts no more, as after a gateway was removed; its node key does. If its agent runs, that does it.
async fn return_by_key(scope: &Scope, node: NodeFile) -> Result<NodeFile, AskError> {
    let gateways: Vec<GatewayAddress> = node.gateways.iter().cloned().map(GatewayAddress::from).collect();
    if let Some(_held) = scope.lock()? {
        renew::come_back(scope, &node, &gateways).await?;
    }
    enroll::come_back(scope, node).await
}

/// Tries until the time is over.
async fn locked_within<E>(time: Duration, take: impl Fn() -> Result<Option<Lock>, E>) -> Result<Option<Lock>, E> {
    let deadline = Instant::now() + time;
    loop {
        match take()? {
            Some(lock) => return Ok(Some(lock)),
            None if Instant::now() >= deadline => return Ok(None),
            None => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
