//! A version of the trusted roots is retired: only while nothing would break by it that was not named.

use identity::bundle::Domain;
use identity::head::{Cause, Head, TrustLine, Turn};
use identity::time::Timestamp;
use identity::trust::TrustStep;

use crate::key::SignerKeys;
use crate::session::{Made, Result, Session, TrustError, Unsigned, Unwise};
use crate::trust::dependents::look::scene;
use crate::trust::dependents::{self, Break, Scene, WaiveOutcome};

/// What is to be retired, and what may break by it.
#[derive(Debug, Clone)]
pub struct RetireWish {
    pub domain: Domain,
    pub version: u64,
    /// Before its promised grace is over.
    pub early: bool,
    pub waived: Vec<String>,
}

/// Retires a version. What would break is read anew, and weighed once more right before anything is signed.
pub async fn retire(session: &mut Session, keys: &SignerKeys, wish: &RetireWish) -> Result<Made<(Head, Vec<Break>)>> {
    let scene = scene(session, wish.domain).await?;
    session.publish(keys, |session, now| draft(session, &scene, wish, now)).await
}

/// The head that retires it, and what breaks by consent.
pub fn draft(
    session: &Session,
    scene: &Scene,
    wish: &RetireWish,
    now: Timestamp,
) -> Result<Unsigned<(Head, Vec<Break>)>> {
    let now_so = Head { trust: session.lines(), ..session.head().clone() };
    if now_so.trust != scene.head.trust {
        return Err(Unwise::TrustChangedMeanwhile.into());
    }
    let (lines, breaks) = wish.weigh(&Scene { head: now_so, now, ..scene.clone() })?;
    let turn = Turn {
        domain: wish.domain,
        version: wish.version,
        replaces: None,
        grace: None,
        waived: breaks.iter().map(Break::in_words).collect(),
    };
    let next = session.next_head(now, Cause::TrustRetire(turn), |head| head.trust = lines)?;
    let what = (next.head.clone(), breaks);
    Ok(Unsigned { objects: Vec::new(), next: Some(next), what })
}

/// What waited for signatures is weighed once more before it is sent: whoever would break by now must have been named.
pub(crate) async fn weigh_again(session: &mut Session, turn: &Turn) -> Result<()> {
    let scene = scene(session, turn.domain).await?;
    // Whether the promised time may be cut short, those who signed have said.
    let step = TrustStep::Retire { version: turn.version, early: true };
    let outcome = dependents::outcome(&scene, step, None).map_err(TrustError::from)?;
    let breaks = outcome.breaks.iter().map(Break::in_words);
    let open: Vec<_> = breaks.filter(|it| !turn.waived.contains(it)).collect();
    if open.is_empty() { Ok(()) } else { Err(TrustError::WouldBreak(open).into()) }
}

impl RetireWish {
    pub const fn step(&self) -> TrustStep {
        TrustStep::Retire { version: self.version, early: self.early }
    }

    /// The lines after it, and what breaks by consent.
    fn weigh(&self, scene: &Scene) -> Result<(Vec<TrustLine>, Vec<Break>)> {
        let outcome = dependents::outcome(scene, self.step(), None).map_err(TrustError::from)?;
        let WaiveOutcome { open, idle, several } = outcome.waive(&self.waived);
        if !several.is_empty() {
            return Err(Unwise::SeveralIds(several).into());
        }
        if !open.is_empty() {
            return Err(TrustError::WouldBreak(open.iter().map(|it| it.in_words()).collect()).into());
        }
        if !idle.is_empty() {
            return Err(Unwise::NotBreaking(idle).into());
        }
        Ok((outcome.lines, outcome.breaks))
    }
}
