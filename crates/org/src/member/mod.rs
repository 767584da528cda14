//! A caller that belongs: an SVID that the verifier believes, and an admission of the same node key and name.
//!
//! Neither is enough. A stolen issuing key can make an SVID for any name, bound by any node key; only the admission
//! says which name that node key has.

pub mod peer;

use identity::id::Digest;
use identity::principal::{NodeName, Principal, PrincipalKind};
use identity::verifier::BelievedSvid;

use crate::enroll::renew;
use crate::ledger::fold::Why;
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

    /// Two keys use the name of a machine that waits: a person must look.
    pub fn alarm<'m>(&self, member: &'m MemberRecord) -> Option<&'m NotMember> {
        let Some(Why::Judged(why)) = &member.why else { return None };
        Some(why).filter(|why| why.is_alarm() && !self.is_heir(member))
    }

    /// What a machine is told that waits.
    pub fn waits(&self, member: &MemberRecord) -> Refusal {
        let name = &member.claim().name;
        if self.is_heir(member) { Refusal::ChangesHands { name: name.clone() } } else { Refusal::Waiting }
    }

    /// It waits for the next head alone.
    fn is_heir(&self, member: &MemberRecord) -> bool {
        let (name, key) = (&member.claim().name, member.claim().node_key.digest());
        self.judged.fold.handed.get(name).is_some_and(|heir| heir.key == key)
    }
}
