//! Nodes: listed, shown, revoked.

pub mod waiting;
pub mod candidate;
pub mod waive;
pub mod suspend;
pub mod consent;
pub mod principal;

use std::collections::BTreeMap;

use identity::head::{Cause, Head};
use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::Timestamp;
use ledger::views::{self, NodeView};
use org::ledger::draft::Wish;
use org::state::Standing;
use wire::control::{Call, ControlAnswer, Observed};

use crate::key::SignerKeys;
use crate::session::{Aim, DeskError, Made, NextHead, OperateError, Result, Session, Unwise};

/// Every machine, as this home's own fold has it.
pub async fn all(session: &mut Session) -> Result<Vec<NodeView>> {
    let observed = observed(session).await?;
    Ok(views::nodes(&*session.fold_here().await?, observed))
}

/// What the gateway saw of machines: its word, which is shown and decides nothing.
pub(crate) async fn observed(session: &mut Session) -> Result<BTreeMap<Digest, Observed>> {
    let (mut all, mut after) = (BTreeMap::new(), None);
    if session.is_alone() {
        return Ok(all);
    }
    loop {
        let ControlAnswer::Observed { nodes, next } = session.ask(Call::Observed { after }).await? else {
            return Err(DeskError::OtherAnswer.into());
        };
        all.extend(nodes);
        match next {
            // Only forward, however the gateway counts.
            Some(next) if after.is_none_or(|after| next > after) => after = Some(next),
            _ => return Ok(all),
        }
    }
}

/// The machine that holds a name now, or, if none does, the last that waited for it or had it.
pub async fn find(session: &mut Session, name: &NodeName) -> Result<NodeView> {
    let named = all(session).await?.into_iter().filter(|node| node.name == *name);
    let best = named.max_by_key(|node| (node.state.is_live(), node.state != Standing::Revoked, node.enrolled_at));
    best.ok_or_else(|| OperateError::no_such("node", name))
}

/// Every machine that is a member.
pub(crate) async fn members(session: &mut Session) -> Result<Vec<NodeView>> {
    let mut nodes = all(session).await?;
    nodes.retain(|node| node.state.is_live());
    Ok(nodes)
}

/// Why a node cannot be revoked, if so.
pub fn check_revocable(head: &Head, node: &NodeView) -> Result<(), Unwise> {
    if node.state == Standing::Revoked {
        return Err(Unwise::NodeRevoked(node.name.clone()));
    }
    if head.mandates.iter().any(|mandate| mandate.gateway == node.name) {
        return Err(Unwise::HasMandate(node.name.clone()));
    }
    Ok(())
}

pub async fn revoke(session: &mut Session, keys: &SignerKeys, node: &NodeView) -> Result<Made<Head>> {
    check_revocable(session.head(), node)?;
    session.publish_head(keys, |session, now| draft_revocation(session, node, now)).await
}

pub fn draft_revocation(session: &Session, node: &NodeView, now: Timestamp) -> Result<NextHead> {
    let node_key = node.node_key.digest();
    let cause = Cause::NodeRevoke { name: node.name.clone(), node_key };
    session.next_head(now, Aim::new(cause, Wish { revoke_keys: vec![node_key], ..Wish::default() }), |_| {})
}
