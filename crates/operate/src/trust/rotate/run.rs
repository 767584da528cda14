//! One run of a rotation: step after step from wherever the head stands, as far as it goes now.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use ground::clock;
use identity::authority::Authority;
use identity::bundle::InDomain;
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use serde::Serialize;

use super::{Awaited, Beginning, Course, HowFar, NextStep, beginning, next};
use crate::key::SignerKeys;
use crate::session::lines::lines;
use crate::session::{Made, OperateError, Session, TrustError};
use crate::trust::adopted;
use crate::trust::dependents::{self, look};
use crate::trust::issuers;
use crate::trust::lifetimes::Certifier;
use crate::trust::retire::{RetireWish, retire};
use crate::trust::stage::{finished, stage};
use crate::trust::step::{self, LeftBehind, StepOutcome};

/// So long until the next look.
const LOOK: Duration = Duration::from_millis(500);
/// So often in a row the gateway may be out of reach.
const FAILURES: u32 = 30;

/// What is wanted of a run.
#[derive(Debug, Clone)]
pub struct RotateWish {
    /// Only with what is under way: nothing is begun.
    pub goes_on: bool,
    /// Begin also if the last rotation finished lately.
    pub sure: bool,
    /// How long the old root is trusted beside the new one.
    pub grace: Seconds,
    /// How long the certificates of issuing keys last under a new root.
    pub issuer_life: Seconds,
    /// How long nodes are waited for.
    pub wait: Seconds,
    /// Nodes that are not waited for.
    pub left_behind: BTreeSet<NodeName>,
    /// Gateways that are left out.
    pub without: BTreeSet<NodeName>,
}

/// The person for whom it is done, and what only their machine has.
pub trait Attendant {
    type Stop: From<OperateError>;

    fn hear(&mut self, news: &News);

    /// Another rotation finished just now: is this one meant?
    fn begin_another(&mut self, finished: Timestamp, active: u64) -> Result<(), Self::Stop>;

    /// The root of the next version, with its key.
    fn root<T: InDomain>(&mut self, session: &mut Session) -> impl Future<Output = Result<Authority<T>, Self::Stop>>;

    fn show(&mut self, how_far: &HowFar, ended: bool);

    /// Whoever interrupts a wait is told where it stands, as if it were over.
    fn is_interrupted(&mut self) -> Result<bool, Self::Stop>;

    /// So long, or until it is interrupted.
    fn pause(&mut self, span: Duration) -> impl Future<Output = ()>;
}

/// What is so, or is about to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The last rotation finished then.
    Another {
        finished: Timestamp,
        active: u64,
    },
    HandingOut {
        active: u64,
    },
    HandedOut {
        version: u64,
        active: Option<u64>,
        waits: bool,
    },
    /// Every node has it, or every other one; their certificates are still to follow.
    Adopted {
        others: bool,
        waits: bool,
    },
    Resting {
        active: u64,
        version: u64,
        until: Timestamp,
    },
    Retiring {
        version: u64,
    },
    Done {
        active: u64,
    },
    Back(StepOutcome),
    /// Nobody hears of it now.
    Unserved,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Publish,
    Activate,
    Retire,
    Rollback,
    Replace,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Rotated {
    pub done: Vec<Step>,
    /// The step that others must sign, too.
    pub left: Option<Made<()>>,
    pub lacking: Option<Lacking>,
}

/// Why it does not go on now, and whom it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    pub what: Lack,
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    Adoption {
        version: u64,
    },
    Reissue {
        version: u64,
    },
    /// Somebody would break.
    Retirement {
        version: u64,
    },
    /// The stolen root is gone.
    Return {
        version: u64,
    },
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adoption { version } => write!(f, "not every node has version {version} yet"),
            Self::Reissue { version } => {
                write!(f, "not every certificate leads to the root of version {version} yet")
            }
            Self::Retirement { version } => write!(f, "somebody would break if version {version} were trusted no more"),
            Self::Return { version } => {
                write!(f, "the stolen root is gone, and not every node is back under version {version} yet")
            }
        }
    }
}

