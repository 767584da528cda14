//! Heads as they came, by digest; those that were passed are shortened (log compaction). Of those that the head in
//! force leads back to, only what is still asked of them need stay in memory: whoever shortens one has it on disk, and
//! brings it back if it is to be judged by again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::{Envelope, Signatures};
use identity::head::{Cause, Head, Revocations};
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::signers::{SignerSet, SignersRef};
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ledger::step::Sets;

/// A head, as it was signed and as it reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadRecord {
    pub digest: Digest,
    pub envelope: Envelope,
    pub head: Head,
}

/// Nothing about them is believed yet.
#[derive(Debug, Clone, Default)]
pub struct Heads {
    whole: BTreeMap<Digest, Whole>,
    passed: BTreeMap<Digest, Passed>,
}

#[derive(Debug, Clone)]
struct Whole {
    record: HeadRecord,
    /// What it takes back beyond the head before it, if that was here whole when it came; else everything.
    added: Option<Revocations>,
}

/// A head that another one leads back to.
#[derive(Debug, Clone)]
pub struct Passed {
    signers: SignersRef,
    version: u64,
    previous: Vec<Digest>,
    issued_at: Timestamp,
    members: Option<Digest>,
    cause: Cause,
    voices: Vec<(PublicKey, NodeName)>,
    added: Revocations,
    signatures: Signatures,
}

