//! A rotation from its first step to the last: which step is next, who is waited for, what a stolen root breaks.

pub mod run;
pub mod spares;
pub mod replace;

use std::collections::BTreeSet;

use ground::clock;
use identity::bundle::{Domain, InDomain};
use identity::id::{Digest, Fingerprint};
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use identity::trust::{self, TrustStep};

use super::adopted::Stances;
use super::dependents::{self, Outcome, Scene, TrustVersion};
use super::stage::Stage;
use super::stolen::Spares;
use super::versions::{self, Versions};
use crate::session::{Result, Session, TrustError};

/// Who begins again within this time is asked whether they mean it.
const LATELY: Seconds = Seconds::DAY;

/// How one run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Course {
    /// Only what is under way: nothing is begun.
    pub goes_on: bool,
    /// This run has made a step.
    pub moved: bool,
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// A new root is handed out beside the version in use.
    Publish { active: u64 },
    /// The version that is handed out is turned to, once every node has it.
    Activate { version: u64, active: Option<u64> },
    /// Both are trusted until then: nothing yet.
    Rest { active: u64, version: u64, until: Timestamp },
    /// The promised time is over: gone, if nobody would break by it.
    Retire { version: u64 },
    /// This run has come to the end.
    Done { active: u64 },
    /// There is nothing to go on with.
    NothingUnderWay,
}

/// The next step from wherever the head stands.
pub(crate) fn next(stage: Stage, course: Course, now: Timestamp) -> NextStep {
    match stage {
        Stage::Settled { active } if course.moved => NextStep::Done { active },
        Stage::Settled { .. } if course.goes_on => NextStep::NothingUnderWay,
        Stage::Settled { active } => NextStep::Publish { active },
        Stage::Staged { version, active } => NextStep::Activate { version, active },
        Stage::Leaving { active, version, until } if now < until => NextStep::Rest { active, version, until },
        Stage::Leaving { version, .. } => NextStep::Retire { version },
    }
}

/// Whether another rotation is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    First,
    /// The last one finished then.
    Another(Timestamp),
    /// It finished just now: maybe nobody means to begin another by running the command that finished it once more.
    Unsure(Timestamp),
}

/// By when the last rotation finished, if nothing was turned since; `sure` is whoever said that they mean it.
pub(crate) fn beginning(finished: Option<Timestamp>, sure: bool, now: Timestamp) -> Beginning {
    match finished {
        None => Beginning::First,
        Some(at) if sure || at + LATELY <= now => Beginning::Another(at),
        Some(at) => Beginning::Unsure(at),
    }
}

/// What every node must have before a rotation goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The version itself.
    Adoption { domain: Domain, version: u64, published_at: Timestamp },
    /// Certificates that lead to each of these roots.
    Reissue { roots: BTreeSet<Fingerprint> },
}

/// How far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HowFar {
    pub done: String,
    /// Who is missing, and why.
    pub rest: Vec<String>,
}

impl Awaited {
    /// Every member goes by the version.
    pub(crate) async fn adoption<T: InDomain>(session: &mut Session, version: u64) -> Result<Self> {
        let versions = versions::all::<T>(session).await.and_then(Versions::trusted)?;
        let found = versions.iter().find(|it| it.line.version == version);
        let published_at = found.map_or_else(clock::now, |it| it.bundle.body().published_at);
        Ok(Self::Adoption { domain: T::DOMAIN, version, published_at })
    }

    /// Every SVID leads to the roots of the version. Endpoint certificates are the gateways' own business.
    pub(crate) async fn reissue<T: InDomain>(session: &mut Session, version: u64) -> Result<Option<Self>> {
        if T::DOMAIN == Domain::Endpoint {
            return Ok(None);
        }
        let versions = versions::all::<T>(session).await.and_then(Versions::trusted)?;
        let found = versions.iter().find(|it| it.line.version == version);
        Ok(Some(Self::Reissue { roots: found.into_iter().flat_map(|it| it.bundle.fingerprints()).collect() }))
    }

    /// By what the nodes say. Whoever is left behind is not waited for.
    pub(crate) fn how_far(&self, stances: &Stances, left: &BTreeSet<NodeName>, now: Timestamp) -> HowFar {
        match self {
            Self::Adoption { domain, version, published_at } => {
                let adoption = stances.adoption(*domain, *version, *published_at, now);
                HowFar { done: adoption.bar(), rest: adoption.without(left).rest() }
            }
            Self::Reissue { roots } => {
                let (all, before) = stances.before(roots, now);
                let done = format!("{} of {all}", all.saturating_sub(before.len()));
                let rest = before.into_iter().filter(|it| !left.contains(&it.name));
                HowFar { done, rest: rest.map(|it| format!("`{}`: {}", it.name, it.why)).collect() }
            }
        }
    }
}

/// What putting a new root in the place of a stolen one would come to.
#[derive(Debug, Clone)]
pub(crate) struct ReplacePlan {
    /// With the mandates as they would be.
    pub scene: Scene,
    pub step: TrustStep,
    pub outcome: Outcome,
}

/// The root itself is drawn when it is done.
fn replace_plan(mut scene: Scene, spares: &Spares, issuer_life: Seconds) -> Result<ReplacePlan, TrustError> {
    if spares.ready.is_empty() {
        return Err(TrustError::NoSpare);
    }
    spares.move_mandates(&mut scene.head.mandates, scene.domain);
    let until = scene.now + issuer_life;
    let issuers = spares.ready.iter().map(|(_, key)| (key.id, until)).collect();
    let new =
        TrustVersion { version: trust::next_version(&scene.head.trust, scene.domain), roots: Vec::new(), issuers };
    let step = TrustStep::Replace { bundle: Digest([0; 32]) };
    let outcome = dependents::outcome(&scene, step, Some(&new))?;
    Ok(ReplacePlan { scene, step, outcome })
}

#[cfg(test)]
mod tests;
