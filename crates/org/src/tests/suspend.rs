//! Whom suspensions stop, by one's own first sight of each; and that nobody has more of them than one of each.

use identity::envelope::Envelope;
use identity::id::{Digest, OrgId};
use identity::key::Sign as _;
use identity::signers::SignerSet;
use identity::time::{Seconds, Timestamp};
use proptest::prelude::{Just, ProptestConfig, Strategy, prop, proptest};

use super::world::{HERE, Site};
use crate::ledger::entry::Action;
use crate::ledger::tests::world::{Org, day, ed, node, quorum};
use crate::suspend::Suspension;
use crate::suspend::suspended::{MARKS, MOST, Suspended, Suspensions};

const NOW: Timestamp = day(1);

const ORG: OrgId = OrgId([7; 32]);
const DAY: Seconds = Seconds::DAY;
const HOUR: Seconds = Seconds::HOUR;

fn set(version: u64, names: &[&str]) -> SignerSet {
    SignerSet { org: ORG, version, id: Digest([1; 32]), quorum: quorum(1, names) }
}

fn key(n: u16) -> Digest {
    Digest::of(&n.to_be_bytes())
}

fn signed_for(org: OrgId, by: &str, target: u16, (at, until): (Timestamp, Timestamp)) -> Envelope {
    let body = Suspension { node_key: key(target), name: node("web"), at, until, reason: "odd".to_owned() };
    Envelope::seal(Some(org), &body).unwrap().signed(&ed(by)).unwrap()
}

fn signed(by: &str, target: u16, at: Timestamp, span: Seconds) -> Envelope {
    signed_for(ORG, by, target, (at, at + span))
}

fn until(all: &Suspensions, set: &SignerSet, target: u16, now: Timestamp) -> Option<Timestamp> {
    all.stopped(set).of(key(target), now).map(|word| word.until)
}

#[test]
fn a_suspension_counts_from_its_first_sight_and_no_longer_than_it_says_or_than_a_day() {
    let (ann, long) = (set(1, &["ann"]), DAY.times(9));
    let year = DAY.times(365);
    // Dated, for so long, first seen; and when it is over here.
    let cases = [
        ("heard at once", NOW, HOUR.times(2), NOW, NOW + HOUR.times(2)),
        ("heard an hour later", NOW, HOUR.times(2), NOW + HOUR, NOW + HOUR.times(2)),
        ("signed for longer than one may", NOW, long, NOW, NOW + DAY),
        ("the same, heard late", NOW, long, NOW + HOUR, NOW + DAY),
        ("dated a year ahead", NOW + year, HOUR.times(2), NOW, NOW + HOUR.times(2)),
        ("dated a year ahead, for long", NOW + year, long, NOW, NOW + DAY),
        ("dated an hour back", NOW - HOUR, DAY, NOW, NOW + HOUR.times(23)),
    ];
    for (what, at, span, since, over) in cases {
        let mut all = Suspensions::default();
        assert!(all.take(&[signed("ann", 1, at, span)], &ann, since), "{what}");
        assert_eq!(until(&all, &ann, 1, since), Some(over), "{what}");
        assert_eq!(until(&all, &ann, 1, over - Seconds(1)), Some(over), "{what}");
        assert_eq!(until(&all, &ann, 1, over), None, "{what}");
        assert_eq!(until(&all, &ann, 2, since), None, "{what}: it stops nobody else");
    }
}

#[test]
fn what_was_over_when_it_was_heard_of_stops_nobody_and_is_used_up() {
    let (ann, mut all) = (set(1, &["ann"]), Suspensions::default());
    let slow = signed("ann", 1, NOW - DAY.times(2), DAY);
    assert!(all.take(std::slice::from_ref(&slow), &ann, NOW));
    assert!(!all.take(&[signed("ann", 1, NOW, DAY)], &ann, NOW + HOUR));
    assert_eq!(until(&all, &ann, 1, NOW + HOUR), None);
}

#[test]
fn a_first_sight_never_moves_whatever_the_clock_does() {
    let (ann, mut all) = (set(1, &["ann"]), Suspensions::default());
    // Its own dates end nothing for a year.
    let ahead = signed("ann", 1, NOW + DAY.times(365), DAY);
    all.take(std::slice::from_ref(&ahead), &ann, NOW);
    let before = all.clone();
    for clock in [NOW + HOUR, NOW - DAY.times(365), NOW + DAY.times(30), NOW + HOUR] {
        assert!(!all.take(std::slice::from_ref(&ahead), &ann, clock));
        assert_eq!(all, before);
    }
    let stored: Suspensions = serde_json::from_str(&serde_json::to_string(&all).unwrap()).unwrap();
    assert_eq!(until(&stored, &ann, 1, NOW + HOUR), Some(NOW + DAY));
}

