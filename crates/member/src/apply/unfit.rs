//! What was found of something new that does not do (a failed health check), as data and in words.

use std::collections::BTreeMap;
use std::fmt;

use identity::principal::{HostPort, Name};
use identity::time::Seconds;

/// Why something new is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unfit {
    /// Each declared check that failed; without a name if it did not come so far.
    Checks(BTreeMap<Option<Name>, BadProbe>),
    /// Why others do not find this node.
    Unreached(String),
    /// What calling a gateway by new roots came to.
    Roots(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checks(failed) => {
                for (at, (name, why)) in failed.iter().enumerate() {
                    let between = if at == 0 { "" } else { "; " };
                    let name = name.as_ref().map_or_else(|| "?".to_owned(), Name::to_string);
                    write!(f, "{between}`{name}`: {why}")?;
                }
                Ok(())
            }
            Self::Unreached(why) | Self::Roots(why) => f.write_str(why),
        }
    }
}

/// Why one check failed. What the system says of it is kept in its words, since nothing more is done with it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(crate) enum BadProbe {
    #[error("no answer within {0}")]
    Late(Seconds),
    #[error("cannot connect to {at}: {why}")]
    NotConnected { at: HostPort, why: String },
    #[error("http://{at}{path}: {why}")]
    NoPage { at: HostPort, path: String, why: String },
    #[error("http://{at}{path}: answered {found} instead of {wanted}")]
    OtherStatus { at: HostPort, path: String, found: u16, wanted: u16 },
    #[error("no program is named")]
    NoProgram,
    #[error("`{program}` cannot be started: {why}")]
    NotStarted { program: String, why: String },
    #[error("`{program}`: {why}")]
    NotEnded { program: String, why: String },
    #[error("`{program}` ended with {status}{}", said.as_ref().map(|said| format!(": {said}")).unwrap_or_default())]
    Ended { program: String, status: String, said: Option<String> },
    /// The check itself broke.
    #[error("{0}")]
    Broken(String),
}

/// What a trial still waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    Gateway,
    Checks(Unfit),
    /// They have not ended yet.
    ChecksRun,
    Operator,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway => f.write_str("a connection to a gateway under the new state"),
            Self::Checks(why) => write!(f, "the checks: {why}"),
            Self::ChecksRun => f.write_str("the checks, which have not ended yet"),
            Self::Operator => f.write_str("an operator's word (freehold confirm)"),
        }
    }
}
