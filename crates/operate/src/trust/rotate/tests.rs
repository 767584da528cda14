//! A rotation that is cut off anywhere, and run again.

use identity::head::{TrustLine, TrustState};
use identity::trust::step;
use proptest::prelude::*;

use super::*;
use crate::trust::stage::stage;

const DOMAIN: Domain = Domain::Identity;
const GRACE: Seconds = Seconds::DAY;

/// The head's lines, and when it is.
#[derive(Debug, Clone)]
struct World {
    lines: Vec<TrustLine>,
    now: Timestamp,
    finished: Option<Timestamp>,
}

impl World {
    fn new() -> Self {
        let lines = vec![TrustLine::new(DOMAIN, 1, Digest([1; 32]), TrustState::Active)];
        Self { lines, now: Timestamp::from_unix(1_000_000), finished: None }
    }

    fn take(&mut self, turn: TrustStep) {
        self.lines = step(&self.lines, DOMAIN, turn, self.now).unwrap();
        self.finished = matches!(turn, TrustStep::Retire { .. }).then_some(self.now);
    }

    /// One run of at most so many steps; gives back how it ended, or nothing if it was cut off.
    fn run(&mut self, goes_on: bool, steps: usize) -> Option<NextStep> {
        let mut course = Course { goes_on, moved: false };
        for _ in 0..steps {
            match next(stage(&self.lines, DOMAIN), course, self.now) {
                NextStep::Publish { .. } if matches!(self.begins(), Beginning::Unsure(_)) => return None,
                NextStep::Publish { active } => {
                    assert_eq!(trust::active(&self.lines, DOMAIN).unwrap().version, active);
                    let version = u8::try_from(trust::next_version(&self.lines, DOMAIN)).unwrap();
                    self.take(TrustStep::Publish { bundle: Digest([version; 32]) });
                }
                NextStep::Activate { version, .. } => self.take(TrustStep::Activate { version, grace: GRACE }),
                // Not early: the rules themselves say no before its time.
                NextStep::Retire { version } => self.take(TrustStep::Retire { version, early: false }),
                end => return Some(end),
            }
            course.moved = true;
        }
        None
    }

    fn begins(&self) -> Beginning {
        beginning(self.finished, false, self.now)
    }
}

proptest! {
    #[test]
    fn a_rotation_that_is_cut_off_anywhere_goes_on_to_its_end(cuts in prop::collection::vec((0_usize..4, 0_u64..30), 0..12)) {
        let mut world = World::new();
        world.run(false, 1);
        for (steps, hours) in cuts {
            world.run(true, steps);
            world.now = world.now + Seconds(hours * 3600);
        }
        world.run(true, 9);
        world.now = world.now + GRACE;
        world.run(true, 9);
        prop_assert_eq!(stage(&world.lines, DOMAIN), Stage::Settled { active: 2 });
        prop_assert_eq!(world.run(true, 9), Some(NextStep::NothingUnderWay));
    }
}

#[test]
fn one_run_rests_in_the_grace_and_the_next_one_ends_it() {
    let mut world = World::new();
    let until = world.now + GRACE;
    assert_eq!(world.run(false, 9), Some(NextStep::Rest { active: 2, version: 1, until }));
    world.now = until;
    assert_eq!(world.run(false, 9), Some(NextStep::Done { active: 2 }));
}

#[test]
fn whoever_finished_lately_is_asked_before_another_begins() {
    let mut world = World::new();
    assert_eq!(world.begins(), Beginning::First);
    world.run(false, 9);
    world.now = world.now + GRACE;
    world.run(false, 9);
    let at = world.now;
    assert_eq!(world.begins(), Beginning::Unsure(at));
    assert_eq!(beginning(Some(at), true, at), Beginning::Another(at));
    assert_eq!(beginning(Some(at), false, at + LATELY), Beginning::Another(at));
}
