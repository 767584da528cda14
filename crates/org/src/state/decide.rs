//! What signers said of claims: yes, no, or that nobody need look.

use std::collections::BTreeSet;

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::invite::Invite;
use crate::invite::approve::{Decision, Waiver};
use crate::ledger::counts::{NotCounted, counts};
use crate::ledger::judge::approved;
use crate::state::{InviteRecord, State};

impl State {
    /// Did a signer of the set in force say no to this claim, or to this waiver?
    pub fn is_denied(&self, about: Digest) -> bool {
        self.judged.denied.contains(&about)
    }

    /// The names of those who signed it, of all who ever signed for this org.
    pub fn signers_of_object(&self, object: &Envelope) -> Vec<String> {
        let signers: Vec<_> = self.signer_sets().flat_map(|set| set.quorum.signers()).collect();
        let keys = object.signers_among(&signers.iter().map(|signer| signer.key).collect());
        let names = signers.iter().filter(|signer| keys.contains(&signer.key)).map(|signer| signer.name.to_string());
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Every invite by which somebody may still come in: what their lines name must be kept.
    pub fn open_invites(&self, now: Timestamp) -> impl Iterator<Item = &InviteRecord> {
        self.invites.values().filter(move |record| self.is_open(record, now))
    }

    /// Is it neither over, nor used up, nor taken back? Whether it counts is another question.
    pub fn is_open(&self, record: &InviteRecord, now: Timestamp) -> bool {
        // Who spends more than its own right takes nothing from another's.
        let left = record.open_rights().any(|right| record.uses_left(&right.gateway) != Some(0));
        left && now < record.invite.expires_at && !self.revoked().invite_is_revoked(record.invite.id)
    }

    /// Have not enough of the signers in force signed it?
    pub fn is_outdated(&self, record: &InviteRecord) -> bool {
        matches!(counts::<Invite>(&record.envelope, &self.judged.ground), Err(NotCounted::NotSigned { .. }))
    }

    /// Those that nobody has ended.
    pub fn open_waivers(&self) -> impl Iterator<Item = &Envelope> {
        self.objects.waivers.iter().filter(|(digest, _)| !self.is_denied(**digest)).map(|(_, waiver)| waiver)
    }

    /// What today's signers said who said yes to this claim, while it lasts: the words that most of them signed first.
    pub fn yes_to(&self, claim: Digest, at: Timestamp) -> impl Iterator<Item = &Envelope> {
        let lasts = move |said: &&Envelope| {
            said.peek(Some(self.org)).is_ok_and(|word: Decision| word.until.is_some_and(|until| at < until))
        };
        self.objects.approvals.get(&claim).into_iter().flatten().filter(lasts)
    }

    /// The yes that lets this claim in now, if there is one.
    pub fn approval_of(&self, invite: &Invite, claim: Digest, name: &NodeName, at: Timestamp) -> Option<&Envelope> {
        // As with an invite's end, whoever is asked goes by its own clock, too.
        let lasts = |waiver: &&Envelope| waiver.peek(Some(self.org)).is_ok_and(|waiver: Waiver| waiver.lasts_at(at));
        let mut all = self.yes_to(claim, at).chain(self.open_waivers().filter(lasts));
        all.find(|approval| approved(approval, claim, name, invite, &self.judged.ground).is_ok())
    }
}
