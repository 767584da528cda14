//! A member's name must be its own by the published map, too. If not: refused, and an alarm.

use ground::clock;
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::time::Timestamp;
use identity::verifier::BelievedSvid;
use org::refusal::Refusal;
use org::state::{MemberRecord, State};
use org::vouch::{Ground, Papers, Shown, Sponsor, Unvouched, has_name, vouch};

use crate::answer::gateway::Gateway;
use crate::store::ledger::Alarm;

impl Gateway {
    /// What the map has against a machine that the ledger knows.
    pub fn doubt(&self, state: &State, member: &MemberRecord, svid: Option<&BelievedSvid>) -> Option<Unvouched> {
        // A map that cannot be read was shouted about already; the ledger speaks for members meanwhile.
        let published = self.shelf.now()?;
        let head = &state.head()?.head;
        let (name, key) = (&member.claim().name, member.claim().node_key.digest());
        let shown = published.shown(name);
        // A machine whose first reply was lost may have two admissions; operators published one of them.
        let given = match &shown {
            Shown::Leaf(leaf) if member.was_given(leaf.admission) => leaf.admission,
            Shown::Leaf(_) | Shown::NoLeaf | Shown::NoMap => member.admission.digest,
        };
        let pinned = state.holder(name).map(|holder| holder.claim().node_key.digest());
        let papers = Papers { name, node_key: key, admission: given, sponsor: Sponsor::Ledger };
        let left = |key| state.is_gone(key);
        let ground = Ground { head, listed_in: head.version, pinned, left: &left, now: clock::now() };
        let vouched = match svid {
            Some(svid) => vouch(svid, papers, &shown, ground),
            None => has_name(papers, &shown, ground),
        };
        vouched.err()
    }

    /// Refuses, and has operators look at it if two keys use one name.
    pub fn shout(&self, key: PublicKey, name: &NodeName, doubt: &Unvouched, now: Timestamp) -> Refusal {
        let node_key = key.digest();
        if doubt.is_alarm() && !self.is_alarmed(node_key) {
            tracing::error!(%node_key, "{doubt}. Look: freehold node list; end one: freehold node replace {name}");
            let alarm = Alarm::own(doubt.to_string(), None);
            // Nobody waits for it: the machine is refused whether or not the disk takes the alarm.
            drop(self.writer.submit(move |desk| desk.raise_alarm(node_key, now, &alarm)));
        }
        match doubt {
            Unvouched::Revoked => Refusal::KeyRevoked,
            Unvouched::NameOfAnother { .. } | Unvouched::PinnedToAnother { .. } => {
                Refusal::NameOfAnother { name: name.clone() }
            }
            Unvouched::OtherPapers
            | Unvouched::OtherAdmission
            | Unvouched::TooOld { .. }
            | Unvouched::FromLater { .. }
            | Unvouched::NotShown
            | Unvouched::Outdated
            | Unvouched::InviteRevoked
            | Unvouched::NoMandate(_) => Refusal::NotAdmitted,
        }
    }
}
