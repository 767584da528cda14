//! Which of the two domains is meant, and what a turn of its roots made so.

use clap::ValueEnum;
use identity::bundle::Domain;
use identity::head::Grace;
use identity::id::Fingerprint;
use operate::session::Made;
use operate::trust::step::StepOutcome;
use serde::Serialize;
use terminal::failure::Failure;
use wire::known::Known;

use crate::home::Common;
use crate::waiting::{self, Left, leave};

/// The domains, as they are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DomainWord {
    /// Who may be our HTTPS gateway
    Endpoint,
    /// Who may be a member
    Identity,
}

impl DomainWord {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Identity => "identity",
        }
    }
}

impl From<DomainWord> for Domain {
    fn from(word: DomainWord) -> Self {
        match word {
            DomainWord::Endpoint => Self::Endpoint,
            DomainWord::Identity => Self::Identity,
        }
    }
}

/// A turn as data.
#[derive(Debug, Serialize)]
pub struct TurnTold {
    pub domain: &'static str,
    pub trust_bundle_version: u64,
    pub replaces_version: Option<u64>,
    pub reverts: Option<u64>,
    pub sha256_fingerprint: Fingerprint,
    pub grace: Option<Grace>,
    pub head: u64,
    #[serde(flatten)]
    pub pending: Left,
}

impl TurnTold {
    /// What a turn made, or what it left for the others to sign.
    pub fn of(common: &Common, known: &Known, made: &Made<StepOutcome>, doing: &str) -> Result<Self, Failure> {
        let turned = &made.what;
        Ok(Self {
            domain: turned.domain.word(),
            trust_bundle_version: turned.version,
            replaces_version: turned.replaces,
            reverts: turned.reverts,
            sha256_fingerprint: turned.roots,
            grace: turned.grace,
            head: turned.head,
            pending: leave(common, doing, known, made)?,
        })
    }

    /// What is true now, or who has to sign.
    pub fn in_words(&self, done: impl FnOnce() -> String) -> String {
        waiting::told(self.pending.waiting(), done)
    }
}
