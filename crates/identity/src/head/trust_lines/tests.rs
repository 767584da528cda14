//! What may follow, and what two sides say together.

use TrustState::{Active, Grace, Retired, Staged};
use proptest::prelude::*;

use super::*;
use crate::time::{Seconds, Timestamp};
use crate::trust::{self, TrustStep};

const NOW: Timestamp = Timestamp::from_unix(1_800_000_000);
const D: Domain = Domain::Identity;

/// Version, which bundle, and state.
type Row = (u64, u8, TrustState);
/// What is said next, which of it was stolen, and whether that may be.
type Case = (&'static [Row], &'static [u64], Result<(), BadLines>);
/// What two sides say, and what both say together.
type Meeting = (&'static str, &'static [Row], &'static [Row], &'static [Row]);

fn lines(rows: &[Row]) -> Vec<TrustLine> {
    rows.iter().map(|(version, n, state)| TrustLine::new(D, *version, Digest([*n; 32]), *state)).collect()
}

fn stolen(rows: &[Row], versions: &[u64]) -> Vec<TrustLine> {
    let mut all = lines(rows);
    all.iter_mut().filter(|line| versions.contains(&line.version)).for_each(|line| line.distrusted = true);
    all
}

fn rows(lines: &[TrustLine]) -> Vec<Row> {
    of(lines, D).iter().map(|line| (line.version, line.bundle.0[0], line.state)).collect()
}

#[test]
fn a_version_goes_forward_only() {
    let order = [Staged, Active, Grace, Retired];
    for (from, was) in order.into_iter().enumerate() {
        for (to, is) in order.into_iter().enumerate() {
            // Version 1 is beside another that keeps the domain sound where it can.
            let beside = |state| if state == Active { Retired } else { Active };
            let (old, new) = (lines(&[(1, 1, beside(was)), (2, 2, was)]), lines(&[(1, 1, Retired), (2, 2, is)]));
            let new = if is == Active { new } else { [new, lines(&[(3, 3, Active)])].concat() };
            let found = follows(&old, &new);
            let backward = BadLines::Backward { domain: D, version: 2, was, is };
            let unsound = BadLines::Unsound { domain: D };
            let wanted = match () {
                () if to < from => Err(backward),
                // Something newer is in use: what was staged below it is over.
                () if is == Staged => Err(unsound),
                () => Ok(()),
            };
            assert_eq!(found, wanted, "{was:?} -> {is:?}");
        }
    }
}

#[test]
fn whoever_goes_round_a_head_undoes_what_it_brought_and_nothing_that_it_took_away() {
    // Version 2 came with the bad head, which put version 1 on its way out.
    let bad = lines(&[(1, 1, Grace), (2, 2, Active)]);
    for good in [&[(1, 1, Active), (2, 2, Retired)][..], &[(1, 1, Active)]] {
        assert!(follows(&bad, &lines(good)).is_err());
        assert_eq!(leads_on(&bad, &lines(good)), Ok(()));
    }
    assert_eq!(leads_on(&bad, &[]), Err(BadLines::Unsound { domain: D }), "nothing would be trusted any more");
    let dropped = BadLines::Dropped { domain: D, version: 1 };
    let backward = BadLines::Backward { domain: D, version: 1, was: Retired, is: Active };
    let bad = stolen(&[(1, 1, Retired), (2, 2, Active)], &[1]);
    let cases: &[Case] = &[
        (&[(1, 1, Retired), (2, 2, Active)], &[1], Ok(())),
        (&[(1, 1, Retired), (2, 2, Active)], &[], Err(BadLines::NotStolen { domain: D, version: 1 })),
        (&[(1, 1, Active)], &[1], Err(backward)),
        (&[(2, 2, Active)], &[], Err(dropped)),
        // It would lead to no root.
        (&[(1, 1, Retired), (2, 2, Retired)], &[1], Err(BadLines::Unsound { domain: D })),
        (&[(1, 1, Retired)], &[1], Err(BadLines::Unsound { domain: D })),
        (&[], &[], Err(BadLines::Dropped { domain: D, version: 1 })),
        (&[(1, 1, Retired), (3, 2, Active)], &[1], Err(BadLines::Renumbered { domain: D, version: 3 })),
    ];
    for (next, thefts, wanted) in cases {
        assert_eq!(leads_on(&bad, &stolen(next, thefts)), *wanted, "{next:?}");
    }
}

