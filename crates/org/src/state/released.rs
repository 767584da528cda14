//! The release in force, and the files that it and the invites name.

use std::collections::BTreeSet;

use identity::id::Digest;
use identity::time::Timestamp;

use crate::state::{InviteRecord, ReleaseRecord, State};

impl State {
    /// The release that the head in force names.
    pub fn release(&self) -> Option<&ReleaseRecord> {
        self.releases.get(&self.head()?.head.release?)
    }

    /// The files that a gateway must not give up: those of the release in force, and of each invite that somebody can
    /// still use.
    pub fn named_files(&self, now: Timestamp) -> BTreeSet<Digest> {
        let released = self.release().into_iter().flat_map(|record| record.release.files());
        let live = self.invites.values().filter(|record| self.is_live(record, now));
        released.chain(live.flat_map(|record| record.invite.files.iter().copied())).collect()
    }

    fn is_live(&self, record: &InviteRecord, now: Timestamp) -> bool {
        // Who spends more than its own right takes nothing from another's.
        let left = record.invite.rights.iter().any(|right| record.uses_left(&right.gateway) != Some(0));
        left && now < record.invite.expires_at && !self.revocations.invite_is_revoked(record.invite.id)
    }
}
