//! Who signs: the chain of signer sets as the ledger tells it.

use identity::envelope::Envelope;
use identity::signers::{SignerSet, Word};

use crate::entry::SignedEntry;
use crate::state::{Installed, State};

impl State {
    /// The path from the first set to the one in force. Where one set has two successors, the one that it signed
    /// itself goes before one by recovery; two of a kind end the path.
    fn path<'a>(&'a self, among: impl Fn(&Installed) -> bool) -> Vec<&'a Installed> {
        let mut path: Vec<&'a Installed> = Vec::new();
        let mut at = &self.first;
        loop {
            let follows =
                |next: &&Installed| next.set.version == at.version + 1 && next.previous == at.id && among(next);
            let (mut own, mut recovered) = (Vec::new(), Vec::new());
            for next in self.later.iter().filter(follows) {
                match next.word {
                    Word::Signers => own.push(next),
                    Word::Recovery => recovered.push(next),
                }
            }
            let candidates = if own.is_empty() { recovered } else { own };
            let [next] = candidates.as_slice() else {
                return path;
            };
            path.push(next);
            at = &next.set;
        }
    }

    /// Two successors of one set exist: nothing may be issued until people have looked.
    pub fn is_frozen(&self) -> bool {
        self.path(|_| true).len() != self.later.len()
    }

    /// The set in force.
    pub fn signer_set(&self) -> &SignerSet {
        self.path(|_| true).last().map_or(&self.first, |installed| &installed.set)
    }

    /// The envelopes that lead from the set of `version` to the one in force.
    pub fn signer_chain(&self, version: u64) -> Vec<Envelope> {
        let path = self.path(|_| true);
        let later = path.into_iter().filter(|installed| installed.set.version > version);
        later.map(|installed| installed.envelope.clone()).collect()
    }

    /// Every set from the first to the one in force.
    pub fn signer_sets(&self) -> impl DoubleEndedIterator<Item = &SignerSet> {
        std::iter::once(&self.first).chain(self.path(|_| true).into_iter().map(|installed| &installed.set))
    }

    /// The newest signer set in the entry's own past.
    pub(crate) fn signers_before(&self, signed: &SignedEntry) -> &SignerSet {
        self.sets_before(signed).last().unwrap_or(&self.first)
    }

    /// Every signer set in the entry's own past, the newest last.
    pub(crate) fn sets_before(&self, signed: &SignedEntry) -> impl DoubleEndedIterator<Item = &SignerSet> {
        let path = self.path(|installed| installed.by.iter().any(|by| signed.past().holds(by)));
        std::iter::once(&self.first).chain(path.into_iter().map(|installed| &installed.set))
    }
}
