//! Steps to other signers, and when each was first seen: whatever strangers sow, only what enough keys signed leads on.
//!
//! A part `sights` has a line for each: `"#N" SECONDS`; a part `floor` has `VERSION "#N"`, or nothing after it.

use std::collections::BTreeSet;

use identity::id::Digest;
use identity::signers::{Recovery, SignerSet, SignersRef, Succession, Word};
use identity::time::{Seconds, Timestamp};
use org::ledger::signers::{Basis, Signers, Stance, signers};
use org::ledger::step::{Sights, SignerStep};

use crate::cast::NOW;
use crate::harbor::{HARBOR, quorum};
use crate::sealing::{self, Text};

pub fn seeds() -> Vec<Vec<u8>> {
    let org = HARBOR.founding.id;
    let first = HARBOR.signers();
    let step = |version, previous, names: &[&str], also: &[Digest]| Succession {
        version,
        previous,
        also: also.to_vec(),
        quorum: quorum(1, names),
        head: None,
    };
    let recovery = |version, settles| Recovery {
        version,
        previous: first.id,
        quorum: quorum(1, &["gw-1"]),
        head: None,
        settles,
        at: NOW,
    };
    let set = |names: &[&str]| SignerSet::later(org, 2, quorum(1, names));
    let (one, two) = (set(&["ann", "cat"]), set(&["ben"]));
    let write = |steps: &dyn Fn(&mut Text), rest: &[(&str, String)]| {
        let mut text = Text::default();
        steps(&mut text);
        for (kind, lines) in rest {
            text.add_raw(kind, lines);
        }
        text.bytes()
    };
    let (at, day) = (|n: u64| (NOW + Seconds::HOUR.times(n)).unix(), Some(org));
    let seen = |n: usize, hours: u64| format!("\"#{n}\" {}", at(hours));
    let along = |text: &mut Text| {
        text.add(day, &step(2, first.id, &["ann", "cat"], &[]), "ann ben", &[]);
        text.add(day, &step(3, one.id, &["cat"], &[]), "ann", &[]);
    };
    let apart = |text: &mut Text| {
        text.add(day, &step(2, first.id, &["ann", "cat"], &[]), "ann ben", &[]);
        text.add(day, &step(2, first.id, &["ben"], &[]), "ann ben", &[]);
        text.add(day, &step(3, one.id, &["cat"], &[two.id]), "ann ben", &[]);
        text.add(day, &recovery(3, true), "safe", &[]);
    };
    let lost = |text: &mut Text| {
        text.add(day, &recovery(2, false), "safe", &[]);
        text.add(day, &step(2, first.id, &["ann", "cat"], &[]), "ann ben", &[]);
    };
    let floor = |set: &SignerSet| format!("{} \"{}\"", set.version, set.id);
    vec![
        write(&along, &[("sights", [seen(0, 0), seen(1, 1)].join("\n"))]),
        write(&apart, &[("sights", [seen(0, 0), seen(1, 1)].join("\n"))]),
        write(&apart, &[("sights", [seen(0, 0), seen(1, 1), seen(2, 2)].join("\n"))]),
        write(&apart, &[("sights", [seen(0, 0), seen(1, 1), seen(3, 2)].join("\n"))]),
        write(&apart, &[("sights", [seen(0, 0), seen(1, 1)].join("\n")), ("floor", floor(&two))]),
        write(&lost, &[("sights", seen(0, 0))]),
        write(&lost, &[("sights", [seen(0, 0), seen(1, 30)].join("\n"))]),
    ]
}

pub fn check(data: &[u8]) -> bool {
    let Some(parts) = sealing::read(data) else {
        return false;
    };
    let (mut steps, mut sights, mut floor) = (Vec::new(), Sights::new(), None);
    for part in &parts {
        match (part.kind.as_str(), std::str::from_utf8(&part.payload)) {
            ("sights", Ok(text)) => sights.extend(text.lines().filter_map(sight)),
            ("floor", Ok(text)) => floor = settled(text),
            _ => steps.extend(SignerStep::read(HARBOR.founding.id, &part.envelope)),
        }
    }
    // They are kept by their digests.
    let mut there = BTreeSet::new();
    steps.retain(|step: &SignerStep| there.insert(step.digest));
    if steps.is_empty() {
        return false;
    }
    let basis = Basis::of(&HARBOR.founding, floor);
    let moments = sights.values().flat_map(|at| [*at, *at + basis.delay, *at + basis.delay.times(2)]);
    let moments: BTreeSet<Timestamp> = moments.chain([NOW, NOW + Seconds::DAY.times(3)]).collect();
    for now in moments {
        let found = signers(&basis, &steps, &sights, now);
        let mut back = steps.clone();
        back.reverse();
        assert_eq!(signers(&basis, &back, &sights, now), found, "in whatever order they came");
        holds(&basis, (&steps, &sights), &found);
    }
    assert!(matches!(signers(&basis, &[], &sights, NOW), Signers::InForce(it) if it.set == basis.first));
    true
}

fn sight(line: &str) -> Option<(Digest, Timestamp)> {
    let (step, since) = line.split_once(' ')?;
    Some((step.trim_matches('"').parse().ok()?, Timestamp::from_unix(since.parse().ok()?)))
}

fn settled(text: &str) -> Option<SignersRef> {
    let (version, id) = text.trim_end().split_once(' ')?;
    Some(SignersRef { version: version.parse().ok()?, id: id.trim_matches('"').parse().ok()? })
}

/// Every step of the way is signed by whom it must be, was seen, and brings no key back.
fn holds(basis: &Basis, (steps, sights): (&[SignerStep], &Sights), found: &Signers) {
    let (path, last) = match found {
        Signers::InForce(it) => (&it.path, &it.set),
        Signers::Frozen(it) => (&it.path, &it.last),
    };
    if let Signers::Frozen(frozen) = found {
        assert!(frozen.rivals.len() > 1, "one set alone contests nothing");
    }
    let (mut at, mut gone) = (basis.first.clone(), BTreeSet::new());
    for digest in path {
        let step = steps.iter().find(|step| step.digest == *digest).expect("a step that is here");
        assert!(sights.contains_key(digest), "nobody saw it");
        assert_eq!(found.stance_of(*digest), Stance::Taken);
        assert!(step.to.version > at.version && step.to.version <= at.version + 2, "it goes on");
        let signed =
            |keys: &identity::signers::Quorum| step.envelope.signers_among(&keys.keys()).len() >= keys.threshold();
        match step.word {
            Word::Recovery => assert!(signed(&basis.recovery), "the recovery keys did not sign"),
            Word::Signers if step.previous == at.id && step.also.is_empty() => {
                assert!(signed(&at.quorum), "the set before did not sign");
            }
            // Out of a freeze: what the rivals signed together; or where a person settled it.
            Word::Signers => assert!(!step.also.is_empty() || basis.floor.is_some(), "it follows another set"),
        }
        let keys = step.to.quorum.keys();
        assert!(keys.is_disjoint(&gone), "a key that was removed is back");
        gone.extend(at.quorum.keys().difference(&keys).copied());
        at = step.to.clone();
    }
    assert_eq!(&at, last, "the way leads to it");
}
