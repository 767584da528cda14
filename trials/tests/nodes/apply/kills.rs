//! SIGKILL before each call that changes what the disk says, while the agent applies.

use trials::faults::{Fault, inject};
use trials::place::until;

use super::{Waiting, copy, quiet};

/// How often it was killed before it was through, with the old state and with the new one.
fn kill_at_each(waiting: &Waiting, call: &str) -> [usize; 2] {
    let mut kills = [0; 2];
    for when in 1..200 {
        let root = waiting.place().root("web-1");
        std::fs::remove_dir_all(&root).unwrap();
        copy(&waiting.place().path("saved"), &root);
        let mut agent = quiet(inject(&waiting.agent(), call, Fault::Kill, &when.to_string()));
        let mut killed = false;
        until(&format!("{call} {when}: killed or through"), || {
            killed = agent.0.try_wait().unwrap().is_some();
            killed || waiting.is_through()
        });
        if !killed {
            agent.kill();
            return kills;
        }
        kills[usize::from(waiting.check(&format!("{call} {when}")))] += 1;
    }
    panic!("`{call}` without end");
}

#[test]
fn an_agent_killed_before_any_rename_has_the_old_state_or_the_new_one() {
    let [old, new] = kill_at_each(&Waiting::new(), "rename");
    assert!(old >= 5 && new >= 1, "killed {old} times with the old state, {new} times with the new one");
}

#[test]
fn an_agent_killed_before_any_folder_link_removal_or_sync_has_the_old_state_or_the_new_one() {
    let waiting = Waiting::new();
    let kills: usize =
        ["mkdir", "symlink", "unlink", "fsync"].iter().flat_map(|call| kill_at_each(&waiting, call)).sum();
    assert!(kills >= 4, "killed only {kills} times");
}
