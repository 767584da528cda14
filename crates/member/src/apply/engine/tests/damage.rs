//! What others did to the folder, and what a disk does that is full.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use identity::causes::describe;
use trials::faults::SmallDisk;

use super::{Node, at, checked, failing, manifest, with_access};
use crate::apply::engine::{ApplyError, Engine, FOLDER, Manifest, Offered};
use crate::apply::stage::StageError;
use crate::apply::trial::Outcome;

/// One confirmed, and another before it.
async fn with_two() -> Node {
    let mut node = Node::new();
    node.confirm(&with_access(manifest(1), &["alice"]), 1, 10).await;
    node.confirm(&with_access(manifest(2), &["alice", "bob"]), 2, 20).await;
    node
}

fn spoil(node: &Node, number: u8, name: &str, users: &[&str]) {
    let digest = with_access(manifest(number), users).digest();
    let path = node.state().join("manifests").join(digest.to_string()).join(name);
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_damaged_manifest_gives_way_to_the_one_before_and_heals_at_the_next_offer() {
    let node = with_two().await;
    spoil(&node, 2, "manifest.json", &["alice", "bob"]);
    let mut node = node.restart(30);
    assert!(node.is(&with_access(manifest(1), &["alice"])));
    assert_eq!(node.motd().as_deref(), Some("number 1"));
    // Nobody knows what the lost one would have forbidden.
    assert!(!node.may("alice"));
    let back = node.engine.view().rolled_back.unwrap();
    assert!(back.why.contains("damaged"), "{}", back.why);
    let two = with_access(manifest(2), &["alice", "bob"]);
    node.confirm(&two, 2, 40).await;
    assert!(node.is(&two) && node.may("alice"));
}

#[tokio::test]
async fn if_both_are_damaged_nothing_is_obeyed() {
    let node = with_two().await;
    spoil(&node, 2, "manifest.json", &["alice", "bob"]);
    spoil(&node, 1, "manifest.json", &["alice"]);
    let node = node.restart(30);
    assert!(node.engine.current().is_none() && node.motd().is_none() && !node.may("alice"));
}

#[tokio::test]
async fn a_trial_whose_manifest_is_damaged_ends() {
    let mut node = with_two().await;
    node.offer(&with_access(manifest(3), &[]), 3, 30);
    spoil(&node, 3, "manifest.json", &[]);
    let node = node.restart(40);
    assert!(node.is(&with_access(manifest(2), &["alice", "bob"])) && !node.engine.is_on_trial());
}

#[tokio::test]
async fn delivered_files_that_were_changed_are_written_again() {
    let node = with_two().await;
    spoil(&node, 2, "files/etc/motd", &["alice", "bob"]);
    let node = node.restart(30);
    assert_eq!(node.motd().as_deref(), Some("number 2"));
    let path = node.state().join("current/files/etc/motd");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let node = node.restart(40);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_file(&path).unwrap();
    let node = node.restart(50);
    assert_eq!(node.motd().as_deref(), Some("number 2"));
}

#[tokio::test]
async fn without_a_record_what_was_obeyed_is_on_trial_again() {
    for damage in [b"{".as_slice(), b""] {
        let node = with_two().await;
        if damage.is_empty() {
            fs::remove_file(node.state().join("trial.json")).unwrap();
        } else {
            fs::write(node.state().join("trial.json"), damage).unwrap();
        }
        let mut node = node.restart(30);
        let two = with_access(manifest(2), &["alice", "bob"]);
        assert!(node.is(&two) && node.engine.is_on_trial());
        let problem = node.engine.view().problem.unwrap();
        assert!(problem.contains("trial.json") && problem.contains("on trial again"), "{problem}");
        // Told to the disk, too: the next start finds a record.
        node = node.restart(31);
        assert!(node.engine.view().problem.is_none() && node.engine.is_on_trial());
        assert_eq!(node.check(40).await, Outcome::Confirmed);
    }
}

#[tokio::test]
async fn a_link_that_was_moved_or_removed_is_put_back() {
    let node = with_two().await;
    let link = node.state().join("current");
    fs::remove_file(&link).unwrap();
    let node = node.restart(30);
    assert_eq!(node.motd().as_deref(), Some("number 2"));
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("/etc", &link).unwrap();
    let node = node.restart(40);
    assert_eq!(node.motd().as_deref(), Some("number 2"));
    assert!(node.is(&with_access(manifest(2), &["alice", "bob"])));
}

#[tokio::test]
async fn nothing_is_written_or_removed_through_a_link_of_others() {
    let outside = tempfile::tempdir().unwrap();
    let precious = outside.path().join("precious");
    fs::write(&precious, "keep").unwrap();
    let mut node = with_two().await;
    let three = manifest(3);
    let shelf = node.state().join("manifests");
    // Where the draft will be, where the folder will be, and something that is swept.
    for name in [format!(".draft-{}", three.digest()), three.digest().to_string(), "stray".to_owned()] {
        std::os::unix::fs::symlink(outside.path(), shelf.join(name)).unwrap();
    }
    node.confirm(&three, 3, 30).await;
    assert!(node.is(&three) && !shelf.join(three.digest().to_string()).is_symlink());
    assert_eq!(node.on_shelf(), 2);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(precious).unwrap(), "keep");
    // The whole shelf elsewhere: refused, with words.
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join(FOLDER)).unwrap();
    let refused = Engine::open(folder.path(), at(0));
    assert!(matches!(refused, Err(ApplyError::Stage(StageError::Odd(_)))), "{refused:?}");
}

