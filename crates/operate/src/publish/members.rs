//! Who is a member, by the entries, before it is published: a gateway's word is not enough.

use std::collections::{BTreeMap, BTreeSet};

use identity::id::Digest;
use identity::principal::{NodeName, Principal};
use manifest::compile::MemberKnown;
use org::entry::SignedEntry;
use org::state::{Standing, State};
use wire::control::NodeView;

use super::published::Published;
use crate::desk::Desk;
use crate::distrust::Distrust;
use crate::replica::ReplicaError;
use crate::session::{OperateError, Session};

/// A member by the ledger, as it was folded here.
#[derive(Debug, Clone)]
pub struct Member {
    pub known: MemberKnown,
    /// It showed nothing but a host name and an address.
    pub low: bool,
    /// As the gateway tells it: when it was seen, what was issued to it.
    pub view: NodeView,
}

/// A join may fall between two looks: so often both are made again before it is a lie.
const LOOKS: usize = 20;

impl<D: Desk> Session<D> {
    /// Every member, in the order of names. Who is one, and how each stands, is what the entries say; what the gateway
    /// shows must be the same. `told` hears how many entries are folded, of how many.
    pub async fn members(
        &mut self,
        published: Option<&Published>,
        mut told: impl FnMut(usize, usize),
    ) -> Result<Vec<Member>, OperateError> {
        for _ in 0..LOOKS {
            let before = self.survey.frontier.clone();
            let nodes = self.nodes().await?;
            let state = self.folded().await?;
            told(state.members.len(), state.members.len());
            let doubts = differences(&state, &nodes);
            if doubts.is_empty() {
                return self.members_by(&state, nodes, published);
            }
            self.look_again().await?;
            if self.survey.frontier == before {
                return Err(OperateError::Distrusted(doubts));
            }
        }
        Err(OperateError::Unwise("the ledger does not stand still: do it again when fewer machines join".to_owned()))
    }

    fn members_by(
        &self,
        state: &State,
        nodes: Vec<NodeView>,
        published: Option<&Published>,
    ) -> Result<Vec<Member>, OperateError> {
        let leaves = published.into_iter().flat_map(Published::nodes);
        let published: BTreeMap<&NodeName, Digest> = leaves.map(|leaf| (&leaf.name, leaf.node_key)).collect();
        let mut named: BTreeMap<NodeName, Member> = BTreeMap::new();
        let mut doubts = Vec::new();
        // Whether an SVID was made is the gateway's word, and makes nobody less of a member.
        for view in nodes {
            let Some(member) = state.member(&view.node_key) else { continue };
            if !self.is_live(&NodeView { state: state.standing(member), ..view.clone() }) {
                continue;
            }
            let (claim, admission, key) = (member.claim(), member.admission.digest, view.node_key.digest());
            let name = claim.name.clone();
            let replaced = published.get(&name).copied().filter(|old| *old != key && !self.is_over(state, *old));
            if let Some(published) = replaced {
                let (name, key, shown) = (name.clone(), view.node_key.to_string(), key);
                doubts.push(Distrust::OtherKey { name, published, shown, key });
            }
            let known = MemberKnown { name: name.clone(), node_key: key, admission };
            let second = view.node_key.to_string();
            if let Some(first) = named.insert(name.clone(), Member { known, low: claim.is_low(), view }) {
                doubts.push(Distrust::TwoKeys { name, first: first.view.node_key.to_string(), second });
            }
        }
        if doubts.is_empty() { Ok(named.into_values().collect()) } else { Err(OperateError::Distrusted(doubts)) }
    }

    /// Was it revoked by a signed head, or has it said itself that it leaves, or that another key takes its place?
    fn is_over(&self, state: &State, node_key: Digest) -> bool {
        self.known.head.head.revocations.node_keys.contains(&node_key) || has_left(state, node_key)
    }

    /// Members as the gateway tells them, for questions in which its word is enough.
    pub async fn members_told(&mut self) -> Result<Vec<(NodeName, Digest)>, OperateError> {
        let nodes = self.nodes().await?;
        let live = nodes.into_iter().filter(|node| self.is_live(node));
        Ok(live.map(|node| (node.name, node.node_key.digest())).collect())
    }

    pub(crate) fn is_live(&self, node: &NodeView) -> bool {
        let stands = match node.state {
            Standing::Member | Standing::Issued => true,
            Standing::Claimed | Standing::Waiting | Standing::Revoked => false,
        };
        let revoked = &self.known.head.head.revocations;
        let principal = Principal::node(&self.known.founding.record.name, &node.name);
        stands && !revoked.node_keys.contains(&node.node_key.digest()) && !revoked.principals.contains(&principal)
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

/// Where what a gateway shows is not what the entries say, either way round. Whoever waits on both sides, or is unknown to one and
/// waits at the other, gets no place: a stolen voice can leave such entries where not everybody has them.
fn differences(state: &State, nodes: &[NodeView]) -> Vec<Distrust> {
    let mut doubts: Vec<Distrust> = nodes.iter().filter_map(|node| doubt(state, node)).collect();
    let shown: BTreeSet<Digest> = nodes.iter().map(|node| node.node_key.digest()).collect();
    let hidden = state.members.iter().filter(|(key, _)| !shown.contains(key));
    let hidden = hidden.filter(|(_, member)| state.standing(member) != Standing::Waiting);
    doubts.extend(hidden.map(|(key, member)| Distrust::Hidden {
        name: member.claim().name.clone(),
        node_key: *key,
        folded: state.standing(member).word(),
    }));
    doubts
}

fn doubt(state: &State, node: &NodeView) -> Option<Distrust> {
    let (name, node_key, shown) = (node.name.clone(), node.node_key.digest(), node.state);
    let Some(member) = state.member(&node.node_key) else {
        return (shown != Standing::Waiting).then(|| Distrust::Unknown { name, node_key, shown: shown.word() });
    };
    if (shown, state.standing(member)) == (Standing::Waiting, Standing::Waiting) {
        return None;
    }
    let (claim, admission) = (member.claim(), member.admission.digest);
    if claim.name != name || admission != node.admission {
        return Some(Distrust::OtherPapers { name, node_key, folded: claim.name.clone(), admission });
    }
    let folded = state.standing(member);
    // Only the gateway knows whether it has made an SVID already.
    let same = folded == shown || (folded, shown) == (Standing::Issued, Standing::Claimed);
    (!same).then(|| Distrust::OtherStanding { name, node_key, shown: shown.word(), folded: folded.word() })
}
