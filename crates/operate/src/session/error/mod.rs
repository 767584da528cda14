//! Why an operator's command is refused: what failed, with what, and whose doing it is.

pub(crate) mod trust;
pub(crate) mod unwise;

use ground::random::NoRandomness;
use identity::envelope::BadEnvelope;
use identity::id::Digest;
use org::ledger::draft::NotDrafted;
use trust::TrustError;
use unwise::Unwise;
use wire::known::BadKnowledge;

use crate::folder::FolderError;
use crate::key::KeyError;
use crate::pending::BadPending;
use crate::replica::ReplicaError;
use crate::session::desk::DeskError;
use crate::session::timely::ClockDoubt;

/// What an operator's command comes to.
pub type Result<T, E = OperateError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    #[error(transparent)]
    Desk(#[from] DeskError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("what the gateway says of the org does not hold")]
    Knowledge(#[from] BadKnowledge),
    #[error(
        "the gateway's ledger is older than what was seen before: it was restored from an old copy, or it hides something"
    )]
    LedgerBehind,
    #[error("{}: it was restored from an old copy, or it hides something", .0.join("; "))]
    NotBrought(Vec<String>),
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error("there is no {what} `{name}`")]
    NoSuch { what: &'static str, name: String },
    #[error("the gateway's word about the {what} `{name}` is not what was signed: nothing was done")]
    NotAsTold { what: &'static str, name: String },
    #[error(transparent)]
    NotDrafted(#[from] NotDrafted),
    #[error("the gateway said that it took the change, but its ledger does not show it")]
    NotTaken,
    #[error(transparent)]
    Clock(#[from] ClockDoubt),
    #[error(transparent)]
    Unwise(#[from] Unwise),
    #[error("the gateway does not have {what} {digest}")]
    NotKept { what: &'static str, digest: Digest },
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    #[error(transparent)]
    Pending(#[from] BadPending),
    #[error("{} needs {needed} signatures and has {found}", with_article(what))]
    TooFew { what: String, needed: usize, found: usize },
}

/// What is said to be somebody's is definite already.
fn with_article(what: &str) -> String {
    if what.starts_with("its ") { what.to_owned() } else { format!("the {what}") }
}

impl OperateError {
    pub(crate) fn no_such(what: &'static str, name: &(impl ToString + ?Sized)) -> Self {
        Self::NoSuch { what, name: name.to_string() }
    }
}

/// Each on a line of its own, below what they are about.
pub(crate) fn lines<T: ToString>(all: &[T]) -> String {
    all.iter().flat_map(|one| ["\n    ".to_owned(), one.to_string()]).collect()
}

/// Names as people read them.
pub(crate) fn quoted<T: std::fmt::Display>(names: &[T]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
