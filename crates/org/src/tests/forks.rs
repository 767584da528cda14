//! Two entries for one place: what stood before it stands, what came after is void, and nobody else is harmed.

use std::collections::{BTreeMap, BTreeSet};

use identity::id::Correlation;
use proptest::prelude::{ProptestConfig, any, prop, proptest};

use super::laws::{EVERYBODY, HEIRS, history, order};
use super::world::{GATEWAYS, World, author as author_of, shuffled};
use crate::entry::SignedEntry;
use crate::fold::{Folded, fold_opened};
use crate::frontier::Place;
use crate::state::Void;

/// A second entry for the same place, by the same key.
fn rival(world: &World, of: &SignedEntry) -> SignedEntry {
    let mut entry = of.entry.clone();
    entry.correlation = Correlation([9; 8]);
    world.signed(&entry, name_of(of))
}

fn name_of(signed: &SignedEntry) -> &'static str {
    EVERYBODY.into_iter().find(|name| author_of(name) == signed.entry.author).unwrap()
}

fn check_fork(world: &World, folded: &Folded, forked: &[&SignedEntry]) {
    let (author, seq) = (&forked[0].entry.author, forked[0].entry.seq);
    let evidence: BTreeSet<_> = forked.iter().map(|signed| signed.digest).collect();
    assert_eq!(folded.forks, BTreeMap::from([((author.clone(), seq), evidence)]));
    let stranded = |signed: &&SignedEntry| folded.unplaced.contains(&signed.digest);
    let stranded: Vec<_> = world.log.iter().filter(stranded).collect();
    // Whom recovery keys named is an author because a gateway saw that: void with its branch, and so is what built on it.
    let by_recovery = |signed: &&SignedEntry| {
        let mut authors = signed.entry.seen.0.keys().chain([&signed.entry.author]);
        authors.any(|of| HEIRS.map(author_of).contains(of))
    };
    assert!(
        stranded.iter().all(by_recovery) && (stranded.is_empty() || GATEWAYS.map(author_of).contains(author)),
        "everybody else's entries have their place"
    );
    let before = world.fold().state;
    for signed in &world.log {
        let found = folded.state.void.get(&signed.digest);
        if signed.entry.author == *author && signed.entry.seq >= seq {
            assert_eq!(found, Some(&Void::Forked), "both branches are void");
        } else if signed.entry.author == *author {
            assert_eq!(found, before.void.get(&signed.digest), "the common prefix stands");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_fork_voids_both_branches_and_strands_nobody(
        world in history(),
        at in any::<prop::sample::Index>(),
        order in order(),
    ) {
        // Whoever mandated the gateways is left alone: without mandate there is no gateway.
        let others: Vec<_> = world.log.iter().filter(|signed| signed.entry.author != author_of("ann")).collect();
        if !others.is_empty() {
            let chosen = others[at.index(others.len())];
            let second = rival(&world, chosen);
            let mut log = world.log.clone();
            log.push(second.clone());
            let folded = fold_opened(&world.founding, log.clone());
            check_fork(&world, &folded, &[chosen, &second]);
            assert_eq!(fold_opened(&world.founding, shuffled(log, &order)), folded);
        }
    }
}

/// Two admissions by `gw-1`, the second of which `gw-2` and `ann` have built upon.
fn built_upon() -> World {
    let mut world = World::new(1, &["ann", "ben"]);
    world.invite("ann", 1, [5, 5]);
    world.share();
    world.admit("gw-1", 1, 1, "web");
    world.admit("gw-1", 2, 1, "db");
    world.share();
    world.admit("gw-2", 3, 1, "mail");
    world.share();
    world.invite("ann", 2, [1, 1]);
    world
}

fn entry_of<'a>(world: &'a World, who: &str, seq: u64) -> &'a SignedEntry {
    world.log.iter().find(|signed| signed.entry.author == author_of(who) && signed.entry.seq == seq).unwrap()
}

fn check_with(world: &World, extra: SignedEntry, check: impl Fn(&Folded)) {
    let mut log = world.log.clone();
    log.push(extra);
    let folded = fold_opened(&world.founding, log.clone());
    check(&folded);
    log.reverse();
    assert_eq!(fold_opened(&world.founding, log), folded);
}

#[test]
fn a_fork_takes_back_what_its_branches_did() {
    let world = built_upon();
    let second = entry_of(&world, "gw-1", 2);
    let other = rival(&world, second);
    check_with(&world, other.clone(), |folded| {
        check_fork(&world, folded, &[second, &other]);
        assert_eq!(folded.state.members.len(), 2, "the first of gw-1 and that of gw-2");
    });
}

#[test]
fn a_rival_that_could_never_have_stood_alone_is_still_a_fork() {
    let world = built_upon();
    let second = entry_of(&world, "gw-1", 2);
    let place = Place { epoch: 1, seq: 99, digest: second.digest };
    let mut before_its_mandate = second.entry.clone();
    before_its_mandate.seen.0.clear();
    let mut from_nowhere = second.entry.clone();
    from_nowhere.seen.0.insert(author_of("ben"), place);
    let mut unlinked = second.entry.clone();
    unlinked.previous = None;
    for entry in [before_its_mandate, from_nowhere, unlinked] {
        let other = world.signed(&entry, "gw-1");
        check_with(&world, other.clone(), |folded| check_fork(&world, folded, &[second, &other]));
    }
}

#[test]
fn an_entry_at_a_place_that_cannot_be_strands_nobody() {
    let world = built_upon();
    let untouched = world.fold();
    for seq in [0, 4, u64::MAX] {
        let mut entry = entry_of(&world, "gw-1", 2).entry.clone();
        entry.seq = seq;
        let odd = world.signed(&entry, "gw-1");
        check_with(&world, odd.clone(), |folded| {
            assert_eq!((&folded.state, &folded.forks), (&untouched.state, &untouched.forks), "{seq}");
            assert_eq!(folded.unplaced, BTreeSet::from([odd.digest]), "{seq}");
        });
    }
}

#[test]
fn applying_one_by_one_refuses_the_second_branch() {
    let world = built_upon();
    let other = rival(&world, entry_of(&world, "gw-1", 2));
    assert!(world.fold().state.apply(&other).is_err());
}
