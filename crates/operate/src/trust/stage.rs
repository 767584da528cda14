//! Where the rotation of a root stands. Read off the head alone, so that it goes on wherever it was interrupted.

use identity::bundle::Domain;
use identity::head::{TrustLine, TrustState};
use identity::time::Timestamp;
use identity::trust;
use org::audit::{AuditLine, DONE};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Nothing is under way.
    Settled { active: u64 },
    /// A new version is handed out, and nodes take it over.
    Staged { version: u64, active: Option<u64> },
    /// The new version is in use; an old one is on its way out until then.
    Leaving { active: u64, version: u64, until: Timestamp },
}

/// A staged version comes first: what is in grace waits for its time. Of several in grace, the one whose time ends first.
pub fn stage(lines: &[TrustLine], domain: Domain) -> Stage {
    let active = trust::active(lines, domain).map(|line| line.version);
    if let Some(staged) = trust::staged(lines, domain) {
        return Stage::Staged { version: staged.version, active };
    }
    let leaving = trust::of(lines, domain).into_iter().filter(|line| line.state == TrustState::Grace);
    let ends = |line: &TrustLine| line.grace.map_or(Timestamp::from_unix(0), |grace| grace.until);
    let active = active.unwrap_or_default();
    match leaving.min_by_key(|line| (ends(line), line.version)) {
        Some(line) => Stage::Leaving { active, version: line.version, until: ends(&line) },
        None => Stage::Settled { active },
    }
}

/// When the last rotation of a domain came to its end, by the lines of its audit, if nothing was turned there since. It ends
/// when the old root is retired, or was stolen and replaced.
pub(crate) fn finished(lines: &[AuditLine]) -> Option<Timestamp> {
    let mut turns = lines.iter().filter(|line| line.action.starts_with("bootstrap_trust.") && line.result == DONE);
    turns.next_back().filter(|line| line.action == "bootstrap_trust.retire").map(|line| line.at)
}

#[cfg(test)]
mod tests;
