//! Following a chain of signer sets in which recoveries stand.

use std::collections::BTreeSet;

use identity::head::{Head, TrustLine, TrustState};
use identity::id::Digest;
use identity::time::Seconds;

use super::*;
use crate::known::freeze::Freeze;
use crate::scene::{NOW, head, key, known, quorum, sealed};

/// The next set on its predecessor's word.
fn succession(of: &SignerSet, next: &str, by: &str) -> (Envelope, SignerSet) {
    let body =
        Succession { version: of.version + 1, previous: of.id, also: Vec::new(), quorum: quorum(next), head: None };
    let envelope = sealed(Some(of.org), &body, by);
    (envelope, SignerSet::later(of.org, body.version, body.quorum))
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
    (envelope, SignerSet::later(of.org, body.version, body.quorum))
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
    assert!(home.alarms().is_empty());
    assert_eq!((home.signers, at), (third, NOW + Seconds::DAY));
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
fn a_clock_that_jumps_ahead_counts_nothing_for_a_recovery_and_time_that_passes_does() {
    let known = known();
    let (lost, second) = recovery(&known.signers, "zoe");
    let next = head(&second, 2, "zoe");
    let chain = std::slice::from_ref(&lost);
    let told = known.notice(&lost, NOW).unwrap();
    // A day and an hour ahead after an hour: the delay has an hour behind it.
    let jump = i64::try_from(Seconds::DAY.0).unwrap();
    let jumped = told.clone().ahead_by(jump);
    let now = NOW + Seconds::HOUR + Seconds::DAY;
    let due = NOW + Seconds::DAY.times(2);
    let why = jumped.advance(chain, Some(&next), now).unwrap_err();
    assert!(matches!(why, BadKnowledge::RecoveryWaits { until, .. } if until == due), "{why}");
    assert_eq!(jumped.alarms(), [(second.clone(), due)]);
    assert!(jumped.advance(chain, Some(&next), due).is_ok());
    // One that was put back makes nobody wait longer, and what is seen under it is not older for it.
    let back = told.ahead_by(-jump);
    assert!(back.advance(chain, Some(&next), NOW).is_ok());
    let seen = known.clone().ahead_by(-jump).notice(&lost, NOW).unwrap();
    assert!(seen.advance(chain, Some(&next), NOW + Seconds::HOUR).is_err());
    // Another copy of it counts from the same moment.
    let copy = known.ahead_by(jump).with_sightings_of(&jumped);
    assert_eq!(copy.sights(), jumped.sights());
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
    assert!(later.with_sightings_of(&first).alarms().is_empty());
}

#[test]
fn a_removed_signer_who_used_up_the_numbers_locks_nobody_out_of_the_next_set() {
    let known = known();
    let rogue = known.advance(&[], Some(&head(&known.signers, u64::MAX, "ann")), NOW).unwrap();
    let (step, second) = succession(&known.signers, "ben", "ann");
    let home = rogue.advance(&[step], Some(&head(&second, 1, "ben")), NOW).unwrap();
    assert_eq!(home.head.head.place(), (2, 1));
    // And what the old set goes on signing is nothing.
    let why = home.advance(&[], Some(&head(&known.signers, u64::MAX - 1, "ann")), NOW).unwrap_err();
    assert!(matches!(&why, BadKnowledge::Head(why) if why.is_behind()), "{why}");
}

/// Head 2 or later, by ann, which revokes these node keys.
fn revoking(known: &Known, version: u64, keys: &[u8]) -> Envelope {
    let mut body = Head { version, ..known.head.head.clone() };
    body.revocations = identity::head::Revocations::default();
    body.revocations.node_keys.extend(keys.iter().map(|key| Digest([*key; 32])));
    sealed(Some(known.org()), &body, "ann")
}

#[test]
fn a_higher_head_is_followed_also_if_it_does_not_know_the_one_here_and_what_that_took_away_stays_away() {
    let known = known();
    let left = known.advance(&[], Some(&revoking(&known, 2, &[7])), NOW).unwrap();
    let newer = left.advance(&[], Some(&revoking(&known, 3, &[8])), NOW).unwrap();
    let revoked = |known: &Known, key: u8| known.head.head.revocations.node_keys.contains(&Digest([key; 32]));
    assert_eq!((newer.head.head.version, revoked(&newer, 7), revoked(&newer, 8)), (3, true, true));
    // On disk, too, and until a head says so itself.
    let read = Known::from_file(newer.to_file()).unwrap();
    assert!(revoked(&read, 7) && revoked(&read, 8));
    assert_eq!(read.to_file().left.len(), 1);
    let met = read.advance(&[], Some(&revoking(&known, 4, &[7, 8])), NOW).unwrap();
    assert!(met.to_file().left.is_empty() && revoked(&met, 7));
}

#[test]
fn a_head_that_leads_to_no_root_is_in_force_for_a_replica_and_followed_by_no_machine() {
    let first = known();
    let roots = TrustLine::new(Domain::Identity, 1, Digest([1; 32]), TrustState::Active);
    let next = |version, previous: &Envelope, trust: &[TrustLine]| {
        let fresh_until = NOW + Seconds::DAY.times(30);
        let (previous, trust) = (vec![previous.digest()], trust.to_vec());
        let like = testorg::first_head(first.signers.as_ref());
        sealed(Some(first.org()), &Head { version, previous, trust, fresh_until, ..like }, "ann")
    };
    let good = next(2, &first.head_envelope, std::slice::from_ref(&roots));
    let known = first.advance(&[], Some(&good), NOW).unwrap();
    let bare = next(3, &good, &[]);
    let refused = known.advance(&[], Some(&bare), NOW);
    assert!(matches!(refused, Err(BadKnowledge::Head(BadHead::ForgetsTrust { version: 3, .. }))), "{refused:?}");
    let mut replica = known.replica.clone();
    replica.remember(&bare).unwrap();
    let in_force = replica.ground(NOW).unwrap().head;
    assert_eq!(in_force.map(|head| head.digest), Some(bare.digest()), "operators can go round what they know of");
    let mended = next(4, &bare, &[roots]);
    assert_eq!(known.advance(&[], Some(&mended), NOW).unwrap().head.digest, mended.digest());
}

#[test]
fn of_two_heads_at_one_place_everybody_follows_the_same() {
    let known = known();
    let (one, other) = (revoking(&known, 2, &[7]), revoking(&known, 2, &[8]));
    let (low, high) = if one.digest() < other.digest() { (one, other) } else { (other, one) };
    let first = known.advance(&[], Some(&low), NOW).unwrap();
    assert!(matches!(first.advance(&[], Some(&high), NOW), Err(BadKnowledge::Head(BadHead::Forked { version: 2 }))));
    let second = known.advance(&[], Some(&high), NOW).unwrap().advance(&[], Some(&low), NOW).unwrap();
    assert_eq!(first.head.digest, second.head.digest);
}

#[test]
fn what_a_head_beside_takes_away_counts_at_once_and_nothing_else_of_it() {
    let known = known();
    let home = known.advance(&[], Some(&revoking(&known, 3, &[8])), NOW).unwrap();
    let mut body = Head { version: 2, ..known.head.head.clone() };
    body.revocations.node_keys.extend([Digest([7; 32])]);
    body.fresh_until = NOW + Seconds::DAY.times(90);
    let rival = sealed(Some(known.org()), &body, "ann");
    let heard = home.hear(std::slice::from_ref(&rival), NOW).unwrap();
    let revoked = |known: &Known, key: u8| known.head.head.revocations.node_keys.contains(&Digest([key; 32]));
    assert!(revoked(&heard, 7) && revoked(&heard, 8) && heard.says_more_than(&home));
    assert_eq!((heard.head.digest, heard.head.head.fresh_until), (home.head.digest, home.head.head.fresh_until));
    // On disk, too; who tells it again says nothing new, and who keeps the same has the same mark.
    let read = Known::from_file(heard.to_file()).unwrap();
    assert!(revoked(&read, 7) && read.mark().is_some() && read.mark() == heard.mark());
    assert!(read.hear(std::slice::from_ref(&rival), NOW).is_none());
    let other = home.with_sightings_of(&read);
    assert_eq!(other.mark(), read.mark());
    // Until a head says so itself.
    let next = read.advance(&[], Some(&revoking(&known, 4, &[7, 8])), NOW).unwrap();
    assert!(revoked(&next, 7) && next.mark().is_none());
}

#[test]
fn a_head_beside_that_others_signed_or_that_is_higher_takes_nothing_away() {
    let known = known();
    let home = known.advance(&[], Some(&revoking(&known, 3, &[8])), NOW).unwrap();
    let (forged, higher) = (revoking(&known, 2, &[7]).kept(&BTreeSet::new()), revoking(&known, 4, &[7]));
    let nothing_more = revoking(&known, 2, &[]);
    let (step, second) = succession(&known.signers, "ben", "ann");
    let other = Head { signers: second.as_ref(), ..known.head.head.clone() };
    let other = sealed(Some(known.org()), &other, "ben");
    assert!(home.hear(&[forged.clone(), higher, nothing_more, other, step.clone()], NOW).is_none());
    // Also if the head that is followed names it: whoever co-signed that may never have seen it.
    let names = Head { version: 5, previous: vec![forged.digest()], ..home.head.head.clone() };
    let names = home.advance(&[], Some(&sealed(Some(known.org()), &names, "ann")), NOW).unwrap();
    assert!(names.hear(&[forged], NOW).is_none());
    // Nor one of signers who were replaced, nor while two sets claim one place.
    let late = revoking(&known, 2, &[7]);
    let moved = home.advance(&[step], Some(&head(&second, 4, "ben")), NOW).unwrap();
    assert!(moved.hear(&[late], NOW).is_none());
    let body =
        Head { version: 3, signers: second.as_ref(), ..revoking(&known, 3, &[7]).peek(Some(known.org())).unwrap() };
    let rival = sealed(Some(known.org()), &body, "ben");
    let frozen = moved.notice(&succession(&known.signers, "eve", "ann").0, NOW).unwrap();
    assert!(moved.hear(std::slice::from_ref(&rival), NOW).is_some() && frozen.hear(&[rival], NOW).is_none());
}

#[test]
fn who_carried_on_a_rival_says_it_all_and_more_than_a_few_are_not_kept() {
    let known = known();
    let home = known.advance(&[], Some(&revoking(&known, 99, &[])), NOW).unwrap();
    let carried = [revoking(&known, 2, &[7]), revoking(&known, 3, &[7, 8])];
    assert_eq!(home.hear(&carried, NOW).unwrap().beside().count(), 1);
    let many: Vec<Envelope> = (2..60).map(|version| revoking(&known, version.into(), &[version])).collect();
    assert_eq!(home.hear(&many, NOW).unwrap().beside().count(), identity::head::MOST_PREVIOUS);
}

#[test]
fn two_successors_within_one_delay_freeze_a_machine_and_later_ones_do_not() {
    let known = known();
    let ((one, true_set), (other, false_set)) =
        (succession(&known.signers, "ben", "ann"), succession(&known.signers, "eve", "ann"));
    let home = known.advance(std::slice::from_ref(&one), Some(&head(&true_set, 2, "ben")), NOW).unwrap();
    let later = NOW + Seconds::DAY - Seconds(1);
    let rival = head(&false_set, 9, "eve");
    let why = home.advance(std::slice::from_ref(&other), Some(&rival), later).unwrap_err();
    assert!(matches!(why, BadKnowledge::Frozen { .. }), "{why}");
    let frozen = home.heed(&why, later).unwrap();
    assert_eq!((frozen.head.head.place(), frozen.rivals(later).len()), ((2, 2), 2));
    // Not even by its own signers' next head.
    let next = head(&true_set, 3, "ben");
    assert!(matches!(frozen.advance(&[], Some(&next), later), Err(BadKnowledge::Frozen { .. })));
    let frozen = Known::from_file(frozen.to_file()).unwrap();
    assert!(matches!(frozen.advance(&[], Some(&next), later), Err(BadKnowledge::Frozen { .. })));
    // One delay after the first, the other only shouts.
    let late = NOW + Seconds::DAY + Seconds(1);
    let why = home.advance(&[other], Some(&rival), late).unwrap_err();
    assert!(!matches!(why, BadKnowledge::Frozen { .. }), "{why}");
    assert_eq!(home.advance(&[], Some(&next), late).unwrap().head.head.place(), (2, 3));
}

/// What the recovery keys say where two sets claim one place, and the set that it names.
fn way_out(last: &SignerSet, next: &str, head: Digest) -> (Envelope, SignerSet) {
    let (version, quorum) = (last.version + 2, quorum(next));
    let set = SignerSet::later(last.org, version, quorum.clone());
    let body = Recovery { version, previous: last.id, quorum, head: Some(head), settles: true, at: NOW };
    (sealed(Some(last.org), &body, "safe"), set)
}

#[test]
fn the_recovery_keys_lead_a_frozen_machine_on_after_its_own_delay() {
    let known = known();
    let ((one, true_set), (other, _)) =
        (succession(&known.signers, "ben", "ann"), succession(&known.signers, "eve", "ann"));
    let (way, third) = way_out(&known.signers, "zoe", known.head.digest);
    let home = known.advance(std::slice::from_ref(&one), Some(&head(&true_set, 2, "ben")), NOW).unwrap();
    // Whoever stands still shows the older head, and what leads to each.
    let why = home.advance(&[one.clone(), other.clone()], Some(&known.head_envelope), NOW).unwrap_err();
    let frozen = home.heed(&why, NOW).unwrap();
    let told = Freeze::of(&frozen, NOW).unwrap().to_string();
    assert!(told.contains("(ben | eve)") || told.contains("(eve | ben)"), "{told}");
    assert!(told.contains("freehold recover --signer NAME"), "{told}");
    let (chain, next) = ([one, other, way.clone()], head(&third, 2, "zoe"));
    let later = NOW + Seconds(60);
    let why = frozen.advance(&chain, Some(&next), later).unwrap_err();
    assert!(matches!(why, BadKnowledge::Frozen { .. }), "{why}");
    let frozen = frozen.heed(&why, later).unwrap();
    let due = later + Seconds::DAY;
    let told = Freeze::of(&frozen, later).unwrap();
    assert_eq!(told.ends, [("zoe".to_owned(), due)]);
    assert!(told.to_string().contains(&format!("until {due}, when the recovery keys settle it for zoe")), "{told}");
    assert!(frozen.advance(&chain, Some(&next), due - Seconds(1)).is_err());
    // Until the new set has signed a head, the older one stands in, and is no lie.
    let stays = frozen.advance(&chain, Some(&known.head_envelope), due).unwrap();
    assert_eq!((stays.head.digest, stays.rivals(due).len()), (home.head.digest, 0));
    let moved = Known::from_file(stays.to_file()).unwrap().advance(&chain, Some(&next), due).unwrap();
    assert_eq!(moved.signers, third);
    assert_eq!(moved.signer_sets(), [known.signers.clone(), third]);
    assert_eq!((moved.alarms(), moved.stance_of(way.digest(), due)), (Vec::new(), Stance::Taken));
}

#[test]
fn a_machine_that_went_by_one_of_two_sets_for_a_delay_is_told_that_others_did_not() {
    let known = known();
    let ((one, true_set), (other, _)) =
        (succession(&known.signers, "ben", "ann"), succession(&known.signers, "eve", "ann"));
    let (way, third) = way_out(&known.signers, "zoe", known.head.digest);
    let home = known.advance(std::slice::from_ref(&one), Some(&head(&true_set, 2, "ben")), NOW).unwrap();
    let late = NOW + Seconds::DAY + Seconds(1);
    let frozen_there = home.advance(&[one.clone(), other.clone()], Some(&known.head_envelope), late);
    assert_eq!(frozen_there.unwrap_err(), BadKnowledge::Parted);
    let settled_there = home.advance(&[one, other, way], Some(&head(&third, 2, "zoe")), late);
    assert_eq!(settled_there.unwrap_err(), BadKnowledge::Parted);
    // An older head alone is still one.
    let older = home.advance(&[], Some(&known.head_envelope), late).unwrap_err();
    assert!(matches!(older, BadKnowledge::Head(BadHead::OtherSigners { .. })), "{older}");
}

/// What all who claim one place sign together, and the set that it names.
fn agreed(rivals: [&SignerSet; 2], next: &str, by: &[&str]) -> (Envelope, SignerSet) {
    let (version, quorum) = (rivals[0].version + 1, quorum(next));
    let set = SignerSet::later(rivals[0].org, version, quorum.clone());
    let body = Succession { version, previous: rivals[0].id, also: vec![rivals[1].id], quorum, head: None };
    let mut envelope = sealed(Some(set.org), &body, by[0]);
    for name in &by[1..] {
        envelope.sign(&key(name)).unwrap();
    }
    (envelope, set)
}

#[test]
fn a_set_that_all_rivals_signed_leads_a_machine_on_at_once_whatever_it_went_by() {
    let known = known();
    let ((one, bens), (other, evas)) =
        (succession(&known.signers, "ben", "ann"), succession(&known.signers, "eva", "ann"));
    let (agreed_on, third) = agreed([&bens, &evas], "zoe", &["ben", "eva"]);
    let (chain, next) = ([one.clone(), other.clone(), agreed_on.clone()], head(&third, 3, "zoe"));
    let home = known.advance(std::slice::from_ref(&one), Some(&head(&bens, 2, "ben")), NOW).unwrap();
    let why = home.advance(&chain[..2], Some(&known.head_envelope), NOW).unwrap_err();
    let frozen = home.heed(&why, NOW).unwrap();
    let (half, _) = agreed([&bens, &evas], "zoe", &["eva"]);
    let why = frozen.advance(&[one, other, half], Some(&next), NOW).unwrap_err();
    assert!(matches!(why, BadKnowledge::Frozen { .. }), "one of them alone: {why}");
    // One that stands still, one that went by one of them until now or for long, and one that heard of nothing.
    let late = NOW + Seconds::DAY.times(9);
    for (before, now) in [(&frozen, NOW), (&home, NOW), (&home, late), (&known, late)] {
        let moved = before.advance(&chain, Some(&next), now).unwrap();
        assert_eq!((&moved.signers, moved.frozen(now)), (&third, None));
        // Whoever is given what it has, by its card or for a ledger, comes to the same.
        let moved = Known::from_file(moved.to_file()).unwrap();
        assert_eq!((moved.chain.len(), moved.followed().len()), (3, 3));
        let begun = Known::new(known.founding.clone(), &moved.chain, &moved.head_envelope).unwrap();
        assert_eq!((&begun.signers, begun.chain == moved.chain), (&third, true));
    }
    assert!(frozen.set(bens.id).is_some() && frozen.set(third.id).is_none());
}

#[test]
fn a_ledger_that_begins_here_is_frozen_by_what_freezes_this_machine() {
    let known = known();
    let (step, set) = succession(&known.signers, "ben", "ann");
    let home = known.advance(std::slice::from_ref(&step), Some(&head(&set, 2, "ben")), NOW).unwrap();
    assert_eq!(home.followed(), [(step.digest(), NOW)].into());
    // What a person settled needs no waiting.
    let settled = Known::new(known.founding.clone(), std::slice::from_ref(&step), &head(&set, 2, "ben")).unwrap();
    assert_eq!(settled.followed(), [(step.digest(), Timestamp::from_unix(0))].into());
}

/// A step of one whose keys were replaced, to whatever number.
fn sown(of: &SignerSet, version: u64, nth: usize) -> Envelope {
    let quorum = quorum(&format!("eve-{nth}"));
    let body = Succession { version, previous: of.id, also: Vec::new(), quorum, head: None };
    sealed(Some(of.org), &body, "ann")
}

#[test]
fn whoever_held_the_keys_of_a_former_set_fills_no_place_that_the_next_signers_need() {
    let first = known();
    let (to_ben, second) = succession(&first.signers, "ben", "ann");
    let known = first.advance(std::slice::from_ref(&to_ben), Some(&head(&second, 2, "ben")), NOW).unwrap();
    let later = NOW + Seconds::DAY.times(3);
    let ahead: Vec<Envelope> = (3..200).map(|version| sown(&first.signers, version, 0)).collect();
    let rivals: Vec<Envelope> = (0..60).map(|nth| sown(&first.signers, 2, nth)).collect();
    let sown = known.advance(&ahead, None, later).unwrap();
    assert_eq!(sown.to_file().steps.len(), 1, "a number that does not follow is nobody's");
    let sown = sown.advance(&rivals, None, later).unwrap();
    assert!(sown.frozen(later).is_none(), "it comes too late");
    assert!(sown.to_file().steps.len() <= 1 + MOST_BESIDE, "{}", sown.to_file().steps.len());
    // Told again, it says nothing new.
    assert!(sown.notice(&rivals[59], later + Seconds::DAY).is_none());
    let (to_cat, third) = succession(&second, "cat", "ben");
    let next = sown.advance(&[to_cat], Some(&head(&third, 3, "cat")), later).unwrap();
    assert_eq!(next.signers, third);
    let (lost, _) = recovery(&third, "zoe");
    assert_eq!(next.notice(&lost, later).unwrap().alarms().len(), 1);
    let many: Vec<Envelope> = std::iter::repeat_n(to_ben, MOST_TOLD + 1).collect();
    assert!(matches!(known.advance(&many, None, NOW), Err(BadKnowledge::Signers(BrokenChain::TooMany))));
}

#[test]
fn what_was_revoked_stays_revoked_though_the_next_head_knows_of_it_and_leaves_it_out() {
    let known = known();
    let revokes = revoking(&known, 2, &[1]);
    let digest = revokes.digest();
    let known = known.advance(&[], Some(&revokes), NOW).unwrap();
    let forgets = |version: u64, previous: Digest| {
        let head = Head { version, previous: vec![previous], ..known.head.head.clone() };
        sealed(Some(known.org()), &Head { revocations: identity::head::Revocations::default(), ..head }, "ann")
    };
    let third = forgets(3, digest);
    let next = known.advance(&[], Some(&third), NOW).unwrap();
    let read = Known::from_file(next.to_file()).unwrap();
    let last = read.advance(&[], Some(&forgets(4, third.digest())), NOW).unwrap();
    for known in [&next, &read, &last, &Known::from_file(last.to_file()).unwrap()] {
        assert!(known.head.head.revocations.node_keys.contains(&Digest([1; 32])));
    }
    assert_eq!(last.beside().map(|record| record.digest).collect::<Vec<_>>(), [digest]);
}

#[test]
fn what_nobody_signed_is_not_kept() {
    let known = known();
    let (step, _) = succession(&known.signers, "eve", "ann");
    assert!(known.notice(&step.kept(&BTreeSet::new()), NOW).is_none());
    assert!(known.to_file().steps.is_empty());
}

#[test]
fn a_joiner_goes_by_the_floor_of_its_code_and_by_nothing_that_contradicts_it() {
    let known = known();
    let ((ours, true_set), (theirs, false_set)) =
        (succession(&known.signers, "ben", "ann"), succession(&known.signers, "eve", "ann"));
    let (lost, third) = recovery(&true_set, "zoe");
    let begin = |floor: &SignerSet, chain: &[Envelope], head: &Envelope| {
        Known::begin(known.founding.clone(), floor.as_ref(), chain, head, NOW)
    };
    let good = begin(&true_set, std::slice::from_ref(&ours), &head(&true_set, 2, "ben")).unwrap();
    assert_eq!(good.signers, true_set);
    // Whoever tells of both says no more than whoever tells of one.
    assert!(begin(&true_set, &[theirs.clone(), ours.clone()], &head(&true_set, 2, "ben")).is_ok());
    let forked = begin(&true_set, std::slice::from_ref(&theirs), &head(&false_set, 2, "eve"));
    assert_eq!(forked.unwrap_err(), BrokenChain::Forked { version: 2 }.into());
    let early = begin(&true_set, &[], &known.head_envelope);
    assert_eq!(early.unwrap_err(), BrokenChain::EndsTooEarly { reached: 1, floor: 2 }.into());
    // Whoever made the floor has waited; beyond it nobody has.
    let (chain, newest) = ([ours, lost], head(&third, 3, "zoe"));
    assert!(begin(&third, &chain, &newest).is_ok());
    let waits = begin(&true_set, &chain, &newest);
    assert!(matches!(waits, Err(BadKnowledge::RecoveryWaits { .. })), "{waits:?}");
    let unsigned = begin(&known.signers, &[theirs.kept(&BTreeSet::new())], &head(&false_set, 2, "eve"));
    assert!(matches!(unsigned, Err(BadKnowledge::Signers(BrokenChain::NotSigned { .. }))), "{unsigned:?}");
}
