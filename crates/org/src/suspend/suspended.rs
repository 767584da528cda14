//! Suspensions (quarantine) that are known here, each since its first sight, and whom they stop now. Decides only.
//!
//! A suspension ends by itself: when it says so, and in any case a day after it was first seen here. A signer suspends a node
//! key once while a signer set is in force. What is over stays as a mark for that, as long as the set does.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::SignerName;
use identity::signers::SignerSet;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::suspend::{LONGEST, Suspension, is_plain};

/// So many are kept whole. The signers of a set share them in equal parts: none crowds out another.
pub(crate) const MOST: usize = 256;
/// So many with those of which only a mark is left.
pub(crate) const MARKS: usize = 2_048;
/// Whoever hands over more than that hands over something else.
const LONGEST_TEXT: usize = 8 << 10;

/// One signer's word about one node key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sight {
    signer: PublicKey,
    target: Digest,
    /// The version of the signer set under which it was first seen.
    set: u64,
    object: Digest,
    since: Timestamp,
    ends: Timestamp,
    /// Absent where only the mark is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    envelope: Option<Envelope>,
}

/// Law: those that come at one time give the same answers in whatever order they come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Suspensions(Vec<Sight>);

/// Who stopped a node key, until when, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspended {
    pub by: SignerName,
    pub until: Timestamp,
    pub reason: String,
}

impl std::fmt::Display for Suspended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { by, until, reason } = self;
        write!(f, "`{by}` suspended this machine until {until}")?;
        if reason.is_empty() { Ok(()) } else { write!(f, ": {reason}") }
    }
}

/// What all suspensions come to under one signer set, by the digest of the node key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stopped(BTreeMap<Digest, Vec<Suspended>>);

impl Stopped {
    /// Each signer's word stands for its own time; the last one to end is named.
    pub fn of(&self, node_key: Digest, now: Timestamp) -> Option<&Suspended> {
        let words = self.0.get(&node_key)?;
        words.iter().filter(|word| now < word.until).max_by_key(|word| word.until)
    }
}

impl Suspensions {
    /// Takes what is new of what somebody handed over. Only the word of a signer of the set in force is kept. True if
    /// something is to be written down.
    pub fn take(&mut self, handed: &[Envelope], set: &SignerSet, now: Timestamp) -> bool {
        let mut is_new = self.settle(set, now);
        for envelope in handed.iter().take(MOST) {
            is_new |= self.take_one(envelope, set, now);
        }
        is_new
    }

    /// Have all who signed it suspended that node key before, while this set is in force? Then it counts for nothing.
    pub fn repeats(&self, envelope: &Envelope, set: &SignerSet) -> bool {
        let Ok(body) = envelope.peek::<Suspension>(Some(set.org)) else {
            return false;
        };
        let signers = envelope.signers_among(&set.quorum.keys());
        let earlier = |signer: &PublicKey, sight: &Sight| {
            (sight.signer, sight.target, sight.set) == (*signer, body.node_key, set.version)
                && sight.object != envelope.digest()
        };
        !signers.is_empty() && signers.iter().all(|signer| self.0.iter().any(|sight| earlier(signer, sight)))
    }

    /// Whom they stop, by what the set's signers have signed: nobody else's row counts, whatever a disk says.
    pub fn stopped(&self, set: &SignerSet) -> Stopped {
        let mut stopped = BTreeMap::<_, Vec<_>>::new();
        for sight in &self.0 {
            let signer = set.quorum.signers().iter().find(|signer| signer.key == sight.signer);
            let (Some(signer), Some(envelope)) = (signer, &sight.envelope) else {
                continue;
            };
            if let Ok(body) = envelope.open_signed_by::<Suspension>(Some(set.org), &[sight.signer]) {
                let until = end(&body, sight.since);
                let word = Suspended { by: signer.name.clone(), until, reason: body.reason };
                stopped.entry(body.node_key).or_default().push(word);
            }
        }
        Stopped(stopped)
    }

    /// All that are kept whole, for whoever has others.
    pub fn envelopes(&self) -> Vec<Envelope> {
        self.0.iter().filter_map(|sight| sight.envelope.clone()).collect()
    }

    /// The same for everybody who keeps the same ones; nothing if there is none.
    pub fn mark(&self) -> Option<Digest> {
        mark(self.0.iter().filter(|sight| sight.envelope.is_some()).map(|sight| sight.object))
    }

