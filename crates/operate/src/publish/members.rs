//! Who is a member, checked anew before it is published: a gateway's word is not enough.

use std::collections::BTreeMap;

use identity::envelope::Envelope;
use identity::id::{Digest, OrgId};
use identity::principal::{NodeName, Principal};
use manifest::compile::MemberKnown;
use org::admission::{Admission, Claim, Leave};
use org::entry::{Action, SignedEntry};
use org::state::Standing;
use wire::control::NodeView;

use super::published::Published;
use crate::desk::Desk;
use crate::distrust::Distrust;
use crate::replica::ReplicaError;
use crate::session::{OperateError, Session};

/// A member whose admission holds, or which stands unchanged in the map that was signed last.
#[derive(Debug, Clone)]
pub struct Member {
    pub known: MemberKnown,
    /// It showed nothing but a host name and an address.
    pub low: bool,
    /// As the gateway tells it.
    pub view: NodeView,
}

impl<D: Desk> Session<D> {
    /// Every member, in the order of names. `told` hears how many admissions are checked, of how many.
    pub async fn members(
        &mut self,
        published: Option<&Published>,
        mut told: impl FnMut(usize, usize),
    ) -> Result<Vec<Member>, OperateError> {
        let nodes = self.nodes().await?;
        let mut named: BTreeMap<NodeName, Vec<NodeView>> = BTreeMap::new();
        for node in nodes.into_iter().filter(|node| self.is_live(node)) {
            named.entry(node.name.clone()).or_default().push(node);
        }
        let known: BTreeMap<&NodeName, (Digest, Digest)> = published
            .into_iter()
            .flat_map(Published::nodes)
            .map(|leaf| (&leaf.name, (leaf.node_key, leaf.admission)))
            .collect();
        let (mut members, mut fresh, mut doubts) = (Vec::new(), Vec::new(), Vec::new());
        for (name, mut views) in named {
            if let [first, second, ..] = views.as_slice() {
                let (first, second) = (first.node_key.to_string(), second.node_key.to_string());
                doubts.push(Distrust::TwoKeys { name, first, second });
            } else if let Some(view) = views.pop() {
                let (key, was) = (view.node_key.digest(), known.get(&name).copied());
                if was == Some((key, view.admission)) {
                    members.push(Member { known: known_as(&view, view.admission), low: view.low, view });
                } else {
                    fresh.push((view, was.map(|(old, _)| old).filter(|old| *old != key)));
                }
            }
        }
        let all = fresh.len();
        for (nth, (view, replaced)) in fresh.into_iter().enumerate() {
            told(nth + 1, all);
            match self.check_fresh(view, replaced).await? {
                Ok(member) => members.push(member),
                Err(doubt) => doubts.push(doubt),
            }
        }
        if !doubts.is_empty() {
            return Err(OperateError::Distrusted(doubts));
        }
        members.sort_by(|a, b| a.known.name.cmp(&b.known.name));
        Ok(members)
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

    /// One that is new, or was published with another key or admission.
    async fn check_fresh(
        &mut self,
        view: NodeView,
        replaced: Option<Digest>,
    ) -> Result<Result<Member, Distrust>, OperateError> {
        let (name, shown) = (view.name.clone(), view.node_key.digest());
        if let Some(published) = replaced
            && !self.known.head.head.revocations.node_keys.contains(&published)
            && !self.has_left(published).await?
        {
            let key = view.node_key.to_string();
            return Ok(Err(Distrust::OtherKey { name, published, shown, key }));
        }
        match self.check_admission(&view).await {
            Ok(admitted) => {
                Ok(Ok(Member { known: known_as(&view, admitted.digest), low: admitted.claim.is_low(), view }))
            }
            Err(OperateError::NotAsTold { .. }) => Ok(Err(Distrust::NotAdmitted { name, node_key: shown })),
            Err(why) => Err(why),
        }
    }

    /// Whether the machine with this key said itself that it leaves, or that another key takes its place; the ledger has
    /// its word.
    pub(super) async fn has_left(&mut self, node_key: Digest) -> Result<bool, OperateError> {
        let org = Some(self.known.org());
        let is_its_word = |entry: &SignedEntry| {
            if let Action::NodeAdmit { admission } = &entry.entry.action {
                return hands_on(admission, org, node_key);
            }
            let Action::NodeLeave { leave, .. } = &entry.entry.action else {
                return false;
            };
            let Ok(named) = leave.peek::<Leave>(org) else {
                return false;
            };
            named.node_key.digest() == node_key && leave.open_signed_by::<Leave>(org, &[named.node_key]).is_ok()
        };
        let entries = self.ledger().await?;
        Ok(entries.iter().any(is_its_word))
    }

    /// The whole ledger, as this home has it.
    pub(crate) async fn ledger(&mut self) -> Result<Vec<SignedEntry>, OperateError> {
        let entries = self.replica().await?.ledger.all_entries().map_err(ReplicaError::from)?;
        let org = self.known.org();
        Ok(entries.into_iter().filter_map(|entry| SignedEntry::open(org, entry).ok()).collect())
    }
}

/// Does the key sign in this admission that another takes its place?
fn hands_on(admission: &Envelope, org: Option<OrgId>, node_key: Digest) -> bool {
    let Ok(admission) = admission.peek::<Admission>(org) else {
        return false;
    };
    let old = admission.claim.peek::<Claim>(org).ok().and_then(|claim| claim.replaces);
    old.is_some_and(|old| old.digest() == node_key && admission.claim.open_signed_by::<Claim>(org, &[old]).is_ok())
}

fn known_as(view: &NodeView, admission: Digest) -> MemberKnown {
    MemberKnown { name: view.name.clone(), node_key: view.node_key.digest(), admission }
}
