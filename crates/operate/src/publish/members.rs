//! Who is a member, by the entries, before it is published: a gateway's word is not enough.

use std::collections::BTreeMap;

use identity::id::Digest;
use identity::principal::{NodeName, Principal};
use ledger::views::NodeView;
use manifest::compile::MemberKnown;
use org::ledger::entry::SignedEntry;
use org::state::State;

use crate::replica::ReplicaError;
use crate::replica::published::Published;
use crate::session::desk::Desk;
use crate::session::error::distrust::Distrust;
use crate::session::{OperateError, Session};

/// A member by the ledger, as it was folded here.
#[derive(Debug, Clone)]
pub struct Member {
    pub known: MemberKnown,
    pub view: NodeView,
}

impl<D: Desk> Session<D> {
    /// Every member, in the order of names, by the entries alone. `told` hears how many entries are folded, of how many.
    pub async fn members(
        &mut self,
        published: Option<&Published>,
        mut told: impl FnMut(usize, usize),
    ) -> Result<Vec<Member>, OperateError> {
        let state = self.folded().await?;
        told(state.members.len(), state.members.len());
        let nodes = self.nodes().await?;
        let leaves = published.into_iter().flat_map(Published::nodes);
        let published: BTreeMap<&NodeName, Digest> = leaves.map(|leaf| (&leaf.name, leaf.node_key)).collect();
        let mut named: BTreeMap<NodeName, Member> = BTreeMap::new();
        let mut doubts = Vec::new();
        for view in nodes.into_iter().filter(|view| self.is_live(view)) {
            let (name, key, second) = (view.name.clone(), view.node_key.digest(), view.node_key.to_string());
            let replaced = published.get(&name).copied().filter(|old| *old != key && !self.is_over(&state, *old));
            if let Some(published) = replaced {
                doubts.push(Distrust::OtherKey { name: name.clone(), published, shown: key, key: second.clone() });
            }
            let known = MemberKnown { name: name.clone(), node_key: key, admission: view.admission };
            if let Some(first) = named.insert(name.clone(), Member { known, view }) {
                doubts.push(Distrust::TwoKeys { name, first: first.view.node_key.to_string(), second });
            }
        }
        if doubts.is_empty() { Ok(named.into_values().collect()) } else { Err(OperateError::Distrusted(doubts)) }
    }

    /// Was it revoked by a signed head, or has it said itself that it leaves, or that another key takes its place?
    fn is_over(&self, state: &State, node_key: Digest) -> bool {
        self.known.head.head.revocations.node_keys.contains(&node_key) || has_left(state, node_key)
    }

    /// Every member's name and key, for who only looks.
    pub async fn members_here(&mut self) -> Result<Vec<(NodeName, Digest)>, OperateError> {
        let nodes = self.nodes().await?;
        let live = nodes.into_iter().filter(|node| self.is_live(node));
        Ok(live.map(|node| (node.name, node.node_key.digest())).collect())
    }

    pub(crate) fn is_live(&self, node: &NodeView) -> bool {
        let revoked = &self.known.head.head.revocations;
        let principal = Principal::node(&self.known.founding.record.name, &node.name);
        node.state.is_live()
            && !revoked.node_keys.contains(&node.node_key.digest())
            && !revoked.principals.contains(&principal)
    }

    /// Every entry, as this home has it.
    pub(crate) async fn ledger(&mut self) -> Result<Vec<SignedEntry>, OperateError> {
        Ok(Box::pin(self.replica()).await?.ledger.all_entries().map_err(ReplicaError::from)?)
    }
}

/// Whether the machine with this key said itself that it leaves, or that another key takes its place.
pub(super) fn has_left(state: &State, node_key: Digest) -> bool {
    state.members.get(&node_key).is_some_and(|member| member.left)
}