    pub fn objects(&self) -> impl Iterator<Item = Digest> {
        self.0.iter().map(|sight| sight.object)
    }

    /// Was this one counted here, or put aside as a mark?
    pub fn knows(&self, object: Digest) -> bool {
        self.0.iter().any(|sight| sight.object == object)
    }

    /// A signer's word dies when the signer leaves the set, and marks end with their set.
    fn settle(&mut self, set: &SignerSet, now: Timestamp) -> bool {
        let (before, keys) = (self.0.len(), set.quorum.keys());
        self.0.retain(|sight| keys.contains(&sight.signer) && (sight.set == set.version || !sight.is_over(now)));
        self.0.len() != before
    }

    fn take_one(&mut self, envelope: &Envelope, set: &SignerSet, now: Timestamp) -> bool {
        let text = serde_json::to_vec(envelope).map_or(usize::MAX, |text| text.len());
        let Ok(body) = envelope.peek::<Suspension>(Some(set.org)) else {
            return false;
        };
        if text > LONGEST_TEXT || body.until <= body.at || !is_plain(&body.reason) {
            return false;
        }
        let mut is_new = false;
        for signer in envelope.signers_among(&set.quorum.keys()) {
            let (target, object, ends) = (body.node_key, envelope.digest(), end(&body, now));
            let envelope = Some(envelope.kept(&[signer].into()));
            let sight = Sight { signer, target, set: set.version, object, since: now, ends, envelope };
            is_new |= self.enter(sight, set.quorum.signers().len());
        }
        is_new
    }

    /// Of two by one signer for one node key under one set, the one that was seen first counts.
    fn enter(&mut self, mut new: Sight, signers: usize) -> bool {
        let now = new.since;
        let is_own = |sight: &Sight| sight.signer == new.signer;
        if self.0.iter().any(|sight| is_own(sight) && sight.object == new.object) {
            return false;
        }
        let rival = |sight: &Sight| is_own(sight) && (sight.target, sight.set) == (new.target, new.set);
        if let Some(at) = self.0.iter().position(rival) {
            let gives_way = |rival: &Sight| rival.since == now && new.rank(now) < rival.rank(now);
            if !self.0.get(at).is_some_and(gives_way) {
                return false;
            }
            self.0.remove(at);
        }
        if self.whole_of(new.signer) >= MOST / signers.max(1) {
            for sight in self.0.iter_mut().filter(|sight| is_own(sight) && sight.is_over(now)) {
                sight.envelope = None;
            }
        }
        if self.whole_of(new.signer) >= MOST / signers.max(1) {
            let last = self.0.iter().enumerate().filter(|(_, sight)| is_own(sight) && sight.since == now);
            let last = last.filter(|(_, sight)| sight.envelope.is_some()).max_by_key(|(_, sight)| sight.rank(now));
            match last {
                // It stops nobody, so it takes nobody's place.
                _ if new.is_over(now) => new.envelope = None,
                Some((at, sight)) if new.rank(now) < sight.rank(now) => drop(self.0.remove(at)),
                // Who came first stays, or a signer could make its earlier words forgotten.
                Some(_) | None => return false,
            }
        }
        if self.0.iter().filter(|sight| sight.signer == new.signer).count() >= MARKS / signers.max(1) {
            return false;
        }
        self.0.push(new);
        self.0.sort_by_key(|sight| (sight.set, sight.signer, sight.target));
        true
    }

    fn whole_of(&self, signer: PublicKey) -> usize {
        self.0.iter().filter(|sight| sight.signer == signer && sight.envelope.is_some()).count()
    }
}

impl Sight {
    fn is_over(&self, now: Timestamp) -> bool {
        self.envelope.is_none() || now >= self.ends
    }

    /// Among those that were seen at one time.
    fn rank(&self, now: Timestamp) -> (bool, Digest) {
        (self.is_over(now), self.object)
    }
}

/// By its own words, for a day at most; and no longer from its first sight than that, whatever its dates are.
fn end(body: &Suspension, since: Timestamp) -> Timestamp {
    let length = body.until.since(body.at).min(LONGEST);
    (body.at + length).min(since + length)
}

/// What two sides compare, to know whether they have the same.
pub fn mark(objects: impl Iterator<Item = Digest>) -> Option<Digest> {
    let objects: BTreeSet<Digest> = objects.collect();
    let all: Vec<u8> = objects.iter().flat_map(|object| object.0).collect();
    (!all.is_empty()).then(|| Digest::of(&all))
}
