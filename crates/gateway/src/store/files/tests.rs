//! Parts in turn and out of turn, wrong bytes, and what a sweep leaves.

use super::*;

const DAY: Seconds = Seconds::DAY;

fn store() -> (tempfile::TempDir, Files) {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::at(folder.path().join("files"));
    (folder, files)
}

fn age(path: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * DAY.0);
    File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

fn whole(files: &Files, digest: Digest) -> Vec<u8> {
    let (mut file, length) = files.open(digest).unwrap().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, length);
    bytes
}

#[test]
fn parts_make_a_whole_and_a_repeated_one_changes_nothing() {
    let (_folder, files) = store();
    let bytes = b"an agent in three parts".to_vec();
    let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
    let add = |from: usize, to: usize| files.add_part(digest, size, from as u64, &bytes[from..to]).unwrap();
    assert_eq!(files.missing(digest), Some(0));
    assert_eq!(add(0, 10), 10);
    assert_eq!(add(0, 10), 10, "again");
    assert_eq!(add(15, 23), 10, "out of turn");
    assert_eq!(files.missing(digest), Some(10));
    assert!(!files.has(digest));
    assert_eq!(add(10, 23), size);
    assert_eq!((files.missing(digest), whole(&files, digest)), (None, bytes.clone()));
    assert_eq!(add(0, 5), size, "it is there already");
    assert_eq!(files.list().len(), 1, "no part stays behind");
}

#[test]
fn other_bytes_than_were_said_are_thrown_away() {
    let (_folder, files) = store();
    let digest = Digest::of(b"right");
    let added = files.add_part(digest, 5, 0, b"wrong");
    assert!(matches!(added, Err(FilesError::OtherBytes)));
    assert_eq!((files.missing(digest), files.list().len()), (Some(0), 0));
    assert_eq!(files.add_part(digest, 5, 0, b"right").unwrap(), 5);
}

#[test]
fn what_was_whole_when_it_was_cut_off_is_put_in_place_or_thrown_away() {
    for (there, right) in [(b"right", true), (b"wrong", false)] {
        let (_folder, files) = store();
        let digest = Digest::of(b"right");
        fs::create_dir_all(&files.folder).unwrap();
        fs::write(files.part(digest), there).unwrap();
        assert_eq!(files.missing(digest), Some(5));
        assert_eq!(files.add_part(digest, 5, 4, b"t").is_ok(), right);
        assert_eq!(files.has(digest), right);
        assert!(!files.part(digest).exists());
    }
}

#[test]
fn sizes_and_uploads_are_bounded() {
    let (_folder, files) = store();
    let digest = Digest([1; 32]);
    for size in [0, MAX_FILE + 1, u64::MAX] {
        assert!(matches!(files.add_part(digest, size, 0, b"x"), Err(FilesError::Size)), "{size}");
    }
    for (from, bytes) in [(9, &b"xx"[..]), (u64::MAX, b"x"), (0, &[0; 11])] {
        assert!(matches!(files.add_part(digest, 10, from, bytes), Err(FilesError::BeyondEnd)), "{from}");
    }
    for n in 0..MAX_UPLOADS {
        let n = u8::try_from(n).unwrap();
        assert_eq!(files.add_part(Digest([n; 32]), 10, 0, b"x").unwrap(), 1);
    }
    assert!(matches!(files.add_part(Digest([99; 32]), 10, 0, b"x"), Err(FilesError::Full)));
}

#[test]
fn a_sweep_keeps_what_is_named_and_what_is_young() {
    let (_folder, files) = store();
    let [named, young, old] = [b"named", b"young", b"old-1"].map(|bytes| files.put(bytes).unwrap());
    let asked = files.put(b"asked").unwrap();
    for digest in [named, old, asked] {
        age(&files.path(digest), 30);
    }
    files.add_part(Digest([1; 32]), 10, 0, b"x").unwrap();
    files.add_part(Digest([2; 32]), 10, 0, b"x").unwrap();
    age(&files.part(Digest([2; 32])), 8);
    assert_eq!(files.missing(asked), None, "whoever asks is about to name it");
    let swept = files.sweep(&BTreeSet::from([named]), DAY.times(7));
    assert_eq!(swept, Swept { files: 2, bytes: 6 }, "the old one, and the old upload");
    assert!([named, young, asked].into_iter().all(|digest| files.has(digest)) && !files.has(old));
    assert_eq!(files.missing(Digest([1; 32])), Some(1));
    files.sweep(&BTreeSet::from([named]), Seconds(0));
    assert!(files.has(named) && !files.has(young), "when asked, at once");
    assert_eq!(files.missing(Digest([1; 32])), Some(1), "an upload that goes on is left alone");
}
