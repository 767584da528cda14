//! Every short course of an agent's day, by a clock that jumps, against what is plainly so.

use super::*;

const EVERY: Seconds = Seconds(60);
const START: i64 = 1_800_000_000;
/// As long as the longest wait, a tenth later.
const LONGEST_REST: u64 = 66;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(START + seconds)
}

const USUAL: Look = Look { tree: false, urged: false };

/// What happened, as the schedule need not know it.
#[derive(Debug, Clone, Copy, Default)]
struct Truth {
    /// Since the last exchange that did not fail, or since it was roused.
    failures: u32,
    /// Nothing else ended what kept it resting.
    quiet: bool,
}

/// What can come to an agent, beside time.
fn courses(now: Timestamp) -> Vec<Event> {
    let exchanged = |tree, frozen| Event::Exchanged(Exchange { tree, frozen });
    let (good, over) = (now..now + Seconds::HOUR, at(-7_200)..at(-3_600));
    vec![
        Event::Roused,
        Event::Heard { quiet: true },
        Event::Heard { quiet: false },
        Event::OfferRefused,
        exchanged(false, false),
        exchanged(false, true),
        exchanged(true, false),
        Event::Failed,
        Event::SvidRefused,
        Event::CameBack,
        Event::SvidRead { good: Some(good.clone()), renewed: false },
        Event::SvidRead { good: Some(good), renewed: true },
        Event::SvidRead { good: Some(over), renewed: true },
        Event::SvidRead { good: None, renewed: false },
        Event::Suspended { until: now + Seconds::DAY },
    ]
}

impl Truth {
    fn after(mut self, event: &Event) -> Self {
        match event {
            Event::Failed => self.failures += 1,
            Event::Roused | Event::Exchanged(_) => self.failures = 0,
            Event::Heard { quiet } => self.quiet = *quiet,
            Event::OfferRefused => self.quiet = true,
            _ => {}
        }
        self
    }
}

fn looks(schedule: &Schedule, look: Look, now: Timestamp) -> Action {
    let (after, action) = schedule.clone().step(Event::Look(look), now);
    assert_eq!(after, *schedule, "to look changes nothing");
    action
}

/// The laws of one step, whatever came before.
fn check(before: &Schedule, event: &Event, after: &Schedule, truth: Truth, now: Timestamp) {
    let tree = Look { tree: true, ..USUAL };
    assert_eq!(looks(after, Look { urged: true, ..USUAL }, now), Action::Exchange, "who waits is served");
    for look in [USUAL, tree] {
        let later = now + Seconds(LONGEST_REST);
        assert_eq!(looks(after, look, later), Action::Exchange, "nobody rests for ever: {after:?}");
        let put_back = at(-1_000_000);
        assert_eq!(looks(after, look, put_back), Action::Exchange, "nor because a clock was put back: {after:?}");
    }
    match event {
        Event::Roused => assert_eq!(looks(after, USUAL, now), Action::Exchange),
        Event::Failed => {
            let bound = Seconds(1 << truth.failures.min(9)).min(EVERY);
            let wait = after.backoff();
            assert!(wait.0 * 100 >= bound.0 * 90 - 100 && wait.0 * 100 <= bound.0 * 110, "{wait} after {truth:?}");
            assert!(truth.failures == 1 || wait >= before.backoff(), "waits grow");
            assert_eq!(looks(after, USUAL, now), Action::Rest, "a failure is waited after, whatever is due");
            assert_eq!(looks(after, USUAL, now + wait), Action::Exchange);
        }
        Event::Exchanged(exchange) => {
            // What is due to be renewed is no reason to rest.
            let renews = after.renew_at.is_none_or(|at| at <= now);
            let rests = truth.quiet && !renews;
            let expected = if rests || exchange.tree && !renews { Action::Rest } else { Action::Exchange };
            assert_eq!(looks(after, USUAL, now), expected);
            let expected = if truth.quiet || exchange.tree { Action::Rest } else { Action::Exchange };
            assert_eq!(looks(after, tree, now), expected, "a tree renews nothing");
        }
        Event::SvidRead { good: Some(good), renewed } => {
            assert!(after.renew_at.is_some_and(|at| at >= after.due_at(good)));
            assert!(!renewed || !after.renews(good, now), "nothing is renewed twice at once");
        }
        Event::SvidRead { good: None, .. } => assert_eq!(after.renew_at, None),
        Event::Suspended { until } => {
            let good = at(-3_600)..*until + Seconds::HOUR;
            assert!(!after.renews(&good, now) && after.renews(&good, *until), "nothing is renewed meanwhile");
        }
        Event::SvidRefused => assert!(after.svid_is_refused()),
        Event::CameBack => assert!(!after.svid_is_refused()),
        Event::Look(_) | Event::Heard { .. } | Event::OfferRefused => {}
    }
    if !matches!(event, Event::SvidRefused | Event::CameBack) {
        assert_eq!(after.svid_is_refused(), before.svid_is_refused(), "only another SVID cures a refused one");
    }
    for (wake, on_trial) in [(None, false), (Some(now + Seconds(7)), false), (None, true)] {
        let patience = after.patience(Seconds(30), wake, on_trial, now);
        assert!(patience <= Seconds(33) && wake.is_none_or(|at| now + patience <= at));
        assert!(!on_trial || patience <= TRIAL_WAIT);
        assert!(after.renew_at.is_none_or(|at| at < now || now + patience <= at), "a renewal is not slept over");
    }
}

fn explore(schedule: &Schedule, truth: Truth, now: Timestamp, depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    let mut seen = 0;
    for event in courses(now) {
        let truth = truth.after(&event);
        let (after, action) = schedule.clone().step(event.clone(), now);
        assert_eq!(action, Action::Nothing);
        check(schedule, &event, &after, truth, now);
        // A moment later, and after a sleep.
        for pause in [Seconds(1), Seconds(100)] {
            seen += explore(&after, truth, now + pause, depth - 1);
        }
    }
    seen
}

#[test]
fn every_short_course_keeps_the_laws() {
    for jitter in [0, 20, 255] {
        let courses = explore(&Schedule::new(EVERY, jitter), Truth::default(), at(0), 3);
        assert_eq!(courses, 27_000);
    }
}

#[test]
fn each_failure_in_a_row_is_waited_after_longer_up_to_a_bound() {
    let check = |every: u64, waits: &[u64]| {
        // A jitter of ten is none.
        let mut schedule = Schedule::new(Seconds(every), 10);
        let all = waits.iter().map(|_| {
            schedule.note(Event::Failed, at(0));
            schedule.backoff().0
        });
        assert_eq!(all.collect::<Vec<_>>(), waits);
    };
    check(60, &[2, 4, 8, 16, 32, 60, 60]);
    check(1, &[2, 2, 2]);
    check(86_400, &[2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
}

#[test]
fn what_is_due_again_as_soon_as_it_was_renewed_is_renewed_once_in_a_while() {
    let mut schedule = Schedule::new(EVERY, 0);
    // The gateway's clock is far behind: what it issues is half over here.
    let good = at(-3_000)..at(600);
    assert!(schedule.renews(&good, at(0)));
    schedule.note(Event::SvidRead { good: Some(good.clone()), renewed: true }, at(0));
    assert_eq!(schedule.renew_at(), Some(at(360)));
    assert!((0..360).all(|second| !schedule.renews(&good, at(second))) && schedule.renews(&good, at(360)));
}