#[test]
fn only_a_signer_of_the_set_in_force_stops_anybody() {
    let (both, mut all) = (set(1, &["ann", "ben"]), Suspensions::default());
    let unsigned = {
        let body = Suspension { node_key: key(1), name: node("web"), at: NOW, until: NOW + DAY, reason: String::new() };
        Envelope::seal(Some(ORG), &body).unwrap()
    };
    let others = signed_for(OrgId([8; 32]), "ann", 1, (NOW, NOW + DAY));
    let backwards = signed_for(ORG, "ann", 1, (NOW, NOW));
    assert!(!all.take(&[signed("eve", 1, NOW, DAY), unsigned, others, backwards], &both, NOW));
    assert_eq!((all.mark(), all.envelopes().len()), (None, 0));
    // A row that somebody wrote into the file is no signature.
    all.take(&[signed("ann", 1, NOW, DAY)], &both, NOW);
    let forged = serde_json::to_string(&all).unwrap().replace(&ed("ann").public().to_string(), "KEY");
    let forged = forged.replacen("KEY", &ed("ben").public().to_string(), 1);
    let forged: Suspensions = serde_json::from_str(&forged.replace("KEY", &ed("ann").public().to_string())).unwrap();
    assert_eq!(until(&forged, &both, 1, NOW), None);
}

#[test]
fn a_signer_suspends_a_node_key_once_and_another_signer_for_itself() {
    let (both, mut all) = (set(1, &["ann", "ben"]), Suspensions::default());
    all.take(&[signed("ann", 1, NOW, HOUR)], &both, NOW);
    // Before it is over, after it, and by a clock that was put back.
    for later in [NOW + Seconds(60), NOW + DAY.times(40), NOW - DAY] {
        assert!(!all.take(&[signed("ann", 1, later, DAY)], &both, later), "{later}");
        assert_eq!(until(&all, &both, 1, later), (later < NOW + HOUR).then_some(NOW + HOUR));
    }
    assert!(all.take(&[signed("ben", 1, NOW, DAY)], &both, NOW + HOUR));
    let stopped = all.stopped(&both);
    let ben = Suspended { by: "ben".parse().unwrap(), until: NOW + DAY, reason: "odd".to_owned() };
    assert_eq!(stopped.of(key(1), NOW + HOUR), Some(&ben));
    assert!(all.take(&[signed("ann", 2, NOW, DAY)], &both, NOW), "another node key is another matter");
}

#[test]
fn a_suspension_dies_with_its_signers_leaving_and_outlives_a_change_of_the_others() {
    let (first, second) = (set(1, &["ann", "ben"]), set(2, &["ann", "cat"]));
    let mut all = Suspensions::default();
    all.take(&[signed("ann", 1, NOW, DAY), signed("ben", 2, NOW, DAY), signed("ann", 3, NOW, HOUR)], &first, NOW);
    let when = |target| until(&all, &second, target, NOW + HOUR);
    assert_eq!((when(1), when(2)), (Some(NOW + DAY), None), "also before anybody has settled it");
    // The sight stays what it was; the mark of what is over ends with its set.
    assert!(all.take(&[signed("ann", 1, NOW, DAY)], &second, NOW + HOUR.times(2)));
    assert_eq!(all.envelopes().len(), 1);
    assert_eq!(until(&all, &second, 1, NOW + HOUR.times(2)), Some(NOW + DAY));
    let (again, later) = (signed("ann", 3, NOW + DAY, DAY), NOW + DAY);
    assert!(all.take(&[again, signed("ann", 1, later, DAY)], &second, later), "once for each set");
    assert_eq!(
        (until(&all, &second, 3, later), until(&all, &second, 1, later)),
        (Some(later + DAY), Some(later + DAY))
    );
}

#[test]
fn no_signer_crowds_out_another_and_what_is_over_makes_room() {
    let (both, mut all) = (set(1, &["ann", "ben"]), Suspensions::default());
    let flood: Vec<_> = (0..400).map(|n| signed("ann", n, NOW, DAY)).collect();
    for (nth, one) in flood.iter().enumerate() {
        all.take(std::slice::from_ref(one), &both, NOW + Seconds(nth as u64));
    }
    assert_eq!(all.envelopes().len(), MOST / 2, "who came first stays");
    assert!(until(&all, &both, 0, NOW + HOUR).is_some() && until(&all, &both, 399, NOW + HOUR).is_none());
    assert!(all.take(&[signed("ben", 399, NOW, DAY)], &both, NOW + HOUR));
    // A day later there is room again, and nobody is suspended twice.
    let later = NOW + DAY;
    assert!(all.take(&[signed("ann", 399, later, DAY)], &both, later));
    assert!(!all.take(&[signed("ann", 0, later, DAY)], &both, later));
    assert_eq!((until(&all, &both, 0, later), until(&all, &both, 399, later)), (None, Some(later + DAY)));
    // Marks are bounded, too.
    for day in 2..40 {
        let now = NOW + DAY.times(day);
        let more: Vec<_> =
            (0..128).map(|n| signed("ann", 1_000 * u16::try_from(day).unwrap() + n, now, HOUR)).collect();
        all.take(&more, &both, now);
    }
    let rows: serde_json::Value = serde_json::to_value(&all).unwrap();
    assert!(rows.as_array().unwrap().len() <= MARKS / 2 + 1, "{}", rows.as_array().unwrap().len());
}

