//! Every short course that a join can take, over runs that end or are killed, against what is plainly so.

use std::collections::BTreeSet;

use super::*;

const NOS: [No; 6] = [No::Denied, No::NameTaken, No::InviteOver, No::NotHere, No::Clear, No::Unclear];
/// One gateway alone, one beside a silent one, and one beside one that may have let it in.
const AROUND: [Around; 3] = [
    Around { silent: false, unsure: false },
    Around { silent: true, unsure: false },
    Around { silent: true, unsure: true },
];

/// What is tried.
#[derive(Debug, Clone, Copy)]
struct Play {
    /// How long somebody has; nothing if as long as it takes.
    patience: Option<Duration>,
    rounds: u32,
    runs: u32,
}

/// One world: a folder, a run over it, and what a gateway may remember.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Scene {
    run: Joining,
    left: Duration,
    rounds: u32,
    runs: u32,
    /// The node key in the folder, by number; `shown` if somebody may have seen it.
    key: Option<u32>,
    made: u32,
    shown: bool,
    /// It is on the disk that a person must approve it.
    waiting: bool,
    /// The key for which a gateway may have spent a use, or asked a person.
    remembered: Option<u32>,
    told: bool,
    /// Failures in a row, and how long it paused after the last one.
    lost: u32,
    paused: Option<Duration>,
}

/// What can come of asking once.
#[derive(Debug, Clone, Copy)]
struct Course {
    /// Somebody may have seen the key.
    shown: bool,
    event: Event,
    round: Duration,
    around: Around,
}

/// What a run comes to, with the scene that it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Member,
    Left,
    GaveUp(Option<No>),
}

impl Scene {
    fn first(play: Play) -> Self {
        Self {
            run: Joining::begin(true, false),
            left: play.patience.unwrap_or(Duration::from_secs(ROUND.0)),
            rounds: 0,
            runs: 1,
            key: None,
            made: 0,
            shown: false,
            waiting: false,
            remembered: None,
            told: false,
            lost: 0,
            paused: None,
        }
    }

    /// Another run, over what the last one left.
    fn again(&self, play: Play) -> Self {
        Self {
            run: Joining::begin(self.key.is_none(), self.waiting),
            left: Self::first(play).left,
            rounds: 0,
            runs: self.runs + 1,
            told: false,
            lost: 0,
            paused: None,
            ..self.clone()
        }
    }

    /// All that can come of asking once more. A gateway that is not believed sees no key.
    fn courses(&self) -> Vec<Course> {
        let wait = self.run.patience(self.left).map_or(Duration::ZERO, |wait| Duration::from_secs(wait.0));
        assert!(wait <= self.left.max(Duration::from_secs(ROUND.0)));
        let [alone, beside, unsure] = AROUND;
        let course = |shown, event, round, around| Course { shown, event, round, around };
        let at_once = |shown, event, around| course(shown, event, Duration::ZERO, around);
        let mut all = vec![at_once(true, Event::Admitted, alone), at_once(false, Event::Lost, beside)];
        for round in [Duration::ZERO, wait] {
            all.extend([course(true, Event::Waits, round, alone), course(true, Event::Lost, round, unsure)]);
        }
        let ends = NOS.map(Event::Refused).into_iter().chain([Event::Failed]);
        all.extend(ends.flat_map(|event| [at_once(true, event, alone), at_once(false, event, alone)]));
        for no in [No::InviteOver, No::NotHere, No::Clear] {
            all.extend([beside, unsure].map(|around| at_once(true, Event::Refused(no), around)));
        }
        all
    }

