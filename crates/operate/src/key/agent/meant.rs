//! What an agent signs: an object of the key's own org, or an operator's call. It is no oracle for other bytes.

use identity::envelope::Addressed;
use identity::id::OrgId;
use serde::{Deserialize, Serialize};
use wire::control::SignedCall;

/// What the asker says that it wants signed; the bytes must bear it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Purpose {
    Envelope,
    Call,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotMeant {
    #[error("an agent signs objects of its org and operators' calls, and nothing else")]
    OtherBytes,
    #[error("this object belongs to another org than the key")]
    OtherOrg,
}

impl Purpose {
    /// What the bytes are for, if an agent may sign such bytes at all.
    pub(crate) fn of(message: &[u8]) -> Option<Self> {
        if SignedCall::is_message(message) {
            return Some(Self::Call);
        }
        Addressed::read(message).map(|_| Self::Envelope)
    }

    /// Whether a key of `org` may sign these bytes for this purpose.
    pub(crate) fn check(self, org: OrgId, message: &[u8]) -> Result<(), NotMeant> {
        match self {
            Self::Call if SignedCall::is_message(message) => Ok(()),
            Self::Call => Err(NotMeant::OtherBytes),
            Self::Envelope => match Addressed::read(message) {
                None => Err(NotMeant::OtherBytes),
                Some(meant) if meant.org == Some(org) => Ok(()),
                Some(_) => Err(NotMeant::OtherOrg),
            },
        }
    }
}

#[cfg(test)]
mod tests;
