//! A gateway that lies at random, to everybody who talks to it, while honest people go on with their work.
//!
//! `LIES=20 SEED=7 cargo nextest run -p trials lies_at_random` plays twenty worlds, from that seed on, three beside each other.

mod forge;
mod lies;
mod server;
mod world;
mod raids;
mod laws;

use trials::place::{succeeded, until};
use trials::thief::Thief;
use world::World;

/// In each world honest people do so much.
const STEPS: usize = 10;

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
    (first + nth..last).step_by(usize::try_from(BESIDE).unwrap()).for_each(play);
}

fn play(seed: u64) {
    let mut world = World::new(seed);
    world.welcome();
    world.welcome();
    for _ in 0..STEPS {
        world.step();
        world.check();
    }
    let _vps = world.mend();
    world.check();
    world.at_home(&["refresh"]);
    world.welcome();
    let nodes: Vec<String> = world.agents.keys().cloned().collect();
    for node in nodes {
        until(&format!("`{node}` has the newest head"), || is_well(&mut world, &node));
    }
    world.check();
    succeeded(&world.at_home(&["audit", "--verify"]));
    eprintln!("{}", world.summary());
}

/// It has the newest head, and nothing to complain of. A gateway that is confronted with what it never wrote says so, and is
/// reopened: the liar gave its word for it.
fn is_well(world: &mut World, node: &str) -> bool {
    let status = world.place().status(node);
    if status["problem"].as_str().is_some_and(|problem| problem.contains("older than what was shown to it")) {
        let second = world.two.address();
        world.reopen(&second);
    }
    let newest = Thief::of(world.place()).known().head.head.version;
    let well = status["head"] == newest && status["problem"].is_null();
    if !well {
        world.story.push(format!("`{node}` is at head {} of {newest}: {}", status["head"], status["problem"]));
    }
    well
}
