//! The life of trust bundles: staged, active, grace, retired. Decides only; the head carries what was decided.
//!
//! Law: of each domain one bundle is active, at most one is staged, and whoever follows the lines of any head that came
//! about by these steps trusts something, and nothing that is retired.

use std::collections::BTreeSet;

use crate::bundle::Domain;
pub use crate::head::trust_lines::{BadLines, follows, heed, is_sound, leads_on, merge, of};
use crate::head::{Grace, TrustLine, TrustState};
use crate::id::Digest;
use crate::time::{Seconds, Timestamp};

/// The shortest and the longest time that an old bundle is trusted beside the new one.
pub(crate) const GRACE: std::ops::RangeInclusive<Seconds> = Seconds(0)..=Seconds::DAY.times(400);

/// One turn in the life of a domain's bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustStep {
    /// A new version is handed out, beside the one in use.
    Publish { bundle: Digest },
    /// The staged version is the one to use from now on; the former stays for a while.
    Activate { version: u64, grace: Seconds },
    /// A new version with the roots that were there before `reverts`. That one goes: at once if it was only staged.
    Rollback { bundle: Digest, reverts: u64, grace: Seconds },
    /// What is in grace is trusted no more.
    Retire { version: u64, early: bool },
    /// A root was stolen: a new version takes the place of all others at once, and theirs never come back.
    Replace { bundle: Digest },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadStep {
    #[error("version {0} is staged already: activate it, or roll it back")]
    AlreadyStaged(u64),
    #[error("there is no version {0} of the `{1}` bundle")]
    NoSuch(u64, &'static str),
    #[error("version {version} is {}, not {}", found.word(), wanted.word())]
    NotInState { version: u64, found: TrustState, wanted: TrustState },
    #[error("version {0} has nothing before it that is still known")]
    NothingBefore(u64),
    #[error("version {version} is promised to be trusted until {until}")]
    InGrace { version: u64, domain: &'static str, until: Timestamp },
    #[error("a grace lasts between nothing and {}", GRACE.end())]
    Grace,
    #[error("no version of the `{0}` bundle is in use")]
    NothingActive(&'static str),
}

pub fn active(lines: &[TrustLine], domain: Domain) -> Option<&TrustLine> {
    lines.iter().find(|line| line.domain == domain && line.state == TrustState::Active)
}

pub fn staged(lines: &[TrustLine], domain: Domain) -> Option<&TrustLine> {
    lines.iter().find(|line| line.domain == domain && line.state == TrustState::Staged)
}

/// The number of the next version.
pub fn next_version(lines: &[TrustLine], domain: Domain) -> u64 {
    of(lines, domain).last().map_or(1, |line| line.version.saturating_add(1))
}

/// What a rollback would take back, and to what: the staged version, or the active one while the former is in grace.
pub fn reverted(lines: &[TrustLine], domain: Domain) -> Result<(&TrustLine, &TrustLine), BadStep> {
    let active = active(lines, domain).ok_or(BadStep::NothingActive(domain.word()))?;
    if let Some(staged) = staged(lines, domain) {
        return Ok((staged, active));
    }
    let mut before: Vec<_> = lines.iter().filter(|it| it.domain == domain && it.state == TrustState::Grace).collect();
    before.sort_by_key(|line| line.version);
    let former = before.pop().ok_or(BadStep::NothingBefore(active.version))?;
    Ok((active, former))
}

/// All lines of a head after one step in one domain. The other domain is not touched.
pub fn step(lines: &[TrustLine], domain: Domain, step: TrustStep, now: Timestamp) -> Result<Vec<TrustLine>, BadStep> {
    let version = next_version(lines, domain);
    let mut next = lines.to_vec();
    let fresh = |bundle, state| TrustLine::new(domain, version, bundle, state);
    match step {
        TrustStep::Publish { bundle } => {
            if let Some(staged) = staged(lines, domain) {
                return Err(BadStep::AlreadyStaged(staged.version));
            }
            next.push(fresh(bundle, TrustState::Staged));
        }
        TrustStep::Activate { version, grace } => {
            let span = span(now, grace)?;
            expect(lines, domain, version, TrustState::Staged)?;
            for line in next.iter_mut().filter(|line| line.domain == domain) {
                match line.state {
                    TrustState::Active => (line.state, line.grace) = (TrustState::Grace, Some(span)),
                    TrustState::Staged => line.state = TrustState::Active,
                    TrustState::Grace | TrustState::Retired => {}
                }
            }
        }
        TrustStep::Rollback { bundle, reverts, grace } => {
            let span = span(now, grace)?;
            let (bad, former) = reverted(lines, domain)?;
            if bad.version != reverts {
                let (version, found) = (reverts, expect_any(lines, domain, reverts)?.state);
                return Err(BadStep::NotInState { version, found, wanted: bad.state });
            }
            let (bad, former) = (bad.version, former.version);
            for line in next.iter_mut().filter(|line| line.domain == domain) {
                if line.version == former {
                    // The same roots go on under the new number.
                    line.state = TrustState::Retired;
                } else if line.version == bad && line.state == TrustState::Staged {
                    line.state = TrustState::Retired;
                } else if line.version == bad {
                    (line.state, line.grace) = (TrustState::Grace, Some(span));
                }
            }
            next.push(fresh(bundle, TrustState::Active));
        }
        TrustStep::Retire { version, early } => {
            let line = expect(lines, domain, version, TrustState::Grace)?;
            if let Some(grace) = line.grace.filter(|grace| now < grace.until && !early) {
                return Err(BadStep::InGrace { version, domain: domain.word(), until: grace.until });
            }
            for line in next.iter_mut().filter(|line| line.domain == domain && line.version == version) {
                line.state = TrustState::Retired;
            }
        }
        TrustStep::Replace { bundle } => {
            for line in next.iter_mut().filter(|line| line.domain == domain && line.state.is_trusted()) {
                (line.state, line.distrusted) = (TrustState::Retired, true);
            }
            next.push(fresh(bundle, TrustState::Active));
        }
    }
    Ok(next)
}

fn span(now: Timestamp, grace: Seconds) -> Result<Grace, BadStep> {
    if GRACE.contains(&grace) { Ok(Grace { since: now, until: now + grace }) } else { Err(BadStep::Grace) }
}

fn expect_any(lines: &[TrustLine], domain: Domain, version: u64) -> Result<&TrustLine, BadStep> {
    let found = lines.iter().find(|line| line.domain == domain && line.version == version);
    found.ok_or(BadStep::NoSuch(version, domain.word()))
}

fn expect(lines: &[TrustLine], domain: Domain, version: u64, wanted: TrustState) -> Result<&TrustLine, BadStep> {
    let line = expect_any(lines, domain, version)?;
    if line.state == wanted {
        return Ok(line);
    }
    Err(BadStep::NotInState { version, found: line.state, wanted })
}

/// What a node goes by: of the bundles that the head trusts those that it has taken. If it has taken none of them, all
/// that the head trusts: what is retired counts never, and something must.
pub fn in_force<'a>(lines: &'a [TrustLine], domain: Domain, taken: &BTreeSet<Digest>) -> Vec<&'a TrustLine> {
    let trusted = || lines.iter().filter(move |line| line.domain == domain && line.state.is_trusted());
    let own: Vec<_> = trusted().filter(|line| taken.contains(&line.bundle)).collect();
    if own.is_empty() { trusted().collect() } else { own }
}

#[cfg(test)]
mod tests;
