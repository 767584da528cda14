//! Why a certificate is not believed: one reason per layer, with the facts of both sides.

use std::fmt;

use crate::bundle::{Domain, NamedRoot};
use crate::id::{Digest, KeyId, Serial};
use crate::principal::{NodeName, Principal};
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    #[error("the certificate cannot be read")]
    Malformed,
    #[error("the gateway's certificate does not lead to a root that is trusted here: {0}")]
    UnknownEndpointRoot(Box<Unrooted>),
    #[error("the SVID does not lead to a root that is trusted here: {0}")]
    UnknownIdentityRoot(Box<Unrooted>),
    #[error("the certificate is not made by an issuing key directly below the root")]
    NotByAnIssuer,
    #[error("the {} expired at {until}, and here it is {now}", of.word())]
    Expired { of: Of, until: Timestamp, now: Timestamp },
    #[error("the {} is valid only from {from}, and here it is {now}", of.word())]
    NotYetValid { of: Of, from: Timestamp, now: Timestamp },
    #[error("the certificate is not for `{dialed}`{}", but_for(names))]
    WrongName { dialed: String, names: Vec<String> },
    #[error("the certificate must have exactly one name, a SPIFFE id of this org")]
    NotOnePrincipal,
    #[error("no mandate in the head names the issuing key {0}")]
    UnmandatedIssuer(Box<Unmandated>),
    #[error("the mandate of `{0}` does not cover this")]
    BeyondMandate(NodeName),
    #[error("the mandate of {0}")]
    MandateNotActive(Box<Inactive>),
    #[error("the certificate of `{0}` carries no binding by a node key")]
    NoBinding(Box<Principal>),
    #[error("the certificate's binding does not hold")]
    BadBinding,
    #[error("it was revoked: head {head} or an earlier one names {what}")]
    Revoked { what: Box<Named>, head: u64 },
    #[error("the certificate is not fit for this use")]
    WrongUsage,
}

impl Untrusted {
    /// It leads to no root that is trusted here: either side may have missed a rotation.
    pub const fn is_unknown_root(&self) -> bool {
        matches!(self, Self::UnknownEndpointRoot(_) | Self::UnknownIdentityRoot(_))
    }

    /// The moment at which its time begins or ends, if time is what is wrong: one of two clocks may be.
    pub const fn moment(&self) -> Option<Timestamp> {
        match self {
            Self::Expired { until: at, .. } | Self::NotYetValid { from: at, .. } => Some(*at),
            _ => None,
        }
    }

    pub(crate) fn unknown_root(domain: Domain, unrooted: Unrooted) -> Self {
        match domain {
            Domain::Endpoint => Self::UnknownEndpointRoot(Box::new(unrooted)),
            Domain::Identity => Self::UnknownIdentityRoot(Box::new(unrooted)),
        }
    }

    /// Says to which roots it does lead, for whoever knows more than those that are trusted.
    #[must_use]
    pub fn leading_to(mut self, roots: Vec<NamedRoot>) -> Self {
        if let Self::UnknownEndpointRoot(unrooted) | Self::UnknownIdentityRoot(unrooted) = &mut self
            && !roots.is_empty()
        {
            unrooted.shown = roots;
        }
        self
    }
}

/// Whose time it is that is over, or has not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    Endpoint,
    Svid,
    /// The certificate of the issuing key.
    Issuer,
}

impl Of {
    pub(crate) const fn leaf(domain: Domain) -> Self {
        match domain {
            Domain::Endpoint => Self::Endpoint,
            Domain::Identity => Self::Svid,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Endpoint => "gateway's certificate",
            Self::Svid => "SVID",
            Self::Issuer => "certificate of its issuing key",
        }
    }
}

/// A chain that leads to no trusted root: what it has, and what would have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrooted {
    /// The roots that it brings along, or that it is known to lead to.
    pub shown: Vec<NamedRoot>,
    /// The issuing keys in it.
    pub issuers: Vec<KeyId>,
    pub trusted: Vec<NamedRoot>,
}

impl fmt::Display for Unrooted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shown.is_empty() {
            write!(f, "it is by the issuing key {}", list(&self.issuers, "(none)"))?;
        } else {
            write!(f, "it leads to root {}", list(&self.shown, ""))?;
        }
        write!(f, "; trusted here: {}", list(&self.trusted, "none"))
    }
}

/// An issuing key without a mandate, and those that have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmandated {
    pub issuer: KeyId,
    pub domain: Domain,
    pub head: u64,
    pub mandated: Vec<(NodeName, KeyId)>,
}

impl fmt::Display for Unmandated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> = self.mandated.iter().map(|(gateway, key)| format!("{key} of `{gateway}`")).collect();
        let (issuer, head, domain) = (self.issuer, self.head, self.domain.word());
        write!(f, "{issuer}; for `{domain}` head {head} names {}", list(&each, "none"))
    }
}

/// A mandate at another time than its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inactive {
    pub gateway: NodeName,
    pub from: Timestamp,
    pub until: Timestamp,
    pub now: Timestamp,
}

impl fmt::Display for Inactive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gateway, from, until, now } = self;
        write!(f, "`{gateway}` is not in force: it is from {from} until {until}, and here it is {now}")
    }
}

/// What a revocation names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    NodeKey(Digest),
    IssuingKey(KeyId),
    Serial(Serial),
    Principal(Principal),
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeKey(key) => write!(f, "the node key {key}"),
            Self::IssuingKey(key) => write!(f, "the issuing key {key}"),
            Self::Serial(serial) => write!(f, "the serial {serial}"),
            Self::Principal(principal) => write!(f, "`{principal}`"),
        }
    }
}

/// As many as a person reads.
const MOST: usize = 8;

fn list(all: &[impl fmt::Display], none: &str) -> String {
    if all.is_empty() {
        return none.to_owned();
    }
    let mut words: Vec<String> = all.iter().take(MOST).map(ToString::to_string).collect();
    if all.len() > MOST {
        words.push(format!("and {} more", all.len() - MOST));
    }
    words.join(", ")
}

fn but_for(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!(", but for {}", list(&quoted, "no name"))
}
