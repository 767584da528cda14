//! Backups that somebody who knows the passphrase made to do harm.

use std::os::unix::fs::symlink;

use super::*;

fn phrase() -> Passphrase {
    Passphrase::new("p".to_owned())
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

/// Writes a list as it is, however bad, with a body of one `x` for each file.
fn written(folder: &Path, list: &serde_json::Value) -> PathBuf {
    let path = folder.join("made.backup");
    let mut sealer = Sealer::begin(File::create(&path).unwrap(), &phrase()).unwrap();
    let bytes = serde_json::to_vec(list).unwrap();
    sealer.write(&u32::try_from(bytes.len()).unwrap().to_be_bytes()).unwrap();
    sealer.write(&bytes).unwrap();
    sealer.write(&b"x".repeat(list["files"].as_array().unwrap().len())).unwrap();
    sealer.finish().unwrap();
    path
}

#[test]
fn a_list_that_reaches_beyond_its_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = contents(&[("operator/a", 0o600)], &[("gateway/node/current", "svids/1")]);
    assert!(Backup::open(&written(folder.path(), &good), || Ok(phrase())).is_ok());
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
        let why = Backup::open(&written(folder.path(), &list), || Ok(phrase())).unwrap_err();
        assert!(matches!(why, BackupError::BadList(_)), "{list}: {why}");
    }
}

#[test]
fn a_file_that_is_not_what_the_list_says_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut list = contents(&[("operator/a", 0o600), ("operator/b", 0o600)], &[]);
    list["files"][1]["sha256"] = Digest::of(b"y").to_string().into();
    let backup = Backup::open(&written(folder.path(), &list), || Ok(phrase())).unwrap();
    let why = backup.unpack(|_| Sink::Nowhere).unwrap_err();
    assert!(matches!(&why, BackupError::BadItem(path) if path.as_str() == "operator/b"), "{why}");
    list["files"][1]["size"] = 9.into();
    let backup = Backup::open(&written(folder.path(), &list), || Ok(phrase())).unwrap();
    assert!(backup.unpack(|_| Sink::Nowhere).is_err());
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
    let to = home.path().join("b");
    let origin = |at| Origin { org: "harbor".parse().unwrap(), org_id: OrgId([7; 32]), at };
    let contents = gathered.write(&to, origin(Timestamp::from_unix(1_900_000_000)), &phrase()).unwrap();
    let names: Vec<_> = contents.files.iter().map(|item| (item.path.as_str(), item.mode)).collect();
    assert_eq!(names, [("operator/known.json", 0o644), ("operator/signers/ann.key", 0o600)]);
    assert_eq!(contents.links.len(), 1);
    let (read, kept) = Backup::open(&to, || Ok(phrase())).unwrap().unpack(|_| Sink::Memory).unwrap();
    assert_eq!(read, contents);
    assert_eq!(&kept[&Inside::new("operator/known.json").unwrap()][..], b"known.json");
    let second = gather(&org, "operator").unwrap().write(&to, origin(read.made_at), &phrase());
    assert!(matches!(second.unwrap_err(), BackupError::Exists(_)));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2, "a draft was left");
    symlink("/etc/passwd", org.join("operator/out")).unwrap();
    assert!(matches!(gather(&org, "operator").unwrap_err(), BackupError::LeadsOut(_)));
}
