//! A caller that belongs: an SVID that the verifier believes, and an admission of the same node key and name.
//!
//! Neither is enough. A stolen issuing key can make an SVID for any name, bound by any node key; only the admission
//! says which name that node key has.

pub mod peer;

use identity::id::Digest;
use identity::members::NodeLeaf;
use identity::principal::{NodeName, Principal, PrincipalKind};
use identity::verifier::BelievedSvid;

use crate::enroll::renew;
use crate::ledger::judge::NotMember;
use crate::refusal::Refusal;
use crate::state::{MemberRecord, State};

/// Built only by `recognize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    svid: BelievedSvid,
}

impl Member {
    /// The two halves must speak of one node, and the operators must still want it.
    pub fn recognize(state: &State, svid: BelievedSvid) -> Result<Self, Refusal> {
        let record = renew::member_behind(state, &svid.node_key, &svid.node)?;
        renew::check_standing(state, record)?;
        Ok(Self { svid })
    }

    pub const fn principal(&self) -> &Principal {
        &self.svid.principal
    }

    pub const fn node(&self) -> &NodeName {
        &self.svid.node
    }

    pub const fn node_key(&self) -> identity::key::PublicKey {
        self.svid.node_key
    }

    /// Speaks for the node itself, not for a user or service on it.
    pub fn is_the_node(&self) -> bool {
        self.svid.principal.kind() == PrincipalKind::Node
    }
}

impl State {
    /// Has this machine what the operators say of its name, and of its class, as the judge said when it was let in?
    pub fn is_meant(&self, name: &NodeName, node_key: Digest) -> bool {
        let counting = self.judged.fold.members.get(name).filter(|it| it.key == node_key);
        counting.is_some_and(|it| it.member.is_meant())
    }

    /// What the operators' map has against a machine that the ledger knows: a name that stands there has that key.
    pub fn contradiction(&self, member: &MemberRecord, leaf: Option<&NodeLeaf>) -> Option<NotMember> {
        let (name, key) = (&member.claim().name, member.claim().node_key.digest());
        let other = |published: Digest| (published != key && !self.is_gone(published)).then_some(published);
        match leaf {
            // A machine whose first reply was lost may have two admissions; operators published one of them.
            Some(leaf) if leaf.node_key == key => {
                (!member.was_given(leaf.admission)).then_some(NotMember::OtherAdmission)
            }
            Some(leaf) if other(leaf.node_key).is_some() => {
                let (name, published, presented) = (name.clone(), leaf.node_key, key);
                Some(NotMember::NameOfAnother { name, published, presented })
            }
            Some(_) | None => {
                let holder = self.holder(name).and_then(|holder| other(holder.claim().node_key.digest()));
                holder.map(|pinned| NotMember::PinnedToAnother { name: name.clone(), pinned, presented: key })
            }
        }
    }
}
