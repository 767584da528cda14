//! Backups that somebody who knows the passphrase, or whom to encrypt to, made to do harm.

use std::fs::File;
use std::os::unix::fs::symlink;

use ground::age::keys::AgeIdentity;
use ground::archive::{Sealer, With};

use super::read::{Backup, Sink};
use super::tar::{TarEntry, TarEntryKind};
use super::*;

fn identity() -> AgeIdentity {
    AgeIdentity::parse("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX").unwrap()
}

fn to() -> To {
    To::Recipients(vec![identity().recipient().unwrap()])
}

fn with() -> With {
    With::Identities(vec![identity()])
}

fn contents(files: &[(&str, u32)], links: &[(&str, &str)]) -> serde_json::Value {
    let file = |(path, mode): &(&str, u32)| serde_json::json!({ "path": path, "mode": mode, "size": 1, "sha256": Digest::of(b"x").to_string() });
    serde_json::json!({
        "schema": 1,
        "org": "harbor",
        "org_id": OrgId([7; 32]).to_string(),
        "made_at": "2030-01-01T00:00:00Z",
        "by": "0",
        "files": files.iter().map(file).collect::<Vec<_>>(),
        "links": links.iter().map(|(path, target)| serde_json::json!({ "path": path, "target": target })).collect::<Vec<_>>(),
    })
}

/// A file of a tar, whole.
fn file(path: &str, body: &[u8]) -> Vec<u8> {
    let size = body.len() as u64;
    let entry = TarEntry { path: path.to_owned(), kind: TarEntryKind::File { size } };
    let header = tar::header(&entry, 0o600, Timestamp::from_unix(0)).unwrap();
    [header, body.to_vec(), tar::padding(size).collect()].concat()
}

fn link(path: &str, target: &str) -> Vec<u8> {
    let entry = TarEntry { path: path.to_owned(), kind: TarEntryKind::Link { target: target.to_owned() } };
    tar::header(&entry, 0o777, Timestamp::from_unix(0)).unwrap()
}

fn sealed(folder: &Path, parts: &[Vec<u8>]) -> PathBuf {
    let path = folder.join("made.tar.age");
    let mut sealer = Sealer::begin(File::create(&path).unwrap(), &to()).unwrap();
    for part in parts {
        sealer.write(part).unwrap();
    }
    sealer.finish().unwrap();
    path
}

/// A list as it is, however bad, and after it what it names: a body of one `x` for each file, and the links.
fn parts(list: &serde_json::Value) -> Vec<Vec<u8>> {
    let all = |name: &str| list[name].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut parts = vec![file(LIST, &serde_json::to_vec(list).unwrap())];
    parts.extend(all("files").map(|item| file(&text(&item["path"]), b"x")));
    parts.extend(all("links").map(|it| link(&text(&it["path"]), &text(&it["target"]))));
    parts.push(tar::END.to_vec());
    parts
}

fn written(folder: &Path, list: &serde_json::Value) -> PathBuf {
    sealed(folder, &parts(list))
}

fn read(path: &Path) -> Result<read::Kept, BackupError> {
    Backup::open(path, &with())?.unpack(|_| Sink::Memory)
}

#[test]
fn a_list_that_reaches_beyond_its_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = contents(&[("operator/a", 0o600)], &[("gateway/node/current", "svids/1")]);
    assert!(read(&written(folder.path(), &good)).is_ok());
    let bad = [
        contents(&[("../operator/a", 0o600)], &[]),
        contents(&[("/etc/cron.d/a", 0o600)], &[]),
        contents(&[("operator/../../a", 0o600)], &[]),
        contents(&[("elsewhere/a", 0o600)], &[]),
        contents(&[("operator", 0o600)], &[]),
        contents(&[("operator/a", 0o600), ("operator/a", 0o600)], &[]),
        contents(&[("operator/a", 0o600), ("operator/a/b", 0o600)], &[]),
        contents(&[("operator/a", 0o4755)], &[]),
        contents(&[("operator/a", 0o666)], &[]),
        contents(&[], &[("operator/a", "/etc")]),
        contents(&[], &[("operator/a", "../../..")]),
        contents(&[], &[("operator", "gateway")]),
        contents(&[("operator/a/b", 0o600)], &[("operator/a", "c")]),
        contents(&[("operator/a", 0o600)], &[("operator/a", "c")]),
    ];
    for list in bad {
        let why = Backup::open(&written(folder.path(), &list), &with()).unwrap_err();
        assert!(matches!(why, BackupError::BadList(_)), "{list}: {why}");
    }
}

