//! New roots are tried, and go back if no gateway can be reached under them; and nothing that kills a machine in the
//! middle leaves it without roots, or with those of the other domain.

use std::collections::BTreeSet;
use std::fs;

use identity::bundle::{Endpoint, Identity};
use trials::faults::kill_at_each;
use trials::place::{Place, ended, openssl, output, succeeded, text};

use super::{in_force, rotate, trust};
use crate::trust::present::{NewRoot, Turner};

#[test]
fn a_machine_that_reaches_no_gateway_under_new_roots_goes_back_and_tries_again_when_somebody_wants_it() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let sync = |words: &[&str]| output(place.node_command("web-1", &[&["sync"], words].concat()));
    for (domain, lacks) in [("endpoint", "root"), ("identity", "has no certificate for the issuing key of")] {
        // Nobody certified the gateway's issuing key under the new root.
        let turner = Turner::at(&place);
        match domain {
            "endpoint" => turner.publish(&NewRoot::<Endpoint>::make(), &[]),
            _ => turner.publish(&NewRoot::<Identity>::make(), &[]),
        };
        ended(&sync(&["--commit-timeout", "2s"]), 4, &format!("went back from new `{domain}` roots"));
        let told = trust(&place, "web-1");
        assert_eq!(in_force(&place, "web-1", domain), [1]);
        let why = text(&told[domain]["told"]["refused"], "why");
        assert!(why.contains("not confirmed in time") && why.contains(lacks), "{why}");
        assert_eq!(told[domain]["versions"][1]["here"], "not taken");
        // The operators are told, and it is not tried again by itself.
        let shown = place.facts(&["node", "show", "web-1"]);
        assert_eq!(text(&shown["report"]["trust"][domain]["refused"], "why"), why);
        ended(&sync(&[]), 4, "went back");
        assert_eq!(
            text(&trust(&place, "web-1")[domain]["told"]["refused"], "at"),
            text(&told[domain]["told"]["refused"], "at")
        );
        let doctor = output(place.node_command("web-1", &["doctor"]));
        let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(told.contains(&format!("new `{domain}` roots went back")), "{told}");
        // They take it back, and all is well.
        succeeded(&place.freehold(&["trust", "rollback", domain]));
        succeeded(&sync(&[]));
        assert_eq!(in_force(&place, "web-1", domain), [3]);
        assert!(trust(&place, "web-1")[domain]["told"]["refused"].is_null());
    }
}

/// Fingerprints of the certificates in a file for other programs.
fn roots(place: &Place, node: &str, domain: &str) -> BTreeSet<String> {
    let pem = fs::read_to_string(place.scope(node).join(format!("trust/{domain}.pem"))).unwrap();
    let mut found = BTreeSet::new();
    for one in pem.split_inclusive("-----END CERTIFICATE-----\n") {
        let file = place.path("one.pem");
        fs::write(&file, one).unwrap();
        let told = openssl(place.path("").as_path(), &["x509", "-in", "one.pem", "-noout", "-fingerprint", "-sha256"]);
        found.insert(told.split('=').next_back().unwrap().trim().replace(':', "").to_lowercase());
    }
    found
}

fn published(place: &Place, domain: &str) -> BTreeSet<String> {
    let rows = place.facts(&["trust", "list"]);
    let own = rows.as_array().unwrap().iter().filter(|row| row["domain"] == domain);
    own.map(|row| text(row, "sha256_fingerprint")).collect()
}

#[test]
fn a_machine_killed_at_any_step_of_taking_roots_has_roots_of_the_right_domain_and_ends_well() {
    const MANY: usize = 24;
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let calls = ["rename", "mkdir", "unlink"];
    let code = place.code(&["--uses", &(MANY * calls.len()).to_string()]);
    // A machine for each step: a copy of one that renewed already would be taken for a clone.
    let name = |call: &str, when: usize| format!("{call}-{when}");
    for call in calls {
        for when in 1..=MANY {
            succeeded(&place.join(&name(call, when), &code));
        }
    }
    for domain in ["endpoint", "identity"] {
        succeeded(&place.freehold(&["trust", "publish", domain]));
    }
    let mut kills = 0;
    for call in calls {
        let begin = |when: usize| place.node_command(&name(call, when), &["sync"]);
        kills += kill_at_each((call, 1), begin, |when| {
            let node = name(call, when);
            for domain in ["endpoint", "identity"] {
                let (found, known) = (roots(&place, &node, domain), published(&place, domain));
                assert!(!found.is_empty() && found.is_subset(&known), "{call} {when} {domain}: {found:?}");
            }
            // Whatever it was, the next run ends it.
            succeeded(&output(place.node_command(&node, &["sync"])));
            for domain in ["endpoint", "identity"] {
                assert_eq!(in_force(&place, &node, domain), [1, 2], "{call} {when}");
                assert_eq!(roots(&place, &node, domain), published(&place, domain), "{call} {when}");
            }
        });
    }
    assert!(kills > 8, "killed only {kills} times");
}

/// Here, too, a machine for each step.
#[test]
fn a_machine_killed_at_any_step_of_coming_home_comes_home() {
    const MANY: usize = 30;
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let names: Vec<String> = (1..=MANY).map(|n| format!("web-{n}")).collect();
    let uses = MANY.to_string();
    let code = place.code(&["--uses", &uses]);
    for name in &names {
        succeeded(&place.join(name, &code));
    }
    let off: Vec<&str> = names.iter().map(String::as_str).collect();
    for domain in ["endpoint", "identity"] {
        rotate(&place, domain, 1, &off);
    }
    let kills = kill_at_each(
        ("rename", 1),
        |when| place.node_command(&names[when - 1], &["sync"]),
        |when| {
            let name = &names[when - 1];
            for domain in ["endpoint", "identity"] {
                let (found, known) = (roots(&place, name, domain), published(&place, domain));
                assert!(!found.is_empty() && found.is_subset(&known), "{when} {domain}: {found:?}");
            }
            succeeded(&output(place.node_command(name, &["sync"])));
            for domain in ["endpoint", "identity"] {
                assert_eq!(in_force(&place, name, domain), [2], "{when}");
            }
        },
    );
    assert!(kills > 5, "killed only {kills} times");
}