/// Goes on from wherever the head stands, as far as it goes.
pub async fn rotate<T: InDomain, A: Attendant>(
    session: &mut Session,
    keys: &SignerKeys,
    wish: &RotateWish,
    attendant: &mut A,
) -> Result<Rotated, A::Stop> {
    // Before anybody is waited for: whoever is not to be must be somebody.
    if !wish.left_behind.is_empty() {
        let stances = adopted::stances(session).await?;
        stances.check_names(&wish.left_behind).map_err(OperateError::from)?;
    }
    let mut run = Run { session, keys, wish, attendant, rotated: Rotated::default() };
    while matches!(run.step::<T>().await?, Then::GoOn) {}
    Ok(run.rotated)
}

/// Takes the last step back.
pub async fn go_back<T: InDomain, A: Attendant>(
    session: &mut Session,
    keys: &SignerKeys,
    wish: &RotateWish,
    attendant: &mut A,
) -> Result<Rotated, A::Stop> {
    let made = step::roll_back::<T>(session, keys, wish.grace).await?;
    if made.pending.is_none() {
        attendant.hear(&News::Back(made.what.clone()));
    }
    let mut run = Run { session, keys, wish, attendant, rotated: Rotated::default() };
    run.done(Step::Rollback, made);
    Ok(run.rotated)
}

/// Whether there is more to do now.
pub(super) enum Then {
    GoOn,
    Rest,
}

pub(super) struct Run<'a, A> {
    pub(super) session: &'a mut Session,
    pub(super) keys: &'a SignerKeys,
    pub(super) wish: &'a RotateWish,
    pub(super) attendant: &'a mut A,
    pub(super) rotated: Rotated,
}

