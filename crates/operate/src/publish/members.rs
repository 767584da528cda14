//! Who is a member, by the entries, before it is published: a gateway's word is not enough.

use std::collections::BTreeMap;

use identity::id::Digest;
use identity::principal::NodeName;
use ledger::views::NodeView;
use manifest::compile::MemberKnown;
use org::state::State;

use crate::node;
use crate::replica::published::PublishedMap;
use crate::session::error::Distrust;
use crate::session::{OperateError, Result, Session};

/// A member by the ledger, as it was folded here.
#[derive(Debug, Clone)]
pub struct Member {
    pub known: MemberKnown,
    pub view: NodeView,
}

/// Every member, in the order of names, by the entries alone. `told` hears how many entries are folded, of how many.
pub(super) async fn all(
    session: &mut Session,
    published: Option<&PublishedMap>,
    mut told: impl FnMut(usize, usize),
) -> Result<Vec<Member>> {
    let state = session.folded().await?;
    told(state.members.len(), state.members.len());
    let leaves = published.into_iter().flat_map(PublishedMap::nodes);
    let published: BTreeMap<&NodeName, Digest> = leaves.map(|leaf| (&leaf.name, leaf.node_key)).collect();
    let mut named: BTreeMap<NodeName, Member> = BTreeMap::new();
    let mut doubts = Vec::new();
    for view in node::members(session).await? {
        let (name, key, second) = (view.name.clone(), view.node_key.digest(), view.node_key.to_string());
        let revoked = |old: &Digest| session.known.head.head.revocations.node_keys.contains(old);
        let is_over = |old: &Digest| revoked(old) || has_left(&state, *old);
        if let Some(published) = published.get(&name).copied().filter(|old| *old != key && !is_over(old)) {
            doubts.push(Distrust::OtherKey { name: name.clone(), published, shown: key, key: second.clone() });
        }
        let known = MemberKnown { name: name.clone(), node_key: key, admission: view.admission };
        if let Some(first) = named.insert(name.clone(), Member { known, view }) {
            doubts.push(Distrust::TwoKeys { name, first: first.view.node_key.to_string(), second });
        }
    }
    if doubts.is_empty() { Ok(named.into_values().collect()) } else { Err(OperateError::Distrusted(doubts)) }
}

/// Whether the machine with this key said itself that it leaves, or that another key takes its place.
pub(super) fn has_left(state: &State, node_key: Digest) -> bool {
    state.members.get(&node_key).is_some_and(|member| member.left)
}
