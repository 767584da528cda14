//! A machine whose admission waits: for whom, and what it is told; and whether a member is what operators mean it to be.

use identity::id::Digest;
use identity::principal::NodeName;

use super::{MemberRecord, State};
use crate::ledger::fold::Why;
use crate::ledger::judge::NotMember;
use crate::refusal::Refusal;

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
