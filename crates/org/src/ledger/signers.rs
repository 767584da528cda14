//! Which signer set is in force here, or that two claim one place (split brain): a matter of what was signed, and of
//! when this replica first saw it. Pure.
//!
//! Law: the same steps and the same sights give the same answer, in whatever order they came; and no word of an author
//! about its own past is read.

use std::collections::{BTreeMap, BTreeSet};

use identity::id::Digest;
use identity::key::PublicKey;
use identity::signers::{Quorum, SignerSet, SignersRef, Word};
use identity::time::{Seconds, Timestamp};

use crate::founding::Founding;
use crate::ledger::step::{Sights, SignerStep};

/// What the founding record says of it, and what a person settled: a join code, a backup, or by hand on the machine.
#[derive(Debug, Clone)]
pub struct Basis {
    pub first: SignerSet,
    pub recovery: Quorum,
    pub delay: Seconds,
    pub floor: Option<SignersRef>,
}

impl Basis {
    pub fn of(founding: &Founding, floor: Option<SignersRef>) -> Self {
        let record = &founding.record;
        Self { first: founding.first_signers(), recovery: record.recovery.clone(), delay: record.recovery_delay, floor }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signers {
    InForce(InForce),
    /// Two sets claim one place, and both were seen before people could look: nothing new counts here.
    Frozen(Frozen),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    pub set: SignerSet,
    /// Since when it is in force here; nothing for the founders' own.
    pub since: Option<Timestamp>,
    /// The steps from the first set to this one.
    pub path: Vec<Digest>,
    /// The head that stands in until this set has signed one.
    pub stands_in: Option<Digest>,
    /// Recoveries of this set that wait, and when each takes effect.
    pub pending: Vec<(Digest, Timestamp)>,
    /// Steps that contradict what is settled here: no harm, but somebody should know.
    pub late: BTreeSet<Digest>,
    /// The floor was not reached: whoever handed this over withholds steps.
    pub below_floor: bool,
}

/// What became of a step here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stance {
    Taken,
    Waits { until: Timestamp },
    NotTaken,
}

impl Signers {
    /// The same by another clock.
    pub(crate) fn by(mut self, clock: impl Fn(Timestamp) -> Timestamp) -> Self {
        let pending = match &mut self {
            Self::InForce(in_force) => {
                in_force.since = in_force.since.map(&clock);
                &mut in_force.pending
            }
            Self::Frozen(frozen) => {
                frozen.since = clock(frozen.since);
                &mut frozen.pending
            }
        };
        for (_, until) in pending {
            *until = clock(*until);
        }
        self
    }

    pub fn stance_of(&self, step: Digest) -> Stance {
        let (path, pending) = match self {
            Self::InForce(in_force) => (&in_force.path, &in_force.pending),
            Self::Frozen(frozen) => (&frozen.path, &frozen.pending),
        };
        if path.contains(&step) {
            return Stance::Taken;
        }
        let until = pending.iter().find(|(digest, _)| *digest == step).map(|(_, until)| *until);
        until.map_or(Stance::NotTaken, |until| Stance::Waits { until })
    }
}

impl InForce {
    /// A set by itself, whatever led to it.
    pub fn alone(set: SignerSet, stands_in: Option<Digest>) -> Self {
        let (path, pending, late) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { set, since: None, path, stands_in, pending, late, below_floor: false }
    }