impl<A: Attendant> Run<'_, A> {
    async fn step<T: InDomain>(&mut self) -> Result<Then, A::Stop> {
        let course = Course { goes_on: self.wish.goes_on, moved: !self.rotated.done.is_empty() };
        match next(stage(&self.session.lines(), T::DOMAIN), course, clock::now()) {
            NextStep::Done { active } => {
                self.attendant.hear(&News::Done { active });
                Ok(Then::Rest)
            }
            NextStep::NothingUnderWay => Err(OperateError::from(TrustError::NothingUnderWay(T::DOMAIN.word())).into()),
            NextStep::Publish { active } => {
                self.begin::<T>(active).await?;
                self.publish::<T>(active).await
            }
            NextStep::Activate { version, active } => self.activate::<T>(version, active).await,
            NextStep::Rest { active, version, until } => {
                self.attendant.hear(&News::Resting { active, version, until });
                Ok(Then::Rest)
            }
            NextStep::Retire { version } => self.retire::<T>(version).await,
        }
    }

    /// Nobody begins another rotation by a slip.
    async fn begin<T: InDomain>(&mut self, active: u64) -> Result<(), A::Stop> {
        let lines = lines(self.session, Some(T::DOMAIN.word())).await?;
        match beginning(finished(&lines), self.wish.sure, clock::now()) {
            Beginning::First => Ok(()),
            Beginning::Another(finished) => {
                self.attendant.hear(&News::Another { finished, active });
                Ok(())
            }
            Beginning::Unsure(finished) => self.attendant.begin_another(finished, active),
        }
    }

    async fn publish<T: InDomain>(&mut self, active: u64) -> Result<Then, A::Stop> {
        self.attendant.hear(&News::HandingOut { active });
        let without = &self.wish.without;
        issuers::check_without(self.session, without, T::DOMAIN).await?;
        let root = self.attendant.root::<T>(self.session).await?;
        let under = Certifier { root: &root, life: self.wish.issuer_life };
        let made = step::publish(self.session, self.keys, under, without).await?;
        Ok(self.done(Step::Publish, made))
    }

    async fn activate<T: InDomain>(&mut self, version: u64, active: Option<u64>) -> Result<Then, A::Stop> {
        let waits = self.waits();
        self.attendant.hear(&News::HandedOut { version, active, waits });
        let missing = self.adopted::<T>(version).await?;
        if !missing.is_empty() {
            return Ok(self.lacks(Lack::Adoption { version }, missing));
        }
        let missing = self.reissued::<T>(version).await?;
        if !missing.is_empty() {
            return Ok(self.lacks(Lack::Reissue { version }, missing));
        }
        let left = LeftBehind { nodes: &self.wish.left_behind, gateways: &self.wish.without };
        let made = step::activate::<T>(self.session, self.keys, self.wish.grace, left).await?;
        Ok(self.done(Step::Activate, made))
    }

    /// The promised time is over: gone, if nobody would break by it.
    async fn retire<T: InDomain>(&mut self, version: u64) -> Result<Then, A::Stop> {
        let wish = RetireWish { domain: T::DOMAIN, version, early: false, waived: Vec::new() };
        let scene = look::scene(self.session, T::DOMAIN).await?;
        let outcome = dependents::outcome(&scene, wish.step(), None);
        let outcome = outcome.map_err(|why| OperateError::from(TrustError::from(why)))?;
        if !outcome.breaks.is_empty() {
            let missing = outcome.breaks.iter().map(|it| format!("{}: {}", it.in_words(), it.why)).collect();
            return Ok(self.lacks(Lack::Retirement { version }, missing));
        }
        self.attendant.hear(&News::Retiring { version });
        let made = retire(self.session, self.keys, &wish).await?;
        Ok(self.done(Step::Retire, made))
    }

    /// A step was made, or waits for the others' signatures.
    pub(super) fn done<U>(&mut self, step: Step, made: Made<U>) -> Then {
        if made.pending.is_some() {
            self.rotated.left = Some(made.map(|_| ()));
            return Then::Rest;
        }
        self.rotated.done.push(step);
        Then::GoOn
    }

    pub(super) fn lacks(&mut self, what: Lack, missing: Vec<String>) -> Then {
        self.rotated.lacking = Some(Lacking { what, missing });
        Then::Rest
    }

    /// Whether nodes are waited for, and can hear of it.
    pub(super) fn waits(&self) -> bool {
        self.session.is_served() && self.wish.wait.0 > 0
    }

    /// Until every member goes by the version; who does not when the wait is over, and why.
    pub(super) async fn adopted<T: InDomain>(&mut self, version: u64) -> Result<Vec<String>, A::Stop> {
        let awaited = Awaited::adoption::<T>(self.session, version).await?;
        self.until(&awaited).await
    }

    /// Until every certificate of a node leads to the root of the version.
    pub(super) async fn reissued<T: InDomain>(&mut self, version: u64) -> Result<Vec<String>, A::Stop> {
        let Some(awaited) = Awaited::reissue::<T>(self.session, version).await? else { return Ok(Vec::new()) };
        let news = News::Adopted { others: !self.wish.left_behind.is_empty(), waits: self.waits() };
        self.attendant.hear(&news);
        self.until(&awaited).await
    }

    /// Looks again and again, until nobody is left or the wait is over.
    async fn until(&mut self, awaited: &Awaited) -> Result<Vec<String>, A::Stop> {
        if !self.session.is_served() {
            self.attendant.hear(&News::Unserved);
        }
        let over = clock::now() + if self.waits() { self.wish.wait } else { Seconds(0) };
        let mut stances = adopted::stances(self.session).await?;
        let mut failures = 0;
        loop {
            let interrupted = self.attendant.is_interrupted()?;
            let how_far = awaited.how_far(&stances, &self.wish.left_behind, clock::now());
            let ended = how_far.rest.is_empty() || clock::now() >= over || interrupted;
            self.attendant.show(&how_far, ended);
            if ended {
                return Ok(how_far.rest);
            }
            self.attendant.pause(LOOK).await;
            if self.attendant.is_interrupted()? {
                continue;
            }
            match adopted::hear(self.session, &mut stances).await {
                Ok(()) => failures = 0,
                // What is published stays so, whether this connection holds or not.
                Err(OperateError::Desk(_)) if failures < FAILURES => failures += 1,
                Err(why) => return Err(why.into()),
            }
        }
    }
}
