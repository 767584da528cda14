//! Every order of offers, evidence, time, wrong clocks and crashes, up to a bound. All of them are tried.
//!
//! A scene is what the disk says, where the link points, what a live process remembers beyond that, and what really
//! happened, by which the decisions are judged. A crash may come before and after each write.

use std::collections::BTreeSet;

use super::super::*;
use super::{at, digest, item};

const WITHIN: u64 = 20;
const LONG: u64 = 7;

/// What is played: the policy, and how much of everything may happen.
#[derive(Debug, Clone, Copy)]
struct Play {
    confirm: Confirm,
    offers: u8,
    crashes: u8,
    setbacks: u8,
    /// A head may revoke something, with or without a new offer in it.
    revokes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Scene {
    /// What a live process knows.
    memory: Option<Standing>,
    disk: Standing,
    link: Option<Digest>,
    /// The newest head on the disk, in a file of its own: authority, which is never on trial.
    mark: u64,
    /// The head that revoked something, once it was heard.
    revoked: Option<u64>,
    /// Folders that are whole.
    shelf: BTreeSet<Digest>,
    clock: i64,
    truth: Truth,
    offers: u8,
    crashes: u8,
    setbacks: u8,
}

/// What really happened, told without the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Truth {
    confirmed: Option<Item>,
    guard: Option<Item>,
    /// Of what is on trial: true seconds since it began, and what was found in this life.
    age: u64,
    reached: bool,
    checked: bool,
    consented: bool,
}

const ITEMS: [(u8, u8); 4] = [(1, 101), (2, 102), (3, 102), (4, 101)];

struct Stage {
    play: Play,
    seen: BTreeSet<Outcome>,
}

impl Stage {
    fn terms(&self) -> TrialTerms {
        TrialTerms { confirm: self.play.confirm, fresh: false, within: Seconds(WITHIN) }
    }

    fn next(&mut self, scene: &Scene) -> Vec<Scene> {
        let mut next = Vec::new();
        let Some(memory) = &scene.memory else {
            // Time passes while nobody runs; then somebody does.
            for passes in [0, LONG, 2 * WITHIN] {
                let mut scene = scene.clone();
                scene.clock += i64::try_from(passes).unwrap();
                // After a clock was set back nobody can know how long a machine was off; a start costs its tenth.
                scene.truth.age += if scene.setbacks == 0 { passes } else { 0 };
                (scene.truth.reached, scene.truth.checked) = (false, false);
                let mut found = scene.disk.clone();
                if let Some(trial) = &mut found.trial {
                    trial.evidence = TrialEvidence::default();
                }
                scene.memory = Some(found);
                self.perform(&scene, &Event::Restarted, &mut next);
            }
            return next;
        };
        self.offer_all(scene, memory, &mut next);
        if let Some(under) = memory.trial.as_ref().map(|trial| trial.item.digest) {
            self.perform(scene, &Event::Reached { under, fresh: false }, &mut next);
            for found in [Ok(()), Err(Unfit::Unreached("no".to_owned()))] {
                self.perform(scene, &Event::Checked { under, found }, &mut next);
            }
            self.perform(scene, &Event::Consented(under), &mut next);
            // About something else: never evidence.
            self.perform(scene, &Event::Reached { under: digest(99), fresh: true }, &mut next);
        }
        for (passes, jump) in [(LONG, LONG.cast_signed()), (0, 1_000), (LONG, -50)] {
            let back = jump < 0;
            if memory.trial.is_none() || (back && scene.setbacks == self.play.setbacks) {
                continue;
            }
            let mut scene = scene.clone();
            scene.setbacks += u8::from(back);
            scene.clock += jump;
            scene.truth.age += passes;
            self.perform(&scene, &Event::Tick, &mut next);
        }
        next
    }

    fn offer_all(&mut self, scene: &Scene, memory: &Standing, next: &mut Vec<Scene>) {
        let offered = |item, head, urged| Event::Offered(Offer { item, head, terms: self.terms(), urged });
        let mut offers = Vec::new();
        if scene.offers < self.play.offers {
            offers.extend(ITEMS.map(|(n, runs)| offered(item(n, runs), scene.mark + 1, false)));
        }
        // A head that was written down before a crash names something, too: it is heard again.
        offers.push(offered(item(2, 102), scene.mark, false));
        // Once more, from an older head, and because a person wants it.
        offers.extend(memory.obeyed().map(|item| offered(item, memory.head, false)));
        offers.push(offered(item(2, 102), memory.head.saturating_sub(1), false));
        if scene.offers < self.play.offers {
            offers.extend(memory.failed.as_ref().map(|failed| offered(failed.item, memory.head, true)));
        }
        for event in offers {
            let mut scene = scene.clone();
            scene.offers = (scene.offers + 1).min(self.play.offers);
            self.perform(&scene, &event, next);
            if self.play.revokes && scene.revoked.is_none() {
                scene.revoked = Some(scene.mark + 1);
                let Event::Offered(offer) = event else { continue };
                self.perform(&scene, &Event::Offered(Offer { head: scene.mark + 1, ..offer }), next);
            }
        }
    }