    fn after(&self, play: Play, Course { shown, event, round, around }: Course) -> (Self, Option<End>) {
        let mut next = Self { rounds: self.rounds + 1, ..self.clone() };
        let spent = |left: Duration, by: Duration| play.patience.map_or(left, |_| left.saturating_sub(by));
        if shown {
            if next.key.is_none() {
                (next.key, next.made) = (Some(self.made), self.made + 1);
            }
            next.shown = true;
            let key = next.key;
            assert!(
                self.remembered.is_none() || self.remembered == key,
                "another key than the one that was begun with"
            );
            if around.unsure || matches!(event, Event::Waits | Event::Admitted | Event::Refused(No::Unclear)) {
                next.remembered = key;
            }
        }
        next.waiting |= event == Event::Waits;
        next.left = spent(next.left, round);
        let action;
        let moment = Moment { left: next.left, round, unused: !next.shown, around };
        (next.run, action) = self.run.step(event, moment);
        next.check(self, event, action, moment);
        match action {
            Action::ComeBack => (next, Some(End::Member)),
            Action::Ask { after, tell } => {
                next.told |= tell;
                next.left = spent(next.left, after);
                (next, None)
            }
            Action::Leave { tell } => {
                next.told |= tell;
                (next, Some(End::Left))
            }
            Action::GiveUp { wipe, in_vain } => {
                let no = if let Event::Refused(no) = event { Some(no) } else { None };
                next.waiting &= !in_vain;
                if wipe {
                    let of_no_use = no == Some(No::Denied) || no == Some(No::NameTaken);
                    assert!(next.remembered.is_none() || of_no_use, "a key that counts is wiped: {self:?}");
                    (next.key, next.shown, next.waiting, next.remembered) = (None, false, false, None);
                }
                (next, Some(End::GaveUp(no)))
            }
        }
    }

    /// The laws of one step.
    fn check(&mut self, before: &Self, event: Event, action: Action, Moment { round, around, .. }: Moment) {
        match (event, action) {
            (Event::Admitted, Action::ComeBack) => {}
            (Event::Waits, Action::Ask { after, tell }) => {
                assert_eq!(tell, !before.told, "a person is told once in a run");
                let knew = before.waiting;
                assert!(!knew || after + round >= SHORTEST_ROUND, "no gateway is asked without end");
                assert!(knew || after.is_zero(), "whoever must wait tells of itself at once");
                (self.lost, self.paused) = (0, None);
            }
            (Event::Waits, Action::Leave { tell }) => {
                assert_eq!(tell, !before.told);
                assert!(before.waiting && self.left.is_zero(), "nobody leaves early, nor before it told of itself");
            }
            (Event::Lost | Event::Refused(_), Action::Ask { after, tell }) => {
                let open = event == Event::Lost || event == Event::Refused(No::NotHere) || self.remembered.is_some();
                assert!(!tell && around.silent && open, "a clear no outranks a silence");
                let usual = before.paused.map_or(FIRST_PAUSE, |paused| (paused * 2).min(LONGEST_PAUSE));
                assert_eq!(after, usual, "each pause is twice the last one, up to a bound");
                (self.lost, self.paused) = (before.lost + 1, Some(after));
                assert!(self.lost < ATTEMPTS || before.waiting && !self.left.is_zero());
            }
            (Event::Lost, Action::GiveUp { in_vain, .. }) => {
                assert!(before.lost + 1 >= ATTEMPTS && !in_vain);
            }
            (Event::Refused(no), Action::GiveUp { in_vain, wipe }) => {
                assert_eq!(in_vain, no == No::InviteOver && before.waiting, "a used-up invite ends the wait");
                assert!(no != No::Denied || wipe, "whoever was turned away keeps nothing");
            }
            (Event::Failed, Action::GiveUp { in_vain, .. }) => assert!(!in_vain),
            (event, action) => panic!("{action:?} after {event:?}: a final word is obeyed, and nothing else is one"),
        }
    }
}

fn explore(play: Play) -> (usize, BTreeSet<End>) {
    let first = Scene::first(play);
    let (mut open, mut met, mut ends) = (vec![first.clone()], BTreeSet::from([first]), BTreeSet::new());
    while let Some(scene) = open.pop() {
        let mut follow = |next: Scene| {
            if met.insert(next.clone()) {
                open.push(next);
            }
        };
        for course in scene.courses() {
            let (next, end) = scene.after(play, course);
            ends.extend(end);
            // The run is over, or it is killed before it can go on.
            if next.runs < play.runs && end != Some(End::Member) {
                follow(next.again(play));
            }
            if end.is_none() && next.rounds < play.rounds {
                follow(next);
            }
        }
    }
    (met.len(), ends)
}

