//! Lines of trust: how they can stand, what may follow them, and what the heads of two sides say together.
//!
//! Law: a version only goes forward, from staged over active and grace to retired, and none is ever dropped. What was
//! stolen stays so. Two sides that did not know of each other may have given one number to two bundles: then one of them
//! at most is trusted, and the other stays on record as retired.

use std::collections::BTreeSet;

use crate::bundle::{BundleBody, Domain};
use crate::head::{TrustLine, TrustState};
use crate::id::Digest;
use crate::principal::OrgName;

const DOMAINS: [Domain; 2] = [Domain::Endpoint, Domain::Identity];

impl TrustLine {
    /// The same version of the same roots, in whatever state.
    pub fn is_same(&self, other: &Self) -> bool {
        self.has_number_of(other) && self.bundle == other.bundle
    }

    /// Does a bundle say of itself what the line says of it? That it has the line's digest is not asked here.
    pub fn fits(&self, body: &BundleBody, org: &OrgName) -> bool {
        body.domain == self.domain && body.trust_bundle_version == self.version && body.environment_name == *org
    }

    pub fn has_number_of(&self, other: &Self) -> bool {
        self.domain == other.domain && self.version == other.version
    }
}

impl TrustState {
    /// How far it has come.
    const fn age(self) -> u8 {
        match self {
            Self::Staged => 0,
            Self::Active => 1,
            Self::Grace => 2,
            Self::Retired => 3,
        }
    }

    /// How much it is needed.
    const fn weight(self) -> u8 {
        match self {
            Self::Retired => 0,
            Self::Staged => 1,
            Self::Grace => 2,
            Self::Active => 3,
        }
    }
}

/// The lines of one domain, the oldest first; of two under one number, the one that is trusted.
pub fn of(lines: &[TrustLine], domain: Domain) -> Vec<TrustLine> {
    let mut own: Vec<_> = lines.iter().filter(|line| line.domain == domain).cloned().collect();
    own.sort_by_key(|line| (line.version, !line.state.is_trusted()));
    own
}

/// Is this how lines can stand? One active bundle in each domain that is named, one at most that is trusted under a number,
/// and one staged at most: the newest.
pub fn is_sound(lines: &[TrustLine]) -> bool {
    DOMAINS.into_iter().all(|domain| {
        let own = of(lines, domain);
        let count = |state| own.iter().filter(|line| line.state == state).count();
        let newest = own.last().map(|line| line.version);
        let rises = own.iter().all(|line| line.state != TrustState::Staged || Some(line.version) == newest);
        own.is_empty()
            || (are_told_apart(&own) && count(TrustState::Active) == 1 && count(TrustState::Staged) <= 1 && rises)
    })
}

/// No line twice, and of each number one at most that is trusted.
fn are_told_apart(own: &[TrustLine]) -> bool {
    let lines: BTreeSet<(u64, Digest)> = own.iter().map(|line| (line.version, line.bundle)).collect();
    let trusted = || own.iter().filter(|line| line.state.is_trusted());
    let numbers: BTreeSet<u64> = trusted().map(|line| line.version).collect();
    lines.len() == own.len() && numbers.len() == trusted().count()
}

/// Why lines may not follow others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadLines {
    #[error("version {version} of the `{}` bundle is dropped, or is another one", domain.word())]
    Dropped { domain: Domain, version: u64 },
    #[error("version {version} of the `{}` bundle was {} and would be {} again", domain.word(), was.word(), is.word())]
    Backward { domain: Domain, version: u64, was: TrustState, is: TrustState },
    #[error("that version {version} of the `{}` bundle was stolen is forgotten", domain.word())]
    NotStolen { domain: Domain, version: u64 },
    #[error("version {version} of the `{}` bundle is one that had another number", domain.word())]
    Renumbered { domain: Domain, version: u64 },
    #[error("the `{}` domain would not have one bundle in use", domain.word())]
    Unsound { domain: Domain },
}

/// The ratchet: whoever knows `old` takes `new` only if nothing that was decided is undone.
pub fn follows(old: &[TrustLine], new: &[TrustLine]) -> Result<(), BadLines> {
    keeps(old, new)?;
    leads(old, new)
}

/// The same where `new` may go round the head that `old` is of: what that one took away stays so, and something is trusted in
/// each domain; what it brought may be undone.
pub fn leads_on(old: &[TrustLine], new: &[TrustLine]) -> Result<(), BadLines> {
    let taken: Vec<TrustLine> = old.iter().filter(|line| !line.state.is_trusted()).cloned().collect();
    keeps(&taken, new)?;
    leads(old, new)
}

