//! A machine whose admission waits: what it is told, and the alarm if its name is another key's.

use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::time::Timestamp;
use ledger::store::Alarm;
use org::ledger::judge::NotMember;
use org::refusal::Refusal;
use org::state::{MemberRecord, State};

use crate::gateway::Gateway;

pub(crate) fn waits(gateway: &Gateway, state: &State, member: &MemberRecord, now: Timestamp) -> Refusal {
    let (key, name) = (member.claim().node_key, &member.claim().name);
    state.alarm(member).map_or_else(|| state.waits(member), |why| shout(gateway, key, name, why, now))
}

/// Two keys use one name: this one is refused, and operators look at it.
pub(crate) fn shout(gateway: &Gateway, key: PublicKey, name: &NodeName, why: &NotMember, now: Timestamp) -> Refusal {
    let node_key = key.digest();
    if !gateway.is_alarmed(node_key) {
        tracing::error!(%node_key, "{why}. Look: freehold node list; end one: freehold node replace {name}");
        let alarm = Alarm::own(why.to_string(), None);
        // Nobody waits for it: the machine is refused whether or not the disk takes the alarm.
        drop(gateway.writer.submit(move |tx| tx.raise_alarm(node_key, now, &alarm)));
    }
    Refusal::NameOfAnother { name: name.clone() }
}
