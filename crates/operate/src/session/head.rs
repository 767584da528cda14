//! The next head: what is so, with one thing changed.

use ground::clock;
use identity::head::{Cause, Head, Mandate};
use identity::id::KeyId;
use identity::members::Leaf;
use identity::time::{Seconds, Timestamp};
use org::ledger::draft::{Intent, Meaning, NotDrafted, Wish, draft_on};
use org::ledger::signers::Signers;
use org::state::State;

use crate::replica::roll::Roll;
use crate::session::timely::Reliance;
use crate::session::{Result, Session};

/// Nobody can renew a head more often than once a day.
const SHORTEST: Seconds = Seconds::DAY;

/// What a head is made for: with whom operators choose, and what a fleet means them to be.
#[derive(Debug)]
pub struct Aim<'m> {
    pub cause: Cause,
    pub wish: Wish,
    pub meaning: Option<&'m Meaning>,
}

impl From<Cause> for Aim<'_> {
    fn from(cause: Cause) -> Self {
        Self { cause, wish: Wish::default(), meaning: None }
    }
}

impl Aim<'_> {
    pub const fn new(cause: Cause, wish: Wish) -> Self {
        Self { cause, wish, meaning: None }
    }
}

/// A head that was drafted, whom its map lists, and what it does to machines.
#[derive(Debug)]
pub struct NextHead {
    pub head: Head,
    pub(crate) map: Vec<Leaf>,
    pub roll: Roll,
}

impl Session {
    /// The head that follows the present one, and why.
    pub fn next_head<'m>(
        &self,
        now: Timestamp,
        aim: impl Into<Aim<'m>>,
        change: impl FnOnce(&mut Head),
    ) -> Result<NextHead> {
        self.next_head_on(self.state()?, now, aim.into(), change)
    }

    /// The same by a state that somebody prepared.
    pub(crate) fn next_head_on(
        &self,
        state: &State,
        now: Timestamp,
        Aim { cause, wish, meaning }: Aim<'_>,
        change: impl FnOnce(&mut Head),
    ) -> Result<NextHead> {
        // Whoever looked at the clock dates by it; else nothing is dated back.
        let by_clock = match self.reliance {
            Reliance::Trusted | Reliance::Resets => true,
            Reliance::Doubted => false,
        };
        if let Signers::Frozen(frozen) = &state.judged.signers {
            return Err(NotDrafted::Frozen(Box::new(frozen.clone())).into());
        }
        let draft = draft_on(
            &state.replica,
            &state.judged.ground,
            &state.judged.fold,
            now,
            Intent { wish: &wish, meaning },
            |head| {
                head.cause = cause;
                if by_clock {
                    let span = span(head);
                    (head.issued_at, head.fresh_until) = (now, now + span);
                }
                // No node has a higher one: it would never take this.
                head.version = head.version.max(self.mark.map_or(0, |mark| mark.saturating_add(1)));
                keep_moved_keys(state, head);
                change(head);
            },
        )?;
        Ok(NextHead { map: draft.map(), roll: Roll::of(state, &draft), head: draft.head })
    }

    /// Tells what the very head that is about to be signed does to machines, before anybody says yes to it. What is in the
    /// way of it is told when it is signed.
    pub async fn foretell(&mut self, draft: impl FnOnce(&Self, Timestamp) -> Result<Roll>) {
        if Box::pin(self.folded()).await.is_ok()
            && let Ok(roll) = draft(self, clock::now())
        {
            self.tell(&roll);
        }
    }
}

/// If another head revoked an issuing key after a theft, its mandates name the one that took its place.
fn keep_moved_keys(state: &State, head: &mut Head) {
    let others = state.judged.ground.rivals.iter().chain(&state.judged.ground.head);
    let named: Vec<&Mandate> = others.flat_map(|it| &it.head.mandates).collect();
    let revoked = head.revocations.issuing_keys.clone();
    for mandate in &mut head.mandates {
        let same = named.iter().filter(|it| it.gateway == mandate.gateway && it.voice == mandate.voice);
        let good = |key: &KeyId| !revoked.contains(key);
        if revoked.contains(&mandate.identity_issuer) {
            let moved = same.clone().map(|it| it.identity_issuer).find(good);
            mandate.identity_issuer = moved.unwrap_or(mandate.identity_issuer);
        }
        if revoked.contains(&mandate.endpoint_issuer) {
            let moved = same.clone().map(|it| it.endpoint_issuer).find(good);
            mandate.endpoint_issuer = moved.unwrap_or(mandate.endpoint_issuer);
        }
    }
}

/// How long a head was made to be fresh.
pub(crate) fn span(head: &Head) -> Seconds {
    head.fresh_until.since(head.issued_at).max(SHORTEST)
}
