//! What in a ledger's file is not as it was written there.

use std::fmt;
use std::path::PathBuf;

use identity::envelope::BadEnvelope;
use identity::id::Digest;
use org::founding::BadFounding;

#[derive(Debug, thiserror::Error)]
pub enum Damage {
    #[error("`{}` is missing", .0.display())]
    Missing(PathBuf),
    #[error("`{}` has no tables", .0.display())]
    NoTables(PathBuf),
    #[error("`{}`: {why}", path.display())]
    NotCreated { path: PathBuf, why: std::io::Error },
    #[error("it is another org's")]
    AnotherOrgs,
    /// In SQLite's words.
    #[error("{0}")]
    Structure(String),
    #[error("{0}")]
    Founding(BadFounding),
    #[error("{0}")]
    Envelope(BadEnvelope),
    #[error("{0}")]
    Json(serde_json::Error),
    #[error("{part}: {why}")]
    In { part: Part, why: Box<Self> },
    #[error("it is filed under another place than its own")]
    Misfiled,
    #[error("the entry {0} is another")]
    AnotherEntry(Digest),
    #[error("a head that was written is missing")]
    NoHead,
    #[error("what was published as {0} is something else")]
    AnotherObject(Digest),
    #[error("the members' map {root} is no change of {}", base.map_or_else(|| "another".to_owned(), |base| base.to_string()))]
    NoChange { root: Digest, base: Option<Digest> },
    #[error("the members' map {0} leads to itself")]
    Circle(Digest),
    #[error("what the members' map {0} differs in cannot be read")]
    Difference(Digest),
    #[error("a leaf of a members' map has no digest")]
    Leaf,
    #[error("a claim that waits: its {0}")]
    Claim(&'static str),
    #[error("a note of an SVID is about nobody")]
    Note,
    #[error("a row of `reuses` cannot be read")]
    Reuse,
    #[error("a first sight is of nothing")]
    Sight,
    #[error("an alarm is about something that is no node key")]
    Alarm,
    #[error("when it was set back is no time")]
    SetBack,
}

/// In which row the damage is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Entry(i64),
    Claim,
    Inbox,
    Mark(&'static str),
    /// Of this principal.
    Issuance(String),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(id) => write!(f, "entry {id}"),
            Self::Claim => f.write_str("a claim"),
            Self::Inbox => f.write_str("what waits for signatures"),
            Self::Mark(name) => write!(f, "the mark `{name}`"),
            Self::Issuance(key) => write!(f, "the issuance of `{key}`"),
        }
    }
}

impl Part {
    pub(crate) fn is(self, why: impl Into<Damage>) -> Damage {
        Damage::In { part: self, why: Box::new(why.into()) }
    }
}

impl From<serde_json::Error> for Damage {
    fn from(why: serde_json::Error) -> Self {
        Self::Json(why)
    }
}

impl From<BadEnvelope> for Damage {
    fn from(why: BadEnvelope) -> Self {
        Self::Envelope(why)
    }
}
