//! What was taken back (a CRL): a line for each thing, for ever or until nothing can let it in again.

use serde::{Deserialize, Serialize};

use crate::head::lines::Lines;
use crate::head::marks::KeyLines;
use crate::id::{InviteId, KeyId, Serial};
use crate::key::PublicKey;
use crate::principal::Principal;
use crate::time::Timestamp;

/// Everything that was taken back. Remove wins: what two heads say together is what either says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocations {
    pub node_keys: KeyLines,
    pub issuing_keys: Lines<KeyId>,
    pub serials: Lines<Serial>,
    pub principals: Lines<Principal>,
    pub invites: Lines<InviteId>,
    /// Voices of gateways that were closed: none ever returns.
    #[serde(default, skip_serializing_if = "Lines::is_empty")]
    pub voices: Lines<PublicKey>,
}

impl Revocations {
    pub fn includes(&self, older: &Self) -> bool {
        self.node_keys.includes(&older.node_keys)
            && self.issuing_keys.includes(&older.issuing_keys)
            && self.serials.includes(&older.serials)
            && self.principals.includes(&older.principals)
            && self.invites.includes(&older.invites)
            && self.voices.includes(&older.voices)
    }

    /// Says all that `older` says, but for what was over when it was made.
    pub fn keeps(&self, older: &Self, made_at: Timestamp) -> bool {
        self.node_keys.keeps(&older.node_keys, made_at)
            && self.issuing_keys.keeps(&older.issuing_keys, made_at)
            && self.serials.keeps(&older.serials, made_at)
            && self.principals.keeps(&older.principals, made_at)
            && self.invites.keeps(&older.invites, made_at)
            && self.voices.keeps(&older.voices, made_at)
    }

    /// Takes back all that `other` takes back, whatever the ends.
    pub fn names_all_of(&self, other: &Self) -> bool {
        other.node_keys.beyond(&self.node_keys).next().is_none()
            && other.issuing_keys.beyond(&self.issuing_keys).next().is_none()
            && other.serials.beyond(&self.serials).next().is_none()
            && other.principals.beyond(&self.principals).next().is_none()
            && other.invites.beyond(&self.invites).next().is_none()
            && other.voices.beyond(&self.voices).next().is_none()
    }

    /// Lines that `older` does not have, or not as long.
    #[must_use]
    pub fn beyond(&self, older: &Self) -> Self {
        Self {
            node_keys: self.node_keys.not_in(&older.node_keys),
            issuing_keys: self.issuing_keys.not_in(&older.issuing_keys),
            serials: self.serials.not_in(&older.serials),
            principals: self.principals.not_in(&older.principals),
            invites: self.invites.not_in(&older.invites),
            voices: self.voices.not_in(&older.voices),
        }
    }

    pub fn absorb(&mut self, other: &Self) {
        self.node_keys.absorb(&other.node_keys);
        self.issuing_keys.absorb(&other.issuing_keys);
        self.serials.absorb(&other.serials);
        self.principals.absorb(&other.principals);
        self.invites.absorb(&other.invites);
        self.voices.absorb(&other.voices);
    }

    pub fn invite_is_revoked(&self, invite: InviteId) -> bool {
        self.invites.contains(&invite)
    }
}
