//! The next head: what is so, with one thing changed.

use identity::head::{Head, SignedHead};
use identity::time::{Seconds, Timestamp};
use org::entry::{Action, Cause};

use crate::desk::Desk;
use crate::keys::SignerKeys;
use crate::session::{Made, OperateError, Session};

/// How long the first head is fresh, and how long a mandate lasts from its renewal. Later heads are as long as the one
/// before, until a fleet says otherwise.
pub const FRESH: Seconds = Seconds::DAY.times(30);
pub const MANDATE: Seconds = Seconds::DAY.times(365);
/// Nobody can renew a head more often than once a day.
const SHORTEST: Seconds = Seconds::DAY;

impl<D: Desk> Session<D> {
    /// The head that follows the present one.
    pub fn next_head(&self, now: Timestamp, change: impl FnOnce(&mut Head)) -> Head {
        let mut head = self.known.head.head.clone();
        head.version += 1;
        head.reverts = None;
        head.issued_at = now;
        head.fresh_until = now + span(&self.known.head.head);
        head.signers = self.known.signers.as_ref();
        self.take_shown(&mut head);
        // No node has a higher one: it would never take this.
        head.version = head.version.max(self.mark.map_or(0, |mark| mark.saturating_add(1)));
        change(&mut head);
        head
    }

    /// Somebody showed the gateway a head that says more than its ledger: what was revoked stays so, and the next
    /// version exceeds every one that was ever seen.
    fn take_shown(&self, head: &mut Head) {
        let shown = self.survey.shown.as_ref();
        // By the signers of now: those who were replaced decide nothing any more.
        let opened = shown.and_then(|shown| SignedHead::open(&self.known.signers, shown).ok());
        if let Some(opened) = opened {
            head.revocations.absorb(&opened.head.revocations);
            head.version = head.version.max(opened.head.version.saturating_add(1));
        }
        // Two operators at two gateways published at once: what either revoked stays so.
        for rival in &self.survey.rivals {
            let sets = self.known.signer_sets();
            let opened = sets.iter().find_map(|set| SignedHead::open(set, rival).ok());
            if let Some(opened) = opened {
                head.revocations.absorb(&opened.head.revocations);
            }
        }
    }

    /// Renews freshness and mandates; changes nothing else.
    pub async fn refresh(&mut self, keys: &SignerKeys) -> Result<Made<Head>, OperateError> {
        self.publish(keys, |session, now| {
            let head = session.next_head(now, |head| {
                for mandate in &mut head.mandates {
                    mandate.not_after = mandate.not_after.max(now + MANDATE);
                }
            });
            Ok((Action::HeadPublish { head: session.seal(&head)?, cause: Cause::Refresh }, head))
        })
        .await
    }
}

/// How long a head was made to be fresh.
pub fn span(head: &Head) -> Seconds {
    head.fresh_until.since(head.issued_at).max(SHORTEST)
}
