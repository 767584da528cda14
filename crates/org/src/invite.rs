//! An invite: an operator-signed permission to join, with its bounds.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use identity::envelope::Payload;
use identity::id::InviteId;
use identity::key::PublicKey;
use identity::label::Label;
use identity::principal::{Name, NodeName};
use identity::text::BadText;
use identity::text_form;
use identity::time::Timestamp;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::admission::Claim;
use crate::refusal::{Ceiling, Refusal};
use identity::glob::NameGlob;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invite {
    pub id: InviteId,
    /// For people: "rack 3", "Ann's laptop".
    pub label: String,
    /// Version of the signer set that signs it.
    pub signers: u64,
    pub key: PublicKey,
    /// Uses are rights handed to named gateways, so that no merged state is over-spent.
    pub rights: Vec<Right>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub names: Vec<NameGlob>,
    /// Empty: from anywhere.
    pub networks: Vec<IpNet>,
    /// What a joiner may take at most.
    pub labels: BTreeSet<Label>,
    pub roles: BTreeSet<Name>,
    pub approval: Approval,
}

impl Payload for Invite {
    const KIND: &'static str = "invite";
    const SCHEMA: u32 = 1;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Right {
    pub gateway: NodeName,
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

/// Whether a person must say yes. Kinds that need one are refused as unknown until there is a way to say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    None,
}

impl Invite {
    pub fn right_of(&self, gateway: &NodeName) -> Option<Uses> {
        self.rights.iter().find(|right| right.gateway == *gateway).map(|right| right.uses)
    }

    /// All uses together, for people.
    pub fn uses(&self) -> Uses {
        self.rights.iter().fold(Uses::Limited(0), |sum, right| match (sum, right.uses) {
            (Uses::Limited(a), Uses::Limited(b)) => Uses::Limited(a.saturating_add(b)),
            _ => Uses::Unlimited,
        })
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
}
