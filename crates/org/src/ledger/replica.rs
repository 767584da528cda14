//! What one replica has: heads, what operators signed, chains, and when it first saw each change of signers.
//!
//! It takes everything that hangs together, from whomever; what counts is asked afterwards.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::{BadEnvelope, Envelope, Payload as _};
use identity::head::Head;
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::members::{ClassLeaf, Leaf, MembersMap};
use identity::principal::NodeName;
use identity::signers::{Quorum, Recovery, SignersRef, Succession, Word};
use identity::time::Timestamp;

use crate::founding::Founding;
use crate::invite::approve::Decision;
use crate::ledger::chain::{Entries, Written};
use crate::ledger::counts::says_no;
use crate::ledger::entry::{Action, Entry, SignedEntry};
use crate::ledger::fold::{Holdings, Leaves, Projection, fold};
use crate::ledger::ground::{Ground, ground, ground_at, wanting};
use crate::ledger::heads::Heads;
use crate::ledger::judge::Membership;
use crate::ledger::signers::{Basis, Frozen, InForce, Signers, Stance, signers, signers_if};
use crate::ledger::step::{Sets, Sights, SignerStep};

#[derive(Debug, Clone)]
pub struct Replica {
    pub org: OrgId,
    pub basis: Basis,
    pub steps: BTreeMap<Digest, SignerStep>,
    pub sights: Sights,
    /// By how many seconds the clock that is read here is ahead of one that never jumped; by that one delays run.
    pub ahead: i64,
    pub heads: Heads,
    /// Invites, waivers, yes and no, by digest, with all signatures that came.
    pub objects: BTreeMap<Digest, Envelope>,
    pub chains: BTreeMap<PublicKey, Entries>,
    /// Maps of heads, by root.
    pub maps: BTreeMap<Digest, Leaves>,
    /// The classes of these maps.
    pub classes: BTreeMap<Digest, Vec<ClassLeaf>>,
    /// Keys of every set to which signatures lead, and of the recovery set.
    keys: BTreeSet<PublicKey>,
}

impl Replica {
    pub fn new(founding: &Founding, floor: Option<SignersRef>) -> Self {
        let basis = Basis::of(founding, floor);
        let keys = basis.first.quorum.keys().into_iter().chain(basis.recovery.keys()).collect();
        Self {
            org: founding.id,
            basis,
            keys,
            steps: BTreeMap::new(),
            sights: Sights::new(),
            ahead: 0,
            heads: Heads::default(),
            objects: BTreeMap::new(),
            chains: BTreeMap::new(),
            maps: BTreeMap::new(),
            classes: BTreeMap::new(),
        }
    }

    /// Takes whatever it is, and what it carries. Signatures on the same bytes add up.
    pub fn take(&mut self, envelope: &Envelope, now: Timestamp) -> Result<(), BadEnvelope> {
        match envelope.kind() {
            Head::KIND => self.take_head(envelope, now),
            Succession::KIND | Recovery::KIND => self.take_step(envelope, now),
            Entry::KIND => {
                let signed = SignedEntry::open(self.org, envelope.clone())?;
                self.take_entry(&signed, now);
                Ok(())
            }
            _ => {
                self.take_object(envelope);
                Ok(())
            }
        }
    }

    /// What it carries counts or not by itself: who brought it says nothing.
    pub fn take_entry(&mut self, signed: &SignedEntry, now: Timestamp) {
        self.take_written(Written::read(self.org, signed));
        self.take_carried(&signed.entry.action, now);
    }

    pub(crate) fn take_carried(&mut self, action: &Action, now: Timestamp) {
        for carried in carried(action) {
            // What cannot be read is nothing.
            if carried.kind() != Entry::KIND {
                let _unread = self.take(carried, now);
            }
        }
    }

    pub fn take_written(&mut self, written: Written) {
        self.chains.entry(written.voice).or_default().insert(written.digest, written);
    }

