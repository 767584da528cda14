//! The command itself is killed at each of its writes, and run again; and two operators run it at the same time.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use trials::faults::kill_at_each;
use trials::place::{Place, Running, below, stderr, succeeded, until};

use super::{agent, in_force, is, last_seen, log_of, serve, states};

/// Where a rotation to version 2 stands: by the roots that lie there, and by the head.
fn moment(place: &Place, domain: &str) -> &'static str {
    let drawn = place.org().join(format!("operator/{domain}-root-2.key")).exists();
    let states = states(place, domain);
    let states: Vec<_> = states.iter().map(|(_, state)| state.as_str()).collect();
    match (drawn, states.as_slice()) {
        (false, ["active"]) => "nothing",
        (true, ["active"]) => "drawn",
        (true, ["active", "staged"]) => "published",
        (true, ["grace", "active"]) => "activated",
        (true, ["retired", "active"]) => "retired",
        _ => panic!("{drawn} {states:?}"),
    }
}

#[test]
fn a_rotation_killed_at_any_of_its_writes_goes_on_when_it_is_run_again() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = serve(&place);
    place.joined("web-1");
    let _agent = agent(&place, "web-1");
    until("it was heard", || !last_seen(&place, "web-1").is_empty());
    let (mut kills, mut moments) = (0, BTreeSet::new());
    for (domain, call) in [("endpoint", "rename"), ("identity", "fsync")] {
        // Whoever finds it done does not begin another one.
        let rotate = |_: usize| match moment(&place, domain) {
            "nothing" | "drawn" => place.freehold_command(&["rotate", domain, "--grace", "0s"]),
            "retired" => place.freehold_command(&["trust", "list"]),
            _ => place.freehold_command(&["rotate", domain, "--continue", "--grace", "0s"]),
        };
        kills += kill_at_each((call, 1), rotate, |when| {
            moments.insert(moment(&place, domain));
            assert!(!in_force(&place, "web-1", domain).is_empty(), "{call} {when}");
        });
        // What is done is not begun again.
        let settled = states(&place, domain);
        is(&settled, &[(1, "retired"), (2, "active")]);
        let roots = below(&place.org().join("operator"));
        let named = |path: &&std::path::PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with(&format!("{domain}-root")) && path.extension().is_some_and(|it| it == "key")
        };
        assert_eq!(roots.iter().filter(named).count(), 2, "a root was drawn twice: {roots:?}");
    }
    assert!(kills > 6, "killed only {kills} times");
    for known in ["drawn", "published", "activated"] {
        assert!(moments.contains(known), "never killed when it was {known}: {moments:?}");
    }
    let seen = last_seen(&place, "web-1");
    until("the node is heard of", || last_seen(&place, "web-1") > seen);
    assert!(!log_of(&place, "web-1").contains("could not check in"), "{}", log_of(&place, "web-1"));
    succeeded(&place.freehold(&["audit", "--verify"]));
}

/// A second operator, with a home and a key of their own.
fn ben(place: &Place) {
    let other = place.path("ben/harbor");
    fs::create_dir_all(&other).unwrap();
    place.copy(&place.org().join("operator"), &other.join("operator"));
    fs::remove_file(place.org().join("operator/signers/ann-2.key")).unwrap();
    fs::remove_file(other.join("operator/signers/ann.key")).unwrap();
}

#[test]
fn two_operators_who_rotate_at_the_same_time_end_with_one_root_in_use() {
    let place = Place::founded(&["--node", "quay", "--signers", "1-of-2"]);
    ben(&place);
    let _gateway = serve(&place);
    place.joined("web-1");
    let _agent: Running = agent(&place, "web-1");
    for domain in ["endpoint", "identity", "endpoint"] {
        let before = states(&place, domain).len();
        let words = ["rotate", domain, "--grace", "0s", "--yes"];
        let mut own = place.freehold_command(&words);
        let own = own.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let others = place.operator("ben", &words);
        let told = own.wait_with_output().unwrap();
        for told in [&told, &others] {
            // Whoever came second is told so, and nothing worse.
            let (code, words) = (told.status.code(), stderr(told));
            assert!(matches!(code, Some(0 | 3 | 5)), "{code:?}: {words}");
            assert!(code != Some(3) || words.contains("hint: "), "{words}");
        }
        // What is left is done by the next run of either.
        until("nothing is under way", || {
            let told = place.freehold(&["rotate", domain, "--continue", "--grace", "0s"]);
            told.status.code() == Some(3) && stderr(&told).contains("nothing is under way")
        });
        let (last, old) = (states(&place, domain), before);
        assert!(last.len() > old, "{last:?}");
        let (now, former) = last.split_last().unwrap();
        assert_eq!(now.1, "active", "{last:?}");
        assert!(former.iter().all(|(_, state)| state == "retired"), "{last:?}");
        until("the node has it", || in_force(&place, "web-1", domain) == [now.0]);
    }
    assert!(!log_of(&place, "web-1").contains("could not check in"), "{}", log_of(&place, "web-1"));
    succeeded(&place.freehold(&["audit", "--verify"]));
}
