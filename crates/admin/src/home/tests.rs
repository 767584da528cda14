//! Which org is meant, by `--org`, by the home, and by a fleet.

use operate::publish::fleet;
use tempfile::TempDir;

use super::*;
use crate::commands::fleet::check::read_fleet;

fn name(text: &str) -> OrgName {
    text.parse().unwrap()
}

/// A home with these orgs, and what was said of it.
fn home(orgs: &[&str], named: Option<&str>) -> (TempDir, Common) {
    let folder = tempfile::tempdir().unwrap();
    for org in orgs {
        std::fs::create_dir_all(folder.path().join(org).join("operator")).unwrap();
    }
    let common = Common {
        home: folder.path().to_owned(),
        org: named.map(name),
        gateway: None,
        passphrase_file: None,
        pending: None,
        as_node: None,
        wide: false,
        unfinished: Unfinished::default(),
        trust_clock: false,
        json: false,
    };
    (folder, common)
}

#[test]
fn a_fleet_says_which_of_several_orgs_is_meant_and_never_another_than_was_named() {
    let (_folder, several) = home(&["harbor", "lagoon"], None);
    assert!(several.org("").is_err());
    assert_eq!(several.about(&name("lagoon")).org("").unwrap(), name("lagoon"));
    assert!(several.about(&name("reef")).org("").is_err());
    let (_folder, named) = home(&["harbor", "lagoon"], Some("harbor"));
    assert_eq!(named.about(&name("lagoon")).org("").unwrap(), name("harbor"));
}

#[test]
fn a_named_org_is_one_of_this_home_and_the_fleets_own() {
    let fleets = tempfile::tempdir().unwrap();
    let fleet = fleets.path().join("fleet");
    let setting = manifest::example::Setting::unknown().unwrap();
    let own = setting.org.to_string();
    fleet::init(&fleet, &setting).unwrap();
    let read = |orgs: &[&str], named: Option<&str>| {
        let (_folder, common) = home(orgs, named);
        read_fleet(&common, Some(&fleet), "").map(|(_, fleet)| fleet.org.name.to_string())
    };
    assert_eq!(read(&[], None).unwrap(), own);
    assert_eq!(read(&[], Some(&own)).unwrap(), own);
    // Nothing is known here that the fleet could be compared with, but the name.
    assert!(read(&[], Some("lagoon")).is_err());
    assert!(read(&["reef"], Some(&own)).is_err());
}
