//! The power fails before every single step that the engine takes on its disk: old or new, never between.

use trials::faults::forgetful::{Forgetful, Lost};

use super::{again, at, checked, failing, manifest, with_access};
use crate::apply::engine::{ApplyError, Engine, Manifest, Offered, Outcome, Seconds, Urge};

const LOST: [Lost; 3] = [Lost::Unsynced, Lost::Bytes, Lost::Nothing];

fn offer(engine: &mut Engine, manifest: &Manifest, head: u64, second: i64) -> Result<Outcome, ApplyError> {
    let bytes = manifest.bytes();
    engine.offer(Offered { digest: manifest.digest(), bytes: &bytes, head, urged: None }, at(second))
}

async fn confirm(engine: &mut Engine, manifest: &Manifest, head: u64, second: i64) {
    assert_eq!(offer(engine, manifest, head, second).unwrap(), Outcome::OnTrial);
    assert_eq!(checked(engine, second).await, Outcome::Confirmed);
}

fn one() -> Manifest {
    with_access(manifest(1), &["alice", "bob"])
}

fn two() -> Manifest {
    with_access(manifest(2), &["bob"])
}

/// What is obeyed, whether it is on trial, and what went back; all that the link leads to is whole.
fn found(engine: &Engine, disk: &Forgetful) -> (u8, bool, bool) {
    let current = engine.current().expect("something is obeyed");
    let motd = std::fs::read_to_string(disk.folder.join("state/current/files/etc/motd")).unwrap();
    let number = motd.strip_prefix("number ").unwrap().parse().unwrap();
    let told = current.runs.files.values().next().unwrap();
    assert_eq!(told.content.0, motd.as_bytes(), "the link follows");
    let kept = std::fs::read(disk.folder.join("state/current/manifest.json")).unwrap();
    assert_eq!(kept, current.bytes());
    assert!(engine.access().all().count() > 0 && engine.view().problem.is_none(), "{:?}", engine.view());
    let view = engine.view();
    (number, view.trial.is_some(), view.rolled_back.is_some())
}

/// Prepares a node under number 1, acts with the power failing before the first step, then the second and so on, and
/// says what a start finds each time. It goes on to work afterwards.
async fn walk(prepare: &[&str], act: &[&str], allowed: &[(u8, bool, bool)], at_second: i64) -> usize {
    let mut cuts = 0;
    let mut met = std::collections::BTreeSet::new();
    for lost in LOST {
        for steps in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let disk = Forgetful::at(folder.path().join("scope"));
            let mut engine = Engine::open(&disk.folder, at(0)).unwrap();
            confirm(&mut engine, &one(), 1, 0).await;
            for word in prepare {
                play(&mut engine, word).await;
            }
            disk.settle();
            disk.power_fails_after(steps);
            for word in act {
                play(&mut engine, word).await;
            }
            let failed = !disk.has_power();
            drop(engine);
            let disk = disk.powered_again(lost);
            let mut engine = Engine::open(&disk.folder, at(at_second)).unwrap();
            let state = found(&engine, &disk);
            assert!(allowed.contains(&state), "{lost:?}, step {steps}: {state:?}");
            met.insert(state);
            confirm(&mut engine, &manifest(9), 9, at_second).await;
            drop(engine);
            if !failed {
                break;
            }
            cuts += 1;
        }
    }
    assert_eq!(met.into_iter().collect::<Vec<_>>(), allowed, "each was met");
    cuts
}

async fn play(engine: &mut Engine, word: &str) {
    match word {
        "offer" => drop(offer(engine, &two(), 2, 10)),
        "offer bad" => drop(offer(engine, &failing(two()), 2, 10)),
        "swap" => drop(offer(engine, &with_access(manifest(1), &["alice"]), 2, 10)),
        "confirm" => drop(checked(engine, 20).await),
        "go back" => drop(engine.tick(at(310))),
        "again" => drop(again(engine, Urge { within: Some(Seconds(60)) }, at(311))),
        "withdraw" => drop(offer(engine, &one(), 3, 20)),
        other => panic!("{other}?"),
    }
}

#[tokio::test]
async fn while_something_new_is_taken() {
    let cuts = walk(&[], &["offer"], &[(1, false, false), (2, true, false)], 20).await;
    assert!(cuts > 60, "{cuts}");
}

#[tokio::test]
async fn while_it_is_confirmed() {
    let cuts = walk(&["offer"], &["confirm"], &[(2, false, false), (2, true, false)], 20).await;
    assert!(cuts > 10, "{cuts}");
}

#[tokio::test]
async fn while_it_goes_back() {
    let cuts = walk(&["offer bad"], &["go back"], &[(1, false, true)], 310).await;
    assert!(cuts > 10, "{cuts}");
}

#[tokio::test]
async fn while_access_alone_is_swapped_and_while_a_trial_is_withdrawn() {
    walk(&[], &["swap"], &[(1, false, false)], 20).await;
    walk(&["offer"], &["withdraw"], &[(1, false, false), (2, true, false)], 20).await;
}

#[tokio::test]
async fn while_it_is_tried_again() {
    let cuts = walk(&["offer bad", "go back"], &["again"], &[(1, false, true), (2, true, true)], 320).await;
    assert!(cuts > 10, "{cuts}");
}

/// The start itself is cut, too, again and again, until it is through.
#[tokio::test]
async fn while_it_starts() {
    for lost in LOST {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = Forgetful::at(folder.path().join("scope"));
        let mut engine = Engine::open(&disk.folder, at(0)).unwrap();
        confirm(&mut engine, &one(), 1, 0).await;
        offer(&mut engine, &two(), 2, 10).unwrap();
        drop(engine);
        // As if it had died between the record and the link.
        std::fs::remove_file(disk.folder.join("state/current")).unwrap();
        disk.settle();
        for steps in 0.. {
            disk.power_fails_after(steps);
            drop(Engine::open(&disk.folder, at(400)));
            let failed = !disk.has_power();
            disk = disk.powered_again(lost);
            if !failed {
                assert!(steps > 3, "{steps}");
                break;
            }
        }
        let engine = Engine::open(&disk.folder, at(401)).unwrap();
        assert_eq!(found(&engine, &disk), (1, false, true), "{lost:?}");
    }
}