    /// What was so before two sets claimed one place.
    pub fn before(frozen: &Frozen) -> Self {
        Self { path: frozen.path.clone(), ..Self::alone(frozen.last.clone(), frozen.stands_in) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frozen {
    /// The last set that nobody contests.
    pub last: SignerSet,
    pub rivals: Vec<SignerSet>,
    pub since: Timestamp,
    /// The steps from the first set to that one, and the head that stands in until it has signed one.
    pub path: Vec<Digest>,
    pub stands_in: Option<Digest>,
    /// Ways out that wait, and when each takes effect.
    pub pending: Vec<(Digest, Timestamp)>,
    /// The head that the first of the rivals names: what runs, runs by it.
    pub named: Option<Digest>,
    /// That first one, if it was in force here before the others were seen.
    pub stood: Option<SignerSet>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Own,
    Recovered,
}

/// A step that could be the next one.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    at: Timestamp,
    step: &'a SignerStep,
}

impl Candidate<'_> {
    const fn rank(&self) -> (Timestamp, Digest) {
        (self.at, self.step.digest)
    }
}

type Candidates<'a> = BTreeMap<(Kind, Digest), Candidate<'a>>;

/// Where the walk stands.
struct Walk<'a> {
    basis: &'a Basis,
    steps: &'a [SignerStep],
    sights: &'a Sights,
    now: Timestamp,
    /// A step that is taken as signed.
    signed: Option<Digest>,
    /// The sets that the floor settles.
    settled: BTreeSet<Digest>,
    at: SignerSet,
    /// The set before it.
    last: Option<SignerSet>,
    since: Timestamp,
    path: Vec<Digest>,
    stands_in: Option<Digest>,
    /// Keys that were removed: none returns.
    gone: Vec<PublicKey>,
    late: BTreeSet<Digest>,
}

pub fn signers(basis: &Basis, steps: &[SignerStep], sights: &Sights, now: Timestamp) -> Signers {
    signers_if(basis, steps, sights, now, None)
}

/// The same if all whom this step asks had signed it.
pub(crate) fn signers_if(
    basis: &Basis,
    steps: &[SignerStep],
    sights: &Sights,
    now: Timestamp,
    signed: Option<Digest>,
) -> Signers {
    let mut walk = Walk {
        basis,
        steps,
        sights,
        now,
        signed,
        settled: settled(basis, steps),
        at: basis.first.clone(),
        last: None,
        since: Timestamp::from_unix(0),
        path: Vec::new(),
        stands_in: None,
        gone: Vec::new(),
        late: BTreeSet::new(),
    };
    loop {
        match walk.next() {
            Next::Step(step, at) => walk.take(step, at),
            Next::Stay(pending) => return Signers::InForce(walk.rest(pending)),
            Next::Freeze(frozen) => return Signers::Frozen(*frozen),
        }
    }
}

enum Next<'a> {
    Step(&'a SignerStep, Timestamp),
    Stay(Vec<(Digest, Timestamp)>),
    Freeze(Box<Frozen>),
}

impl<'a> Walk<'a> {
    fn next(&mut self) -> Next<'a> {
        let all = self.candidates();
        if let Some(floor) = all.iter().find(|((_, to), _)| self.is_settled(*to)) {
            let ((_, to), candidate) = floor;
            // Whoever settled it has waited.
            let at = candidate.at.min(self.seen(*to)).max(self.since);
            let step = candidate.step;
            self.shout_of_others(&all, *to);
            return Next::Step(step, at);
        }
        let own = all.iter().filter(|((kind, _), _)| *kind == Kind::Own).min_by_key(|(_, it)| it.rank());
        let due = |((kind, _), it): &(&(Kind, Digest), &Candidate<'a>)| *kind == Kind::Recovered && it.at <= self.now;
        let recovered = all.iter().filter(due).min_by_key(|(_, it)| it.rank());
        let window = self.basis.delay;
        let (kind, winner) = match (own, recovered) {
            // What the set itself signed wins if it is here before that, or within one delay after.
            (Some((_, own)), Some((_, it))) if own.at > it.at + window => (Kind::Recovered, *it),
            (Some((_, own)), _) => (Kind::Own, *own),
            (None, Some((_, it))) => (Kind::Recovered, *it),
            (None, None) => {
                let waits = all.values().filter(|it| it.step.word == Word::Recovery);
                return Next::Stay(waits.map(|it| (it.step.digest, it.at)).collect());
            }
        };
        let rivals = self.rivals(&all, kind, winner);
        if rivals.is_empty() {
            self.shout_of_others(&all, winner.step.to.id);
            return Next::Step(winner.step, winner.at);
        }
        self.way_out(winner, &rivals)
    }

    fn candidates(&mut self) -> Candidates<'a> {
        let mut all = Candidates::new();
        for step in self.steps {
            let Some(seen) = self.sights.get(&step.digest) else { continue };
            let Some(kind) = self.kind_of(step) else { continue };
            if self.contradicts_floor(step) {
                self.late.insert(step.digest);
                continue;
            }
            let at = match kind {
                Kind::Own => (*seen).max(self.since),
                // The delay runs while this very set is in force.
                Kind::Recovered => (*seen).max(self.since) + self.basis.delay,
            };
            let candidate = Candidate { at, step };
            let known = all.entry((kind, step.to.id)).or_insert(candidate);
            if candidate.rank() < known.rank() {
                *known = candidate;
            }
        }
        all
    }

