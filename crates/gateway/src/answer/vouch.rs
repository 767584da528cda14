//! A member's name must be its own by the published map, too. If not: refused, and an alarm.

use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::time::Timestamp;
use ledger::store::Alarm;
use org::ledger::judge::NotMember;
use org::refusal::Refusal;
use org::state::{MemberRecord, State};

use crate::gateway::Gateway;

impl Gateway {
    /// What the map has against a machine that the ledger knows.
    pub fn doubt(&self, state: &State, member: &MemberRecord) -> Option<NotMember> {
        // A map that cannot be read was shouted about already; the ledger speaks for members meanwhile.
        let published = self.shelf.now()?;
        state.contradiction(member, published.leaf(&member.claim().name))
    }

    /// Why it waits, if operators published its name for another key. An heir waits for the next head alone.
    pub fn contradicted(&self, state: &State, member: &MemberRecord) -> Option<NotMember> {
        let (key, name) = (member.claim().node_key.digest(), &member.claim().name);
        let heir = state.judged.fold.handed.get(name).is_some_and(|heir| heir.key == key);
        self.doubt(state, member).filter(|doubt| doubt.is_alarm() && !heir)
    }

    /// Refuses, and has operators look at it if two keys use one name.
    pub fn shout(&self, key: PublicKey, name: &NodeName, doubt: &NotMember, now: Timestamp) -> Refusal {
        let node_key = key.digest();
        if doubt.is_alarm() && !self.is_alarmed(node_key) {
            tracing::error!(%node_key, "{doubt}. Look: freehold node list; end one: freehold node replace {name}");
            let alarm = Alarm::own(doubt.to_string(), None);
            // Nobody waits for it: the machine is refused whether or not the disk takes the alarm.
            drop(self.writer.submit(move |tx| tx.raise_alarm(node_key, now, &alarm)));
        }
        if doubt.is_alarm() { Refusal::NameOfAnother { name: name.clone() } } else { Refusal::NotAdmitted }
    }
}