fn check(play: Play, at_least: usize) {
    let (scenes, ends) = explore(play);
    println!("{play:?}: {scenes} scenes, {ends:?}");
    assert!(scenes >= at_least, "only {scenes} scenes: the model has shrunk");
    let left = usize::from(play.patience.is_some());
    assert_eq!(ends.len(), 2 + NOS.len() + left, "{ends:?}");
}

#[test]
fn a_gateway_that_does_not_know_or_may_not_never_speaks_for_all_of_them() {
    let until = identity::time::Timestamp::from_unix(0);
    let here = [
        Refusal::InviteNotHere,
        Refusal::InviteUsedUp { uses: 1 },
        Refusal::InviteUnknown { invite: identity::id::InviteId([7; 16]) },
        Refusal::NoMandate,
        Refusal::HeadStale { until },
        Refusal::LedgerBehind,
        Refusal::Restored,
    ];
    assert!(here.iter().all(|refusal| meaning(refusal).only_here));
    let all = [Refusal::Denied, Refusal::InviteRevoked, Refusal::BadProof, Refusal::KeyRevoked, Refusal::Waiting];
    assert!(all.iter().all(|refusal| !meaning(refusal).only_here));
}

#[test]
fn a_machine_that_waits_as_long_as_it_takes() {
    check(Play { patience: None, rounds: 16, runs: 3 }, 1_000);
}

#[test]
fn a_machine_whose_owner_waits_a_few_seconds() {
    check(Play { patience: Some(Duration::from_secs(4)), rounds: 24, runs: 3 }, 1_200);
}

#[test]
fn a_machine_whose_owner_does_not_wait() {
    check(Play { patience: Some(Duration::ZERO), rounds: 16, runs: 3 }, 400);
}

#[test]
fn who_waits_for_a_person_goes_on_while_no_gateway_answers() {
    let (mut run, mut asked) = (Joining::begin(false, true), Duration::ZERO);
    let moment = Moment { left: Duration::from_secs(ROUND.0), round: Duration::ZERO, unused: false, around: AROUND[1] };
    for _ in 0..100 {
        let (next, Action::Ask { after, .. }) = run.step(Event::Lost, moment) else { panic!("gave up") };
        (run, asked) = (next, asked + after);
    }
    assert!(asked > LONGEST_PAUSE * 90);
}

#[test]
fn a_clear_no_from_one_gateway_outranks_the_silence_of_another_and_leaves_nothing() {
    let moment = |around| Moment { left: Duration::ZERO, round: Duration::ZERO, unused: false, around };
    let [_, beside, unsure] = AROUND;
    for no in [No::InviteOver, No::Clear] {
        let (_, action) = Joining::begin(true, false).step(Event::Refused(no), moment(beside));
        assert_eq!(action, Action::GiveUp { wipe: true, in_vain: false }, "{no:?}");
        // It may be used up by this very machine: the other one is asked again.
        let (mut run, action) = Joining::begin(true, false).step(Event::Refused(no), moment(unsure));
        assert!(matches!(action, Action::Ask { .. }), "{no:?}");
        let mut last = action;
        while let Action::Ask { .. } = last {
            (run, last) = run.step(Event::Refused(no), moment(beside));
        }
        assert_eq!(last, Action::GiveUp { wipe: false, in_vain: false }, "{no:?}");
    }
    // One that has no right says nothing of who has it.
    let (mut run, mut action) = Joining::begin(true, false).step(Event::Refused(No::NotHere), moment(beside));
    assert!(matches!(action, Action::Ask { .. }));
    while let Action::Ask { .. } = action {
        (run, action) = run.step(Event::Refused(No::NotHere), moment(beside));
    }
    assert_eq!(action, Action::GiveUp { wipe: true, in_vain: false });
}
