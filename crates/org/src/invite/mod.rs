//! An invite (join token, auth key): an operator-signed permission to join, with its bounds.

pub mod admission;
pub mod approve;
pub mod words;
pub mod code;
pub mod carried;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use identity::envelope::Payload;
use identity::id::{Digest, Fingerprint, InviteId};
use identity::key::PublicKey;
use identity::principal::glob::NameGlob;
use identity::principal::host::{HostGlob, HostName};
use identity::principal::label::Label;
use identity::principal::{Name, NodeName};
use identity::text::BadText;
use identity::text_form;
use identity::time::Timestamp;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::invite::admission::Claim;
use crate::refusal::{Ceiling, Refusal};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invite {
    pub id: InviteId,
    /// For people: "rack 3", "Ann's laptop".
    pub label: String,
    /// Version of the signer set that signs it.
    pub signers: u64,
    #[serde(default, skip_serializing_if = "InviteKind::is_token")]
    pub kind: InviteKind,
    /// What proves it. Absent exactly for a pattern, which nothing proves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PublicKey>,
    /// Uses are rights handed to named gateways, so that no merged state is over-spent.
    pub rights: Vec<Right>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub names: Vec<NameGlob>,
    /// Full host names that a joiner may claim; empty: it need not tell any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostGlob>,
    /// Empty: from anywhere.
    pub networks: Vec<IpNet>,
    /// What a joiner may take at most.
    pub labels: BTreeSet<Label>,
    pub roles: BTreeSet<Name>,
    pub approval: Approval,
    /// How many signers must say yes, if a person must.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub approvers: u8,
    /// What its line downloads: gateways keep these files while it lives.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub files: BTreeSet<Digest>,
    /// The endpoint root that its code pins; absent: the founders'. Retired, it takes the invite with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Fingerprint>,
}

const fn one() -> u8 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
const fn is_one(n: &u8) -> bool {
    *n == 1
}

impl Payload for Invite {
    const KIND: &'static str = "invite";
    const SCHEMA: u32 = 1;
}

/// What a joiner shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InviteKind {
    /// The secret of a code: the key is derived from it.
    #[default]
    Token,
    /// An Ed25519 key in a file, to be baked into an image.
    Key,
    /// Nothing but a host name and an address, and both can be forged: of low assurance for ever.
    Pattern,
    /// An Ed25519 key in an encrypted file, good once: to endorse a key that the machine made.
    Bundle,
    /// The machine's own node key, which the signers have seen before.
    Machine,
}

impl InviteKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
    const fn is_token(&self) -> bool {
        matches!(self, Self::Token)
    }

    pub const fn word(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Key => "key",
            Self::Pattern => "pattern",
            Self::Bundle => "bundle",
            Self::Machine => "machine",
        }
    }

    /// Does a key prove it? A claimed host name proves nothing.
    pub const fn is_proven(self) -> bool {
        match self {
            Self::Token | Self::Key | Self::Bundle | Self::Machine => true,
            Self::Pattern => false,
        }
    }
}

impl fmt::Display for InviteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Right {
    pub gateway: NodeName,
    /// The chain in which its uses are spent: a gateway that begins a new one has the rights that are signed anew.
    pub voice: PublicKey,
    pub uses: Uses,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uses {
    Limited(u32),
    Unlimited,
}

impl fmt::Display for Uses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited(n) => write!(f, "{n}"),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

impl FromStr for Uses {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        match (text, text.parse()) {
            ("unlimited", _) => Ok(Self::Unlimited),
            (_, Ok(n @ 1..)) => Ok(Self::Limited(n)),
            _ => Err(BadText { form: "number of uses (1 or more, or `unlimited`)" }),
        }
    }
}

text_form!(Uses);

/// Whether a person must say yes. A touch of a security key is refused as unknown until there is a way to give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    None,
    /// As many signers as `approvers` says approve the very claim.
    Human,
}

/// How the invite of a standing pattern is labeled, before its name.
pub const PATTERN: &str = "fleet pattern ";

