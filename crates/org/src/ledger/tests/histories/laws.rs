//! The laws, looked at after each step at whoever was touched by it.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::Envelope;
use identity::head::KeyMark;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::signers::Word;

use super::words::is_backed;
use super::{Dice, History, Theft, short};
use crate::invite::Uses;
use crate::ledger::entry::SignedEntry;
use crate::ledger::evidence::Evidence;
use crate::ledger::fold::{Leaves, Projection};
use crate::ledger::ground::{Ground, frozen_ground, ground};
use crate::ledger::heads::KnownHead;
use crate::ledger::judge::Membership;
use crate::ledger::replica::Replica;
use crate::ledger::signers::{Frozen, Signers};
use crate::ledger::step::SignerStep;
use crate::ledger::tests::replicas::{Store, hear, hear_all, holdings};
use crate::ledger::tests::world::{DELAY, day};

impl History {
    pub(super) fn look(&mut self, mut dice: Dice) {
        let waited = std::mem::replace(&mut self.looked, self.now) != self.now;
        for at in 0..self.replicas.len() {
            if !waited && !self.touched.contains(&at) {
                continue;
            }
            let set = self.set_of(at).map(|set| set.id);
            if self.sets[at] != set || self.sets[at].is_none() {
                self.sets[at] = set;
                self.touched.insert(at);
            }
        }
        let touched = std::mem::take(&mut self.touched);
        for at in &touched {
            match self.replicas[*at].1.signers(day(self.now)) {
                Signers::Frozen(frozen) => self.look_at_freeze(*at, &frozen),
                Signers::InForce(_) => self.look_at(*at),
            }
        }
        if let (Some(at), 0) = (touched.first(), dice.below(4)) {
            self.look_at_order(*at, dice);
        }
        if let (Some(at), 0) = (touched.last(), dice.below(4)) {
            self.look_at_shortened(*at, dice);
        }
    }

    /// L9: whoever keeps of any heads only what is still asked of them, and reads back what it is told to, judges the same.
    fn look_at_shortened(&mut self, at: usize, mut dice: Dice) {
        let (whole, now) = (&self.replicas[at].1, day(self.now));
        let mut short = whole.clone();
        let some: Vec<Digest> = short.heads.all().map(KnownHead::digest).filter(|_| dice.below(3) > 0).collect();
        short.heads.shorten(some.into_iter());
        for _ in 0..2 {
            for digest in short.wanting(&short.signers(now)) {
                short.bring_back(&whole.heads.get(&digest).unwrap().envelope);
            }
        }
        let judged = |replica: &Replica| {
            let ground = match replica.signers(now) {
                Signers::InForce(in_force) => ground(replica.org, &in_force, &replica.heads, &replica.sets()),
                Signers::Frozen(frozen) => frozen_ground(replica.org, &frozen, &replica.heads, &replica.sets()),
            };
            (replica.fold(&ground), ground)
        };
        if judged(whole) != judged(&short) {
            self.breaks("L9", &format!("{} judges otherwise with shortened heads", self.replicas[at].0));
        }
    }

    fn look_at(&mut self, at: usize) {
        let replica = &self.replicas[at].1;
        let Ok(ground) = replica.ground(day(self.now)) else { return };
        let state = replica.fold(&ground);
        let none = Leaves::new();
        let root = ground.head().and_then(|head| head.members);
        let leaves = root.and_then(|root| replica.maps.get(&root)).unwrap_or(&none).clone();
        if state.head.is_none() {
            if !replica.heads.is_empty() && self.replicas[at].0 != "a newcomer" {
                self.breaks("L5", &format!("{} has heads, and none is in force", self.replicas[at].0));
            }
            return;
        }
        self.look_for_stopped(at, &ground);
        self.look_at_recovery(at, &ground);
        self.look_for_names(at, &ground, (&state, &leaves));
        self.look_for_revoked(at, &ground, &state);
        self.look_for_lost(at, &ground, &state);
        self.look_at_admissions(at, &ground, &state);
        // Whoever never heard that a set was replaced believes it still: docs/threats.md says so.
        if self.cast.theft.is_of_the_past() && !self.thieves_speak_for(&ground.set) {
            self.look_without_thieves(at, &state);
        }
    }

