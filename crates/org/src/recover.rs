//! Recovery: the recovery set replaces a lost signer set, after everybody had time to object.

use std::collections::BTreeSet;

use identity::envelope::{Envelope, Payload as _};
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::SignerName;
use identity::signers::{Recovery, Signer, SignerSet};
use identity::time::Timestamp;

use crate::entry::{Action, SignedEntry};
use crate::state::{RecoveryRecord, Spend, State, Void};

/// As many as a machine keeps in sight. Every caller is told of each: without a bound, whoever has the recovery keys
/// could make answers so long that nobody could read them, and so keep the signers from objecting.
pub const MAX_OPEN: usize = 4;

/// Why a recovery does not count yet, or no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDue {
    #[error("this recovery was not begun here")]
    NotBegun,
    #[error("the recovery waits until {until}")]
    Waits { until: Timestamp },
}

impl State {
    /// A gateway was shown a recovery. It names the set in force as its predecessor, or it is nobody's business.
    pub(crate) fn begin_recovery(&mut self, signed: &SignedEntry, envelope: &Envelope) -> Result<(), Void> {
        let before = self.signers_before(signed);
        let (set, _) = before.succeed(envelope, &self.recovery).map_err(|why| Void::BadObject(why.to_string()))?;
        self.check_names(signed, &set)?;
        let envelope = envelope.kept(&self.recovery.keys());
        let first = Spend { by: signed.cut(), at: signed.entry.at };
        let record = self.recoveries.entry(set.id);
        let record =
            record.or_insert_with(|| RecoveryRecord { set, envelope: envelope.clone(), begun: BTreeSet::new() });
        if record.begun.iter().any(|begun| signed.past().holds(&begun.by)) {
            return Err(Void::Repeats);
        }
        record.envelope.merge(&envelope);
        record.begun.insert(first);
        Ok(())
    }

    /// The recoveries that could still take effect: a set that signed its own successor meanwhile is not lost. When each
    /// does, every replica counts from its own first sight; what gateways wrote about that is for people.
    pub fn open_recoveries(&self) -> impl Iterator<Item = &RecoveryRecord> {
        let current = self.signer_set().version;
        self.recoveries.values().filter(move |record| record.set.version == current + 1)
    }

    /// The recovery that an entry would put in force; nothing if its set is here already.
    pub fn recovery_in(&self, signed: &SignedEntry) -> Option<Digest> {
        let Action::SignersInstall { signers, .. } = &signed.entry.action else {
            return None;
        };
        let id = signers.digest();
        let is_here = self.later.iter().any(|installed| installed.set.id == id);
        (signers.kind() == Recovery::KIND && !is_here).then_some(id)
    }

    /// A name in this set that stands for another key here already.
    pub fn name_taken<'a>(&self, set: &'a SignerSet) -> Option<&'a SignerName> {
        let sets = || self.signer_sets().chain(self.recoveries.values().map(|record| &record.set));
        let taken =
            |signer: &&Signer| sets().any(|old| old.quorum.key_of(&signer.name).is_some_and(|key| key != signer.key));
        set.quorum.signers().iter().find(taken).map(|signer| &signer.name)
    }

    /// Was it begun in the entry's own past, and is the delay over at the time that the entry names?
    pub(crate) fn check_recovery(&self, signed: &SignedEntry, id: Digest) -> Result<(), NotDue> {
        let record = self.recoveries.get(&id).ok_or(NotDue::NotBegun)?;
        let begun = record.begun.iter().filter(|begun| signed.past().holds(&begun.by)).map(|begun| begun.at).min();
        let until = begun.ok_or(NotDue::NotBegun)? + self.recovery_delay;
        if signed.entry.at < until { Err(NotDue::Waits { until }) } else { Ok(()) }
    }

    /// The first entry of a recovered set is written by one of its own: the others are lost.
    pub(crate) fn recovered_key(&self, signed: &SignedEntry, name: &SignerName) -> Option<PublicKey> {
        let Action::SignersInstall { signers, .. } = &signed.entry.action else {
            return None;
        };
        self.recoveries.get(&signers.digest()).and_then(|record| record.set.quorum.key_of(name))
    }
}
