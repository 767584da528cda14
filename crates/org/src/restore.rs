//! Going back to an older copy of the ledger on purpose: a new epoch, and invites that wait for a word.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::{Envelope, Payload};
use identity::head::{Epoch, Head, SignedHead};
use identity::id::InviteId;
use identity::time::Timestamp;
use identity::trust;
use serde::{Deserialize, Serialize};

use crate::entry::{Action, Cause, SignedEntry};
use crate::frontier::Place;
use crate::state::{EpochRecord, InviteRecord, State, Unfit, Void, add_first};

/// The threshold's word that these invites were not spent in what was lost, or that it does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confirmation {
    pub epoch: u32,
    pub invites: BTreeSet<InviteId>,
}

impl Payload for Confirmation {
    const KIND: &'static str = "confirmation";
    const SCHEMA: u32 = 1;
}

impl State {
    /// The epoch in force.
    pub fn epoch(&self) -> Epoch {
        self.epochs.last_key_value().map_or_else(Epoch::first, |(_, record)| record.epoch.clone())
    }

    /// When the operators last went on from an older copy of the ledger, if ever.
    pub fn restored_at(&self) -> Option<Timestamp> {
        self.epochs.last_key_value().map(|(_, record)| record.begun_at)
    }

    /// The newest epoch in the entry's own past.
    fn epoch_before(&self, signed: &SignedEntry) -> Epoch {
        let known = self.epochs.values().rev();
        let mut seen = known.filter(|record| record.by.iter().any(|by| signed.past().holds(by)));
        seen.next().map_or_else(Epoch::first, |record| record.epoch.clone())
    }

    /// Every entry stands in the epoch that its author knew of; one that a restore left behind never comes back.
    pub(crate) fn check_epoch(&self, signed: &SignedEntry) -> Result<(), Unfit> {
        let entry = &signed.entry;
        let known = self.epoch_before(signed).number;
        let wanted = match &entry.action {
            Action::HeadPublish { head, cause: Cause::Restore } => {
                self.check_beginning(signed, head, known)?;
                known + 1
            }
            _ => known,
        };
        if entry.epoch != wanted {
            return Err(Unfit::OtherEpoch { found: entry.epoch, wanted });
        }
        let later = self.epochs.range(entry.epoch + 1..);
        if later.into_iter().any(|(_, record)| record.epoch.gave_up(&entry.author, entry.epoch, entry.seq)) {
            return Err(Unfit::GivenUp);
        }
        Ok(())
    }

    /// An epoch begins exactly where this ledger stands, on the threshold's word.
    fn check_beginning(&self, signed: &SignedEntry, head: &Envelope, known: u32) -> Result<(), Unfit> {
        let opened = SignedHead::open(self.signers_before(signed), head).map_err(|_| Unfit::BadEpoch)?;
        let epoch = opened.head.epoch;
        if epoch.number != known + 1 || self.epochs.contains_key(&epoch.number) {
            return Err(Unfit::BadEpoch);
        }
        if epoch.after == self.frontier.0 { Ok(()) } else { Err(Unfit::EpochElsewhere) }
    }

    /// A head carries the epoch of its author's past, or begins the next.
    pub(crate) fn check_epoch_kept(&self, signed: &SignedEntry, head: &Head) -> Result<(), Void> {
        if head.epoch == self.epoch_before(signed) {
            return Ok(());
        }
        Err(Void::BadObject("the head is of another epoch".to_owned()))
    }

    pub(crate) fn begin_epoch(&mut self, signed: &SignedEntry, epoch: &Epoch) {
        let at = signed.entry.at;
        let fresh = || EpochRecord { epoch: epoch.clone(), begun_at: at, by: BTreeSet::new() };
        let record = self.epochs.entry(epoch.number).or_insert_with(fresh);
        record.begun_at = record.begun_at.min(at);
        add_first(&mut record.by, signed);
    }

    pub(crate) fn confirm(&mut self, signed: &SignedEntry, envelope: &Envelope) -> Result<(), Void> {
        let opened = self.signers_before(signed).open(envelope);
        let confirmation: Confirmation = opened.map_err(|why| Void::BadObject(why.to_string()))?;
        if confirmation.epoch != self.epoch_before(signed).number {
            return Err(Void::BadObject("it confirms for another epoch".to_owned()));
        }
        for invite in confirmation.invites {
            self.confirmed.entry(invite).or_default().insert(confirmation.epoch);
        }
        Ok(())
    }

    /// Made before the last restore, and not confirmed since: it may have been spent in what was lost.
    pub fn is_unconfirmed(&self, record: &InviteRecord) -> bool {
        let epoch = self.epoch().number;
        let confirmed = self.confirmed.get(&record.invite.id).is_some_and(|epochs| epochs.contains(&epoch));
        // One that was lost may be written again by whoever kept it: what counts is when the threshold made it.
        let began =
            self.epochs.contains_key(&epoch).then(|| self.heads.values().find(|head| head.head.epoch.number == epoch));
        let older = began.flatten().is_some_and(|began| record.invite.created_at < began.head.issued_at);
        !confirmed && (older || record.by.iter().all(|by| by.epoch < epoch))
    }

    /// A head that somebody shows. Only the signers in force can have said more than this ledger: whatever earlier ones
    /// said before they went is in it, and what they sign now is worth nothing.
    pub fn open_shown(&self, head: &Envelope) -> Option<SignedHead> {
        SignedHead::open(self.signer_set(), head).ok()
    }

    /// Does the head say more than this ledger: a later version, or something that was taken away and is not here?
    pub fn lacks(&self, head: &Head) -> bool {
        self.is_older_than(head)
            || !self.revocations.includes(&head.revocations)
            || trust::follows(&head.trust, &self.trust_lines()).is_err()
    }

    pub fn is_older_than(&self, head: &Head) -> bool {
        self.head().is_none_or(|own| head.version > own.head.version)
    }

    /// Where the ledger stands, as the beginning of the next epoch.
    pub fn next_epoch(&self) -> Epoch {
        let after: BTreeMap<_, Place> = self.frontier.0.clone();
        Epoch { number: self.epoch().number + 1, after }
    }
}
