//! Who signs, as this replica has it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use identity::envelope::{Envelope, Payload as _};
use identity::head::MOST_PREVIOUS;
use identity::id::Digest;
use identity::principal::SignerName;
use identity::signers::{Recovery, Signer, SignerSet, Word};
use identity::time::Timestamp;

use crate::ledger::heads::KnownHead;
use crate::ledger::signers::Signers;
use crate::ledger::step::SignerStep;
use crate::state::{HeadRecord, State};

/// As many as a machine keeps in sight. Every caller is told of each: without a bound, whoever has the recovery keys
/// could make answers so long that nobody could read them, and so keep the signers from objecting.
pub const MAX_OPEN: usize = 4;
/// How far ahead a clock is, in whole seconds, is not told more exactly than this.
const SLACK: u64 = 2;

impl State {
    /// Two successors of one set were seen before people could look: nothing may be issued until they have.
    pub const fn is_frozen(&self) -> bool {
        matches!(self.judged.signers, Signers::Frozen(_))
    }

    /// The set in force.
    pub const fn signer_set(&self) -> &SignerSet {
        &self.judged.ground.set
    }

    fn path(&self) -> impl DoubleEndedIterator<Item = &SignerStep> {
        let path: &[Digest] = match &self.judged.signers {
            Signers::InForce(in_force) => &in_force.path,
            Signers::Frozen(frozen) => &frozen.path,
        };
        path.iter().filter_map(|digest| self.replica.steps.get(digest))
    }

    /// The envelopes that lead from the set of `version` to the one that signed the head in force: whoever is told of the
    /// one goes by the other. A set that has signed no head yet is told of with its first.
    pub fn signer_chain(&self, version: u64) -> Vec<Envelope> {
        let told = self.head().map_or(1, |record| record.head.signers.version);
        let steps = self.path().filter(|step| step.to.version > version && step.to.version <= told);
        // One of those that signed another together may have been in force here.
        let mut once = BTreeSet::new();
        let steps = steps.flat_map(|step| self.settled_by(step).chain([step])).filter(|step| once.insert(step.digest));
        steps.map(|step| step.envelope.clone()).collect()
    }

    /// The same, and while two sets claim one place, what leads to each, and out: whoever is shown an older head than theirs
    /// hears why.
    pub fn told_steps(&self, version: u64) -> Vec<Envelope> {
        let contested = if self.is_frozen() { self.alarming_steps() } else { Vec::new() };
        let contested = contested.into_iter().map(|step| step.envelope.clone());
        self.signer_chain(version).into_iter().chain(contested).collect()
    }

    /// The steps to sets that claimed one place until this one: whoever follows one of them, and has not heard of the
    /// other, would not know that it is settled, nor who had to sign that.
    fn settled_by<'a>(&'a self, way_out: &'a SignerStep) -> impl Iterator<Item = &'a SignerStep> {
        let seen = || self.replica.steps.values().filter(|step| self.replica.sights.contains_key(&step.digest));
        let recovered = seen().filter(|step| {
            way_out.settles && step.previous == way_out.previous && step.to.version < way_out.to.version
        });
        let together = way_out.follows().filter(|_| !way_out.also.is_empty());
        let agreed = together.filter_map(move |id| seen().find(|step| step.to.id == id));
        recovered.take(MAX_OPEN).chain(agreed)
    }

    /// Sets that claim one place, or did until it was settled: what they signed is told of, and their names are taken.
    pub fn contested_sets(&self) -> impl Iterator<Item = &SignerSet> {
        let settled = self.path().flat_map(|step| self.settled_by(step)).filter(|step| step.word == Word::Signers);
        self.rivals().iter().chain(settled.map(|step| &step.to))
    }

    /// The sets that claim one place, if two do.
    pub fn rivals(&self) -> &[SignerSet] {
        match &self.judged.signers {
            Signers::InForce(_) => &[],
            Signers::Frozen(frozen) => &frozen.rivals,
        }
    }

    /// The heads that they signed, the highest first.
    pub fn claimed_heads(&self) -> Vec<&HeadRecord> {
        let of_rival = |record: &&HeadRecord| self.rivals().iter().any(|set| KnownHead::Whole(record).is_of(set));
        let mut heads: Vec<&HeadRecord> = self.replica.heads.values().filter(of_rival).collect();
        heads.sort_by_key(|record| Reverse(KnownHead::Whole(record).rank()));
        heads
    }

    /// The members' maps of these: whoever settles it goes on from one of them.
    pub fn claimed_maps(&self) -> BTreeSet<Digest> {
        self.claimed_heads().into_iter().take(MOST_PREVIOUS).filter_map(|record| record.head.members).collect()
    }

    /// Since when one of them is known here.
    pub fn claimed_since(&self, set: &SignerSet) -> Option<Timestamp> {
        let steps = self.replica.steps.values().filter(|step| step.to.id == set.id);
        let since = steps.filter_map(|step| self.replica.sights.get(&step.digest)).min();
        since.map(|since| self.replica.shown(*since))
    }

    /// Every set from the first to the one in force.
    pub fn signer_sets(&self) -> impl DoubleEndedIterator<Item = &SignerSet> {
        std::iter::once(&self.replica.basis.first).chain(self.path().map(|step| &step.to))
    }

    /// Recoveries that wait here, and when each takes effect: by this replica's own first sight.
    pub fn open_recoveries(&self) -> Vec<(&SignerStep, Timestamp)> {
        let pending = match &self.judged.signers {
            Signers::InForce(in_force) => &in_force.pending,
            Signers::Frozen(frozen) => &frozen.pending,
        };
        let open = |(digest, at): &(Digest, Timestamp)| Some((self.replica.steps.get(digest)?, *at));
        let mut open: Vec<_> = pending.iter().filter_map(open).collect();
        open.retain(|(step, _)| step.envelope.kind() == Recovery::KIND);
        open.sort_by_key(|(_, at)| *at);
        open.truncate(MAX_OPEN);
        open
    }

    /// What every machine should know of beside the chain: recoveries that wait, and steps to sets that claim one place.
    pub fn alarming_steps(&self) -> Vec<&SignerStep> {
        let rivals = self.rivals();
        let contested = self.replica.steps.values().filter(|step| rivals.iter().any(|set| set.id == step.to.id));
        let contested = contested.filter(|step| self.replica.sights.contains_key(&step.digest));
        let waiting = self.open_recoveries().into_iter().map(|(step, _)| step);
        waiting.chain(contested.take(MAX_OPEN)).collect()
    }

    /// When time alone changes who signs.
    pub fn turns_at(&self) -> Option<Timestamp> {
        let pending = match &self.judged.signers {
            Signers::InForce(in_force) => &in_force.pending,
            Signers::Frozen(frozen) => &frozen.pending,
        };
        pending.iter().map(|(_, at)| *at).filter(|at| *at > self.judged.as_of).min()
    }

    /// Has time changed who signs since this was judged, or was the clock set, so that nobody can tell by these dates?
    pub fn is_due(&self, now: Timestamp) -> bool {
        let is_set = self.replica.ahead.abs_diff(self.judged.ahead) > SLACK;
        self.turns_at().is_some_and(|at| is_set || at <= now)
    }

    /// A name in this set that stands for another key here already.
    pub fn name_taken<'a>(&self, set: &'a SignerSet) -> Option<&'a SignerName> {
        let taken = |signer: &&Signer| {
            let mut sets = self.signer_sets().chain(self.contested_sets());
            sets.any(|old| old.quorum.key_of(&signer.name).is_some_and(|key| key != signer.key))
        };
        set.quorum.signers().iter().find(taken).map(|signer| &signer.name)
    }
}
