//! Approval of a machine (device approval): a person's yes or no to one claim, and the waiver that says yes beforehand.

use identity::envelope::Payload;
use identity::head::RECENT;
use identity::id::Digest;
use identity::principal::NodeName;
use identity::principal::glob::NameGlob;
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

use crate::invite::Invite;

/// What a signer says of one claim. It says no more, and its end is no closer than a day, so that two signers' words are the
/// same bytes, and add up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Digest of the claim's envelope, or of an admission that waits; recomputed where the signer's key is.
    pub about: Digest,
    pub verdict: Verdict,
    /// A word without an end counts for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
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

impl Decision {
    /// The longest that a yes waits for its machine: a week, to the end of a day.
    pub const LONGEST_YES: Seconds = Seconds::DAY.times(8);

    /// For whoever says it today, the same.
    pub fn yes(about: Digest, invite: &Invite, now: Timestamp) -> Self {
        let today = Timestamp::from_unix(now.unix() - now.unix().rem_euclid(Seconds::DAY.0.cast_signed()));
        let until = (today + Self::LONGEST_YES).min(invite.expires_at);
        Self { about, verdict: Verdict::Approve, until: Some(until) }
    }

    /// As long as what ends then could let a machine in by any head of this span.
    pub fn no(about: Digest, ends: Timestamp, span: Seconds) -> Self {
        Self { about, verdict: Verdict::Deny, until: Some(ends + span + RECENT) }
    }

    /// May another signer say it, too, instead of a word of its own?
    pub fn is_yes_to(&self, about: Digest, now: Timestamp) -> bool {
        let lasts = self.until.is_some_and(|until| now < until && until <= now + Self::LONGEST_YES);
        lasts && self.about == about && self.verdict == Verdict::Approve
    }
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
