//! What replaces a signer set by the next.

use std::collections::BTreeSet;

use identity::envelope::Envelope;
use identity::head::SignedHead;
use identity::signers::{Signer, SignerSet, Word};

use crate::entry::SignedEntry;
use crate::state::{Installed, State, Void, add_first, bad};

impl State {
    /// The new set, and the first head under it: both or neither.
    pub(crate) fn install(&mut self, signed: &SignedEntry, signers: &Envelope, head: &Envelope) -> Result<(), Void> {
        let before = self.signers_before(signed);
        let (set, on_word) = before.succeed(signers, &self.recovery).map_err(|why| bad(&why))?;
        let entitled = match on_word {
            Word::Signers => before.quorum.keys(),
            Word::Recovery => {
                self.check_recovery(signed, set.id).map_err(|why| bad(&why))?;
                self.recovery.keys()
            }
        };
        self.check_names(signed, &set)?;
        let opened = SignedHead::open(&set, head).map_err(|why| bad(&why))?;
        self.check_epoch_kept(signed, &opened.head)?;
        let (previous, envelope) = (before.id, signers.kept(&entitled));
        let first_head = head.kept(&set.quorum.keys());
        if let Some(known) = self.later.iter_mut().find(|installed| installed.set.id == set.id) {
            known.envelope.merge(&envelope);
            add_first(&mut known.by, signed);
        } else {
            self.later.push(Installed { set, previous, word: on_word, envelope, by: BTreeSet::from([signed.cut()]) });
            self.later.sort_by_key(|installed| (installed.set.version, installed.set.id));
        }
        self.take_head(signed, opened, first_head);
        self.revoke_anew();
        Ok(())
    }

    /// A name stands for one key for ever: else the old key could go on writing the new one's chain.
    pub(crate) fn check_names(&self, signed: &SignedEntry, set: &SignerSet) -> Result<(), Void> {
        // Those whom a recovery names may write, too, before they are installed.
        let named = self.recoveries.values();
        let named = named.filter(|record| record.begun.iter().any(|begun| signed.past().holds(&begun.by)));
        let earlier: Vec<&SignerSet> = self.sets_before(signed).chain(named.map(|record| &record.set)).collect();
        let renamed = |signer: &Signer| {
            earlier.iter().any(|old| old.quorum.key_of(&signer.name).is_some_and(|key| key != signer.key))
        };
        match set.quorum.signers().iter().find(|signer| renamed(signer)) {
            Some(taken) => Err(Void::BadObject(format!("the signer's name `{}` belongs to another key", taken.name))),
            None => Ok(()),
        }
    }
}