/// A head, as far as it is here.
#[derive(Debug, Clone, Copy)]
pub enum KnownHead<'h> {
    Whole(&'h HeadRecord),
    Passed(Digest, &'h Passed),
}

/// Heads are ordered by signer set, then version; of two alike the lower digest is the higher.
pub type Rank = (u64, u64, Reverse<Digest>);

impl Heads {
    /// The whole head, if it is here.
    pub fn get(&self, digest: &Digest) -> Option<&HeadRecord> {
        self.whole.get(digest).map(|whole| &whole.record)
    }

    pub fn held(&self, digest: &Digest) -> Option<KnownHead<'_>> {
        let passed = || self.passed.get(digest).map(|passed| KnownHead::Passed(*digest, passed));
        self.get(digest).map(KnownHead::Whole).or_else(passed)
    }

    pub fn all(&self) -> impl Iterator<Item = KnownHead<'_>> {
        let passed = self.passed.iter().map(|(digest, passed)| KnownHead::Passed(*digest, passed));
        self.values().map(KnownHead::Whole).chain(passed)
    }

    /// Those that are here whole.
    pub fn values(&self) -> impl Iterator<Item = &HeadRecord> {
        self.whole.values().map(|whole| &whole.record)
    }

    pub fn contains(&self, digest: &Digest) -> bool {
        self.whole.contains_key(digest) || self.passed.contains_key(digest)
    }

    pub fn len(&self) -> usize {
        self.whole.len() + self.passed.len()
    }

    pub fn whole_count(&self) -> usize {
        self.whole.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn retain(&mut self, stays: impl Fn(KnownHead<'_>) -> bool) {
        self.whole.retain(|_, whole| stays(KnownHead::Whole(&whole.record)));
        self.passed.retain(|digest, passed| stays(KnownHead::Passed(*digest, passed)));
    }

    /// Adds what a copy of a head has that is not here: itself, or signatures. Did it add anything?
    pub(super) fn take(&mut self, digest: Digest, envelope: &Envelope, head: Head, keys: &BTreeSet<PublicKey>) -> bool {
        if let Some(passed) = self.passed.get(&digest) {
            if passed.signatures.include(envelope) {
                return false;
            }
            return self.put_back(digest, envelope, head, keys);
        }
        let whole = self.place(digest, envelope, head);
        if whole.record.envelope == *envelope {
            return false;
        }
        whole.record.envelope.merge_holding(envelope, keys);
        true
    }

    /// A head that was shortened is here again as it was.
    pub(super) fn put_back(&mut self, digest: Digest, from: &Envelope, head: Head, keys: &BTreeSet<PublicKey>) -> bool {
        let Some(passed) = self.passed.remove(&digest) else { return false };
        let whole = self.place(digest, from, head);
        whole.added = Some(passed.added);
        whole.record.envelope.merge_holding(from, keys);
        whole.record.envelope.merge_kept(&passed.signatures, keys);
        true
    }

    fn place(&mut self, digest: Digest, envelope: &Envelope, head: Head) -> &mut Whole {
        let before = head.previous.first().and_then(|before| self.whole.get(before));
        let added = before.map(|before| head.revocations.beyond(&before.record.head.revocations));
        let envelope = envelope.kept(&BTreeSet::new());
        self.whole.entry(digest).or_insert_with(|| Whole { record: HeadRecord { digest, envelope, head }, added })
    }

    /// Keeps of these heads only what is still asked of them.
    pub(super) fn shorten(&mut self, passed: impl Iterator<Item = Digest>) {
        for digest in passed {
            if let Some(whole) = self.whole.remove(&digest) {
                self.passed.insert(digest, Passed::of(whole));
            }
        }
    }

    /// Only these.
    pub(super) fn within(&self, some: &BTreeSet<Digest>) -> Self {
        let mut within = self.clone();
        within.retain(|head| some.contains(&head.digest()));
        within
    }

    /// What is here and may be reached from a head through `previous`, with that head. That a head is named says nothing
    /// of who signed it: one that too few did is passed by.
    pub(super) fn reach(&self, top: Option<KnownHead<'_>>, sets: &Sets) -> BTreeSet<Digest> {
        let mut reached = BTreeSet::new();
        let mut edge: Vec<KnownHead<'_>> = top.into_iter().collect();
        while let Some(head) = edge.pop() {
            if reached.insert(head.digest()) {
                let before = head.previous().iter().filter_map(|before| self.held(before));
                edge.extend(before.filter(|before| before.is_signed(sets)));
            }
        }
        reached
    }
}

impl Passed {
    fn of(Whole { record, added }: Whole) -> Self {
        let HeadRecord { envelope, head, .. } = record;
        let voices = head.mandates.iter().map(|mandate| (mandate.voice, mandate.gateway.clone())).collect();
        Self {
            signers: head.signers,
            version: head.version,
            previous: head.previous,
            issued_at: head.issued_at,
            members: head.members,
            cause: head.cause,
            voices,
            added: added.unwrap_or(head.revocations),
            signatures: envelope.signatures(),
        }
    }
}

impl<'h> KnownHead<'h> {
    pub const fn digest(self) -> Digest {
        match self {
            Self::Whole(record) => record.digest,
            Self::Passed(digest, _) => digest,
        }
    }

    pub const fn signers(self) -> SignersRef {
        match self {
            Self::Whole(record) => record.head.signers,
            Self::Passed(_, passed) => passed.signers,
        }
    }

    pub const fn version(self) -> u64 {
        match self {
            Self::Whole(record) => record.head.version,
            Self::Passed(_, passed) => passed.version,
        }
    }

    pub fn previous(self) -> &'h [Digest] {
        match self {
            Self::Whole(record) => &record.head.previous,
            Self::Passed(_, passed) => &passed.previous,
        }
    }

    pub const fn issued_at(self) -> Timestamp {
        match self {
            Self::Whole(record) => record.head.issued_at,
            Self::Passed(_, passed) => passed.issued_at,
        }
    }

    pub const fn members(self) -> Option<Digest> {
        match self {
            Self::Whole(record) => record.head.members,
            Self::Passed(_, passed) => passed.members,
        }
    }

    pub const fn cause(self) -> &'h Cause {
        match self {
            Self::Whole(record) => &record.head.cause,
            Self::Passed(_, passed) => &passed.cause,
        }
    }

    /// Whose voices it gives a mandate to.
    pub fn voices(self) -> Vec<(PublicKey, NodeName)> {
        match self {
            Self::Whole(record) => {
                let mandates = record.head.mandates.iter();
                mandates.map(|mandate| (mandate.voice, mandate.gateway.clone())).collect()
            }
            Self::Passed(_, passed) => passed.voices.clone(),
        }
    }

    /// What it takes back; of one that was shortened, at least what the heads before it do not.
    pub const fn lines(self) -> &'h Revocations {
        match self {
            Self::Whole(record) => &record.head.revocations,
            Self::Passed(_, passed) => &passed.added,
        }
    }

    pub const fn rank(self) -> Rank {
        (self.signers().version, self.version(), Reverse(self.digest()))
    }

    /// Signed by the threshold of the very set that it names.
    pub fn is_of(self, set: &SignerSet) -> bool {
        let signed = || set.quorum.keys().iter().filter(|key| self.is_signed_by(key)).count();
        self.signers() == set.as_ref() && signed() >= set.quorum.threshold()
    }

    /// The same of any set to which signatures lead.
    pub fn is_signed(self, sets: &Sets) -> bool {
        sets.get(&self.signers().id).is_some_and(|set| self.is_of(set))
    }

    /// A replica keeps no signature that does not hold.
    pub fn is_signed_by(self, key: &PublicKey) -> bool {
        let signed = match self {
            Self::Whole(record) => record.envelope.kept_of([key]),
            Self::Passed(_, passed) => passed.signatures.of([key]),
        };
        signed > 0
    }

    /// Nothing that another copy of it would add.
    pub fn has_signatures_of(self, envelope: &Envelope) -> bool {
        match self {
            Self::Whole(record) => record.envelope.has_signatures_of(envelope),
            Self::Passed(_, passed) => passed.signatures.include(envelope),
        }
    }
}