    /// From one's own disk, which has since when steps are in sight. Signatures are checked again: the disk has entries as they came,
    /// with whatever else somebody put into them.
    pub fn remember(&mut self, envelope: &Envelope) -> Result<(), BadEnvelope> {
        match envelope.kind() {
            Head::KIND => {
                let head = envelope.peek::<Head>(Some(self.org))?;
                self.heads.take(envelope.digest(), envelope, head, &self.keys);
            }
            Succession::KIND | Recovery::KIND => {
                let step = SignerStep::read(self.org, &unsigned(envelope))?;
                let step = self.steps.entry(step.digest).or_insert(step);
                if step.envelope != *envelope {
                    step.envelope.merge_holding(envelope, &self.keys);
                    self.know_keys();
                }
            }
            _ => self.take_object(envelope),
        }
        Ok(())
    }

    /// The same for an entry, with what it carries.
    pub fn remember_entry(&mut self, signed: &SignedEntry) {
        self.take_written(Written::read(self.org, signed));
        for carried in carried(&signed.entry.action) {
            let _unread = self.remember(carried);
        }
    }

    fn know_keys(&mut self) {
        let sets = self.sets().into_values().flat_map(|set| set.quorum.keys());
        self.keys = sets.chain(self.basis.recovery.keys()).collect();
    }

    fn take_object(&mut self, envelope: &Envelope) {
        let object = self.objects.entry(envelope.digest()).or_insert_with(|| unsigned(envelope));
        if object != envelope {
            object.merge_holding(envelope, &self.keys);
        }
    }

    fn take_head(&mut self, envelope: &Envelope, now: Timestamp) -> Result<(), BadEnvelope> {
        let head = envelope.peek::<Head>(Some(self.org))?;
        if self.heads.take(envelope.digest(), envelope, head, &self.keys) {
            self.look(now);
        }
        Ok(())
    }

    fn take_step(&mut self, envelope: &Envelope, now: Timestamp) -> Result<(), BadEnvelope> {
        let step = SignerStep::read(self.org, &unsigned(envelope))?;
        let step = self.steps.entry(step.digest).or_insert(step);
        if step.envelope != *envelope {
            step.envelope.merge_holding(envelope, &self.keys);
            self.know_keys();
            self.look(now);
        }
        Ok(())
    }

    /// For whoever keeps one head alone, as nodes do, and takes another set with a head of its own: a step is seen once
    /// enough have signed it, and it follows a set to which signatures lead. What leads nowhere is not kept. Is it new?
    pub fn see(&mut self, step: &Envelope, now: Timestamp) -> Result<bool, BadEnvelope> {
        self.remember(step)?;
        let sets = self.sets();
        let follows = |step: &SignerStep| step.follows().all(|id| sets.contains_key(&id));
        let good = |step: &SignerStep| self.is_signed(step, &sets) && follows(step);
        let good: BTreeSet<Digest> = self.steps.values().filter(|step| good(step)).map(|step| step.digest).collect();
        self.steps.retain(|digest, _| good.contains(digest));
        let (before, now) = (self.sights.len(), self.steady(now));
        for digest in good {
            self.sights.entry(digest).or_insert(now);
        }
        Ok(self.sights.len() > before)
    }

    /// Steps that lead from the founders' set to this one, by signatures alone; of several the lowest digests. To one that
    /// rivals signed together, those that lead to each of them, too.
    pub fn path_to(&self, set: SignersRef) -> Option<Vec<&SignerStep>> {
        let sets = self.sets();
        let (mut path, mut edge) = (BTreeMap::new(), vec![set]);
        while let Some(at) = edge.pop() {
            let place = (at.version, at.id);
            if at == self.basis.first.as_ref() || path.contains_key(&place) {
                continue;
            }
            let leads = |step: &&SignerStep| step.to.as_ref() == at && self.is_signed(step, &sets);
            // Versions fall on the way back: it ends.
            let lower = |id: Digest| Some(sets.get(&id)?.as_ref()).filter(|it| it.version < at.version);
            let before = |step: &SignerStep| step.follows().map(lower).collect::<Option<Vec<_>>>();
            let (step, before) = self.steps.values().filter(leads).find_map(|step| Some((step, before(step)?)))?;
            path.insert(place, step);
            edge.extend(before);
        }
        Some(path.into_values().collect())
    }