#[tokio::test]
async fn what_cannot_be_put_on_the_shelf_changes_nothing_and_is_taken_later() {
    let mut node = with_two().await;
    let two = with_access(manifest(2), &["alice", "bob"]);
    // A file that is another's folder cannot be written, on any disk.
    let mut odd = manifest(3);
    let file = odd.runs.files.values().next().unwrap().clone();
    odd.runs.files.insert("etc".parse().unwrap(), file);
    let refused = node.try_offer(&odd, 3, 30);
    assert!(matches!(refused, Err(ApplyError::Stage(_))), "{refused:?}");
    assert!(node.is(&two) && node.on_shelf() == 2 && !node.engine.is_on_trial());
    // Nor is the record replaced by one that cannot be written.
    let record = node.state().join("trial.json");
    let good = fs::read(&record).unwrap();
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();
    let refused = node.try_offer(&manifest(4), 3, 30);
    assert!(matches!(refused, Err(ApplyError::Record(_))), "{refused:?}");
    assert!(node.is(&two) && node.on_shelf() == 2 && !node.engine.is_on_trial());
    fs::remove_dir(&record).unwrap();
    fs::write(&record, good).unwrap();
    node.confirm(&manifest(4), 3, 40).await;
}

#[tokio::test]
async fn a_disk_that_takes_no_record_confirms_nothing_and_keeps_nobody_from_going_back() {
    let mut node = with_two().await;
    let two = with_access(manifest(2), &["alice", "bob"]);
    node.offer(&manifest(3), 3, 30);
    let record = node.state().join("trial.json");
    let good = fs::read(&record).unwrap();
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();
    assert_eq!(node.check(40).await, Outcome::Ignored);
    assert!(node.engine.is_on_trial() && node.engine.view().problem.is_some());
    assert_eq!(node.engine.tick(at(330)), Outcome::WentBack);
    assert!(node.is(&two));
    assert_eq!(node.engine.next_wake(at(330)), Some(at(331)));
    fs::remove_dir(&record).unwrap();
    fs::write(&record, good).unwrap();
    node.engine.tick(at(331));
    assert_eq!((node.engine.view().problem, node.engine.next_wake(at(331))), (None, None));
    let node = node.restart(332);
    assert!(node.is(&two) && node.engine.view().rolled_back.is_some());
}

#[tokio::test]
async fn a_guard_that_is_damaged_permits_nothing_until_it_is_offered_again() {
    let mut node = with_two().await;
    let bad = failing(with_access(manifest(3), &["alice"]));
    node.offer(&bad, 3, 30);
    assert_eq!(node.engine.tick(at(330)), Outcome::WentBack);
    assert!(node.may("alice") && !node.may("bob"));
    fs::remove_dir_all(node.state().join("manifests").join(bad.digest().to_string())).unwrap();
    let mut node = node.restart(340);
    assert!(!node.may("alice"));
    assert_eq!(node.offer(&bad, 3, 350), Outcome::NotAgain);
    assert!(node.may("alice") && !node.may("bob"));
}

#[tokio::test]
async fn on_a_full_disk_nothing_new_is_taken_and_what_is_on_trial_still_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::at(folder.path().join("scope"), "1m");
    let mut engine = Engine::open(&disk.folder, at(0)).unwrap();
    let offer = |engine: &mut Engine, manifest: &Manifest, head, second| {
        let bytes = manifest.bytes();
        engine.offer(Offered { digest: manifest.digest(), bytes: &bytes, head, urged: None }, at(second))
    };
    offer(&mut engine, &manifest(1), 1, 10).unwrap();
    assert_eq!(checked(&mut engine, 10).await, Outcome::Confirmed);
    let mut refusals = 0;
    // With room for nothing, for a file, for all but the record: as a whole or not at all.
    for pages in 0.. {
        disk.leave(pages * 4096);
        match offer(&mut engine, &failing(manifest(2)), 2, 20) {
            Ok(outcome) => {
                assert_eq!(outcome, Outcome::OnTrial);
                break;
            }
            Err(why) => {
                assert!(describe(&why).contains("No space left on device"), "{}", describe(&why));
                assert_eq!(engine.current(), Some(&manifest(1)));
                assert_eq!(std::fs::read_dir(disk.folder.join("state/manifests")).unwrap().count(), 1);
                refusals += 1;
            }
        }
    }
    assert!(refusals > 2, "{refusals}");
    disk.leave(0);
    assert_eq!(engine.tick(at(320)), Outcome::WentBack);
    assert_eq!(engine.current(), Some(&manifest(1)));
    assert!(engine.view().problem.unwrap().contains("No space left on device"));
    drop(engine);
    // Started anew on the full disk, it finds the trial over.
    let mut engine = Engine::open(&disk.folder, at(330)).unwrap();
    assert_eq!(engine.current(), Some(&manifest(1)));
    disk.make_room();
    engine.tick(at(331));
    assert_eq!(engine.view().problem, None);
    let motd = std::fs::read_to_string(disk.folder.join("state/current/files/etc/motd")).unwrap();
    assert_eq!(motd, "number 1");
}