/// None of these lines is dropped, and none goes back.
fn keeps(old: &[TrustLine], new: &[TrustLine]) -> Result<(), BadLines> {
    for line in old {
        let (domain, version) = (line.domain, line.version);
        let now = new.iter().find(|it| it.is_same(line)).ok_or(BadLines::Dropped { domain, version })?;
        if now.state.age() < line.state.age() {
            return Err(BadLines::Backward { domain, version, was: line.state, is: now.state });
        }
        if line.distrusted && !now.distrusted {
            return Err(BadLines::NotStolen { domain, version });
        }
    }
    Ok(())
}

/// No bundle gets another number, and whoever trusted something still does.
fn leads(old: &[TrustLine], new: &[TrustLine]) -> Result<(), BadLines> {
    for line in new.iter().filter(|line| !old.iter().any(|it| it.is_same(line))) {
        if old.iter().any(|it| it.domain == line.domain && it.bundle == line.bundle) {
            return Err(BadLines::Renumbered { domain: line.domain, version: line.version });
        }
    }
    // What nobody had, nobody loses.
    for domain in DOMAINS.into_iter().filter(|domain| is_sound(&of(old, *domain)) && !of(old, *domain).is_empty()) {
        let now = of(new, domain);
        if now.is_empty() || !is_sound(&now) {
            return Err(BadLines::Unsound { domain });
        }
    }
    Ok(())
}

/// What two heads say together, if neither knew of the other: all versions of both, each as far as either has brought it,
/// stolen if either says so. `base` is of the head in force. Where both cannot be (two bundles under one number, two in use)
/// `base` comes first: of two in use the other goes into grace; of two bundles under one number, or two staged, the other is
/// retired. If one side alone knows of a theft, that one comes first, for the keys in use are certified there; and what only
/// the other side has is retired, since it may hold the stolen root.
#[must_use]
pub fn merge(base: &[TrustLine], other: &[TrustLine]) -> Vec<TrustLine> {
    if follows(other, base).is_ok() {
        return base.to_vec();
    }
    let mut all = base.to_vec();
    for told in other {
        match all.iter_mut().find(|line| line.is_same(told)) {
            None => all.push(told.clone()),
            Some(line) => {
                if told.state.age() > line.state.age() {
                    (line.state, line.grace) = (told.state, told.grace);
                }
                line.distrusted |= told.distrusted;
            }
        }
    }
    for domain in DOMAINS {
        let knows = |lines: &[TrustLine], theft: &TrustLine| lines.iter().any(|it| it.is_same(theft) && it.distrusted);
        let stolen = |line: &&TrustLine| line.domain == domain && line.distrusted;
        let news = other.iter().filter(stolen).any(|theft| !knows(base, theft));
        let own = base.iter().filter(stolen).any(|theft| !knows(other, theft));
        let first = if news && !own { other } else { base };
        if news != own {
            let only_there = |line: &&mut TrustLine| line.domain == domain && !first.iter().any(|it| it.is_same(line));
            all.iter_mut().filter(only_there).for_each(|line| line.state = TrustState::Retired);
        }
        settle(&mut all, domain, first);
    }
    all
}

/// Makes lines sound that were put together, forward only; `first` is the side that comes first.
fn settle(all: &mut [TrustLine], domain: Domain, first: &[TrustLine]) {
    let rank = |line: &TrustLine| (line.state.weight(), first.iter().any(|it| it.is_same(line)), line.bundle);
    let own: Vec<TrustLine> = all.iter().filter(|line| line.domain == domain).cloned().collect();
    for line in all.iter_mut().filter(|line| line.domain == domain && line.state.is_trusted()) {
        if own.iter().any(|it| it.has_number_of(line) && !it.is_same(line) && rank(it) > rank(line)) {
            line.state = TrustState::Retired;
        }
    }
    let newest = own.iter().map(|line| line.version).max();
    for line in all.iter_mut().filter(|line| line.domain == domain && line.state == TrustState::Staged) {
        if Some(line.version) != newest {
            line.state = TrustState::Retired;
        }
    }
    let active = |line: &&TrustLine| line.domain == domain && line.state == TrustState::Active;
    let preferred = |line: &&TrustLine| (first.iter().any(|it| it.is_same(line)), line.version);
    let Some(chosen) = all.iter().filter(active).max_by_key(preferred).cloned() else { return };
    for line in all.iter_mut().filter(|line| line.domain == domain && line.state == TrustState::Active) {
        if !line.is_same(&chosen) {
            line.state = TrustState::Grace;
        }
    }
}

/// What a head adds to the lines in force. Signers that were replaced can still take away what is known, and add nothing.
#[must_use]
pub fn heed(lines: &[TrustLine], told: &[TrustLine], by_signers_in_force: bool) -> Vec<TrustLine> {
    let known = |line: &&TrustLine| by_signers_in_force || lines.iter().any(|it| it.is_same(line));
    let told: Vec<_> = told.iter().filter(known).cloned().collect();
    let merged = merge(lines, &told);
    if is_sound(&merged) { merged } else { lines.to_vec() }
}

#[cfg(test)]
mod tests;
