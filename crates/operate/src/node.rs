//! Nodes: listed, shown, revoked.

use identity::principal::NodeName;
use org::entry::{Action, Cause};
use org::state::Standing;
use wire::control::{Answer, Call, NodeView};

use crate::desk::{Desk, DeskError};
use crate::keys::SignerKeys;
use crate::session::{OperateError, Session};

impl<D: Desk> Session<D> {
    pub async fn nodes(&mut self) -> Result<Vec<NodeView>, OperateError> {
        match self.ask(Call::Nodes {}).await? {
            Answer::Nodes(nodes) => Ok(nodes),
            _ => Err(DeskError::OtherAnswer.into()),
        }
    }

    /// The machine that holds a name now, or, if none does, the last that did.
    pub async fn node(&mut self, name: &NodeName) -> Result<NodeView, OperateError> {
        let nodes = self.nodes().await?;
        let named = nodes.into_iter().filter(|node| node.name == *name);
        let best = named.max_by_key(|node| (node.state != Standing::Revoked, node.enrolled_at));
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

    pub async fn revoke_node(&mut self, keys: &SignerKeys, node: &NodeView) -> Result<u64, OperateError> {
        self.check_revocable(node)?;
        let node_key = node.node_key.digest();
        self.publish(keys, |session, now| {
            let head = session.next_head(now, |head| {
                head.revocations.node_keys.insert(node_key);
            });
            let version = head.version;
            let cause = Cause::NodeRevoke { name: node.name.clone(), node_key };
            Ok((Action::HeadPublish { head: session.seal(keys, &head)?, cause }, version))
        })
        .await
    }
}