#[test]
fn nothing_is_dropped_exchanged_forgiven_or_renumbered() {
    let old = stolen(&[(1, 1, Retired), (2, 2, Active)], &[1]);
    let cases: &[Case] = &[
        (&[(1, 1, Retired), (2, 2, Active)], &[1], Ok(())),
        (&[(1, 1, Retired), (2, 2, Active), (3, 3, Staged)], &[1], Ok(())),
        (&[(1, 1, Retired), (2, 2, Active)], &[], Err(BadLines::NotStolen { domain: D, version: 1 })),
        (&[(2, 2, Active)], &[], Err(BadLines::Dropped { domain: D, version: 1 })),
        (&[], &[], Err(BadLines::Dropped { domain: D, version: 1 })),
        (&[(1, 1, Retired), (2, 9, Active)], &[1], Err(BadLines::Dropped { domain: D, version: 2 })),
        (
            &[(1, 1, Active), (2, 2, Active)],
            &[1],
            Err(BadLines::Backward { domain: D, version: 1, was: Retired, is: Active }),
        ),
        (&[(1, 1, Retired), (2, 2, Grace), (3, 1, Active)], &[1], Err(BadLines::Renumbered { domain: D, version: 3 })),
        (&[(1, 1, Retired), (2, 2, Retired)], &[1], Err(BadLines::Unsound { domain: D })),
        (&[(1, 1, Retired), (2, 2, Active), (3, 3, Active)], &[1], Err(BadLines::Unsound { domain: D })),
        (&[(1, 1, Retired), (2, 2, Active), (2, 3, Staged)], &[1], Err(BadLines::Unsound { domain: D })),
        // Another side's bundle of the same number came first; this one is on record.
        (&[(1, 1, Retired), (2, 2, Retired), (2, 3, Active)], &[1], Ok(())),
    ];
    for (new, marked, wanted) in cases {
        assert_eq!(follows(&old, &stolen(new, marked)), *wanted, "{new:?}");
    }
    assert_eq!(follows(&[], &[]), Ok(()), "nothing is forgotten where there was nothing");
    assert_eq!(follows(&[], &old), Ok(()));
}

#[test]
fn a_domain_is_not_dropped_with_a_turn_of_the_other() {
    let endpoint = TrustLine::new(Domain::Endpoint, 1, Digest([7; 32]), Active);
    let old = [lines(&[(1, 1, Active)]), vec![endpoint.clone()]].concat();
    let new = lines(&[(1, 1, Active)]);
    assert_eq!(follows(&old, &new), Err(BadLines::Dropped { domain: Domain::Endpoint, version: 1 }));
    assert_eq!(merge(&new, &old), old, "and it comes back");
}

#[test]
fn two_sides_together_say_what_either_decided() {
    let before: &[Row] = &[(1, 1, Grace), (2, 2, Active)];
    let cases: &[Meeting] = &[
        ("one retired", before, &[(1, 1, Retired), (2, 2, Active)], &[(1, 1, Retired), (2, 2, Active)]),
        (
            "one staged",
            before,
            &[(1, 1, Grace), (2, 2, Active), (3, 3, Staged)],
            &[(1, 1, Grace), (2, 2, Active), (3, 3, Staged)],
        ),
        (
            "both staged",
            &[(1, 1, Active), (2, 2, Staged)],
            &[(1, 1, Active), (2, 3, Staged)],
            &[(1, 1, Active), (2, 2, Staged), (2, 3, Retired)],
        ),
        (
            "the other uses its own",
            &[(1, 1, Active), (2, 2, Staged)],
            &[(1, 1, Grace), (2, 3, Active)],
            &[(1, 1, Grace), (2, 3, Active), (2, 2, Retired)],
        ),
        (
            "two in use",
            &[(1, 1, Grace), (2, 2, Active)],
            &[(1, 1, Retired), (2, 3, Retired), (3, 4, Active)],
            &[(1, 1, Retired), (2, 2, Active), (2, 3, Retired), (3, 4, Grace)],
        ),
    ];
    for (what, base, other, wanted) in cases {
        let merged = merge(&lines(base), &lines(other));
        assert_eq!(rows(&merged), *wanted, "{what}");
        assert!(is_sound(&merged), "{what}");
    }
}

