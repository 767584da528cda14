//! What is decided, case by case; every order of events is in `model`.

mod model;

use super::*;

pub(super) fn digest(n: u8) -> Digest {
    Digest([n; 32])
}

pub(super) fn item(n: u8, runs: u8) -> Item {
    Item { digest: digest(n), runs: digest(runs) }
}

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_unix(1_800_000_000 + second)
}

const TERMS: TrialTerms = TrialTerms { confirm: Confirm::Auto, fresh: false, within: Seconds(300) };

fn offer(item: Item, head: u64) -> Event {
    Event::Offered(Offer { item, head, terms: TERMS, urged: false })
}

fn urge(item: Item, head: u64) -> Event {
    Event::Offered(Offer { item, head, terms: TrialTerms { within: Seconds(60), ..TERMS }, urged: true })
}

/// Plays events, each at its second.
fn play(mut standing: Standing, events: impl IntoIterator<Item = (i64, Event, Outcome)>) -> Standing {
    for (second, event, expected) in events {
        let told = format!("{event:?} at {second} after {standing:?}");
        let (next, outcome) = standing.step(event, at(second));
        assert_eq!(outcome, expected, "{told}");
        standing = next;
    }
    standing
}

const GOOD: Result<(), Unfit> = Ok(());

fn reached(n: u8) -> Event {
    Event::Reached { under: digest(n), fresh: false }
}

fn checked(n: u8, found: Result<(), Unfit>) -> Event {
    Event::Checked { under: digest(n), found }
}

/// Confirmed under number 1.
fn settled() -> Standing {
    play(
        Standing::default(),
        [
            (0, offer(item(1, 101), 1), Outcome::OnTrial),
            (1, reached(1), Outcome::Noted),
            (1, Event::Tick, Outcome::Ignored),
            (2, checked(1, GOOD), Outcome::Noted),
            (2, Event::Tick, Outcome::Confirmed),
        ],
    )
}

#[test]
fn an_unconfirmed_item_goes_back_at_the_deadline_second() {
    let bad = || Err(Unfit::Unreached("`wiki`: refused".to_owned()));
    let standing = play(
        settled(),
        [
            (10, offer(item(2, 102), 2), Outcome::OnTrial),
            (20, reached(2), Outcome::Noted),
            (30, checked(2, bad()), Outcome::Noted),
            (309, Event::Tick, Outcome::Ignored),
        ],
    );
    assert_eq!((standing.obeyed(), standing.guard()), (Some(item(2, 102)), None));
    assert_eq!(standing.trial.as_ref().unwrap().deadline(), at(310));
    let standing = play(standing, [(310, Event::Tick, Outcome::WentBack)]);
    assert_eq!((standing.obeyed(), standing.guard()), (Some(item(1, 101)), Some(item(2, 102))));
    let why = standing.failed.unwrap().why.to_string();
    assert_eq!(why, "not confirmed in time; still missing: the checks: `wiki`: refused");
}

#[test]
fn checks_that_failed_first_may_pass_later_and_the_last_word_counts() {
    let bad = || Err(Unfit::Unreached("no".to_owned()));
    let trial = play(
        settled(),
        [
            (10, offer(item(2, 102), 2), Outcome::OnTrial),
            (11, checked(2, bad()), Outcome::Noted),
            (12, checked(2, GOOD), Outcome::Noted),
            (13, checked(2, bad()), Outcome::Noted),
            (14, reached(2), Outcome::Noted),
            (14, Event::Tick, Outcome::Ignored),
        ],
    );
    play(trial, [(15, checked(2, GOOD), Outcome::Noted), (15, Event::Tick, Outcome::Confirmed)]);
}

#[test]
fn each_policy_waits_for_its_own() {
    for (confirm, reach, consent, expected) in [
        (Confirm::Offline, false, false, Outcome::Confirmed),
        (Confirm::Auto, false, true, Outcome::Ignored),
        (Confirm::Auto, true, false, Outcome::Confirmed),
        (Confirm::Operator, true, false, Outcome::Ignored),
        (Confirm::Operator, false, true, Outcome::Ignored),
        (Confirm::Operator, true, true, Outcome::Confirmed),
    ] {
        let terms = TrialTerms { confirm, ..TERMS };
        let offer = Event::Offered(Offer { item: item(2, 102), head: 2, terms, urged: false });
        let mut standing = play(settled(), [(10, offer, Outcome::OnTrial), (11, checked(2, GOOD), Outcome::Noted)]);
        if reach {
            standing = play(standing, [(12, reached(2), Outcome::Noted)]);
        }
        if consent {
            standing = play(standing, [(12, Event::Consented(digest(2)), Outcome::Noted)]);
        }
        assert_eq!(standing.step(Event::Tick, at(13)).1, expected, "{confirm:?} {reach} {consent}");
    }
}

