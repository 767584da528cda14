//! The claim that a joiner signs, the proof on the connection (channel binding), and the word of a machine that leaves.

use std::collections::BTreeSet;

use identity::certificate::binding::Binding;
use identity::envelope::Payload;
use identity::id::{Digest, InviteId};
use identity::key::{BadKey, PublicKey, Sign};
use identity::principal::host::HostName;
use identity::principal::label::Label;
use identity::principal::{Name, NodeName};
use identity::text::{BadText, Bytes, base64, from_base64};
use identity::text_form;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::invite::{Invite, InviteKind};

/// What a joiner says of itself; stable across reconnects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub authority: ClaimAuthority,
    pub node_key: PublicKey,
    pub seal_key: SealKey,
    pub name: NodeName,
    pub labels: BTreeSet<Label>,
    pub roles: BTreeSet<Name>,
    /// The full host name that it claims, where the invite asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostName>,
    /// The node key that this one takes the place of. That key signs the claim, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<PublicKey>,
    /// Until when the signers' word lets it in, if nothing else does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Payload for Claim {
    const KIND: &'static str = "claim";
    const SCHEMA: u32 = 1;
}

/// What entitles to the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimAuthority {
    Invite(InviteId),
    /// The threshold of signers over this very claim: the founder.
    Signers,
    /// A pattern that fits: low assurance.
    Pattern,
}

impl ClaimAuthority {
    pub const fn invite(self) -> Option<InviteId> {
        match self {
            Self::Invite(id) => Some(id),
            Self::Signers | Self::Pattern => None,
        }
    }
}

/// An X25519 public key, to which manifests are sealed; written in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealKey(pub [u8; 32]);

impl std::fmt::Display for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&base64(&self.0))
    }
}

impl std::str::FromStr for SealKey {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = BadText { form: "seal key (32 bytes in base64)" };
        from_base64(text).map_err(|_| bad)?.try_into().map(Self).map_err(|_| bad)
    }
}

text_form!(SealKey);

/// What both keys sign on one connection; discarded afterwards.
#[derive(Debug, Clone, Copy)]
pub struct Transcript {
    pub challenge: [u8; 32],
    pub nonce: [u8; 32],
    pub subject: Digest,
    pub request: Digest,
    pub binding: Digest,
    pub exporter: [u8; 32],
}

/// Why the transcript is signed: a proof for one purpose is worth nothing for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Enroll,
    Return,
}

impl Transcript {
    pub fn new(
        challenge: [u8; 32],
        nonce: [u8; 32],
        subject: Digest,
        request: &[u8],
        binding: &Binding,
        exporter: [u8; 32],
    ) -> Self {
        Self { challenge, nonce, subject, request: Digest::of(request), binding: binding.digest(), exporter }
    }

    fn message(&self, purpose: Purpose) -> Vec<u8> {
        let label: &[u8] = match purpose {
            Purpose::Enroll => b"freehold enroll transcript v1\0",
            Purpose::Return => b"freehold return transcript v1\0",
        };
        let parts: [&[u8]; 7] =
            [label, &self.challenge, &self.nonce, &self.subject.0, &self.request.0, &self.binding.0, &self.exporter];
        parts.concat()
    }

    pub fn sign(&self, purpose: Purpose, key: &dyn Sign) -> Result<Bytes, BadKey> {
        key.sign(&self.message(purpose)).map(Bytes)
    }

    pub fn is_signed(&self, purpose: Purpose, key: PublicKey, signature: &Bytes) -> bool {
        key.verify(&self.message(purpose), &signature.0).is_ok()
    }
}

impl Claim {
    /// Whoever must have signed it, under this invite.
    pub fn keys(&self, invite: &Invite) -> Vec<PublicKey> {
        std::iter::once(self.node_key).chain(invite.second_key()).chain(self.replaces).collect()
    }

    /// Let in on a host name and an address, which can be forged: never an operator's, a gateway's or a provider's machine.
    pub const fn is_low(&self) -> bool {
        matches!(self.authority, ClaimAuthority::Pattern)
    }
}

impl Invite {
    /// Is it the invite of this claim?
    pub fn is_named_by(&self, claim: &Claim) -> bool {
        match claim.authority {
            ClaimAuthority::Invite(id) => id == self.id && self.kind.is_proven(),
            ClaimAuthority::Pattern => self.kind == InviteKind::Pattern,
            ClaimAuthority::Signers => false,
        }
    }
}

/// What a machine tells of itself, for a person who must decide; signed by its node key. Nothing of it is proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Digest of the claim's envelope.
    pub claim: Digest,
    pub hostname: String,
    pub os: String,
    pub arch: String,
    pub agent: String,
    /// More, by name: the machine's model, its kernel.
    pub more: std::collections::BTreeMap<String, String>,
}

impl Facts {
    const LONGEST: usize = 200;
    const MOST: usize = 16;

    /// Short, and nothing that steers a terminal.
    pub fn is_plain(&self) -> bool {
        let plain = |text: &String| text.chars().count() <= Self::LONGEST && !text.chars().any(char::is_control);
        let own = [&self.hostname, &self.os, &self.arch, &self.agent];
        self.more.len() <= Self::MOST && own.into_iter().chain(self.more.keys()).chain(self.more.values()).all(plain)
    }
}

impl Payload for Facts {
    const KIND: &'static str = "facts";
    const SCHEMA: u32 = 1;
}

/// A node's own word that it leaves; signed by its node key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leave {
    pub node_key: PublicKey,
    pub at: Timestamp,
}

impl Payload for Leave {
    const KIND: &'static str = "leave";
    const SCHEMA: u32 = 1;
}