#[test]
fn whoever_keeps_the_same_has_the_same_mark() {
    let (both, [mut one, mut other]) = (set(1, &["ann", "ben"]), [Suspensions::default(), Suspensions::default()]);
    let [a, b] = [signed("ann", 1, NOW, DAY), signed("ben", 2, NOW, DAY)];
    one.take(&[a.clone(), b.clone()], &both, NOW);
    other.take(&[b], &both, NOW + HOUR);
    assert_ne!(one.mark(), other.mark());
    other.take(&[a], &both, NOW + HOUR.times(2));
    assert_eq!(one.mark(), other.mark());
}

/// Many at one time, some of them by the same signer for the same node key, more than there is room for.
fn batch() -> impl Strategy<Value = (Vec<Envelope>, Vec<Envelope>)> {
    let one = (0..2_usize, 0..200_u16, 0..3_u64, 1..30_u64).prop_map(|(by, target, back, hours)| {
        signed(["ann", "ben"][by], target, NOW - HOUR.times(back * 12), HOUR.times(hours))
    });
    let all = prop::collection::vec(one, 1..250);
    all.prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_is_first_seen_at_one_time_gives_the_same_answers_in_any_order(((one, other), before) in (batch(), batch())) {
        let signers = set(1, &["ann", "ben"]);
        let stopped = |now: &[Envelope]| {
            let mut all = Suspensions::default();
            all.take(&before.0, &signers, NOW - HOUR);
            for envelope in now {
                all.take(std::slice::from_ref(envelope), &signers, NOW);
            }
            let stopped = all.stopped(&signers);
            (0..200).map(|target| stopped.of(key(target), NOW).cloned()).collect::<Vec<_>>()
        };
        assert_eq!(stopped(&one), stopped(&other));
    }
}

// ---- as a state files them, by the signers' own dates ----

fn suspended(org: &Org, by: &[&str], (at, span): (Timestamp, Seconds), reason: &str) -> Envelope {
    let until = at + span;
    let body = Suspension { node_key: key(1), name: node("web"), at, until, reason: reason.to_owned() };
    org.seal(&body, by)
}

#[test]
fn one_signer_suspends_for_a_day_and_only_once() {
    let org = Org::new(2, &["ann", "ben"]);
    let mut site = Site::of(&org);
    for bad in [
        suspended(&org, &["ann"], (NOW, Seconds(86_401)), "odd"),
        suspended(&org, &["eve"], (NOW, HOUR), "odd"),
        suspended(&org, &["ann"], (NOW, HOUR), &"x".repeat(201)),
        suspended(&org, &["ann"], (NOW, HOUR), "\u{1b}[2J"),
    ] {
        site.told(&bad, 1);
    }
    assert!(site.state.objects.suspensions.is_empty());
    site.told(&suspended(&org, &["ann"], (NOW, HOUR), "odd"), 1);
    let by = |site: &Site, at| site.state.objects.suspended(key(1), at).map(|it| it.by.as_str().to_owned());
    assert_eq!(by(&site, NOW + HOUR - Seconds(1)).as_deref(), Some("ann"));
    assert_eq!(by(&site, NOW + HOUR), None);
    // Once more, later: told, and without effect.
    site.told(&suspended(&org, &["ann"], (NOW + HOUR, DAY), "odd"), 1);
    assert_eq!((site.state.objects.suspensions_of(key(1)).len(), by(&site, NOW + HOUR)), (2, None));
    // Another signer's word is another's.
    site.told(&suspended(&org, &["ben"], (NOW + Seconds(1), DAY), "odd"), 1);
    assert_eq!(by(&site, NOW + HOUR).as_deref(), Some("ben"));
}

#[test]
fn a_suspension_that_is_dated_ahead_does_not_count_before_its_day() {
    let org = Org::new(1, &["ann"]);
    let (mut site, at) = (Site::of(&org), NOW + DAY.times(3650));
    site.told(&suspended(&org, &["ann"], (at, DAY), "odd"), 1);
    assert!(site.state.objects.suspended(key(1), NOW + DAY.times(30)).is_none());
    assert!(site.state.objects.suspended(key(1), at + HOUR).is_some());
}

#[test]
fn a_suspension_counts_whichever_gateway_took_it_and_ends_with_its_signer() {
    let org = Org::new(1, &["ann", "ben"]);
    let (mut site, mut other) = (Site::of(&org), Site::of(&org));
    let envelope = suspended(&org, &["ben"], (NOW, DAY), "odd");
    site.write((HERE, 1), Action::Take { envelope }).unwrap();
    site.give(&mut other, 1);
    assert_eq!(other.state.objects.suspensions, site.state.objects.suspensions);
    assert!(other.state.objects.suspended(key(1), NOW).is_some());
    site.install(&org, 1, (2, &["ann"]), &["ann"]);
    assert!(site.state.objects.suspended(key(1), NOW).is_none());
}
