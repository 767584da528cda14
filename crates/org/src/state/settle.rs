//! What will be so once all who claim one place have signed one set together: by this its first head is drafted and weighed.

use std::collections::btree_map::Entry;

use identity::signers::SignerSet;

use crate::ledger::counts::NotCounted;
use crate::ledger::fold::Why;
use crate::ledger::ground::settled_ground;
use crate::ledger::judge::{Membership, NotMember};
use crate::ledger::signers::{InForce, Signers};
use crate::state::{Judged, State};

impl State {
    /// Nothing if nobody contests who signs here. The members' maps of the sets' heads must be here before.
    pub fn settled_by_all(&self, set: &SignerSet) -> Option<Self> {
        let Signers::Frozen(frozen) = &self.judged.signers else { return None };
        let mut state = self.clone();
        let ground = settled_ground(self.org, frozen, set, &self.replica.heads, &self.replica.sets());
        let stands_in = ground.head.as_ref().map(|record| record.digest);
        let signers = Signers::InForce(InForce::alone(set.clone(), stands_in));
        let fold = self.replica.fold(&ground);
        state.judged = Judged::by(&self.replica, self.judged.as_of, signers, ground, fold);
        state.take_over(self);
        Some(state)
    }

    /// Whom the last set had let in, and who only lacks signatures of this one, stays: as with any change of signers.
    fn take_over(&mut self, before: &Self) {
        for (name, it) in before.judged.fold.members.iter().filter(|(_, it)| it.member != Membership::Listed) {
            let unsigned =
                self.judged.fold.waiting.get(&it.admission).is_some_and(|waiting| lacks_signatures(&waiting.why));
            if let (true, Entry::Vacant(free)) = (unsigned, self.judged.fold.members.entry(name.clone())) {
                free.insert(it.clone());
                self.judged.fold.waiting.remove(&it.admission);
            }
        }
    }
}

const fn lacks_signatures(why: &Why) -> bool {
    matches!(
        why,
        Why::Judged(
            NotMember::Invite(NotCounted::NotSigned { .. })
                | NotMember::Word(NotCounted::NotSigned { .. })
                | NotMember::NotApproved
        )
    )
}