    /// L4: one key per name, one name per key, and an older map shows nobody who is not that one now.
    fn look_for_names(&mut self, at: usize, ground: &Ground, (state, leaves): (&Projection, &Leaves)) {
        let mut names: BTreeMap<Digest, &NodeName> = BTreeMap::new();
        let mut wrong = Vec::new();
        for (name, it) in &state.members {
            if let Some(other) = names.insert(it.key, name) {
                wrong.push(format!("one key is `{name}` and `{other}`"));
            }
            let listed = leaves.get(name).map(|leaf| leaf.node_key);
            let lives = |key: &Digest| !ground.revoked.node_keys.contains(key) && !state.left.contains(key);
            if listed.filter(lives).is_some_and(|listed| listed != it.key) {
                wrong.push(format!("`{name}` is listed for another key"));
            }
        }
        let by_thieves = state.head.is_some_and(|head| self.forged.contains(&head));
        if !by_thieves && self.cast.theft.is_of_the_past() {
            let replica = &self.replicas[at].1;
            let recent = ground.head().map(|head| head.recent.clone()).unwrap_or_default();
            let shown = recent.iter().filter_map(|digest| replica.heads.get(digest));
            let maps = shown.filter(|it| ground.check_signed(&it.envelope, &it.head).is_ok());
            let maps = maps.filter_map(|it| it.head.members);
            for leaf in maps.filter_map(|root| replica.maps.get(&root)).flat_map(BTreeMap::values) {
                let now = leaves.get(&leaf.name).map(|leaf| leaf.node_key);
                let other = now.is_some_and(|now| now != leaf.node_key)
                    || leaves.values().any(|it| it.node_key == leaf.node_key && it.name != leaf.name);
                if other && !ground.revoked.node_keys.contains(&leaf.node_key) {
                    wrong.push(format!("an older map still shows another key as `{}`", leaf.name));
                }
            }
        }
        for what in wrong {
            self.breaks("L4", &format!("at {}, {what}", self.replicas[at].0));
        }
    }

    /// L3: what the set in force revoked, or a head that is reached, is never undone while that set is in force.
    fn look_for_revoked(&mut self, at: usize, ground: &Ground, state: &Projection) {
        let counting: Vec<(NodeName, Digest)> = state.members.iter().map(|(name, it)| (name.clone(), it.key)).collect();
        for (name, key) in counting {
            match self.revoked[at].get(&KeyMark::of(&key)) {
                Some(set) if *set == ground.set.id => {
                    self.breaks(
                        "L3",
                        &format!("at {} the revoked key {} is `{name}`", self.replicas[at].0, short(key)),
                    );
                }
                Some(_) => self.tally.lapsed += 1,
                None => {}
            }
        }
        for key in ground.revoked.node_keys.marks() {
            self.revoked[at].insert(*key, ground.set.id);
        }
    }

    /// L5: an honest entry counts, or waits with a reason, or its key was revoked.
    fn look_for_lost(&mut self, at: usize, ground: &Ground, state: &Projection) {
        let replica = &self.replicas[at].1;
        let mut lost = Vec::new();
        for signed in replica.entries() {
            if !self.honest.contains(&signed.digest) || state.waiting.contains_key(&signed.digest) {
                continue;
            }
            let evidence = Evidence::of(replica.org, signed).unwrap();
            let counts = state.members.get(&evidence.claim.name).is_some_and(|it| it.key == evidence.key());
            if !counts && !ground.revoked.node_keys.contains(&evidence.key()) && !state.left.contains(&evidence.key()) {
                lost.push(signed.digest);
            }
        }
        for digest in lost {
            self.breaks("L5", &format!("at {} {} neither counts nor waits", self.replicas[at].0, short(digest)));
        }
    }