    /// Of steps that are on no way to the signers in force, only as many as are still asked of: whoever held a set's keys
    /// once could sign them without end. Those that follow the last set that nobody contests, or a rival, come first.
    pub fn keep_few_beside(&mut self, followed: &BTreeSet<Digest>, now: Timestamp, most: usize) {
        if self.steps.len() <= most {
            return;
        }
        let (path, asked): (_, BTreeSet<Digest>) = match self.signers(now) {
            Signers::InForce(it) => (it.path, [it.set.id].into()),
            Signers::Frozen(it) => (it.path, it.rivals.iter().map(|set| set.id).chain([it.last.id]).collect()),
        };
        let path: BTreeSet<Digest> = path.into_iter().chain(followed.iter().copied()).collect();
        let rank = |step: &SignerStep| {
            let asked = step.follows().any(|id| asked.contains(&id));
            (!asked, self.sights.get(&step.digest).copied(), step.digest)
        };
        let beyond = [Word::Signers, Word::Recovery].map(|word| {
            let beside = self.steps.values().filter(|step| step.word == word && !path.contains(&step.digest));
            let mut beside: Vec<_> = beside.map(rank).collect();
            beside.sort_unstable();
            beside.split_off(most.min(beside.len()))
        });
        for (_, _, step) in beyond.into_iter().flatten() {
            self.steps.remove(&step);
            self.sights.remove(&step);
        }
    }

    /// The leaves of nodes in a map. They are filed under the names that they say themselves, whoever sent them.
    pub fn take_map(&mut self, leaves: &Leaves) {
        let all: Vec<Leaf> = leaves.values().cloned().map(Leaf::Node).collect();
        if let Ok(map) = MembersMap::of(&all) {
            let leaves = leaves.values().map(|leaf| (leaf.name.clone(), leaf.clone())).collect();
            self.maps.insert(map.root(), leaves);
        }
    }

    /// Steps are seen once enough have signed them and there is a head to stand on.
    fn look(&mut self, now: Timestamp) {
        let sets = self.sets();
        loop {
            // A recovery waits: until then its set would stand on no head, if it has signed none either.
            let leads_on =
                |step: &&SignerStep| step.word == Word::Signers || self.heads.all().any(|head| head.is_of(&step.to));
            let further: BTreeSet<Digest> = self.seen_steps().filter(leads_on).flat_map(SignerStep::follows).collect();
            let fresh = |step: &&SignerStep| {
                let stands = step.head.is_some_and(|head| self.heads.contains(&head))
                    || self.heads.all().any(|head| head.is_of(&step.to))
                    || further.contains(&step.to.id);
                !self.sights.contains_key(&step.digest) && stands && self.is_signed(step, &sets)
            };
            let fresh: Vec<Digest> = self.steps.values().filter(fresh).map(|step| step.digest).collect();
            if fresh.is_empty() {
                return;
            }
            let now = self.steady(now);
            self.sights.extend(fresh.into_iter().map(|digest| (digest, now)));
        }
    }

    fn seen_steps(&self) -> impl Iterator<Item = &SignerStep> {
        self.sights.keys().filter_map(|digest| self.steps.get(digest))
    }

