//! Root keys: drawn here, kept like the others, taken up again after an interruption, and never in two domains.

use std::fs;

use trials::place::{Place, ended, mode, openssl, refused, stderr, succeeded, text};

use super::{founder, is, states};

#[test]
fn a_new_root_lies_beside_the_old_one_and_has_a_name_of_its_own() {
    let place = Place::founded(&[]);
    let told = place.facts(&["trust", "publish", "endpoint"]);
    let operator = place.org().join("operator");
    assert_eq!(mode(&operator.join("endpoint-root-2.key")), 0o600);
    let subject =
        openssl(&operator, &["x509", "-in", "endpoint-root-2.pem", "-noout", "-subject", "-fingerprint", "-sha256"]);
    assert!(subject.contains("harbor endpoint root 2"), "{subject}");
    let fingerprint = subject.split('=').next_back().unwrap().trim().replace(':', "").to_lowercase();
    assert_eq!(fingerprint, text(&told, "sha256_fingerprint"));
}

#[test]
fn a_new_root_is_sealed_by_the_passphrase_of_the_others_and_a_slip_draws_nothing() {
    let place = Place::new();
    let (right, wrong) = (place.passphrase("correct horse"), place.passphrase("battery staple"));
    let address = place.address();
    succeeded(&place.freehold(&["found", "harbor", "--advertise", &address, "--passphrase-file", &right]));
    let key = place.org().join("operator/identity-root-2.key");
    let slip = place.freehold(&["trust", "publish", "identity", "--passphrase-file", &wrong]);
    assert!(!slip.status.success() && !key.exists(), "{}", stderr(&slip));
    succeeded(&place.freehold(&["trust", "publish", "identity", "--passphrase-file", &right]));
    let sealed = fs::read_to_string(&key).unwrap();
    assert!(sealed.contains("passphrase") && !sealed.contains("unprotected"), "{sealed}");
}

#[test]
fn a_root_that_was_drawn_and_never_published_is_taken_up_again() {
    let place = Place::founded(&[]);
    let operator = place.org().join("operator");
    // As if the command had been killed before it published: drawn elsewhere, and put here.
    let other = Place::founded(&[]);
    succeeded(&other.freehold(&["trust", "publish", "endpoint"]));
    for ending in ["key", "pem"] {
        let name = format!("endpoint-root-2.{ending}");
        place.copy(&other.org().join("operator").join(&name), &operator.join(&name));
    }
    let drawn = fs::read(operator.join("endpoint-root-2.key")).unwrap();
    let told = place.freehold(&["trust", "publish", "endpoint"]);
    succeeded(&told);
    assert!(stderr(&told).contains("taking up the root"), "{}", stderr(&told));
    assert_eq!(fs::read(operator.join("endpoint-root-2.key")).unwrap(), drawn);
    assert!(!operator.join("endpoint-root-3.key").exists(), "no second root is drawn");
    is(&states(&place, "endpoint"), &[(1, "active"), (2, "staged")]);
}

#[test]
fn killed_at_any_moment_a_publish_leaves_one_root_and_goes_on() {
    let place = Place::founded(&[]);
    let operator = place.org().join("operator");
    let keys = || {
        let names = fs::read_dir(&operator).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.strip_prefix("identity-root-").is_some_and(|rest| rest.strip_suffix(".key").is_some()))
            .count()
    };
    let mut cut = 0;
    for pause in (0..60).map(|nth| nth * 3) {
        if states(&place, "identity").len() > 1 {
            break;
        }
        let mut child = place.freehold_command(&["trust", "publish", "identity"]);
        let mut child = child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(pause));
        let _ = child.kill();
        cut += usize::from(!child.wait().unwrap().success());
        assert!(keys() <= 1, "a killed publish draws no second root");
    }
    assert!(cut > 0, "nothing was cut off");
    if states(&place, "identity").len() == 1 {
        let told = place.freehold(&["trust", "publish", "identity"]);
        // What was signed before it was cut off is sent first, and is the very same.
        let sent = stderr(&told).contains("version 2 is staged already");
        assert!(told.status.success() || sent, "{}", stderr(&told));
    }
    assert_eq!(keys(), 1);
    is(&states(&place, "identity"), &[(1, "active"), (2, "staged")]);
    succeeded(&place.freehold(&["audit", "--verify"]));
}