    /// L2 and L6: whoever is let in beyond the record is so by an open voice, and within its right.
    fn look_at_admissions(&mut self, at: usize, ground: &Ground, state: &Projection) {
        let replica = &self.replicas[at].1;
        let mut wrong: Vec<(&'static str, String)> = Vec::new();
        for (name, it) in &state.members {
            if it.member == Membership::Listed {
                continue;
            }
            let signed = replica.entry(it.admission).unwrap();
            let voice = signed.entry.voice;
            let keys = ground.set.quorum.keys();
            let of_set = replica.heads.values().filter(|it| it.head.signers == ground.set.as_ref());
            let mut closing = of_set.filter(|it| it.head.revocations.voices.contains(&voice));
            if closing.any(|it| it.envelope.signers_among(&keys).len() >= ground.set.quorum.threshold()) {
                wrong.push(("L2", format!("`{name}` is let in by a closed gateway")));
            }
            let evidence = Evidence::of(replica.org, signed).unwrap();
            self.tally.count(&evidence);
            if !is_backed(replica, ground, &evidence) {
                wrong.push(("L2", format!("`{name}` is let in by what does not count by the head in force")));
            }
            if overspends(replica, voice, it.admission) {
                wrong.push(("L6", format!("`{name}` is let in beyond its gateway's right")));
            }
        }
        for key in state.left.iter().filter(|key| !self.leaving.contains(*key)) {
            wrong.push(("L2", format!("{} left, and never said so", short(*key))));
        }
        for (law, what) in wrong {
            self.breaks(law, &format!("at {} {what}", self.replicas[at].0));
        }
    }

    /// L11: what the phrases alone signed is in force nowhere before one delay has run since it was first seen, and since the
    /// set before it was.
    fn look_at_recovery(&mut self, at: usize, ground: &Ground) {
        let (replica, set) = (&self.replicas[at].1, &ground.set);
        let settled = |version: u64| replica.basis.floor.is_some_and(|floor| floor.version >= version);
        let over = |step: &SignerStep| {
            let seen = replica.sights.get(&step.digest);
            seen.is_some_and(|seen| *seen + delays(DELAY) <= day(self.now))
        };
        let leads_to = |id: Digest| replica.steps.values().filter(move |step| step.to.id == id);
        let first = |id: Digest| id == self.org.set().id;
        let waited = leads_to(set.id).any(|step| {
            step.word == Word::Signers
                || over(step)
                    && (first(step.previous)
                        || settled(set.version.saturating_sub(1))
                        || leads_to(step.previous).any(over))
        });
        if !first(set.id) && !settled(set.version) && !waited {
            self.breaks("L11", &format!("{} goes by a recovery that has not waited", self.replicas[at].0));
        }
    }

    /// L2: without all that replaced keys alone have signed, everything is the same; nor do heads and steps count that keys
    /// signed which are too few.
    fn look_without_thieves(&mut self, at: usize, state: &Projection) {
        let stolen: BTreeSet<PublicKey> = self.stolen_keys();
        let Some(set) = self.set_of(at) else { return };
        let gone: BTreeSet<PublicKey> = stolen.difference(&set.quorum.keys()).copied().collect();
        let sets = self.truth.iter().flat_map(|set| set.quorum.keys());
        let all: BTreeSet<PublicKey> = sets.collect();
        let others: BTreeSet<PublicKey> = all.difference(&gone).copied().collect();
        let honest: BTreeSet<PublicKey> = all.difference(&stolen).copied().collect();
        let by_gone = |envelope: &Envelope| {
            let digest = envelope.digest();
            self.forged.contains(&digest) && envelope.signers_among(&honest).is_empty()
        };
        let mut without = self.replicas[at].1.clone();
        without.heads.retain(|head| matches!(head, KnownHead::Whole(record) if !by_gone(&record.envelope)));
        without.steps.retain(|_, step| !by_gone(&step.envelope));
        let steps: BTreeSet<Digest> = without.steps.keys().copied().collect();
        without.sights.retain(|digest, _| steps.contains(digest));
        let forged = &self.forged;
        without.objects.retain(|digest, object| {
            *object = object.kept(&others);
            !forged.contains(digest) || !object.signers_among(&others).is_empty()
        });
        let whole = &self.replicas[at].1;
        if without.heads.len() == whole.heads.len()
            && without.sights == whole.sights
            && without.objects == whole.objects
        {
            return;
        }
        match without.state(day(self.now)) {
            Ok(bare) if (&bare.members, bare.head, bare.signers) == (&state.members, state.head, state.signers) => {}
            _ => self.breaks("L2", &format!("at {} a replaced key changes something", self.replicas[at].0)),
        }
    }

    /// L7: two sets of one kind that were seen within one delay, and never by replaced keys alone; a recovery ends it.
    fn look_at_freeze(&mut self, at: usize, frozen: &Frozen) {
        let name = self.replicas[at].0.clone();
        if self.cast.theft.is_of_the_past() {
            self.breaks("L7", &format!("{name} is frozen by replaced keys alone"));
            return;
        }
        let replica = &self.replicas[at].1;
        let rivals: BTreeSet<Digest> = frozen.rivals.iter().map(|set| set.id).collect();
        let sights = |word: Word| {
            let follows = |it: &SignerStep| it.follows().any(|id| id == frozen.last.id);
            let steps = replica.steps.values().filter(move |it| it.word == word && follows(it));
            let steps = steps.filter(|it| rivals.contains(&it.to.id));
            let mut seen: Vec<_> = steps.filter_map(|it| replica.sights.get(&it.digest)).copied().collect();
            seen.sort();
            seen
        };
        // The first may have waited for its own delay, or for the set before it.
        let apart = |seen: &[identity::time::Timestamp]| seen.len() > 1 && seen[1].since(seen[0]) <= delays(60);
        if rivals.len() < 2 || !(apart(&sights(Word::Signers)) || apart(&sights(Word::Recovery))) {
            self.breaks("L7", &format!("{name} is frozen without two rivals that were seen near each other"));
        }
        if self.cast.theft == Theft::Signer {
            let to = self.org.later(frozen.last.version + 2, 1, &["saved"]);
            let way = self.org.way_out(&frozen.last, &to, self.org.first.digest(), &["phrase-1", "phrase-2"]);
            let mut freed = self.replicas[at].1.clone();
            hear(&mut freed, &self.org.first, self.now);
            hear(&mut freed, &way.into(), self.now);
            match freed.signers(day(self.now + DELAY)) {
                Signers::InForce(in_force) if in_force.set == to => {}
                _ => self.breaks("L7", &format!("no recovery ends the freeze of {name}")),
            }
        }
    }

    /// L1: the same things in another order, and the same sights, give the same state.
    fn look_at_order(&mut self, at: usize, mut dice: Dice) {
        let (name, replica) = &self.replicas[at];
        let mut things = holdings(replica);
        for n in (1..things.len()).rev() {
            things.swap(n, usize::try_from(dice.below(n as u64 + 1)).unwrap());
        }
        let mut other = Store::new(&self.org.founding, replica.basis.floor);
        other.sights = replica.sights.clone();
        hear_all(&mut other, &things, self.now + 1000);
        if other.state(day(self.now)) != replica.state(day(self.now)) || other.sights != replica.sights {
            let what = format!("{name} would say otherwise, had it heard the same in another order");
            self.breaks("L1", &what);
        }
    }
}

fn delays(days: u64) -> identity::time::Seconds {
    identity::time::Seconds::DAY.times(days)
}

/// Counted afresh, back along the chain from the admission.
fn overspends(replica: &Store, voice: PublicKey, admission: Digest) -> bool {
    let own = replica.entries().filter(|signed| signed.entry.voice == voice);
    let entries: BTreeMap<Digest, &SignedEntry> = own.map(|signed| (signed.digest, signed)).collect();
    let read = |digest| entries.get(&digest).and_then(|signed| Evidence::of(replica.org, signed).ok());
    let Some(evidence) = read(admission) else { return true };
    let Some((_, invite)) = &evidence.invite else { return false };
    let right = invite.rights.iter().find(|right| right.voice == voice).map(|right| right.uses);
    let mut keys = Vec::new();
    let (mut at, mut place) = (Some(admission), 0);
    while let Some(signed) = at.and_then(|digest| entries.get(&digest)) {
        let same = read(signed.digest).filter(|it| it.claim.authority.invite() == Some(invite.id));
        keys.extend(same.map(|it| it.key()));
        (at, place) = (signed.entry.previous, signed.entry.seq);
    }
    // Whoever spends again spends nothing: what lies before its first time counts.
    let before: BTreeSet<Digest> = keys.into_iter().rev().take_while(|key| *key != evidence.key()).collect();
    match right {
        Some(Uses::Limited(most)) => place != 1 || before.len() as u64 >= u64::from(most),
        Some(Uses::Unlimited) => false,
        None => true,
    }
}
