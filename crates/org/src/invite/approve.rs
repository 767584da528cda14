//! Approval of a machine (device approval): a person's yes or no to one claim, and the waiver that says yes beforehand.

use identity::envelope::Payload;
use identity::id::Digest;
use identity::principal::NodeName;
use identity::principal::glob::NameGlob;
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

    pub(crate) fn lasts_at(&self, at: Timestamp) -> bool {
        self.from <= at && at < self.until
    }

    /// While it lasts.
    pub(crate) fn lets_in(&self, invite: &Invite, name: &NodeName) -> bool {
        invite.kind.is_proven()
            && self.until.since(self.from) <= Self::LONGEST
            && self.names.iter().any(|glob| glob.matches(name.as_str()))
    }
}