#[test]
fn evidence_about_something_else_or_after_the_time_counts_for_nothing() {
    let fresh = TrialTerms { fresh: true, ..TERMS };
    let offer = Event::Offered(Offer { item: item(2, 102), head: 2, terms: fresh, urged: false });
    let trial = play(
        settled(),
        [
            (10, offer, Outcome::OnTrial),
            (11, reached(1), Outcome::Ignored),
            (11, checked(1, GOOD), Outcome::Ignored),
            (11, Event::Consented(digest(1)), Outcome::Ignored),
            (12, checked(2, GOOD), Outcome::Noted),
            (13, reached(2), Outcome::Noted),
            // That connection was not made under it.
            (13, Event::Tick, Outcome::Ignored),
        ],
    );
    let late = Event::Reached { under: digest(2), fresh: true };
    play(trial.clone(), [(310, late.clone(), Outcome::Ignored), (310, Event::Tick, Outcome::WentBack)]);
    play(trial, [(309, late, Outcome::Noted), (309, Event::Tick, Outcome::Confirmed)]);
}

#[test]
fn a_change_of_access_alone_is_swapped_without_a_trial() {
    let standing = play(settled(), [(10, offer(item(2, 101), 2), Outcome::Swapped)]);
    assert_eq!((standing.confirmed, standing.previous, standing.trial), (Some(item(2, 101)), Some(item(1, 101)), None));
    // While something is on trial, for it; neither its time nor its evidence begins anew.
    let standing = play(
        settled(),
        [
            (10, offer(item(2, 102), 2), Outcome::OnTrial),
            (11, reached(2), Outcome::Noted),
            (20, offer(item(3, 102), 3), Outcome::Swapped),
        ],
    );
    let trial = standing.trial.as_ref().unwrap();
    assert_eq!((trial.item, trial.deadline(), trial.evidence.reached), (item(3, 102), at(310), true));
    // Back to what is confirmed but for access: the trial is over.
    let standing = play(standing, [(30, offer(item(4, 101), 4), Outcome::Swapped)]);
    assert_eq!((standing.obeyed(), standing.trial), (Some(item(4, 101)), None));
}

#[test]
fn a_newer_offer_is_tried_against_what_is_confirmed() {
    let standing = play(
        settled(),
        [
            (10, offer(item(2, 102), 2), Outcome::OnTrial),
            (200, offer(item(3, 103), 3), Outcome::OnTrial),
            (310, Event::Tick, Outcome::Ignored),
            (500, Event::Tick, Outcome::WentBack),
        ],
    );
    assert_eq!((standing.obeyed(), standing.guard()), (Some(item(1, 101)), Some(item(3, 103))));
    let withdrawn = [
        (600, urge(item(3, 103), 3), Outcome::OnTrial),
        (610, offer(item(1, 101), 4), Outcome::Withdrawn),
        (611, offer(item(3, 103), 3), Outcome::Stale),
    ];
    let standing = play(standing, withdrawn);
    assert_eq!((standing.obeyed(), standing.guard(), standing.head), (Some(item(1, 101)), None, 4));
}

#[test]
fn what_went_back_is_not_tried_again_by_itself() {
    let back = play(settled(), [(10, offer(item(2, 102), 2), Outcome::OnTrial), (310, Event::Tick, Outcome::WentBack)]);
    let standing = play(back.clone(), [(320, offer(item(2, 102), 3), Outcome::NotAgain)]);
    assert_eq!((standing.obeyed(), standing.guard()), (Some(item(1, 101)), Some(item(2, 102))));
    // Other access with what failed: it narrows at once, and is not tried.
    let standing = play(standing, [(330, offer(item(3, 102), 4), Outcome::Guarded)]);
    assert_eq!((standing.obeyed(), standing.guard()), (Some(item(1, 101)), Some(item(3, 102))));
    // A person says so, with a time of its own.
    let standing = play(standing, [(340, urge(item(3, 102), 4), Outcome::OnTrial)]);
    assert_eq!(standing.trial.unwrap().deadline(), at(400));
    play(back, [(320, offer(item(4, 104), 3), Outcome::OnTrial)]);
}