    /// An event and the look that follows it, whole, and broken off before and after each write.
    fn perform(&mut self, scene: &Scene, event: &Event, next: &mut Vec<Scene>) {
        let mut scene = scene.clone();
        let broken = |scene: &Scene, next: &mut Vec<Scene>| {
            if scene.crashes < self.play.crashes {
                let dead = Scene { memory: None, crashes: scene.crashes + 1, ..scene.clone() };
                dead.check_disk();
                next.push(dead);
            }
        };
        if let Event::Offered(offer) = event {
            // Authority first, before what it wants this node to be is looked at. Unwritten, it was not heard.
            let unheard = scene.revoked.filter(|head| *head <= scene.mark);
            broken(&Scene { revoked: unheard, ..scene.clone() }, next);
            scene.mark = scene.mark.max(offer.head);
            broken(&scene, next);
        }
        for event in [event.clone(), Event::Tick] {
            let before = scene.memory.take().unwrap();
            broken(&scene, next);
            let (after, outcome) = before.clone().step(event.clone(), at(scene.clock));
            self.seen.insert(outcome);
            // First the shelf, then the record, then the link; then what nobody names goes.
            let writes = after.differs_from(&scene.disk);
            scene.shelf.extend(after.kept());
            if writes {
                broken(&scene, next);
                assert!(after.head >= scene.disk.head, "heads only rise");
                scene.disk = after.clone();
            }
            scene.truth.judge(&before, &event, outcome, &after);
            if writes {
                broken(&scene, next);
            }
            scene.link = after.obeyed().map(|item| item.digest);
            if writes {
                broken(&scene, next);
            }
            scene.shelf = after.kept().chain(scene.disk.kept()).collect();
            scene.memory = Some(after);
        }
        scene.check(self.play);
        next.push(scene);
    }
}

impl Truth {
    /// What an event means, by the rules as people are told them.
    fn judge(&mut self, before: &Standing, event: &Event, outcome: Outcome, after: &Standing) {
        match event {
            Event::Reached { under, .. } => self.reached |= before.obeyed().is_some_and(|item| item.digest == *under),
            Event::Checked { found, .. } => self.checked = found.is_ok(),
            Event::Consented(_) => self.consented = true,
            _ => {}
        }
        match (outcome, event) {
            (Outcome::OnTrial, _) => {
                (self.age, self.reached, self.checked, self.consented) = (0, false, false, false);
            }
            (Outcome::Swapped, Event::Offered(offer)) => {
                if self.confirmed.is_some_and(|confirmed| confirmed.runs == offer.item.runs) {
                    (self.confirmed, self.guard) = (Some(offer.item), None);
                } else {
                    let runs = before.trial.as_ref().map(|trial| trial.item.runs);
                    assert_eq!(runs, Some(offer.item.runs), "only access differs");
                    self.consented = false;
                }
            }
            (Outcome::Withdrawn | Outcome::Same, Event::Offered(offer)) if self.confirmed == Some(offer.item) => {
                self.guard = None;
            }
            (Outcome::Guarded | Outcome::NotAgain, Event::Offered(offer)) => self.guard = Some(offer.item),
            (Outcome::Confirmed, _) => {
                let trial = before.trial.as_ref().unwrap();
                let confirm = trial.terms.confirm;
                assert!(self.checked, "the checks passed");
                assert!(self.reached || confirm == Confirm::Offline, "a gateway was reached");
                assert!(self.consented || confirm != Confirm::Operator, "an operator said so");
                (self.confirmed, self.guard) = (Some(trial.item), None);
            }
            (Outcome::WentBack, _) => self.guard = before.trial.as_ref().map(|trial| trial.item),
            _ => {}
        }
        assert_eq!(after.confirmed, self.confirmed, "what is confirmed is never lost, and nothing else is");
    }
}

