//! Approval of a machine: a person's yes or no to one claim, and the waiver that says yes beforehand.

use identity::envelope::{Envelope, Payload};
use identity::id::Digest;
use identity::principal::NodeName;
use identity::principal::glob::NameGlob;
use identity::signers::SignerSet;
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

use crate::invite::Invite;

/// What a signer says of one claim. It says no more, so that two signers' words are the same bytes, and add up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Digest of the claim's envelope, or of an admission that waits; recomputed where the signer's key is.
    pub about: Digest,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Approve,
    Deny,
}

impl Payload for Decision {
    const KIND: &'static str = "decision";
    const SCHEMA: u32 = 1;
}

/// Nobody need look at machines of these names, if what they show holds. It gives nothing to a claimed host name alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiver {
    pub names: Vec<NameGlob>,
    pub from: Timestamp,
    pub until: Timestamp,
}

impl Payload for Waiver {
    const KIND: &'static str = "waiver";
    const SCHEMA: u32 = 1;
}

impl Waiver {
    /// The longest that nobody looks.
    pub const LONGEST: Seconds = Seconds::DAY.times(31);

    fn covers(&self, invite: &Invite, name: &NodeName, at: Timestamp) -> bool {
        self.from <= at && at < self.until && self.lets_in(invite, name)
    }

    /// While it lasts.
    pub(crate) fn lets_in(&self, invite: &Invite, name: &NodeName) -> bool {
        invite.kind.is_proven()
            && self.until.since(self.from) <= Self::LONGEST
            && self.names.iter().any(|glob| glob.matches(name.as_str()))
    }
}

/// That enough signers said yes. Built only by `check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approved {
    /// To this very claim.
    Claim,
    /// To such names, beforehand.
    Name,
}

impl Approved {
    /// As many signers of the set as the invite asks for must have signed.
    pub fn check(
        envelope: &Envelope,
        invite: &Invite,
        claim: Digest,
        name: &NodeName,
        at: Timestamp,
        signers: &SignerSet,
    ) -> Option<Self> {
        let org = Some(signers.org);
        // Whom it is about comes first: waivers that are over stay in the ledger, and signatures cost more than words.
        let said = match envelope.kind() {
            Decision::KIND => {
                let decision: Decision = envelope.peek(org).ok()?;
                (decision.about == claim && decision.verdict == Verdict::Approve).then_some(Self::Claim)
            }
            Waiver::KIND => envelope.peek::<Waiver>(org).ok()?.covers(invite, name, at).then_some(Self::Name),
            _ => None,
        };
        said.filter(|_| voices(envelope, signers) >= usize::from(invite.approvers.max(1)))
    }
}

/// How many signers of the set have signed.
pub fn voices(envelope: &Envelope, set: &SignerSet) -> usize {
    envelope.signers_among(&set.quorum.keys()).len()
}
