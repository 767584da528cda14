//! The gateway's ledger is put back to a copy from before a turn of trust: what the head names comes back with it.

use std::fs;
use std::path::PathBuf;

use trials::place::{Place, Running, below, stderr, stdout, succeeded, until};

use super::{is, states};

/// An org with one node, and a copy of its gateway's folder.
fn copied() -> (Place, PathBuf) {
    let place = Place::founded(&["--node", "laptop"]);
    let gateway = place.serve();
    place.joined("web-1");
    assert_eq!(gateway.stop(), Some(0));
    let copy = place.path("copy");
    place.copy(&place.org().join("gateway"), &copy);
    (place, copy)
}

fn put_back(place: &Place, copy: &std::path::Path) {
    fs::remove_dir_all(place.org().join("gateway")).unwrap();
    place.copy(copy, &place.org().join("gateway"));
}

/// The node goes on, and says by which versions.
fn goes_by(place: &Place, version: u64) {
    until(&format!("`web-1` goes by endpoint {version}"), || {
        let rows = place.facts(&["trust", "list"]);
        let mut rows = rows.as_array().unwrap().iter();
        let row = rows.find(|row| row["domain"] == "endpoint" && row["trust_bundle_version"] == version).unwrap();
        row["adoption"]["adopted"].as_array().is_some_and(|adopted| adopted.contains(&"web-1".into()))
    });
}

fn served(place: &Place) -> (Running, Running) {
    (place.serve(), place.agent("web-1"))
}

#[test]
fn a_staged_version_is_handed_over_again_and_the_rotation_goes_on() {
    let (place, copy) = copied();
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    put_back(&place, &copy);
    is(&states(&place, "endpoint"), &[(1, "active"), (2, "staged")]);
    place.code(&[]);
    let _running = served(&place);
    goes_by(&place, 2);
    let done = place.facts(&["rotate", "endpoint", "--grace", "30d"]);
    assert_eq!((&done["stands"], &done["trust_bundle_version"]), (&"grace".into(), &2.into()), "{done}");
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn a_version_that_is_alone_by_now_is_handed_over_again_and_nobody_is_cut_off() {
    let (place, copy) = copied();
    {
        let (gateway, _agent) = served(&place);
        place.facts(&["rotate", "endpoint", "--grace", "0s"]);
        is(&states(&place, "endpoint"), &[(1, "retired"), (2, "active")]);
        assert_eq!(gateway.stop(), Some(0));
    }
    put_back(&place, &copy);
    is(&states(&place, "endpoint"), &[(1, "retired"), (2, "active")]);
    let _running = served(&place);
    goes_by(&place, 2);
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    goes_by(&place, 3);
    succeeded(&place.freehold(&["trust", "rollback", "endpoint"]));
    goes_by(&place, 4);
}

#[test]
fn a_home_without_the_bundles_files_has_them_in_its_copy_of_the_ledger() {
    let (place, copy) = copied();
    let kept = place.org().join("operator/bundles");
    succeeded(&place.freehold(&["trust", "publish", "identity"]));
    assert_eq!(below(&kept).len(), 3, "the founders' two, and the new one");
    put_back(&place, &copy);
    fs::remove_dir_all(&kept).unwrap();
    is(&states(&place, "identity"), &[(1, "active"), (2, "staged")]);
    succeeded(&place.freehold(&["trust", "rollback", "identity"]));
}

#[test]
fn a_backup_has_the_bundles_and_says_if_one_is_damaged() {
    let place = Place::founded(&[]);
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    let passphrase = place.passphrase("a long enough passphrase for this");
    let back_up = |name: &str| {
        let out = place.path(name).display().to_string();
        succeeded(&place.freehold(&["backup", "create", "--out", &out, "--backup-passphrase-file", &passphrase]));
        place.freehold(&["backup", "verify", &out, "--backup-passphrase-file", &passphrase])
    };
    succeeded(&back_up("whole"));
    let bundle = below(&place.org().join("operator/bundles")).pop().unwrap();
    fs::write(&bundle, "{}").unwrap();
    let verified = back_up("damaged");
    assert!(!verified.status.success(), "{}", stdout(&verified));
    assert!(stderr(&verified).contains("operator/bundles/"), "{}", stderr(&verified));
}