impl Scene {
    /// Whoever comes now, finds what is confirmed, and no name leads nowhere.
    fn check_disk(&self) {
        assert_eq!(self.disk.confirmed, self.truth.confirmed);
        assert!(self.disk.head <= self.mark, "nothing is obeyed of a head that is not on the disk");
        assert!(self.revoked.is_none_or(|head| head <= self.mark), "what was revoked stays so, whatever went back");
        assert!(self.disk.kept().all(|digest| self.shelf.contains(&digest)), "what the record names is there");
        assert!(self.link.is_none_or(|link| self.shelf.contains(&link)), "what the link names is there");
    }

    /// A live process, after it has looked.
    fn check(&self, play: Play) {
        let memory = self.memory.as_ref().unwrap();
        self.check_disk();
        assert_eq!(self.link, memory.obeyed().map(|item| item.digest), "the link follows");
        assert_eq!(self.disk.obeyed(), memory.obeyed(), "the disk knows what is obeyed");
        if let Some(trial) = &memory.trial {
            // Each time a clock is set back, what passed since the last look is lost; a crash loses what was not
            // written down.
            let lost = u64::from(self.setbacks) * (LONG + 2 * u64::from(self.crashes));
            assert!(self.truth.age < WITHIN + lost, "{} s on trial: {self:?}", self.truth.age);
            assert_eq!(trial.terms.confirm, play.confirm);
        } else {
            assert_eq!(memory.obeyed(), self.truth.confirmed, "what was not confirmed in time is not obeyed");
            assert_eq!(memory.guard(), self.truth.guard, "what went back narrows until it is superseded");
        }
    }
}

fn explore(play: Play) -> (usize, BTreeSet<Outcome>) {
    let mut stage = Stage { play, seen: BTreeSet::new() };
    let first = Scene {
        memory: Some(Standing::default()),
        disk: Standing::default(),
        link: None,
        mark: 0,
        revoked: None,
        shelf: BTreeSet::new(),
        clock: 1_000,
        truth: Truth::default(),
        offers: 0,
        crashes: 0,
        setbacks: 0,
    };
    let (mut open, mut met) = (vec![first.clone()], BTreeSet::from([first]));
    while let Some(scene) = open.pop() {
        for next in stage.next(&scene) {
            let next = next.canonical();
            if met.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    println!("{play:?}: {} scenes, {:?}", met.len(), stage.seen);
    (met.len(), stage.seen)
}

impl Scene {
    /// Moments matter only by what lies between them: where nothing is on trial, it is always the same time.
    fn canonical(mut self) -> Self {
        let on_trial = [Some(&self.disk), self.memory.as_ref()].into_iter().flatten().any(|one| one.trial.is_some());
        let shift = 1_000 - self.clock;
        let moved = |moment: Timestamp| Timestamp::from_unix(moment.unix() + shift);
        for standing in [Some(&mut self.disk), self.memory.as_mut()].into_iter().flatten() {
            if let Some(trial) = &mut standing.trial {
                trial.seen = moved(trial.seen);
                trial.started = at(0);
            }
            if let Some(failed) = &mut standing.failed {
                failed.at = at(0);
                failed.why = Why::Unconfirmed(String::new());
            }
        }
        self.clock = 1_000;
        if !on_trial {
            self.truth = Truth { confirmed: self.truth.confirmed, guard: self.truth.guard, ..Truth::default() };
        }
        self
    }
}

fn check(play: Play, at_least: usize, outcomes: usize) {
    let (scenes, seen) = explore(play);
    assert!(scenes >= at_least, "only {scenes} scenes: the model has shrunk");
    assert_eq!(seen.len(), outcomes, "{seen:?}");
}

#[test]
fn a_node_that_confirms_by_itself() {
    check(Play { confirm: Confirm::Auto, offers: 3, crashes: 1, setbacks: 0, revokes: false }, 60_000, 11);
}

#[test]
fn a_node_that_waits_for_an_operator() {
    check(Play { confirm: Confirm::Operator, offers: 2, crashes: 1, setbacks: 1, revokes: false }, 80_000, 11);
}

#[test]
fn a_node_without_gateways_that_dies_often() {
    check(Play { confirm: Confirm::Offline, offers: 2, crashes: 2, setbacks: 1, revokes: false }, 140_000, 11);
}

#[test]
fn a_node_that_hears_of_a_revocation_at_any_time() {
    check(Play { confirm: Confirm::Auto, offers: 2, crashes: 1, setbacks: 0, revokes: true }, 80_000, 11);
}
