//! One run against a thief: what would break is shown, a person agrees, and the stolen root is gone at once.

use std::future::Future;

use ground::clock;
use identity::authority::Authority;
use identity::bundle::InDomain;
use identity::head::Mandate;
use identity::time::Seconds;
use identity::trust::TrustStep;

use super::run::{Attendant, Lack, RotateWish, Rotated, Run, Step};
use super::spares::{NotDrawn, OldSpare, SpareKeys};
use super::{ReplacePlan, replace_plan};
use crate::key::SignerKeys;
use crate::session::{Desk, OperateError, Session};
use crate::trust::dependents::{Break, Outcome, Scene, look};
use crate::trust::lifetimes::Certifier;
use crate::trust::step::StepOutcome;
use crate::trust::stolen::{self, Spares};

/// What more it takes to put another root in the place of a stolen one.
pub trait Rescuer: Attendant<Stop: From<NotDrawn>> {
    /// Where another gateway can be asked.
    fn desk(&mut self, session: &Session, mandate: &Mandate) -> impl Future<Output = Option<Box<dyn Desk>>>;

    fn threatened(&mut self, threat: &Threat<'_>);

    /// It cannot be taken back.
    fn agree<T: InDomain>(&mut self, session: &Session) -> Result<(), Self::Stop>;

    /// Drawn just now, whatever lies there: whoever stole one may have the others of that folder.
    fn fresh_root<T: InDomain>(&mut self, session: &Session) -> impl Future<Output = Result<Authority<T>, Self::Stop>>;

    /// Drawn for this head, and long ago: something that waits may name it.
    fn drawn_before(&mut self, spare: &OldSpare);

    fn replaced(&mut self, turned: &StepOutcome, spares: &Spares, waits: bool);
}

/// What would come of it.
#[derive(Debug)]
pub struct Threat<'a> {
    pub scene: &'a Scene,
    pub step: TrustStep,
    pub outcome: &'a Outcome,
    /// Spare keys that may have been copied long ago, of gateways that cannot be asked for another.
    pub old: Vec<OldSpare>,
    pub spares: &'a Spares,
}

/// Puts a new root in the place of the stolen one.
pub async fn replace<T: InDomain, A: Rescuer>(
    session: &mut Session,
    keys: &SignerKeys,
    wish: &RotateWish,
    rescuer: &mut A,
) -> Result<Rotated, A::Stop> {
    let desk_of = async |session: &Session, mandate: &Mandate| rescuer.desk(session, mandate).await;
    let mut known = SpareKeys::gather(session, &wish.without, desk_of).await?;
    let waived = threaten::<T, A>(session, &known, wish.issuer_life, rescuer).await?;
    rescuer.agree::<T>(session)?;
    for spare in known.draw(session, T::DOMAIN).await? {
        rescuer.drawn_before(&spare);
    }
    let root = rescuer.fresh_root::<T>(session).await?;
    let under = Certifier { root: &root, life: wish.issuer_life };
    let made = stolen::replace(session, keys, under, known.issuing(), &waived).await;
    drop((root, known));
    let made = made?;
    let mut run = Run { session, keys, wish, attendant: rescuer, rotated: Rotated::default() };
    if made.pending.is_some() {
        run.done(Step::Replace, made);
        return Ok(run.rotated);
    }
    let (turned, spares) = &made.what;
    let (version, waits) = (turned.version, run.waits());
    run.attendant.replaced(turned, spares, waits);
    run.done(Step::Replace, made);
    let mut missing = run.adopted::<T>(version).await?;
    if missing.is_empty() {
        missing = run.reissued::<T>(version).await?;
    }
    if !missing.is_empty() {
        run.lacks(Lack::Return { version }, missing);
    }
    Ok(run.rotated)
}

/// Shows what would break; gives back how the ledger names it.
async fn threaten<T: InDomain, A: Rescuer>(
    session: &mut Session,
    known: &SpareKeys,
    issuer_life: Seconds,
    rescuer: &mut A,
) -> Result<Vec<String>, A::Stop> {
    let scene = look::scene(session, T::DOMAIN).await?;
    let spares = Spares::of(&scene.head, known.issuing(), T::DOMAIN, clock::now());
    let ReplacePlan { scene, step, outcome } = replace_plan(scene, &spares, issuer_life).map_err(OperateError::from)?;
    rescuer.threatened(&Threat { scene: &scene, step, outcome: &outcome, old: known.old(), spares: &spares });
    session.foretell(|session, now| stolen::foretold(session, T::DOMAIN, &spares, now)).await;
    Ok(outcome.breaks.iter().map(Break::in_words).collect())
}