#[test]
fn the_side_that_knows_of_a_theft_comes_first() {
    let theft = stolen(&[(1, 1, Retired), (2, 2, Active)], &[1]);
    // The other side went back to the stolen root meanwhile, under a new number.
    let back = lines(&[(1, 1, Retired), (2, 3, Retired), (3, 4, Active)]);
    for merged in [merge(&theft, &back), merge(&back, &theft)] {
        assert_eq!(rows(&merged), [(1, 1, Retired), (2, 2, Active), (2, 3, Retired), (3, 4, Retired)]);
        assert!(merged[0].distrusted && is_sound(&merged));
    }
}

#[test]
fn replaced_signers_take_away_and_add_nothing() {
    let base = lines(&[(1, 1, Grace), (2, 2, Active)]);
    let told = lines(&[(1, 1, Retired), (2, 2, Active), (3, 3, Staged)]);
    assert_eq!(rows(&heed(&base, &told, false)), [(1, 1, Retired), (2, 2, Active)]);
    assert_eq!(rows(&heed(&base, &told, true)), [(1, 1, Retired), (2, 2, Active), (3, 3, Staged)]);
    let all = stolen(&[(1, 1, Retired), (2, 2, Retired), (3, 3, Active)], &[1, 2]);
    assert_eq!(heed(&base, &all, false), base, "nothing would be left");
}

fn turn(lines: &[TrustLine], kind: u8, n: u8) -> Option<Vec<TrustLine>> {
    let (bundle, grace) = (Digest([n; 32]), Seconds::DAY);
    let newest = of(lines, D).last()?.version;
    let oldest = of(lines, D).iter().find(|it| it.state == Grace).map_or(1, |it| it.version);
    let step = match kind {
        0 | 1 => TrustStep::Publish { bundle },
        2 => TrustStep::Activate { version: newest, grace },
        3 => TrustStep::Rollback { bundle, reverts: trust::reverted(lines, D).ok()?.0.version, grace },
        4 => TrustStep::Retire { version: oldest, early: true },
        _ => TrustStep::Replace { bundle },
    };
    trust::step(lines, D, step, NOW).ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn two_sides_in_any_state_come_together_and_everybody_can_follow(
        common in proptest::collection::vec(0_u8..6, 0..6),
        sides in [proptest::collection::vec(0_u8..6, 0..8), proptest::collection::vec(0_u8..6, 0..8)],
    ) {
        let mut drawn = 1;
        let mut walk = |from: &[TrustLine], kinds: &[u8]| {
            let mut heads = vec![from.to_vec()];
            for kind in kinds {
                drawn += 1;
                let next = heads.last().and_then(|lines| turn(lines, *kind, drawn));
                heads.extend(next);
            }
            heads
        };
        let common = walk(&lines(&[(1, 1, Active)]), &common).pop().unwrap();
        let sides = sides.map(|kinds| walk(&common, &kinds));
        let [base, other] = [sides[0].last().unwrap(), sides[1].last().unwrap()];
        let merged = merge(base, other);
        prop_assert!(is_sound(&merged), "{base:?}\n{other:?}\n{merged:?}");
        prop_assert_eq!(follows(base, &merged), Ok(()));
        prop_assert_eq!(follows(other, &merged), Ok(()));
        prop_assert_eq!(&merge(&merged, other), &merged, "it is said once");
        // As a ledger does: every head that it has, in any order.
        let every = sides.iter().flatten().rev().fold(base.clone(), |lines, told| heed(&lines, told, true));
        prop_assert!(is_sound(&every));
        for head in sides.iter().flatten() {
            prop_assert_eq!(follows(head, &every), Ok(()));
        }
        let stolen = |lines: &[TrustLine]| lines.iter().any(|line| line.distrusted && line.state.is_trusted());
        prop_assert!(!stolen(&merged) && !stolen(&every));
    }
}