impl Invite {
    /// The standing pattern of the fleet that it was made for. Nobody was ever handed its code.
    pub fn pattern(&self) -> Option<Name> {
        self.label.strip_prefix(PATTERN).filter(|_| self.kind == InviteKind::Pattern)?.parse().ok()
    }

    /// What may be spent in the chain of this voice.
    pub fn right_of(&self, voice: PublicKey) -> Option<Uses> {
        self.rights.iter().find(|right| right.voice == voice).map(|right| right.uses)
    }

    /// All uses together, for people.
    pub fn uses(&self) -> Uses {
        self.rights.iter().fold(Uses::Limited(0), |sum, right| match (sum, right.uses) {
            (Uses::Limited(a), Uses::Limited(b)) => Uses::Limited(a.saturating_add(b)),
            _ => Uses::Unlimited,
        })
    }

    /// Kind and key must fit each other: an invite that breaks this is none.
    pub const fn is_well_formed(&self) -> bool {
        let key = match (self.kind, self.key) {
            (InviteKind::Token | InviteKind::Key | InviteKind::Bundle, Some(PublicKey::Ed25519(_)))
            | (InviteKind::Machine, Some(PublicKey::P256(_)))
            | (InviteKind::Pattern, None) => true,
            (
                InviteKind::Token | InviteKind::Key | InviteKind::Bundle | InviteKind::Machine | InviteKind::Pattern,
                _,
            ) => false,
        };
        key && self.approvers > 0
    }

    /// Besides the node key, this one must sign claim and transcript.
    pub const fn second_key(&self) -> Option<PublicKey> {
        match self.kind {
            InviteKind::Token | InviteKind::Key | InviteKind::Bundle => self.key,
            InviteKind::Pattern | InviteKind::Machine => None,
        }
    }

    pub fn check_time(&self, now: Timestamp) -> Result<(), Refusal> {
        if now >= self.expires_at { Err(Refusal::InviteExpired { at: self.expires_at }) } else { Ok(()) }
    }

    pub fn check_network(&self, source: IpAddr) -> Result<(), Refusal> {
        // An IPv4 client on a dual-stack socket is still an IPv4 client.
        let source = source.to_canonical();
        if self.networks.is_empty() || self.networks.iter().any(|network| network.contains(&source)) {
            Ok(())
        } else {
            Err(Refusal::NetworkNotAllowed)
        }
    }

    /// Does it speak of such names, and not just of any?
    pub fn lists(&self, name: &NodeName) -> bool {
        self.names.iter().any(|glob| !glob.is_any() && glob.matches(name.as_str()))
    }

    /// Name and ceilings: the claim stays within what the operators signed.
    pub fn check_claim(&self, claim: &Claim) -> Result<(), Refusal> {
        if self.kind == InviteKind::Machine && self.key != Some(claim.node_key) {
            return Err(Refusal::OtherMachine);
        }
        self.check_host(claim)?;
        if !self.names.iter().any(|glob| glob.matches(claim.name.as_str())) {
            let allowed = self.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(Refusal::NameNotAllowed { name: claim.name.clone(), allowed });
        }
        if let Some(label) = claim.labels.difference(&self.labels).next() {
            return Err(Refusal::BeyondCeiling { what: Ceiling::Label, value: label.to_string() });
        }
        if let Some(role) = claim.roles.difference(&self.roles).next() {
            return Err(Refusal::BeyondCeiling { what: Ceiling::Role, value: role.to_string() });
        }
        Ok(())
    }

    /// The name that a machine takes is the first part of the host name that it claims.
    fn check_host(&self, claim: &Claim) -> Result<(), Refusal> {
        if self.hosts.is_empty() {
            return Ok(());
        }
        let host = claim.host.as_ref();
        let fits = |host: &HostName| {
            let named = NodeName::of_host(host.as_str()).is_ok_and(|name| name == claim.name);
            named && self.hosts.iter().any(|glob| glob.matches(host))
        };
        if host.is_some_and(fits) {
            return Ok(());
        }
        let allowed = self.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(Refusal::HostNotAllowed { host: host.map(ToString::to_string).unwrap_or_default(), allowed })
    }
}
