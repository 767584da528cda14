//! The life of bundles, step by step and in any order.

use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp::from_unix(1_800_000_000);
const D: Domain = Domain::Endpoint;

fn bundle(n: u8) -> Digest {
    Digest([n; 32])
}

fn founded() -> Vec<TrustLine> {
    let line = |domain, n| TrustLine::new(domain, 1, bundle(n), TrustState::Active);
    vec![line(Domain::Identity, 101), line(D, 1)]
}

fn states(lines: &[TrustLine]) -> Vec<(u64, &'static str)> {
    of(lines, D).iter().map(|line| (line.version, line.state.word())).collect()
}

#[track_caller]
fn after(lines: &[TrustLine], turn: TrustStep, at: Timestamp, wanted: &[(u64, &'static str)]) -> Vec<TrustLine> {
    let next = step(lines, D, turn, at).unwrap();
    assert_eq!(states(&next), wanted);
    assert_eq!(of(&next, Domain::Identity), of(lines, Domain::Identity), "the other domain");
    assert!(is_sound(&next));
    assert_eq!(follows(lines, &next), Ok(()));
    next
}

#[test]
fn a_rotation_goes_through_all_states() {
    let week = Seconds::DAY.times(7);
    let lines = after(&founded(), TrustStep::Publish { bundle: bundle(2) }, NOW, &[(1, "active"), (2, "staged")]);
    let lines = after(&lines, TrustStep::Activate { version: 2, grace: week }, NOW, &[(1, "grace"), (2, "active")]);
    let early = TrustStep::Retire { version: 1, early: false };
    assert_eq!(step(&lines, D, early, NOW), Err(BadStep::InGrace { version: 1, domain: D.word(), until: NOW + week }));
    let lines = after(&lines, early, NOW + week, &[(1, "retired"), (2, "active")]);
    assert_eq!(of(&lines, D)[0].grace, Some(Grace { since: NOW, until: NOW + week }), "it stays on record");
}

#[test]
fn a_rollback_is_a_new_version_with_the_former_roots() {
    let staged = step(&founded(), D, TrustStep::Publish { bundle: bundle(2) }, NOW).unwrap();
    let back = TrustStep::Rollback { bundle: bundle(3), reverts: 2, grace: Seconds::DAY };
    after(&staged, back, NOW, &[(1, "retired"), (2, "retired"), (3, "active")]);
    let active = step(&staged, D, TrustStep::Activate { version: 2, grace: Seconds::DAY }, NOW).unwrap();
    after(&active, back, NOW, &[(1, "retired"), (2, "grace"), (3, "active")]);
    assert_eq!(step(&founded(), D, back, NOW), Err(BadStep::NothingBefore(1)));
    let other = TrustStep::Rollback { bundle: bundle(3), reverts: 1, grace: Seconds::DAY };
    assert!(matches!(step(&staged, D, other, NOW), Err(BadStep::NotInState { version: 1, .. })));
}

#[test]
fn a_stolen_root_is_replaced_at_once_and_marked_for_ever() {
    let staged = step(&founded(), D, TrustStep::Publish { bundle: bundle(2) }, NOW).unwrap();
    let lines =
        after(&staged, TrustStep::Replace { bundle: bundle(3) }, NOW, &[(1, "retired"), (2, "retired"), (3, "active")]);
    assert!(of(&lines, D).iter().take(2).all(|line| line.distrusted));
}

#[test]
fn steps_that_do_not_fit_are_refused() {
    let lines = founded();
    let staged = step(&lines, D, TrustStep::Publish { bundle: bundle(2) }, NOW).unwrap();
    let cases = [
        (&staged, TrustStep::Publish { bundle: bundle(3) }),
        (&lines, TrustStep::Activate { version: 1, grace: Seconds(0) }),
        (&lines, TrustStep::Activate { version: 7, grace: Seconds(0) }),
        (&staged, TrustStep::Activate { version: 2, grace: Seconds::DAY.times(500) }),
        (&lines, TrustStep::Retire { version: 1, early: true }),
        (&staged, TrustStep::Retire { version: 2, early: true }),
    ];
    for (lines, turn) in cases {
        assert!(step(lines, D, turn, NOW).is_err(), "{turn:?}");
    }
}

/// A machine as the engine has it: what is on its disk survives a crash, what is on trial may go back.
#[derive(Debug, Clone, Default)]
struct Machine {
    /// Of the newest head that it verified.
    lines: Vec<TrustLine>,
    confirmed: BTreeSet<Digest>,
    trial: Option<BTreeSet<Digest>>,
}

impl Machine {
    fn taken(&self) -> &BTreeSet<Digest> {
        self.trial.as_ref().unwrap_or(&self.confirmed)
    }

    fn trusts(&self) -> BTreeSet<Digest> {
        in_force(&self.lines, D, self.taken()).iter().map(|line| line.bundle).collect()
    }

    fn hear(&mut self, lines: &[TrustLine]) {
        assert_eq!(follows(&self.lines, lines), Ok(()), "a machine refuses what the signers decided");
        lines.clone_into(&mut self.lines);
        let trusted = lines.iter().filter(|line| line.domain == D && line.state.is_trusted());
        self.trial = Some(trusted.map(|line| line.bundle).collect());
    }
}

#[derive(Debug, Clone)]
enum Event {
    Turn(u8),
    Hear(usize),
    Confirm(usize),
    GoBack(usize),
    Crash(usize),
    Days(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0_u8..6).prop_map(Event::Turn),
        4 => (0_usize..3).prop_map(Event::Hear),
        3 => (0_usize..3).prop_map(Event::Confirm),
        1 => (0_usize..3).prop_map(Event::GoBack),
        1 => (0_usize..3).prop_map(Event::Crash),
        2 => (0_u8..10).prop_map(Event::Days),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_order_of_events_leaves_a_machine_without_trust_or_with_a_retired_root(
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let (mut lines, mut now, mut drawn) = (founded(), NOW, 1_u8);
        let mut machines = vec![Machine { lines: founded(), confirmed: [bundle(1)].into(), trial: None }; 3];
        for event in events {
            match event {
                Event::Turn(kind) => {
                    drawn = drawn.wrapping_add(1);
                    let newest = of(&lines, D).last().map_or(1, |line| line.version);
                    let oldest = of(&lines, D).iter().find(|it| it.state == TrustState::Grace).map_or(1, |it| it.version);
                    let (bundle, grace) = (bundle(drawn), Seconds::DAY.times(7));
                    let turn = match kind {
                        0 | 1 => TrustStep::Publish { bundle },
                        2 => TrustStep::Activate { version: newest, grace },
                        3 => TrustStep::Rollback { bundle, reverts: newest, grace },
                        4 => TrustStep::Retire { version: oldest, early: false },
                        _ => TrustStep::Replace { bundle },
                    };
                    if let Ok(next) = step(&lines, D, turn, now) {
                        prop_assert!(is_sound(&next), "{turn:?}: {next:?}");
                        prop_assert_eq!(follows(&lines, &next), Ok(()), "{:?}", turn);
                        // Whoever knows this takes nothing older, and loses nothing if somebody shows it.
                        prop_assert!(follows(&next, &lines).is_err());
                        prop_assert_eq!(&merge(&next, &lines), &next);
                        for line in of(&next, D) {
                            let was = lines.iter().find(|it| it.domain == D && it.version == line.version);
                            let ended = was.is_some_and(|it| it.state == TrustState::Grace)
                                && line.state == TrustState::Retired;
                            // Only a rollback, which keeps the roots, or a theft ends a promise.
                            let promised = line.grace.is_some_and(|grace| now < grace.until);
                            let kept = matches!(turn, TrustStep::Rollback { .. } | TrustStep::Replace { .. });
                            prop_assert!(!(promised && ended) || kept, "{turn:?} broke a promise");
                        }
                        lines = next;
                    }
                }
                Event::Hear(which) => machines[which].hear(&lines),
                Event::Confirm(which) => {
                    if let Some(trial) = machines[which].trial.take() {
                        machines[which].confirmed = trial;
                    }
                }
                Event::GoBack(which) => machines[which].trial = None,
                // The head was on its disk, and the power went before the bundles were.
                Event::Crash(which) => machines[which].lines.clone_from(&lines),
                Event::Days(days) => now = now + Seconds::DAY.times(u64::from(days)),
            }
            for machine in &machines {
                let trusted = machine.trusts();
                prop_assert!(!trusted.is_empty(), "a machine trusts nothing: {machine:?}");
                for line in machine.lines.iter().filter(|line| line.domain == D && !line.state.is_trusted()) {
                    prop_assert!(!trusted.contains(&line.bundle), "a machine trusts what it knows to be retired");
                }
            }
        }
    }
}
