//! What signers said of claims: yes, no, or that nobody need look.

use identity::envelope::{Envelope, Payload as _};
use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::approve::{Approved, Verdict, Waiver};
use crate::invite::Invite;
use crate::ledger::counts::counts;
use crate::state::State;

impl State {
    /// Did a signer of the set in force say no to this claim, or to this waiver?
    pub fn is_denied(&self, about: Digest) -> bool {
        self.denied.contains(&about)
    }

    /// Those that nobody has ended.
    pub fn open_waivers(&self) -> impl Iterator<Item = &Envelope> {
        self.waivers.iter().filter(|(digest, _)| !self.is_denied(**digest)).map(|(_, waiver)| waiver)
    }

    /// The yes that lets this claim in now, if there is one. Only today's signers count.
    pub fn approval_of(&self, invite: &Invite, claim: Digest, name: &NodeName, at: Timestamp) -> Option<&Envelope> {
        let said = self.decisions.get(&claim).and_then(|words| words.get(&Verdict::Approve));
        let signers = self.signer_set();
        // A waiver needs the threshold of those in force, whatever the invite asks for.
        let stands =
            |envelope: &Envelope| envelope.kind() != Waiver::KIND || counts::<Waiver>(envelope, &self.ground).is_ok();
        let holds = |envelope: &&Envelope| {
            Approved::check(envelope, (invite, claim), name, at, signers).is_some() && stands(envelope)
        };
        said.into_iter().chain(self.open_waivers()).find(holds)
    }
}
