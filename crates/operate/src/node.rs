//! Nodes: listed, shown, revoked.

use identity::head::Cause;
use identity::principal::NodeName;
use org::admission::Claim;
use org::ledger::draft::Wish;
use org::state::{Standing, State};
use wire::control::{Answer, Call, NodeView};

use crate::desk::{Desk, DeskError};
use crate::handed::Handed;
use crate::keys::SignerKeys;
use crate::session::{Made, OperateError, Session};

impl<D: Desk> Session<D> {
    pub async fn nodes(&mut self) -> Result<Vec<NodeView>, OperateError> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let Answer::Nodes { nodes, next } = self.ask(Call::Nodes { after }).await? else {
                return Err(DeskError::OtherAnswer.into());
            };
            all.extend(nodes);
            match next {
                // Only forward, however the gateway counts.
                Some(next) if after.is_none_or(|after| next > after) => after = Some(next),
                _ => break,
            }
        }
        all.sort_by(|a, b| (&a.name, a.enrolled_at).cmp(&(&b.name, b.enrolled_at)));
        Ok(all)
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

    /// What the ledger, folded here, says of the machine that a gateway shows: its claim, and how it stands. The gateway's
    /// word for which key a name has, or that it was let in at all, is not enough to sign anything about it.
    pub(crate) async fn by_ledger(&mut self, node: &NodeView) -> Result<(Claim, Standing), OperateError> {
        if let Some(found) = found(&*self.folded().await?, node) {
            return Ok(found);
        }
        // It may have joined since.
        self.look_again().await?;
        let not_as_told = || OperateError::NotAsTold { what: "node", name: node.name.to_string() };
        found(&*self.folded().await?, node).ok_or_else(not_as_told)
    }

    /// The same, of one that is not gone yet.
    pub(crate) async fn alive_by_ledger(&mut self, node: &NodeView) -> Result<Claim, OperateError> {
        match self.by_ledger(node).await? {
            (_, Standing::Revoked) => Err(OperateError::Unwise(format!("`{}` is already revoked", node.name))),
            (claim, Standing::Claimed | Standing::Waiting | Standing::Issued | Standing::Member) => Ok(claim),
        }
    }

    pub async fn revoke_node(&mut self, keys: &SignerKeys, node: &NodeView) -> Result<Made<u64>, OperateError> {
        self.check_revocable(node)?;
        self.alive_by_ledger(node).await?;
        let node_key = node.node_key.digest();
        self.publish(keys, |session, now| {
            let cause = Cause::NodeRevoke { name: node.name.clone(), node_key };
            let wish = Wish { revoke_keys: vec![node_key], ..Wish::default() };
            let head = session.next_head_with(now, cause, (&wish, None), |_| {})?;
            let version = head.version;
            Ok((Handed::of(session.seal(&head)?), version))
        })
        .await
    }
}

/// A machine by its key and its name, if no other has the name.
fn found(state: &State, node: &NodeView) -> Option<(Claim, Standing)> {
    let member = state.member(&node.node_key).filter(|member| member.claim().name == node.name)?;
    let holder = state.holder(&node.name).map(|holder| holder.claim().node_key);
    let is_it = holder.is_none_or(|holder| holder == node.node_key);
    is_it.then(|| (member.claim().clone(), state.standing(member)))
}
