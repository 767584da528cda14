//! What is asked of a head before a gateway takes it.

use std::cmp::Reverse;

use identity::envelope::Envelope;
use identity::head::{BadHead, SignedHead};
use identity::time::{Seconds, Timestamp};
use identity::trust;

use crate::state::State;

/// So far two good clocks may be apart. What is dated further ahead was signed by a wrong one, or read by one.
pub const AHEAD: Seconds = Seconds::MINUTE.times(5);

impl State {
    /// What a gateway demands of a head that operators hand in: it must follow the one in force, as every node will
    /// demand of it. Replicas cannot ask this of each other, since heads from two sides may meet.
    pub fn check_follows(&self, head: &Envelope, now: Timestamp) -> Result<(), BadHead> {
        let Some(known) = self.head() else {
            return Ok(());
        };
        let next = SignedHead { head: head.peek(Some(self.org))?, digest: head.digest() };
        // A head that was kept back, complete, would undo what was decided since. Clocks may be an hour apart; one that
        // was far ahead when it signed the head in force says nothing.
        let issued_at = next.head.issued_at;
        if issued_at + Seconds::HOUR < known.head.issued_at && known.head.issued_at <= now {
            return Err(BadHead::DraftedEarlier { version: next.head.version, issued_at });
        }
        let mut known = SignedHead { head: known.head.clone(), digest: known.digest };
        // Remove wins, whichever head of the signers in force named it first.
        known.head.revocations.absorb(self.revoked());
        known.head.trust = self.trust_lines();
        next.may_follow(&known)
    }

    /// A head that somebody shows. Only the signers in force can have said more than this ledger: whatever earlier ones
    /// said before they went is in it, and what they sign now is worth nothing.
    pub fn open_shown(&self, head: &Envelope) -> Option<SignedHead> {
        SignedHead::open(self.signer_set(), head).ok()
    }

    /// Does the head say more than this ledger: a later version, or something that was taken away and is not here?
    pub fn lacks(&self, shown: &SignedHead) -> bool {
        self.is_older_than(shown)
            || !self.revoked().includes(&shown.head.revocations)
            || trust::follows(&shown.head.trust, &self.trust_lines()).is_err()
    }

    pub fn is_older_than(&self, shown: &SignedHead) -> bool {
        let rank = (shown.head.place(), Reverse(shown.digest));
        self.head().is_none_or(|own| rank > (own.head.place(), Reverse(own.digest)))
    }
}
