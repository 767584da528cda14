//! The next head: what is so, with one thing changed.

use std::sync::PoisonError;

use ground::clock;
use identity::head::{Cause, Head, Mandate, TrustLine};
use identity::id::KeyId;
use identity::time::{Seconds, Timestamp};
use org::ledger::draft::{Meaning, NotDrafted, Wish, draft_on};
use org::ledger::heads::Held;
use org::ledger::signers::Signers;
use org::state::State;

use crate::desk::Desk;
use crate::handed::Handed;
use crate::keys::SignerKeys;
use crate::roll::Roll;
use crate::session::{Made, OperateError, Session};
use crate::timely::Reliance;

/// How long the first head is fresh, and how long a mandate lasts from its renewal. Later heads are as long as the one
/// before, until a fleet says otherwise.
pub const FRESH: Seconds = Seconds::DAY.times(30);
pub const MANDATE: Seconds = Seconds::DAY.times(365);
/// Nobody can renew a head more often than once a day.
const SHORTEST: Seconds = Seconds::DAY;

impl<D: Desk> Session<D> {
    /// The head that follows the present one, and why. Its map is kept to be staged.
    pub fn next_head(
        &self,
        now: Timestamp,
        cause: Cause,
        change: impl FnOnce(&mut Head),
    ) -> Result<Head, OperateError> {
        self.next_head_with(now, cause, (&Wish::default(), None), change)
    }

    /// The same, with whom operators choose, and what a fleet means them to be.
    pub fn next_head_with(
        &self,
        now: Timestamp,
        cause: Cause,
        wish: (&Wish, Option<&Meaning>),
        change: impl FnOnce(&mut Head),
    ) -> Result<Head, OperateError> {
        self.next_head_by(self.fold.as_deref().ok_or(OperateError::LedgerBehind)?, now, cause, wish, change)
    }

    /// The same by a state that somebody prepared.
    pub(crate) fn next_head_by(
        &self,
        state: &State,
        now: Timestamp,
        cause: Cause,
        wish: (&Wish, Option<&Meaning>),
        change: impl FnOnce(&mut Head),
    ) -> Result<Head, OperateError> {
        // Whoever looked at the clock dates by it; else nothing is dated back.
        let by_clock = match self.reliance {
            Reliance::Trusted | Reliance::Resets => true,
            Reliance::Doubted => false,
        };
        if let Signers::Frozen(frozen) = &state.signers {
            return Err(NotDrafted::Frozen(Box::new(frozen.clone())).into());
        }
        let draft = draft_on(&state.replica, (&state.ground, &state.fold), now, wish, |head| {
            head.cause = cause;
            if by_clock {
                let span = span(head);
                (head.issued_at, head.fresh_until) = (now, now + span);
            }
            // No node has a higher one: it would never take this.
            head.version = head.version.max(self.mark.map_or(0, |mark| mark.saturating_add(1)));
            keep_moved_keys(state, head);
            change(head);
        })?;
        *self.drafted.lock().unwrap_or_else(PoisonError::into_inner) = Some((draft.map(), Roll::of(state, &draft)));
        Ok(draft.head)
    }

    /// What the head that is about to be made would do to machines.
    pub async fn next_roll<T>(
        &mut self,
        draft: impl FnOnce(&Self, Timestamp) -> Result<T, OperateError>,
    ) -> Result<Roll, OperateError> {
        Box::pin(self.folded()).await?;
        draft(self, clock::now())?;
        Ok(self.take_drafted().map(|(_, roll)| roll).unwrap_or_default())
    }

    /// Heads of signers who were replaced, beside the one in force, which says less than they do. Nobody signs them again:
    /// a person looks, and decides anew.
    pub(crate) fn of_former_signers(&self) -> Vec<Held<'_>> {
        let Some(state) = self.fold.as_deref() else { return Vec::new() };
        let counts = |head: &Held<'_>| state.head_named(head.digest()).is_some();
        let says_more =
            |head: &Held<'_>| !state.revocations.names_all_of(head.lines()) && state.signers_of(*head).is_some();
        state.replica.heads.all().filter(|head| !counts(head)).filter(says_more).collect()
    }

    /// What is so of trust: as the head in force says, and whatever another head took away. The next head says it all.
    pub fn lines(&self) -> Vec<TrustLine> {
        let own = || self.known.head.head.trust.clone();
        self.fold.as_deref().map_or_else(own, State::trust_lines)
    }

    /// What another head said of trust that the one in force does not know, in words.
    pub fn turned_elsewhere(&self) -> Vec<String> {
        let (own, lines) = (&self.known.head.head.trust, self.lines());
        let mut all = Vec::new();
        for line in &lines {
            let (version, word, state) = (line.version, line.domain.word(), line.state.word());
            let before = own.iter().find(|it| it.is_same(line));
            if before.is_some_and(|it| it.state == line.state && it.distrusted == line.distrusted) {
                continue;
            }
            let theft = if line.distrusted { ", its root was stolen" } else { "" };
            let number = if own.iter().any(|it| it.has_number_of(line) && !it.is_same(line)) {
                " (two bundles were given this number; of these only one is used, ever)"
            } else {
                ""
            };
            let was = before.map_or("not listed", |it| it.state.word());
            all.push(format!(
                "version {version} of `{word}` is {state}{theft} by a head that was published at another gateway at the \
                 same time; the head in force, {}, says {was}{number}. The next head says {state}: freehold refresh; then \
                 look: freehold trust list",
                self.known.head.head.version
            ));
        }
        all
    }

    /// Renews freshness and mandates; changes nothing else.
    pub async fn refresh(&mut self, keys: &SignerKeys) -> Result<Made<Head>, OperateError> {
        self.publish(keys, |session, now| {
            let head = session.next_head(now, Cause::Refresh, |head| extend(head, now))?;
            Ok((Handed::of(session.seal(&head)?), head))
        })
        .await
    }
}

/// The mandates last as long as if they were given now.
pub(crate) fn extend(head: &mut Head, now: Timestamp) {
    for mandate in &mut head.mandates {
        mandate.not_after = mandate.not_after.max(now + MANDATE);
    }
}

/// If another head revoked an issuing key after a theft, its mandates name the one that took its place.
fn keep_moved_keys(state: &State, head: &mut Head) {
    let others = state.ground.rivals.iter().chain(&state.ground.head);
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
pub fn span(head: &Head) -> Seconds {
    head.fresh_until.since(head.issued_at).max(SHORTEST)
}
