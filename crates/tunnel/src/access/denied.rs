//! Why a stream was not opened, or was cut: for the log, for counters, and for the other side.

use identity::principal::SignerName;
use identity::time::Timestamp;
use org::member::peer::NotAPeer;
use wire::peer::Declined;

/// Why a stream was not opened, or was cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error(transparent)]
    NotAPeer(NotAPeer),
    #[error("what the operators say now ended it: {0}")]
    Ended(#[source] NotAPeer),
    #[error("`{by}` suspended the node until {until}")]
    Suspended { by: SignerName, until: Timestamp },
    #[error("the access table does not allow it")]
    NotAllowed,
    #[error("head {head} is past its time since {until}")]
    Stale { head: u64, until: Timestamp },
}

impl From<NotAPeer> for Denied {
    fn from(why: NotAPeer) -> Self {
        match why {
            NotAPeer::Suspended { by, until } => Self::Suspended { by, until },
            why => Self::NotAPeer(why),
        }
    }
}

impl Denied {
    /// Of what was open before.
    pub(crate) fn ended(why: NotAPeer) -> Self {
        match why {
            NotAPeer::Suspended { by, until } => Self::Suspended { by, until },
            why => Self::Ended(why),
        }
    }

    /// A word for counters: one per reason.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::NotAPeer(_) => "not_believed",
            Self::Ended(_) => "ended",
            Self::Suspended { .. } => "suspended",
            Self::NotAllowed => "not_allowed",
            Self::Stale { .. } => "stale_head",
        }
    }

    /// What the other side is told.
    pub(crate) fn told(&self) -> Declined {
        match self {
            Self::NotAPeer(why) if why.is_outdated() => Declined::TooOld,
            Self::NotAPeer(why) | Self::Ended(why) => {
                Declined::NotBelieved { why: why.to_string().chars().take(300).collect() }
            }
            Self::Suspended { by, until } => Declined::Suspended { by: by.clone(), until: *until },
            Self::NotAllowed => Declined::NotAllowed,
            Self::Stale { .. } => Declined::Stale,
        }
    }
}
