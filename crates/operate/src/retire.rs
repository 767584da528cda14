//! A version of the trusted roots is retired: only while nothing would break by it that was not named.

use identity::bundle::Domain;
use identity::head::{Cause, Head, Turn};
use identity::time::Timestamp;
use identity::trust::Step;

use crate::breaks::{self, Break, Scene, Waived};
use crate::desk::Desk;
use crate::handed::Handed;
use crate::keys::SignerKeys;
use crate::session::{Made, OperateError, Session};
use crate::unturned::Unturned;

/// What is to be retired, and what may break by it.
#[derive(Debug, Clone)]
pub struct RetireWish {
    pub domain: Domain,
    pub version: u64,
    /// Before its promised grace is over.
    pub early: bool,
    pub waived: Vec<String>,
}

impl<D: Desk> Session<D> {
    /// Retires a version. What would break is read anew, and weighed once more right before anything is signed.
    pub async fn retire(
        &mut self,
        keys: &SignerKeys,
        wish: &RetireWish,
    ) -> Result<Made<(Head, Vec<Break>)>, OperateError> {
        let scene = self.scene(wish.domain).await?;
        self.publish(keys, |session, now| {
            let (head, breaks) = session.draft_retirement((&scene, wish), now)?;
            Ok((Handed::of(session.seal(&head)?), (head, breaks)))
        })
        .await
    }

    /// The head that retires it, and what breaks by consent.
    pub fn draft_retirement(
        &self,
        (scene, wish): (&Scene, &RetireWish),
        now: Timestamp,
    ) -> Result<(Head, Vec<Break>), OperateError> {
        let now_so = Head { trust: self.lines(), ..self.known.head.head.clone() };
        if now_so.trust != scene.head.trust {
            return Err(OperateError::Unwise("somebody turned trust meanwhile: look again".to_owned()));
        }
        let scene = Scene { head: now_so, now, ..scene.clone() };
        let (lines, breaks) = wish.weigh(&scene)?;
        let turn = Turn {
            domain: wish.domain,
            version: wish.version,
            replaces: None,
            grace: None,
            waived: breaks.iter().map(Break::in_words).collect(),
        };
        let head = self.next_head(now, Cause::TrustRetire(turn), |head| head.trust = lines)?;
        Ok((head, breaks))
    }

    /// What waited for signatures is weighed once more before it is sent: whoever would break by now must have been named.
    pub(crate) async fn weigh_again(&mut self, turn: &Turn) -> Result<(), OperateError> {
        let scene = self.scene(turn.domain).await?;
        // Whether the promised time may be cut short, those who signed have said.
        let step = Step::Retire { version: turn.version, early: true };
        let outcome = breaks::outcome(&scene, step, None).map_err(Unturned::from)?;
        let breaks = outcome.breaks.iter().map(Break::in_words);
        let open: Vec<_> = breaks.filter(|it| !turn.waived.contains(it)).collect();
        if open.is_empty() {
            return Ok(());
        }
        Err(Unturned::WouldBreak(open).into())
    }
}

impl RetireWish {
    pub const fn step(&self) -> Step {
        Step::Retire { version: self.version, early: self.early }
    }

    /// The lines after it, and what breaks by consent.
    fn weigh(&self, scene: &Scene) -> Result<(Vec<identity::head::TrustLine>, Vec<Break>), OperateError> {
        let unwise = |why: String| Err(OperateError::Unwise(why));
        let outcome = breaks::outcome(scene, self.step(), None).map_err(Unturned::from)?;
        let Waived { open, idle, several } = outcome.waive(&self.waived);
        if !several.is_empty() {
            return unwise(format!("several ids begin with {}", several.join(", ")));
        }
        if !open.is_empty() {
            return Err(Unturned::WouldBreak(open.iter().map(|it| it.in_words()).collect()).into());
        }
        if !idle.is_empty() {
            return unwise(format!("nothing that would break is called {}", idle.join(", ")));
        }
        Ok((outcome.lines, outcome.breaks))
    }
}