#[test]
fn a_clock_set_back_makes_no_trial_last_for_ever() {
    let mut standing = play(settled(), [(10, offer(item(2, 102), 2), Outcome::OnTrial)]);
    // Each second, a clock that is a year behind, a year ahead of that, and so on: what passes between looks counts.
    let year = 365 * 86_400;
    for second in 11..60 {
        standing = play(standing, [(second, Event::Tick, Outcome::Ignored)]);
    }
    for second in 60..309 {
        standing = play(standing, [(second - year, Event::Tick, Outcome::Ignored)]);
    }
    // One second was lost when it was set back.
    play(standing, [(309 - year, Event::Tick, Outcome::Ignored), (311 - year, Event::Tick, Outcome::WentBack)]);
}

#[test]
fn a_clock_set_forward_ends_a_trial_early() {
    play(settled(), [(10, offer(item(2, 102), 2), Outcome::OnTrial), (86_400, Event::Tick, Outcome::WentBack)]);
}

#[test]
fn who_dies_ten_times_under_something_new_goes_back() {
    let day = TrialTerms { within: Seconds::DAY, ..TERMS };
    let offer = Event::Offered(Offer { item: item(2, 102), head: 2, terms: day, urged: false });
    let mut standing = play(settled(), [(10, offer, Outcome::OnTrial)]);
    for start in 1..10 {
        standing = play(standing, [(10 + start, Event::Restarted, Outcome::Noted)]);
        standing = play(standing, [(10 + start, Event::Tick, Outcome::Ignored)]);
    }
    play(standing, [(20, Event::Restarted, Outcome::Noted), (20, Event::Tick, Outcome::WentBack)]);
}

#[test]
fn a_start_forgets_evidence_but_no_consent() {
    let terms = TrialTerms { confirm: Confirm::Operator, ..TERMS };
    let offer = Event::Offered(Offer { item: item(2, 102), head: 2, terms, urged: false });
    let standing = play(
        settled(),
        [
            (10, offer, Outcome::OnTrial),
            (11, reached(2), Outcome::Noted),
            (12, Event::Consented(digest(2)), Outcome::Noted),
            (13, Event::Restarted, Outcome::Noted),
            (14, checked(2, GOOD), Outcome::Noted),
            (14, Event::Tick, Outcome::Ignored),
        ],
    );
    play(standing, [(15, reached(2), Outcome::Noted), (15, Event::Tick, Outcome::Confirmed)]);
}

#[test]
fn what_is_damaged_gives_way_to_the_one_before_and_is_taken_again() {
    let two = play(
        settled(),
        [
            (10, offer(item(2, 102), 2), Outcome::OnTrial),
            (11, reached(2), Outcome::Noted),
            (11, checked(2, GOOD), Outcome::Noted),
            (11, Event::Tick, Outcome::Confirmed),
        ],
    );
    let lost = play(two.clone(), [(20, Event::Damaged(digest(2)), Outcome::WentBack)]);
    // What is older might allow more: the lost one still narrows.
    assert_eq!((lost.obeyed(), lost.guard(), lost.previous), (Some(item(1, 101)), Some(item(2, 102)), None));
    play(lost.clone(), [(21, offer(item(2, 102), 2), Outcome::OnTrial)]);
    let none = play(lost, [(20, Event::Damaged(digest(1)), Outcome::WentBack)]);
    assert_eq!((none.obeyed(), none.guard()), (None, Some(item(2, 102))));
    let tried = play(two, [(20, offer(item(3, 103), 3), Outcome::OnTrial)]);
    let tried = play(tried, [(21, Event::Damaged(digest(3)), Outcome::WentBack)]);
    assert_eq!(tried.obeyed(), Some(item(2, 102)));
}

#[test]
fn time_is_written_down_by_tenths() {
    let begun = play(settled(), [(10, offer(item(2, 102), 2), Outcome::OnTrial)]);
    assert!(begun.differs_from(&settled()));
    let little = play(begun.clone(), [(39, reached(2), Outcome::Noted)]);
    assert!(!little.differs_from(&begun));
    let tenth = play(begun.clone(), [(40, Event::Tick, Outcome::Ignored)]);
    assert!(tenth.differs_from(&begun));
}
