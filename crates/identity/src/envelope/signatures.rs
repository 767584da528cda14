//! Signatures of an object, with it or without.

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

    /// Takes over signatures that were kept without the object.
    pub fn merge_kept(&mut self, kept: &Signatures) {
        self.signatures.extend(kept.0.iter().cloned());
        self.settle();
    }
}
