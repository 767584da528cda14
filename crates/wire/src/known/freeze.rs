//! Two signer sets that claim one place, in words: who they are, and what ends it.

use std::fmt;

use identity::id::Digest;
use identity::signers::{Quorum, Word};
use identity::time::Timestamp;
use org::ledger::signers::Frozen;
use org::ledger::step::SignerStep;
use org::refusal::WAY_OUT;

use crate::known::Known;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freeze {
    /// The signers of each.
    pub rivals: Vec<String>,
    pub since: Timestamp,
    /// Whom the recovery keys named, and when that ends it here.
    pub ends: Vec<(String, Timestamp)>,
}

impl Freeze {
    pub fn of(known: &Known, now: Timestamp) -> Option<Self> {
        let frozen = known.frozen(now)?;
        Some(Self {
            ends: ends(known, &frozen),
            since: frozen.since,
            rivals: frozen.rivals.iter().map(|set| names(&set.quorum)).collect(),
        })
    }
}

fn ends(known: &Known, frozen: &Frozen) -> Vec<(String, Timestamp)> {
    // What all of them signed waits for nothing, unless they signed twice: that leads nowhere.
    let recovery = |step: &&SignerStep| step.word == Word::Recovery;
    let end = |(step, at): &(Digest, Timestamp)| Some((names(&known.step(*step).filter(recovery)?.to.quorum), *at));
    frozen.pending.iter().filter_map(end).collect()
}

/// The signers of a quorum, as a person reads them.
pub fn names(quorum: &Quorum) -> String {
    quorum.signers().iter().map(|signer| signer.name.to_string()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Freeze {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rivals, since) = (self.rivals.join(" | "), self.since);
        write!(f, "two signer sets claim one place ({rivals}) since {since}: nothing new is followed here")?;
        match self.ends.as_slice() {
            [] => write!(f, "; {WAY_OUT}"),
            [(signers, at)] => write!(
                f,
                " until {at}, when the recovery keys settle it for {signers}; whoever signs for each of them can settle it \
                 before: freehold signer settle"
            ),
            several => {
                let several: Vec<_> = several.iter().map(|(signers, at)| format!("{signers} at {at}")).collect();
                write!(
                    f,
                    "; the recovery keys would settle it for {}, and two that contradict lead nowhere",
                    several.join(" | ")
                )
            }
        }
    }
}
