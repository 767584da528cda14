//! Following a chain of signer sets in which recoveries stand.

use std::collections::BTreeSet;

use identity::head::Head;
use identity::signers::Succession;
use identity::time::Seconds;

use super::*;
use crate::scene::{NOW, head, known, quorum, sealed};

/// The next set on its predecessor's word.
fn succession(of: &SignerSet, next: &str, by: &str) -> (Envelope, SignerSet) {
    let body =
        Succession { version: of.version + 1, previous: of.id, also: Vec::new(), quorum: quorum(next), head: None };
    let envelope = sealed(Some(of.org), &body, by);
    let (set, _) = of.succeed(&envelope, &quorum("safe")).unwrap();
    (envelope, set)
}

/// The next set on the recovery keys' word.
fn recovery(of: &SignerSet, next: &str) -> (Envelope, SignerSet) {
    let body = Recovery {
        version: of.version + 1,
        previous: of.id,
        quorum: quorum(next),
        head: None,
        settles: false,
        at: NOW,
    };
    let envelope = sealed(Some(of.org), &body, "safe");
    let (set, _) = of.succeed(&envelope, &quorum("safe")).unwrap();
    (envelope, set)
}

/// Tries, waits as long as it takes, and follows: as a machine does that checks in again and again.
fn follow(known: &Known, chain: &[Envelope], head: &Envelope) -> (Known, Timestamp) {
    let (mut known, mut now, mut seen) = (known.clone(), NOW, BTreeSet::new());
    loop {
        match known.advance(chain, Some(head), now) {
            Ok(newer) => return (newer, now),
            Err(why) => {
                let BadKnowledge::RecoveryWaits { until, .. } = why else { panic!("{why}") };
                assert!(seen.insert(until), "it waits again and again for {until}");
                known = known.heed(&why, now).unwrap_or(known);
                now = until;
            }
        }
    }
}

#[test]
fn a_machine_that_missed_a_change_of_signers_and_a_recovery_follows_after_the_delay() {
    let known = known();
    let (first, second) = succession(&known.signers, "ben", "ann");
    let (lost, third) = recovery(&second, "zoe");
    let (home, at) = follow(&known, &[first, lost], &head(&third, 3, "zoe"));
    assert_eq!((home.signers, at), (third, NOW + Seconds::DAY));
    assert!(home.sighted.is_empty());
}

#[test]
fn a_machine_that_missed_two_recoveries_waits_for_each() {
    let known = known();
    let (one, second) = recovery(&known.signers, "zoe");
    let (two, third) = recovery(&second, "yan");
    let (home, at) = follow(&known, &[one, two], &head(&third, 3, "yan"));
    assert_eq!((home.signers, at), (third, NOW + Seconds::DAY.times(2)));
}

#[test]
fn a_recovery_of_a_set_that_does_not_exist_yet_is_not_counted() {
    let known = known();
    // What a cancel would sign can be guessed; it must not be counted before it is signed.
    let (cancel, second) = succession(&known.signers, "ann", "ann");
    let (early, _) = recovery(&second, "zoe");
    assert!(known.notice(&early, NOW).is_none());
    let unsigned = cancel.kept(&BTreeSet::new());
    let why = BadKnowledge::RecoveryWaits { until: NOW, steps: vec![unsigned, early] };
    assert!(known.heed(&why, NOW).is_none());
}

#[test]
fn a_clock_that_was_never_set_does_not_shorten_the_delay() {
    let known = known();
    let (lost, _) = recovery(&known.signers, "zoe");
    let noticed = known.notice(&lost, Timestamp::from_unix(0)).unwrap();
    assert_eq!(noticed.alarms().into_iter().map(|(_, due)| due).collect::<Vec<_>>(), [NOW + Seconds::DAY]);
}

#[test]
fn only_a_head_moves_the_floor_of_time_also_back() {
    let known = known();
    let day = Seconds::DAY;
    assert_eq!(known.now(NOW + day), NOW + day, "a clock that is ahead of it is not held back");
    assert_eq!(known.now(Timestamp::from_unix(0)), NOW);
    let at = |version: u64, issued_at: Timestamp| {
        let body = Head { version, issued_at, ..known.head.head.clone() };
        sealed(Some(known.org()), &body, "ann")
    };
    let fast = known.advance(&[], Some(&at(2, NOW + day.times(90))), NOW).unwrap();
    assert_eq!(fast.now(NOW), NOW + day.times(90));
    let mended = fast.advance(&[], Some(&at(3, NOW + day)), fast.now(NOW)).unwrap();
    assert_eq!(mended.now(NOW), NOW + day);
}

#[test]
fn what_one_copy_has_seen_is_added_to_what_another_has_and_the_first_sight_counts() {
    let known = known();
    let ((one, _), (two, _)) = (recovery(&known.signers, "zoe"), recovery(&known.signers, "yan"));
    let first = known.notice(&one, NOW).unwrap().notice(&two, NOW + Seconds(5)).unwrap();
    let second = known.notice(&two, NOW + Seconds(9)).unwrap().with_sightings_of(&first);
    let mut due: Vec<_> = second.alarms().into_iter().map(|(_, due)| due).collect();
    due.sort();
    assert_eq!(due, [NOW + Seconds::DAY, NOW + Seconds::DAY + Seconds(5)]);
    // A recovery of a set that is gone threatens nobody.
    let (next, set) = succession(&known.signers, "ann", "ann");
    let later = known.advance(&[next], Some(&head(&set, 2, "ann")), NOW).unwrap();
    assert!(later.with_sightings_of(&first).sighted.is_empty());
}
