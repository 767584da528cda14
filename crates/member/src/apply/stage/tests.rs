//! The shelf on a real folder: modes, folders within folders, drafts, digests.

use identity::text::Bytes;
use manifest::stored::SCHEMA;

use super::*;

fn manifest(files: &[(&str, &str, bool)]) -> Manifest {
    let mut manifest = Manifest::empty(SCHEMA);
    for (name, content, executable) in files {
        let delivered = Delivered { content: Bytes(content.as_bytes().to_vec()), executable: *executable };
        manifest.runs.files.insert(name.parse().unwrap(), delivered);
    }
    manifest
}

fn shelf() -> (tempfile::TempDir, Shelf) {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::open(folder.path().join("state")).unwrap();
    (folder, shelf)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn files_are_private_and_programs_can_be_run() {
    let (_folder, shelf) = shelf();
    let one = manifest(&[("motd", "hello", false), ("bin/deep/check", "#!/bin/sh\n", true), ("bin/deep/x", "", false)]);
    shelf.put(&one, &one.bytes(), one.digest()).unwrap();
    shelf.point(Some(one.digest())).unwrap();
    let files = shelf.folder.join("current/files");
    assert_eq!(fs::read(files.join("motd")).unwrap(), b"hello");
    for (name, expected) in [("motd", 0o600), ("bin", 0o700), ("bin/deep", 0o700), ("bin/deep/check", 0o700)] {
        assert_eq!(mode(&files.join(name)), expected, "{name}");
    }
    assert_eq!(mode(&shelf.folder.join("current/manifest.json")), 0o600);
    assert_eq!(mode(&shelf.folder.join("manifests")), 0o700);
    assert!(shelf.is_whole(&one, one.digest()));
    assert_eq!(shelf.get(one.digest()).unwrap(), Kept { bytes: one.bytes(), manifest: one });
}

#[test]
fn a_folder_that_holds_something_else_is_not_believed_and_is_replaced() {
    let (_folder, shelf) = shelf();
    let (one, two) = (manifest(&[("a", "1", false)]), manifest(&[("a", "2", false)]));
    shelf.put(&one, &one.bytes(), one.digest()).unwrap();
    assert!(matches!(shelf.get(two.digest()), Err(StageError::Odd(_))));
    file::rename(&shelf.place(one.digest()), &shelf.place(two.digest())).unwrap();
    let found = shelf.get(two.digest());
    assert!(matches!(found, Err(StageError::Damaged { source: BadManifest::OtherBytes, .. })), "{found:?}");
    shelf.put(&two, &two.bytes(), two.digest()).unwrap();
    assert_eq!(shelf.get(two.digest()).unwrap().manifest, two);
    assert!(shelf.is_whole(&two, two.digest()) && !shelf.is_whole(&one, two.digest()));
}

#[test]
fn what_a_killed_process_left_of_a_folder_is_in_nobodys_way() {
    let (_folder, shelf) = shelf();
    let one = manifest(&[("a", "1", false)]);
    let draft = shelf.folder.join(SHELF).join(format!("{DRAFT}{}", one.digest()));
    fs::create_dir_all(draft.join("files/b")).unwrap();
    fs::write(draft.join("files/b/stale"), "x").unwrap();
    shelf.put(&one, &one.bytes(), one.digest()).unwrap();
    assert!(!shelf.files(one.digest()).join("b").exists() && !draft.exists());
    fs::create_dir(&draft).unwrap();
    shelf.sweep(&[one.digest()]);
    assert!(!draft.exists() && shelf.get(one.digest()).is_ok());
    shelf.sweep(&[]);
    assert!(shelf.get(one.digest()).is_err());
}

#[test]
fn the_link_says_one_digest_or_nothing() {
    let (_folder, shelf) = shelf();
    assert_eq!(shelf.pointed(), None);
    shelf.point(None).unwrap();
    for n in [1, 2] {
        shelf.point(Some(Digest([n; 32]))).unwrap();
        assert_eq!(shelf.pointed(), Some(Digest([n; 32])));
    }
    shelf.point(None).unwrap();
    assert_eq!(shelf.pointed(), None);
    for odd in ["elsewhere", "manifests/x", "/etc"] {
        let _ = fs::remove_file(shelf.folder.join(LINK));
        std::os::unix::fs::symlink(odd, shelf.folder.join(LINK)).unwrap();
        assert_eq!(shelf.pointed(), None, "{odd}");
    }
}
