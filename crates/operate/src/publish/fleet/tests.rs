//! Which files are the fleet, and that nothing leads out of its folder.

use std::os::unix::fs::symlink;

use super::*;

fn scene(files: &[(&str, &str)]) -> (tempfile::TempDir, FleetFolder) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join("fleet").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let found = FleetFolder::find(Some(&folder.path().join("fleet"))).unwrap();
    (folder, found)
}

#[test]
fn sources_are_found_in_order_and_nothing_else_is_read() {
    let (_folder, fleet) = scene(&[
        ("z.yaml", "z"),
        ("a/b.yml", "b"),
        ("a.json", "{}"),
        ("README.md", ""),
        (".git/config.yaml", ""),
        (".hidden.yaml", ""),
        ("files/app.yaml", ""),
        ("a/files/app.yaml", "x"),
    ]);
    let names: Vec<_> = fleet.sources().unwrap().into_iter().map(|file| file.path).collect();
    assert_eq!(names, ["a.json", "a/b.yml", "a/files/app.yaml", "z.yaml"]);
}

#[test]
fn links_stay_within_the_folder_or_are_refused() {
    let (folder, fleet) = scene(&[("a.yaml", "a"), ("files/motd", "hello")]);
    fs::write(folder.path().join("secret.yaml"), "x").unwrap();
    symlink("a.yaml", fleet.root().join("b.yaml")).unwrap();
    // A loop of folders ends nothing, since links to folders are not followed.
    symlink("..", fleet.root().join("loop")).unwrap();
    assert_eq!(fleet.sources().unwrap().len(), 2);
    symlink("../secret.yaml", fleet.root().join("c.yaml")).unwrap();
    assert!(matches!(fleet.sources(), Err(FleetError::LeadsOut(_))));
    symlink("../../secret.yaml", fleet.root().join("files/secret")).unwrap();
    assert_eq!(fleet.attached(&"files/motd".parse().unwrap()).unwrap(), b"hello");
    assert!(matches!(fleet.attached(&"files/secret".parse().unwrap()), Err(FleetError::LeadsOut(_))));
    assert!(fleet.attached(&"files".parse().unwrap()).is_err());
    assert!(fleet.attached(&"files/none".parse().unwrap()).is_err());
}

#[test]
fn what_is_named_like_a_file_of_the_fleet_must_be_one() {
    let (_folder, fleet) = scene(&[("a.yaml", "a"), ("d/b.yaml", "b")]);
    let there = |name: &str| fleet.root().join(name);
    let refused = |name: &str| {
        assert!(matches!(fleet.sources(), Err(FleetError::NotAFile(path)) if path == there(name)), "{name}");
        fs::remove_file(there(name)).unwrap();
    };
    let made = std::process::Command::new("mkfifo").arg(there("pipe.yaml")).status().unwrap();
    assert!(made.success());
    refused("pipe.yaml");
    let socket = std::os::unix::net::UnixListener::bind(there("socket.yml")).unwrap();
    refused("socket.yml");
    drop(socket);
    symlink("d", there("link.json")).unwrap();
    refused("link.json");
    assert_eq!(fleet.sources().unwrap().len(), 2);
}

#[test]
fn a_folder_that_is_no_fleet_ends_in_words() {
    let (_folder, fleet) = scene(&[("big.yaml", &"#".repeat(MAX_FILE_BYTES + 10))]);
    let complaints = fleet.read(&[]).unwrap().unwrap_err();
    assert!(complaints[0].message.contains("are read at most"), "{}", complaints[0]);
    let deep = "d/".repeat(MAX_DEPTH + 2);
    let (_folder, fleet) = scene(&[(&format!("{deep}a.yaml"), "")]);
    assert!(matches!(fleet.read(&[]), Err(FleetError::TooMany(_))));
    assert!(matches!(FleetFolder::find(Some(Path::new("/nowhere/at/all"))), Err(FleetError::NoFolder(_))));
}

#[test]
fn the_example_is_written_once_and_is_well() {
    let folder = tempfile::tempdir().unwrap();
    let setting = Setting::unknown().unwrap();
    let written = init(folder.path(), &setting).unwrap();
    assert!(written.contains(&"files/motd.txt".to_owned()));
    let (_, warnings) = FleetFolder::find(Some(folder.path())).unwrap().read(&[]).unwrap().unwrap();
    assert_eq!(warnings, []);
    let before = fs::read(folder.path().join("org.yaml")).unwrap();
    assert!(matches!(init(folder.path(), &setting), Err(FleetError::AlreadyThere(_))));
    assert_eq!(fs::read(folder.path().join("org.yaml")).unwrap(), before);
}
