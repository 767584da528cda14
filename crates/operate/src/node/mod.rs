//! Nodes: listed, shown, revoked.

pub mod waiting;
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
use wire::control::{Answer, Call, Observed};

use crate::key::SignerKeys;
use crate::pending::handed::Handed;
use crate::session::desk::{Desk, DeskError};
use crate::session::{Made, OperateError, Session};

impl<D: Desk> Session<D> {
    /// Every machine, as this home's own fold has it.
    pub async fn nodes(&mut self) -> Result<Vec<NodeView>, OperateError> {
        let observed = self.observed().await?;
        Ok(views::nodes(&*self.fold_here().await?, observed))
    }

    /// What the gateway saw of machines: its word, which is shown and decides nothing.
    pub(crate) async fn observed(&mut self) -> Result<BTreeMap<Digest, Observed>, OperateError> {
        let (mut all, mut after) = (BTreeMap::new(), None);
        if self.desk().is_alone() {
            return Ok(all);
        }
        loop {
            let Answer::Observed { nodes, next } = self.ask(Call::Observed { after }).await? else {
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
    pub async fn node(&mut self, name: &NodeName) -> Result<NodeView, OperateError> {
        let nodes = self.nodes().await?;
        let named = nodes.into_iter().filter(|node| node.name == *name);
        let best = named.max_by_key(|node| (node.state.is_live(), node.state != Standing::Revoked, node.enrolled_at));
        best.ok_or_else(|| OperateError::NoSuch { what: "node", name: name.to_string() })
    }

    /// Why a node cannot be revoked, if so.
    pub fn check_revocable(&self, node: &NodeView) -> Result<(), OperateError> {
        if node.state == Standing::Revoked {
            return Err(OperateError::Unwise(format!("`{}` is already revoked", node.name)));
        }
        let mandates = &self.known.head.head.mandates;
        if mandates.iter().any(|mandate| mandate.gateway == node.name) {
            let why = format!("`{}` is a gateway with a mandate: without it nothing can join or renew", node.name);
            return Err(OperateError::Unwise(why));
        }
        Ok(())
    }

    pub async fn revoke_node(&mut self, keys: &SignerKeys, node: &NodeView) -> Result<Made<u64>, OperateError> {
        self.check_revocable(node)?;
        self.publish(keys, |session, now| {
            let head = session.draft_node_revocation(node, now)?;
            let version = head.version;
            Ok((Handed::of(session.seal(&head)?), version))
        })
        .await
    }

    pub fn draft_node_revocation(&self, node: &NodeView, now: Timestamp) -> Result<Head, OperateError> {
        let node_key = node.node_key.digest();
        let cause = Cause::NodeRevoke { name: node.name.clone(), node_key };
        let wish = Wish { revoke_keys: vec![node_key], ..Wish::default() };
        self.next_head_with(now, cause, (&wish, None), |_| {})
    }
}
