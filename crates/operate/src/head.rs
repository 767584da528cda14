//! The next head: what is so, with one thing changed.

use identity::head::Head;
use identity::time::{Seconds, Timestamp};
use org::entry::{Action, Cause};

use crate::desk::Desk;
use crate::keys::SignerKeys;
use crate::session::{OperateError, Session};

/// How long a head is fresh, and how long a mandate lasts from its renewal.
pub const FRESH: Seconds = Seconds::DAY.times(30);
pub const MANDATE: Seconds = Seconds::DAY.times(365);

impl<D: Desk> Session<D> {
    /// The head that follows the present one.
    pub fn next_head(&self, now: Timestamp, change: impl FnOnce(&mut Head)) -> Head {
        let mut head = self.known.head.head.clone();
        head.version += 1;
        head.reverts = None;
        head.issued_at = now;
        head.fresh_until = now + FRESH;
        head.signers = self.known.signers.as_ref();
        change(&mut head);
        head
    }

    /// Renews freshness and mandates; changes nothing else.
    pub async fn refresh(&mut self, keys: &SignerKeys) -> Result<Head, OperateError> {
        self.publish(keys, |session, now| {
            let head = session.next_head(now, |head| {
                for mandate in &mut head.mandates {
                    mandate.not_after = mandate.not_after.max(now + MANDATE);
                }
            });
            Ok((Action::HeadPublish { head: session.seal(keys, &head)?, cause: Cause::Refresh }, head))
        })
        .await
    }
}
