//! The disk that forgets is what it says, and files written by `ground` outlive a power cut at any step.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use ground::file::{self, FileAccess};
use trials::faults::forgetful::{Forgetful, Lost};

fn disk() -> (tempfile::TempDir, Forgetful) {
    let folder = tempfile::tempdir().unwrap();
    let disk = Forgetful::at(folder.path().join("disk"));
    (folder, disk)
}

#[test]
fn a_disk_that_forgets_is_a_disk_while_it_has_power() {
    let (_folder, disk) = disk();
    let at = |name: &str| disk.folder.join(name);
    fs::create_dir(at("a")).unwrap();
    fs::write(at("a/file"), vec![7; 300_000]).unwrap();
    fs::set_permissions(at("a/file"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(at("a/file")).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read(at("a/file")).unwrap(), vec![7; 300_000]);
    symlink("a/file", at("link")).unwrap();
    assert_eq!(fs::read(at("link")).unwrap().len(), 300_000);
    fs::rename(at("a/file"), at("b")).unwrap();
    assert!(fs::read(at("link")).is_err());
    fs::write(at("b"), "short").unwrap();
    assert_eq!(fs::read_to_string(at("b")).unwrap(), "short");
    for n in 0..300 {
        fs::write(at("a").join(n.to_string()), "").unwrap();
    }
    assert_eq!(fs::read_dir(at("a")).unwrap().count(), 300);
    assert!(fs::remove_dir(at("a")).is_err());
    fs::remove_dir_all(at("a")).unwrap();
    assert!(!at("a").exists());
    let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::os::unix::net::UnixStream::connect(at("socket")).unwrap();
}

#[test]
fn what_was_not_synced_is_gone_after_a_power_cut() {
    let (_folder, disk) = disk();
    let at = |name: &str| disk.folder.join(name);
    for name in ["nothing", "bytes", "both"] {
        fs::write(at(name), "text").unwrap();
    }
    for name in ["bytes", "both"] {
        fs::File::open(at(name)).unwrap().sync_all().unwrap();
    }
    fs::File::open(&disk.folder).unwrap().sync_all().unwrap();
    fs::write(at("late"), "text").unwrap();
    fs::write(at("both"), "newer").unwrap();
    let folder = disk.folder.clone();
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let disk = disk.powered_again(Lost::Nothing);
    assert_eq!(read("late").as_deref(), Some("text"));
    let disk = disk.powered_again(Lost::Unsynced);
    // It came back whole once, so now all of it lasts.
    assert_eq!((read("late").as_deref(), read("both").as_deref()), (Some("text"), Some("newer")));
    fs::write(folder.join("late"), "newest").unwrap();
    fs::write(folder.join("last"), "text").unwrap();
    let disk = disk.powered_again(Lost::Bytes);
    assert_eq!((read("late").as_deref(), read("last").as_deref()), (Some("text"), Some("")));
    fs::write(folder.join("late"), "newest").unwrap();
    fs::write(folder.join("lost"), "text").unwrap();
    let _disk = disk.powered_again(Lost::Unsynced);
    assert_eq!((read("late").as_deref(), read("lost")), (Some("text"), None));
}

/// Cuts the power before each step of something, and looks at what is left. How often it was cut.
fn cut_at_each(lost: Lost, prepare: impl Fn(&Path), act: impl Fn(&Path), look: impl Fn(&Path)) -> usize {
    for steps in 0.. {
        let (_folder, disk) = disk();
        prepare(&disk.folder);
        disk.settle();
        disk.power_fails_after(steps);
        act(&disk.folder);
        let failed = !disk.has_power();
        let disk = disk.powered_again(lost);
        look(&disk.folder);
        if !failed {
            return steps - 1;
        }
    }
    unreachable!("it ends when the power does not fail")
}

#[test]
fn a_file_is_the_old_one_or_the_new_one_whenever_the_power_fails() {
    for lost in [Lost::Unsynced, Lost::Bytes, Lost::Nothing] {
        let cuts = cut_at_each(
            lost,
            |folder| file::write(&folder.join("key"), b"old", FileAccess::Private).unwrap(),
            |folder| {
                let written = file::write(&folder.join("key"), b"newer", FileAccess::Private);
                let found = file::read(&folder.join("key"));
                // What was said to be written is.
                assert!(written.is_err() || found.is_ok_and(|found| found == b"newer"));
            },
            |folder| {
                let found = file::read(&folder.join("key")).unwrap();
                assert!(found == b"old" || found == b"newer", "{lost:?}: {found:?}");
            },
        );
        assert!(cuts >= 4, "made, written, synced, renamed, synced: {cuts}");
    }
}

#[test]
fn a_link_points_at_the_old_one_or_the_new_one_whenever_the_power_fails() {
    for lost in [Lost::Unsynced, Lost::Bytes, Lost::Nothing] {
        cut_at_each(
            lost,
            |folder| file::point_link(&folder.join("current"), Path::new("1")).unwrap(),
            |folder| drop(file::point_link(&folder.join("current"), Path::new("2"))),
            |folder| {
                let target = fs::read_link(folder.join("current")).unwrap();
                assert!(target == Path::new("1") || target == Path::new("2"), "{lost:?}: {target:?}");
            },
        );
    }
}

/// The walks above could fail: a writer that does not sync loses both.
#[test]
fn a_careless_writer_is_caught() {
    let torn = std::cell::Cell::new(0);
    cut_at_each(
        Lost::Bytes,
        |folder| fs::write(folder.join("key"), "old").unwrap(),
        |folder| {
            let draft = folder.join("draft");
            let _ = fs::write(&draft, "newer").and_then(|()| fs::rename(&draft, folder.join("key")));
        },
        |folder| {
            let found = fs::read_to_string(folder.join("key")).unwrap();
            torn.set(torn.get() + usize::from(found != "old" && found != "newer"));
        },
    );
    assert!(torn.get() > 0);
}
