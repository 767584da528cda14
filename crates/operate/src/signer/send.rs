//! Delivers what enough operators have signed.

use ground::{clock, random};
use identity::head::Cause;

use crate::pending::Pending;
use crate::session::stage::stage_again;
use crate::session::timely::{self, Reliance};
use crate::session::{OperateError, Result, Session};
use crate::trust::retire::weigh_again;

pub async fn send(session: &mut Session, pending: &Pending) -> Result<()> {
    let correlation = random::correlation()?;
    let _turn = session.turn_to_sign().await?;
    session.look_again().await?;
    let here = clock::now();
    // Others signed that the clock goes back; a wrong one here would be told by the gateway's.
    if session.reliance == Reliance::Doubted && timely::sets_back(&session.known, &pending.handed, here) {
        session.reliance = Reliance::Resets;
    }
    session.check_clock(here)?;
    timely::check_dates(session.known.org(), &pending.handed, here)?;
    if let Some(need) = pending.needs(&session.known)?.into_iter().find(|need| !need.is_met()) {
        return Err(OperateError::TooFew {
            what: need.what,
            needed: need.quorum.threshold(),
            found: need.signed.len(),
        });
    }
    // A stolen root goes whoever breaks by it.
    if let Some(Cause::TrustRetire(turn)) = pending.handed.cause(session.known.org())
        && pending.handed.bundles().next().is_none()
    {
        weigh_again(session, &turn).await?;
    }
    // Where it is not needed it does no good, and where it is, the gateway says what is missing.
    let _staged = stage_again(session, pending).await;
    session.hand_over(pending.handed.clone(), correlation).await
}
