//! Files stay while the release or a live invite names them, and go when nothing does.

use std::fs::File;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use trials::place::{Place, succeeded, text};

use super::{Curl, files, hash_of, mach_o, made_up, stored};

/// Everything that a line names: its first script, and what that names, in the order in which it stands there.
fn named(place: &Place, line: &str) -> Vec<String> {
    let first = hashes(line).remove(0);
    let script = std::fs::read_to_string(place.org().join("gateway/files").join(&first)).unwrap();
    [vec![first], hashes(&script)].concat()
}

fn list_of(place: &Place, line: &str) -> String {
    let script = std::fs::read_to_string(place.org().join("gateway/files").join(&named(place, line)[0])).unwrap();
    script.split("--agents ").nth(1).unwrap()[..64].to_owned()
}

fn hashes(line: &str) -> Vec<String> {
    let hex = |word: &&str| word.len() == 64 && word.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
    line.split(|c: char| !c.is_ascii_alphanumeric()).filter(hex).map(str::to_owned).collect()
}

fn prune(place: &Place) -> Value {
    place.facts(&["release", "prune", "--unused-for", "0s"])
}

#[test]
fn a_new_release_breaks_no_invite() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let old = made_up(&place, "old", &mach_o(), "0.1.0");
    succeeded(&place.freehold(&["release", "add", &old]));
    let invite = place.invite(&[]);
    let line = text(&invite, "line");
    let (hashes, list) = (named(&place, &line), list_of(&place, &line));
    assert!(hashes.len() >= 4 && hashes.contains(&list), "first script, script, root, list: {hashes:?}");
    let new = made_up(&place, "new", &mach_o(), "0.2.0");
    succeeded(&place.freehold(&["release", "add", &new]));
    prune(&place);
    for digest in hashes.iter().chain([&hash_of(&old)]) {
        let out = place.path("out");
        assert_eq!(Curl::new(&place, digest).get(&out).0, "200", "{digest}");
        assert_eq!(hash_of(&out.to_string_lossy()), *digest);
    }
    let read = Curl::new(&place, &list).get(&place.path("list")).1;
    assert!(String::from_utf8(read).unwrap().contains(&hash_of(&old)), "the old line installs the old agent");
    let line = text(&place.invite(&[]), "line");
    assert_ne!(list_of(&place, &line), list, "a new line installs the new one");
    // When the old invite is over, so is what only it named.
    succeeded(&place.freehold(&["invite", "revoke", &text(&invite, "id"), "--yes"]));
    prune(&place);
    assert!(!stored(&place, &hash_of(&old)) && !stored(&place, &list));
    assert!(stored(&place, &hash_of(&new)) && named(&place, &line).iter().all(|it| stored(&place, it)));
}

#[test]
fn an_invite_that_is_used_up_names_nothing_any_more() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let old = made_up(&place, "old", &mach_o(), "0.1.0");
    succeeded(&place.freehold(&["release", "add", &old]));
    let invite = place.invite(&[]);
    succeeded(&place.freehold(&["release", "add", &made_up(&place, "new", &mach_o(), "0.2.0")]));
    prune(&place);
    assert!(stored(&place, &hash_of(&old)));
    succeeded(&place.join("web-1", &text(&invite, "code")));
    prune(&place);
    assert!(!stored(&place, &hash_of(&old)));
}

#[test]
fn the_gateway_sweeps_by_itself_and_leaves_what_is_young() {
    let place = Place::founded(&[]);
    let young = made_up(&place, "young", &mach_o(), "0.2.0");
    succeeded(&place.freehold(&["release", "add", &made_up(&place, "old", &mach_o(), "0.1.0")]));
    let old = hash_of(&place.path("old").to_string_lossy());
    succeeded(&place.freehold(&["release", "add", &young]));
    let newest = made_up(&place, "newest", &mach_o(), "0.3.0");
    succeeded(&place.freehold(&["release", "add", &newest]));
    let month = SystemTime::now() - Duration::from_hours(30 * 24);
    for digest in [&old, &hash_of(&newest)] {
        File::options().write(true).open(files(&place).join(digest)).unwrap().set_modified(month).unwrap();
    }
    let _gateway = place.serve();
    trials::place::until("the old one is gone", || !stored(&place, &old));
    assert!(stored(&place, &hash_of(&newest)), "the release names it");
    assert!(stored(&place, &hash_of(&young)), "it is young");
}