    /// The founders' set, and those to which signatures lead from it, whether they are in force or not, by their ids: of
    /// others any stranger could speak.
    pub fn sets(&self) -> Sets {
        let mut sets = BTreeMap::from([(self.basis.first.id, self.basis.first.clone())]);
        let mut after: BTreeMap<Digest, Vec<&SignerStep>> = BTreeMap::new();
        for step in self.steps.values() {
            step.follows().for_each(|id| after.entry(id).or_default().push(step));
        }
        let recovered = self.steps.values().filter(|step| step.word == Word::Recovery);
        let mut edge: Vec<&SignerStep> =
            recovered.chain(after.get(&self.basis.first.id).into_iter().flatten().copied()).collect();
        while let Some(step) = edge.pop() {
            if !sets.contains_key(&step.to.id) && self.is_signed(step, &sets) {
                sets.insert(step.to.id, step.to.clone());
                edge.extend(after.get(&step.to.id).into_iter().flatten());
            }
        }
        sets
    }

    /// A delay that began before the keys had signed would be nobody's.
    fn is_signed(&self, step: &SignerStep, sets: &Sets) -> bool {
        let asked = self.asked_by(step, sets);
        asked.is_some_and(|asked| asked.iter().all(|quorum| step.is_signed_by(quorum)))
    }

    /// Who must sign it; nothing if it follows nothing. Numbers go up by one, or by two out of a freeze: else whoever held the
    /// keys of one set could fill all places to come.
    fn asked_by<'s>(&'s self, step: &SignerStep, sets: &'s Sets) -> Option<Vec<&'s Quorum>> {
        match step.word {
            Word::Recovery => {
                let fits = sets.get(&step.previous).is_none_or(|set| step.is_numbered_after(set));
                fits.then(|| vec![&self.basis.recovery])
            }
            Word::Signers => {
                let follows = |id| sets.get(&id).filter(|set| step.is_numbered_after(set)).map(|set| &set.quorum);
                step.follows().map(follows).collect()
            }
        }
    }

    /// Whose thresholds would have it taken here: of each set that it follows, or of the recovery keys. Nothing if it never
    /// would be. What ends a freeze of others is taken by those alone.
    pub fn asks(&self, step: &SignerStep, now: Timestamp) -> Option<Vec<Quorum>> {
        let sets = self.sets();
        let asked = self.asked_by(step, &sets)?.into_iter().cloned().collect();
        match self.stance_among(step.clone(), now, Some(step.digest)) {
            Stance::Taken | Stance::Waits { .. } => Some(asked),
            Stance::NotTaken => (step.settles && sets.contains_key(&step.previous)).then_some(asked),
        }
    }

    pub fn signers(&self, now: Timestamp) -> Signers {
        let steps: Vec<SignerStep> = self.steps.values().cloned().collect();
        let told = signers(&self.basis, &steps, &self.sights, self.steady(now));
        told.by(|at| self.shown(at))
    }

    /// What would become of this step here if it were seen now.
    pub fn stance_if_seen(&self, step: &Envelope, now: Timestamp) -> Result<Stance, BadEnvelope> {
        let mut seen = SignerStep::read(self.org, &unsigned(step))?;
        seen.envelope.merge_holding(step, &self.keys);
        Ok(self.stance_among(seen, now, None))
    }

    /// `signed` is a step that is taken as signed.
    fn stance_among(&self, seen: SignerStep, now: Timestamp, signed: Option<Digest>) -> Stance {
        let (digest, now, came) = (seen.digest, self.steady(now), seen.envelope.clone());
        let (mut steps, mut sights) = (self.steps.clone(), self.sights.clone());
        steps.entry(digest).or_insert(seen).envelope.merge_holding(&came, &self.keys);
        sights.entry(digest).or_insert(now);
        let steps: Vec<SignerStep> = steps.into_values().collect();
        signers_if(&self.basis, &steps, &sights, now, signed).stance_of(digest)
    }

    fn steady(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_unix(now.unix().saturating_sub(self.ahead))
    }

    /// A moment of the steady clock, as the clock here will show it.
    pub fn shown(&self, at: Timestamp) -> Timestamp {
        Timestamp::from_unix(at.unix().saturating_add(self.ahead))
    }

