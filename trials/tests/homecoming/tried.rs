//! New roots are tried, and go back if no gateway can be reached under them; and nothing that kills a machine in the
//! middle leaves it without roots, or with those of the other domain.

use std::collections::BTreeSet;
use std::fs;

use trials::faults::kill_at_each;
use trials::place::{Place, json, openssl, output, succeeded, text, until};

use super::{founder, in_force, rotate, trust, versions};

#[test]
fn a_machine_that_reaches_no_gateway_under_new_roots_goes_back_and_tries_again_when_somebody_wants_it() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let own = founder(&place);
    for domain in ["endpoint", "identity"] {
        // Nobody certifies the gateway's issuing key under the new root.
        succeeded(&place.freehold(&["trust", "publish", domain, "--without", &own]));
        let told = output(place.node_command("web-1", &["sync", "--commit-timeout", "2s", "--json"]));
        drop(told);
        until("it went back", || {
            let _ = output(place.node_command("web-1", &["sync", "--json"]));
            trust(&place, "web-1")[domain]["told"]["refused"].is_object()
        });
        assert_eq!(in_force(&place, "web-1", domain), [1]);
        let why = text(&trust(&place, "web-1")[domain]["told"]["refused"], "why");
        assert!(why.contains("not confirmed in time"), "{why}");
        let others = if domain == "endpoint" { "does not lead" } else { "no certificate for the issuing key" };
        assert!(why.contains(others), "{why}");
        until("the operators are told", || {
            let _ = output(place.node_command("web-1", &["sync"]));
            let shown = place.facts(&["node", "show", "web-1"]);
            shown.to_string().contains("not confirmed in time") && versions(&place, domain, "web-1") == [1]
        });
        let doctor = output(place.node_command("web-1", &["doctor"]));
        let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(told.contains(&format!("new `{domain}` roots went back")), "{told}");
        // The operators take it back, and all is well.
        succeeded(&place.freehold(&["trust", "rollback", domain]));
        succeeded(&output(place.node_command("web-1", &["sync"])));
        assert_eq!(in_force(&place, "web-1", domain), [3]);
        assert!(trust(&place, "web-1")[domain]["told"]["refused"].is_null());
    }
}

/// Fingerprints of the certificates in a file for other programs.
fn roots(place: &Place, domain: &str) -> BTreeSet<String> {
    let pem = fs::read_to_string(place.scope("web-1").join(format!("trust/{domain}.pem"))).unwrap();
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
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    for domain in ["endpoint", "identity"] {
        succeeded(&place.freehold(&["trust", "publish", domain]));
    }
    let before = place.path("before");
    place.copy(&place.root("web-1"), &before);
    let mut kills = 0;
    for call in ["rename", "mkdir", "unlink"] {
        let begin = |_: usize| {
            fs::remove_dir_all(place.root("web-1")).unwrap();
            place.copy(&before, &place.root("web-1"));
            place.node_command("web-1", &["sync"])
        };
        kills += kill_at_each((call, 1), begin, |when| {
            for domain in ["endpoint", "identity"] {
                let (found, known) = (roots(&place, domain), published(&place, domain));
                assert!(!found.is_empty() && found.is_subset(&known), "{call} {when} {domain}: {found:?}");
            }
            // Whatever it was, the next run ends it.
            succeeded(&output(place.node_command("web-1", &["sync"])));
            for domain in ["endpoint", "identity"] {
                assert_eq!(in_force(&place, "web-1", domain), [1, 2], "{call} {when}");
                assert_eq!(roots(&place, domain), published(&place, domain), "{call} {when}");
            }
        });
    }
    assert!(kills > 8, "killed only {kills} times");
}

#[test]
fn a_machine_killed_at_any_step_of_coming_home_comes_home() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    for domain in ["endpoint", "identity"] {
        rotate(&place, domain, 1, &["web-1"]);
    }
    let before = place.path("before");
    place.copy(&place.root("web-1"), &before);
    let begin = |_: usize| {
        fs::remove_dir_all(place.root("web-1")).unwrap();
        place.copy(&before, &place.root("web-1"));
        place.node_command("web-1", &["sync"])
    };
    let kills = kill_at_each(("rename", 1), begin, |when| {
        for domain in ["endpoint", "identity"] {
            let (found, known) = (roots(&place, domain), published(&place, domain));
            assert!(!found.is_empty() && found.is_subset(&known), "{when} {domain}: {found:?}");
        }
        succeeded(&output(place.node_command("web-1", &["sync"])));
        let told = json(&output(place.node_command("web-1", &["trust", "--json"])));
        for domain in ["endpoint", "identity"] {
            assert_eq!(told[domain]["told"]["versions"], serde_json::json!([2]), "{when}");
        }
    });
    assert!(kills > 5, "killed only {kills} times");
}
