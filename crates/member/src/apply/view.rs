//! Where a node stands, for people and for reports.

use std::path::Path;

use identity::id::Digest;
use identity::time::Timestamp;
use manifest::stored::Confirm;
use serde::{Deserialize, Serialize};

use crate::apply::record::{self, Found};
use crate::apply::stage::FOLDER;
use crate::apply::trial::Standing;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyView {
    /// The newest head that offered something.
    pub head: u64,
    /// Confirmed: what stays whatever happens.
    pub confirmed: Option<Digest>,
    pub trial: Option<TrialView>,
    pub rolled_back: Option<RolledBack>,
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialView {
    pub digest: Digest,
    /// What comes back if it is not confirmed.
    pub previous: Option<Digest>,
    pub started: Timestamp,
    pub deadline: Timestamp,
    /// In words.
    pub waits_for: Vec<String>,
    /// Only a gateway can confirm it.
    #[serde(default)]
    pub needs_gateway: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolledBack {
    pub digest: Digest,
    pub to: Option<Digest>,
    pub why: String,
    pub at: Timestamp,
}

/// As the disk has it, while no agent runs.
pub fn from_disk(scope: &Path) -> ApplyView {
    match record::load(&scope.join(FOLDER)) {
        Ok(Found::Standing(standing)) => of(&standing, None),
        Ok(Found::Nothing) => ApplyView::default(),
        Ok(Found::Damaged(why)) => ApplyView { problem: Some(why), ..ApplyView::default() },
        Err(why) => ApplyView { problem: Some(why.to_string()), ..ApplyView::default() },
    }
}

pub(crate) fn of(standing: &Standing, problem: Option<String>) -> ApplyView {
    let confirmed = standing.confirmed.map(|item| item.digest);
    ApplyView {
        head: standing.head,
        confirmed,
        trial: standing.trial.as_ref().map(|trial| TrialView {
            digest: trial.item.digest,
            previous: confirmed,
            started: trial.started,
            deadline: trial.deadline(),
            waits_for: trial.waits_for(),
            needs_gateway: trial.terms.confirm != Confirm::Offline,
        }),
        rolled_back: standing.failed.as_ref().map(|failed| RolledBack {
            digest: failed.item.digest,
            to: confirmed,
            why: failed.why.to_string(),
            at: failed.at,
        }),
        problem,
    }
}