    #[expect(clippy::result_large_err, reason = "a freeze is rare, and whoever meets it wants all of it")]
    pub fn ground(&self, now: Timestamp) -> Result<Ground, Frozen> {
        match self.signers(now) {
            Signers::InForce(in_force) => Ok(ground(self.org, &in_force, &self.heads, &self.sets())),
            Signers::Frozen(frozen) => Err(frozen),
        }
    }

    #[expect(clippy::result_large_err, reason = "a freeze is rare, and whoever meets it wants all of it")]
    pub fn state(&self, now: Timestamp) -> Result<Projection, Frozen> {
        Ok(self.fold(&self.ground(now)?))
    }

    /// Admissions that no head lists and that counted by the set before, on the head that stands in for the set in force:
    /// whoever signs its first head takes them over, or they wait.
    pub fn left_by_the_set_before(&self, now: Timestamp) -> BTreeMap<NodeName, Digest> {
        let Signers::InForce(in_force) = self.signers(now) else { return BTreeMap::new() };
        let Some((_, path)) = in_force.path.split_last() else { return BTreeMap::new() };
        let set = path.last().and_then(|step| self.steps.get(step)).map_or(&self.basis.first, |step| &step.to);
        let before = InForce::alone(set.clone(), None);
        let before = self.fold(&ground_at(self.org, &before, in_force.stands_in, &self.heads, &self.sets()));
        let unlisted = before.members.into_iter().filter(|(_, it)| it.member != Membership::Listed);
        unlisted.map(|(name, it)| (name, it.admission)).collect()
    }

    /// Heads by which something is judged now, and that were shortened: whoever has them brings them back first.
    pub fn wanting(&self, signers: &Signers) -> BTreeSet<Digest> {
        match signers {
            Signers::InForce(in_force) => wanting(in_force, None, &self.heads, &self.sets()),
            Signers::Frozen(frozen) => wanting(&InForce::before(frozen), frozen.named, &self.heads, &self.sets()),
        }
    }

    pub fn bring_back(&mut self, envelope: &Envelope) {
        if let Ok(head) = envelope.peek::<Head>(Some(self.org)) {
            self.heads.put_back(envelope.digest(), envelope, head, &self.keys);
        }
    }

    /// Of heads that the one in force leads back to, keeps only what is still asked of them. For whoever has them on disk.
    pub fn shorten(&mut self, ground: &Ground) {
        let judged: BTreeSet<Digest> =
            ground.head.iter().chain(&ground.forgotten).map(|record| record.digest).collect();
        self.heads.shorten(ground.reached.iter().copied().filter(|digest| !judged.contains(digest)));
    }

    /// Claims to which a signer of the set in force said no.
    pub fn denied(&self, ground: &Ground) -> BTreeSet<Digest> {
        let decisions = self.objects.values().filter(|object| object.kind() == Decision::KIND);
        decisions.filter_map(|object| says_no(object, ground)).collect()
    }

    pub fn fold(&self, ground: &Ground) -> Projection {
        let denied = self.denied(ground);
        let leaves = ground.head().and_then(|head| head.members).and_then(|root| self.maps.get(&root));
        fold(ground, Holdings { leaves, chains: &self.chains, objects: &self.objects, denied: &denied })
    }
}

/// What operators signed, inside an entry.
pub fn carried(action: &Action) -> impl Iterator<Item = &Envelope> {
    let (first, more) = match action {
        Action::NodeAdmit { claim, invite, approval } => {
            (Some(claim).filter(|_| invite.is_none()), [invite.as_ref(), approval.as_ref()])
        }
        Action::Take { envelope } => (Some(envelope), [None, None]),
        Action::NodeJoin { .. } | Action::NodeLeave { .. } => (None, [None, None]),
    };
    first.into_iter().chain(more.into_iter().flatten())
}

fn unsigned(envelope: &Envelope) -> Envelope {
    envelope.kept(&BTreeSet::new())
}
