//! Signatures of an object, with it or without.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::envelope::Envelope;
use crate::key::PublicKey;
use crate::text::Bytes;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signature {
    pub(super) keyid: PublicKey,
    pub(super) sig: Bytes,
}

/// The signatures of an object whose bytes lie elsewhere; whoever keeps them has checked them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signatures(Vec<Signature>);

impl Signatures {
    /// How many of these keys have signed.
    pub fn of<'k>(&self, keys: impl IntoIterator<Item = &'k PublicKey>) -> usize {
        keys.into_iter().filter(|key| self.0.iter().any(|signature| signature.keyid == **key)).count()
    }

    /// Nothing that this copy of the object would add.
    pub fn include(&self, copy: &Envelope) -> bool {
        copy.signatures.iter().all(|signature| self.0.contains(signature))
    }
}

impl Envelope {
    /// For whoever keeps many objects, and their bytes elsewhere.
    pub fn signatures(&self) -> Signatures {
        Signatures(self.signatures.clone())
    }

    /// Takes over signatures that were kept without the object. If there are too many, those of `known` keys come first.
    pub fn merge_kept(&mut self, kept: &Signatures, known: &BTreeSet<PublicKey>) {
        self.signatures.extend(kept.0.iter().cloned());
        self.settle_within(known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{MAX_SIGNATURES, Payload};
    use crate::key::{EdKey, Sign as _};

    #[derive(Serialize, Deserialize)]
    struct Note {}
    impl Payload for Note {
        const KIND: &'static str = "note";
        const SCHEMA: u32 = 1;
    }

    #[test]
    fn no_more_signatures_are_taken_over_than_will_be_read_and_known_keys_come_first() {
        let key = |n: u8| EdKey::from_seed(&[n; 32]);
        let signed = |by: std::ops::Range<u8>| {
            let note = Envelope::seal(None, &Note {}).unwrap();
            by.fold(note, |note, n| note.signed(&key(n)).unwrap())
        };
        let known: BTreeSet<PublicKey> = (100..130).map(|n| key(n).public()).collect();
        let mut here = signed(0..60);
        here.merge_kept(&signed(100..130).signatures(), &known);
        assert_eq!(here.signatures.len(), MAX_SIGNATURES);
        assert_eq!(here.signers_among(&known), known);
        assert!(here.open_with_threshold::<Note>(None, &known, known.len()).is_ok(), "it can still be read");
    }
}