#[test]
fn a_file_that_is_not_what_the_list_says_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut list = contents(&[("operator/a", 0o600), ("operator/b", 0o600)], &[]);
    list["files"][1]["sha256"] = Digest::of(b"y").to_string().into();
    let why = read(&written(folder.path(), &list)).unwrap_err();
    assert!(matches!(&why, BackupError::BadItem(path) if path.as_str() == "operator/b"), "{why}");
    list["files"][1]["size"] = 9.into();
    let why = read(&written(folder.path(), &list)).unwrap_err();
    assert!(matches!(&why, BackupError::BadItem(path) if path.as_str() == "operator/b"), "{why}");
}

#[test]
fn the_tar_has_what_the_list_names_once_in_any_order_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let list = contents(&[("operator/a", 0o600), ("operator/b", 0o600)], &[("operator/c", "a")]);
    let [head, a, b, c, end] = parts(&list).try_into().unwrap();
    let with =
        |parts: &[&Vec<u8>]| read(&sealed(folder.path(), &parts.iter().map(|it| (*it).clone()).collect::<Vec<_>>()));
    // Other tools write folders, another order, and more zeros.
    let within = TarEntry { path: "operator/".to_owned(), kind: TarEntryKind::Folder };
    let within = tar::header(&within, 0o700, Timestamp::from_unix(0)).unwrap();
    let zeros = vec![0; 8 << 10];
    assert_eq!(with(&[&head, &a, &b, &c, &end]).unwrap().len(), 2);
    assert_eq!(with(&[&head, &within, &c, &b, &a, &end, &zeros]).unwrap().len(), 2);
    let (more, other) = (file("operator/d", b"x"), link("operator/c", "b"));
    let (out, hard) = (file("../../etc/cron.d/a", b"x"), {
        let mut hard = link("operator/c", "/etc/shadow");
        hard[156] = b'1';
        hard
    });
    let bad: [&[&Vec<u8>]; 14] = [
        &[&head, &a, &b, &end],
        &[&head, &a, &c, &end],
        &[&head, &a, &b, &c, &more, &end],
        &[&head, &a, &b, &c, &out, &end],
        &[&head, &a, &a, &b, &c, &end],
        &[&head, &a, &b, &c, &c, &end],
        &[&head, &head, &a, &b, &c, &end],
        &[&head, &a, &b, &other, &end],
        &[&head, &a, &b, &hard, &end],
        &[&head, &a, &b, &c, &end, &more],
        &[&head, &a, &b, &c],
        &[&a, &head, &b, &c, &end],
        &[&end],
        &[],
    ];
    for parts in bad {
        let why = with(parts).unwrap_err();
        assert!(!matches!(why, BackupError::Io { .. }), "{why}");
    }
    let long = TarEntry { path: LIST.to_owned(), kind: TarEntryKind::File { size: 1 << 32 } };
    let long = tar::header(&long, 0o600, Timestamp::from_unix(0)).unwrap();
    assert!(matches!(with(&[&long]).unwrap_err(), BackupError::BadList(_)), "nothing is allocated for it");
}

#[test]
fn what_lies_in_the_folder_comes_back_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let org = home.path().join("harbor");
    fs::create_dir_all(org.join("operator/signers")).unwrap();
    for name in [
        "known.json",
        "signers/ann.key",
        "files.lock",
        ".known.json.7.draft",
        "x.sock",
        "ledger.db",
        "backup.json",
        "access.log",
        "access.log.1",
    ] {
        fs::write(org.join("operator").join(name), name).unwrap();
    }
    symlink("signers/ann.key", org.join("operator/first")).unwrap();
    let gathered = gather(&org, "operator").unwrap();
    let out = home.path().join("b");
    let origin = |at| BackupOrigin { org: "harbor".parse().unwrap(), org_id: OrgId([7; 32]), at };
    let contents = gathered.write(&out, origin(Timestamp::from_unix(1_900_000_000)), &to()).unwrap();
    let names: Vec<_> = contents.files.iter().map(|item| (item.path.as_str(), item.mode)).collect();
    assert_eq!(names, [("operator/known.json", 0o644), ("operator/signers/ann.key", 0o600)]);
    assert_eq!(contents.links.len(), 1);
    let mut read = Backup::open(&out, &with()).unwrap();
    assert_eq!(read.contents, contents);
    for _ in 0..2 {
        assert_eq!(read.unpack(|_| Sink::Nowhere).unwrap().len(), 0);
    }
    let kept = read.unpack(|_| Sink::Memory).unwrap();
    assert_eq!(&kept[&Inside::new("operator/known.json").unwrap()][..], b"known.json");
    let second = gather(&org, "operator").unwrap().write(&out, origin(contents.made_at), &to());
    assert!(matches!(second.unwrap_err(), BackupError::Exists(_)));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2, "a draft was left");
    symlink("/etc/passwd", org.join("operator/out")).unwrap();
    assert!(matches!(gather(&org, "operator").unwrap_err(), BackupError::LeadsOut(_)));
}
