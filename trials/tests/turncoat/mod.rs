//! A gateway that lies at random, to everybody who talks to it, while honest people go on with their work.
//!
//! `LIES=20 SEED=7 cargo nextest run -p trials lies_at_random` plays twenty worlds, from that seed on, three beside each other.

mod forge;
mod lies;
mod server;
mod world;
mod deeds;
mod laws;
mod raids;

use laws::Tally;
use trials::attack::thief::Thief;
use trials::place::{succeeded, until};
use world::{Cast, World};

use crate::gateways::restored::back_up;

/// In each world honest people do so much, and the liar tells so many lies at least.
const STEPS: usize = 10;
const LEAST: usize = 10;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// So many worlds are played beside each other, each by a test of its own.
const BESIDE: u64 = 3;

#[test]
fn a_gateway_that_lies_at_random_moves_nobody_and_the_truth_is_found_again() {
    play_from(0);
}

#[test]
fn another_gateway_that_lies_at_random_moves_nobody_either() {
    play_from(1);
}

#[test]
fn nor_does_a_third_one_that_lies_at_random() {
    play_from(2);
}

fn play_from(nth: u64) {
    let first = number("SEED").unwrap_or(1);
    let last = first + number("LIES").unwrap_or(BESIDE);
    let tallies: Vec<Tally> = (first + nth..last).step_by(usize::try_from(BESIDE).unwrap()).map(play).collect();
    // Where nobody lied, nothing was shown.
    let lied = |it: &Tally| it.lies >= LEAST && it.entries > 0 && it.forks > 0;
    assert!(tallies.iter().all(lied), "too few lies were heard: {tallies:?}");
    let turned = |it: &Tally| it.rotations[0] == it.rotations[1];
    assert!(tallies.iter().all(turned), "a root was not rotated: {tallies:?}");
}

fn play(seed: u64) -> Tally {
    let mut world = World::new(seed);
    world.welcome();
    back_up(world.place(), "backup");
    world.welcome();
    for step in 0..STEPS {
        match step {
            3 => world.deed(seed),
            5 if world.cast == Cast::Phrases => world.begin_recovery(),
            7 => world.deed(seed + 1),
            _ => world.step(),
        }
        world.check();
    }
    world.fork();
    world.check();
    let vps = world.mend();
    world.check();
    world.finish_rotations(vps.is_some());
    world.at_home(&["refresh"]);
    world.welcome();
    let nodes: Vec<String> = world.agents.keys().cloned().collect();
    for node in nodes {
        until(&format!("`{node}` has the newest head"), || is_well(&mut world, &node));
    }
    world.check();
    succeeded(&world.at_home(&["audit", "--verify"]));
    world.tally()
}

/// It has the newest head, and nothing to complain of. A gateway that is confronted with what it never wrote says so, and is
/// reopened: the liar gave its word for it.
fn is_well(world: &mut World, node: &str) -> bool {
    let status = world.place().status(node);
    let problem = status["problem"].as_str().unwrap_or_default();
    if problem.contains("older than what was shown to it") {
        world.reopen("vps");
    }
    if problem.contains("recovery") {
        world.stop_recovery();
    }
    let newest = Thief::of(world.place()).known().head.head.version;
    let well = status["head"] == newest && status["problem"].is_null();
    if !well {
        world.story.push(format!("`{node}` is at head {} of {newest}: {}", status["head"], status["problem"]));
    }
    well
}
