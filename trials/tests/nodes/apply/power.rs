//! The power fails while the agent applies, on a disk that forgets what was not synced.

use trials::faults::forgetful::{Forgetful, Lost};
use trials::place::until;

use super::{Waiting, copy, quiet};

/// Not each step: the engine's own are all cut in `member/apply/engine/tests/power.rs`. Here it is the whole agent, with
/// all else that it writes.
const STRIDE: usize = 3;

/// How often, with the old state and with the new one.
fn cut_at_each(lost: Lost, first: usize) -> [usize; 2] {
    let waiting = Waiting::new();
    let root = waiting.place().root("web-1");
    let mut cuts = [0; 2];
    for steps in (first..).step_by(STRIDE) {
        std::fs::remove_dir_all(&root).unwrap();
        let disk = Forgetful::at(root.clone());
        copy(&waiting.place().path("saved/."), &root);
        disk.settle();
        disk.power_fails_after(steps);
        let agent = quiet(waiting.agent());
        let mut through = false;
        until(&format!("step {steps}: no power, or through"), || {
            through = waiting.is_through();
            through || !disk.has_power()
        });
        agent.kill();
        let _disk = disk.powered_again(lost);
        let new = waiting.check(&format!("{lost:?}, step {steps}"));
        if through {
            break;
        }
        cuts[usize::from(new)] += 1;
    }
    cuts
}

#[test]
fn an_agent_whose_power_fails_has_the_old_state_or_the_new_one_if_all_is_lost_that_was_not_synced() {
    let [old, new] = cut_at_each(Lost::Unsynced, 1);
    assert!(old > 4 && new > 0, "cut {old} times with the old state, {new} times with the new one");
}

#[test]
fn an_agent_whose_power_fails_has_the_old_state_or_the_new_one_if_bytes_are_lost_and_names_are_not() {
    let [old, new] = cut_at_each(Lost::Bytes, 2);
    assert!(old > 4 && new > 0, "cut {old} times with the old state, {new} times with the new one");
}
