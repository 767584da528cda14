//! Why a file of a scope, or of the gateway beside it, says nothing.

use identity::certificate::BadCertificate;
use identity::principal::NodeName;
use org::invite::code::BadCode;

#[derive(Debug, thiserror::Error)]
pub enum Unsound {
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("{0}")]
    Certificate(#[from] BadCertificate),
    #[error("{0}")]
    Code(#[from] BadCode),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("a newer program wrote it")]
    Newer,
    #[error("not 32 bytes")]
    NotAKey,
    #[error("it is not the number of the last SVID")]
    NotACount,
    #[error("empty")]
    Empty,
    #[error("it is missing")]
    Missing,
    #[error("no certificate is of the key beside it")]
    OtherKey,
    #[error("`{0}` has no scope")]
    NoScope(NodeName),
    #[error("no join has finished here")]
    Unfinished,
}