    /// Could it follow the set where the walk stands, and on whose word?
    fn kind_of(&self, step: &SignerStep) -> Option<Kind> {
        let one_on = self.at.version.checked_add(1) == Some(step.to.version);
        let two_on = self.at.version.checked_add(2) == Some(step.to.version);
        // What several rivals signed together each of them signed: it follows whichever of them is in force here.
        let fits = step.follows().any(|id| id == self.at.id)
            && !step.brings_back(&self.gone)
            && self.last.as_ref().is_none_or(|last| !self.brings_back_from(step, last));
        match step.word {
            Word::Signers if fits && one_on => self.has_signed(step, &self.at.quorum).then_some(Kind::Own),
            // A way out of a freeze that is none here is a recovery like any other.
            Word::Recovery if fits && ((one_on && !step.settles) || (two_on && step.settles)) => {
                self.has_signed(step, &self.basis.recovery).then_some(Kind::Recovered)
            }
            Word::Signers | Word::Recovery => None,
        }
    }

    fn has_signed(&self, step: &SignerStep, quorum: &Quorum) -> bool {
        self.signed == Some(step.digest) || step.is_signed_by(quorum)
    }

    /// Up to the floor only what leads there counts, and nothing as long as the way there is not known.
    fn contradicts_floor(&self, step: &SignerStep) -> bool {
        let below = self.basis.floor.is_some_and(|floor| step.to.version <= floor.version);
        below && !self.is_settled(step.to.id)
    }

    fn is_settled(&self, id: Digest) -> bool {
        self.settled.contains(&id)
    }

    /// When any step from here to this set was first seen. Steps that could not follow tell nothing: a stranger may have
    /// sown them.
    fn seen(&self, to: Digest) -> Timestamp {
        let steps = self.steps.iter().filter(|step| step.to.id == to && self.kind_of(step).is_some());
        let sights = steps.filter_map(|step| self.sights.get(&step.digest));
        sights.min().copied().unwrap_or(self.now)
    }