#[test]
fn half_a_root_is_made_whole() {
    let place = Place::founded(&[]);
    let operator = place.org().join("operator");
    let other = Place::founded(&[]);
    succeeded(&other.freehold(&["trust", "publish", "endpoint"]));
    place.copy(&other.org().join("operator/endpoint-root-2.key"), &operator.join("endpoint-root-2.key"));
    let drawn = fs::read(operator.join("endpoint-root-2.key")).unwrap();
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    assert_eq!(fs::read(operator.join("endpoint-root-2.key")).unwrap(), drawn);
    assert!(operator.join("endpoint-root-2.pem").exists());
}

#[test]
fn after_a_theft_no_root_is_taken_up_that_lay_there_before() {
    let place = Place::founded(&[]);
    let operator = place.org().join("operator");
    let other = Place::founded(&[]);
    succeeded(&other.freehold(&["trust", "publish", "identity"]));
    for ending in ["key", "pem"] {
        let name = format!("identity-root-2.{ending}");
        place.copy(&other.org().join("operator").join(&name), &operator.join(&name));
    }
    let told = place.freehold(&["rotate", "identity", "--compromised", "--confirm", "harbor", "--no-wait"]);
    assert!(!stderr(&told).contains("taking up"), "{}", stderr(&told));
    is(&states(&place, "identity"), &[(1, "retired"), (2, "active")]);
    assert!(operator.join("identity-root-3.key").exists(), "a fresh one was drawn");
    // Nor is it later.
    let told = place.freehold(&["trust", "publish", "identity"]);
    succeeded(&told);
    assert!(!stderr(&told).contains("taking up"), "{}", stderr(&told));
    assert!(operator.join("identity-root-4.key").exists());
}

#[test]
fn the_other_domains_root_is_refused_and_so_is_one_that_is_in_use() {
    let place = Place::founded(&[]);
    let operator = place.org().join("operator");
    for ending in ["key", "pem"] {
        let from = operator.join(format!("endpoint-root.{ending}"));
        place.copy(&from, &operator.join(format!("identity-root-2.{ending}")));
    }
    refused(&place.freehold(&["trust", "publish", "identity"]), "stands in version 1 of the `endpoint` bundle");
    is(&states(&place, "identity"), &[(1, "active")]);
}

#[test]
fn a_backup_holds_every_root_and_says_when_one_is_missing() {
    let place = Place::founded(&[]);
    let passphrase = place.passphrase("for the backup");
    let operator = place.org().join("operator");
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    let founder = founder(&place);
    succeeded(&place.freehold(&["trust", "activate", "endpoint", "--anyway", &founder]));
    let verify = |name: &str| {
        let file = place.path(name).to_string_lossy().into_owned();
        succeeded(&place.freehold(&["backup", "create", "--out", &file, "--backup-passphrase-file", &passphrase]));
        place.freehold(&["backup", "verify", &file, "--backup-passphrase-file", &passphrase, "--json"])
    };
    let whole = trials::place::json(&verify("whole.backup"));
    assert_eq!((whole["roots"].as_bool(), whole["root_keys"].as_array().unwrap().len()), (Some(true), 3), "{whole}");
    // Another key than its certificate's.
    let key = operator.join("endpoint-root-2.key");
    let right = fs::read(&key).unwrap();
    fs::write(&key, fs::read(operator.join("endpoint-root.key")).unwrap()).unwrap();
    let file = place.path("wrong.backup").to_string_lossy().into_owned();
    let _ = place.freehold(&["backup", "create", "--out", &file, "--backup-passphrase-file", &passphrase]);
    let wrong = place.freehold(&["backup", "verify", &file, "--backup-passphrase-file", &passphrase]);
    ended(&wrong, 1, "it is not the key of the certificate beside it");
    // Kept elsewhere.
    fs::remove_file(&key).unwrap();
    assert_eq!(trials::place::json(&verify("without.backup"))["roots"], false);
    fs::write(&key, right).unwrap();
}