    /// Others of the winner's kind that were seen before one delay was over.
    fn rivals(&self, all: &Candidates<'a>, kind: Kind, winner: Candidate<'a>) -> Vec<&'a SignerStep> {
        let open = winner.at + self.basis.delay;
        let rival = |((its, to), it): (&(Kind, Digest), &Candidate<'a>)| {
            let other = *its == kind && *to != winner.step.to.id && !it.step.settles && !winner.step.settles;
            (other && self.seen(*to) <= open).then_some(it.step)
        };
        all.iter().filter_map(rival).collect()
    }

    fn way_out(&self, winner: Candidate<'a>, others: &[&'a SignerStep]) -> Next<'a> {
        let rivals: Vec<&SignerStep> = std::iter::once(winner.step).chain(others.iter().copied()).collect();
        let first = others.iter().map(|it| self.seen(it.to.id)).min().unwrap_or(winner.at);
        let since = winner.at.max(first);
        let ways: Vec<Candidate<'a>> =
            self.steps.iter().filter_map(|step| self.leads_out(step, &rivals, since)).collect();
        // Two of one kind that were seen before one delay was over lead nowhere.
        let stands = |it: &&Candidate<'a>| {
            let seen = |other: &Candidate<'a>| self.sights.get(&other.step.digest).copied().unwrap_or(self.now);
            let same_kind =
                |other: &&Candidate<'a>| other.step.word == it.step.word && other.step.to.id != it.step.to.id;
            !ways.iter().filter(same_kind).any(|other| seen(other) <= it.at + self.basis.delay)
        };
        let first = |word: Word| ways.iter().filter(move |it| it.step.word == word).min_by_key(|it| it.rank());
        let agreed = first(Word::Signers).filter(stands);
        let due = first(Word::Recovery).filter(|it| it.at <= self.now).filter(stands);
        // As between a succession and a recovery: what the rivals signed together wins until one delay after.
        let chosen = match (agreed, due) {
            (Some(agreed), Some(due)) if agreed.at > due.at + self.basis.delay => Some(due),
            (agreed, due) => agreed.or(due),
        };
        if let Some(chosen) = chosen {
            return Next::Step(chosen.step, chosen.at);
        }
        let pending = ways.iter().map(|it| (it.step.digest, it.at)).collect();
        let rivals = rivals.into_iter().map(|step| step.to.clone()).collect();
        let (last, path, stands_in) = (self.at.clone(), self.path.clone(), self.stands_in);
        let (named, stood) = (winner.step.head, (winner.at < since).then(|| winner.step.to.clone()));
        Next::Freeze(Box::new(Frozen { last, rivals, since, path, stands_in, pending, named, stood }))
    }

    /// Has it a key of the last set that nobody contested, which one of the rivals that signed it together removed? Whoever had
    /// gone by that one would not follow.
    fn brings_back_from(&self, step: &SignerStep, last: &SignerSet) -> bool {
        let rivals = |id: Digest| self.steps.iter().find(|it| it.to.id == id && it.previous == last.id);
        let stays = |key: &PublicKey, set: &SignerSet| set.quorum.keys().contains(key);
        let mut followed = step.follows().filter(|_| !step.also.is_empty()).filter_map(rivals);
        followed.any(|rival| {
            let mut gone = last.quorum.keys().into_iter().filter(|key| !stays(key, &rival.to));
            gone.any(|key| stays(&key, &step.to))
        })
    }

    /// A set that every rival's threshold signed leads out at once; a recovery after its delay.
    fn leads_out(&self, step: &'a SignerStep, rivals: &[&SignerStep], since: Timestamp) -> Option<Candidate<'a>> {
        let seen = *self.sights.get(&step.digest)?;
        if step.brings_back(&self.gone) || self.brings_back_from(step, &self.at) {
            return None;
        }
        let two_on = self.at.version.checked_add(2) == Some(step.to.version);
        let ids = || rivals.iter().map(|it| it.to.id);
        match step.word {
            Word::Signers => {
                let named: BTreeSet<Digest> = step.follows().collect();
                let all = named == ids().collect() && rivals.iter().all(|it| self.has_signed(step, &it.to.quorum));
                (two_on && all).then_some(Candidate { at: seen.max(since), step })
            }
            Word::Recovery => {
                let fits = step.settles && step.previous == self.at.id && (two_on || ids().any(|id| id == step.to.id));
                let signed = fits && self.has_signed(step, &self.basis.recovery);
                signed.then(|| Candidate { at: seen.max(since) + self.basis.delay, step })
            }
        }
    }

    fn shout_of_others(&mut self, all: &Candidates<'a>, taken: Digest) {
        let others = all.values().filter(|it| it.step.to.id != taken);
        self.late.extend(others.map(|it| it.step.digest));
    }

    fn take(&mut self, step: &SignerStep, at: Timestamp) {
        let stays = |key: &PublicKey| step.to.quorum.signers().iter().any(|signer| signer.key == *key);
        self.gone.extend(self.at.quorum.keys().into_iter().filter(|key| !stays(key)));
        self.path.push(step.digest);
        self.last = Some(std::mem::replace(&mut self.at, step.to.clone()));
        (self.since, self.stands_in) = (at, step.head);
    }

    fn rest(self, pending: Vec<(Digest, Timestamp)>) -> InForce {
        InForce {
            below_floor: self.basis.floor.is_some_and(|floor| floor.version > self.at.version),
            since: (!self.path.is_empty()).then_some(self.since),
            set: self.at,
            path: self.path,
            stands_in: self.stands_in,
            pending,
            late: self.late,
        }
    }
}

/// The sets on the way to the floor: whoever named the floor settled them all.
fn settled(basis: &Basis, steps: &[SignerStep]) -> BTreeSet<Digest> {
    let Some(floor) = basis.floor else { return BTreeSet::new() };
    // By the lowest digest where several ways lead there: from the floor on they are one.
    let mut reached: BTreeMap<Digest, (SignerSet, Option<Digest>)> = BTreeMap::new();
    reached.insert(basis.first.id, (basis.first.clone(), None));
    let mut edge = vec![basis.first.clone()];
    while let Some(set) = edge.pop() {
        let mut onward: Vec<&SignerStep> = steps.iter().filter(|step| follows(basis, step, &set)).collect();
        onward.sort_by_key(|step| step.digest);
        for step in onward {
            if step.to.version <= floor.version && !reached.contains_key(&step.to.id) {
                reached.insert(step.to.id, (step.to.clone(), Some(set.id)));
                edge.push(step.to.clone());
            }
        }
    }
    let mut path = BTreeSet::from([floor.id]);
    let mut at = Some(floor.id);
    while let Some((set, before)) = at.and_then(|id| reached.get(&id)) {
        path.insert(set.id);
        at = *before;
    }
    path
}

/// Signed by whom it would have to be, were `set` in force.
fn follows(basis: &Basis, step: &SignerStep, set: &SignerSet) -> bool {
    let named = step.follows().any(|id| id == set.id);
    let higher = step.to.version > set.version && step.to.version <= set.version.saturating_add(2);
    let by = match step.word {
        Word::Signers => &set.quorum,
        Word::Recovery => &basis.recovery,
    };
    named && higher && step.is_signed_by(by)
}
