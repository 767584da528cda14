//! How long roots and issuing keys last is chosen, and whoever looks is told in time that they end.

use identity::certificate::{self, Validity};
use identity::time::{Seconds, Timestamp};
use trials::faults::Clock;
use trials::place::{Place, ended, output, stderr, stdout, succeeded, text, until};

use crate::faults::{log_of, serve};

const YEAR: Seconds = Seconds::DAY.times(365);

fn validity(place: &Place, file: &str) -> Validity {
    let pem = std::fs::read_to_string(place.org().join(file)).unwrap();
    certificate::read(&certificate::from_pem(&pem).unwrap()[0]).unwrap().validity
}

/// How long a certificate lasts from when it was made.
fn life(place: &Place, file: &str) -> Seconds {
    let Validity { not_before, not_after } = validity(place, file);
    // A little backdated.
    Seconds(not_after.since(not_before).0 - 120)
}

#[test]
fn lifetimes_are_chosen_when_an_org_is_founded_and_when_a_root_is_rotated() {
    let place = Place::founded(&["--root-lifetime", "10y", "--issuer-lifetime", "1y"]);
    for domain in ["identity", "endpoint"] {
        assert_eq!(life(&place, &format!("operator/{domain}-root.pem")), YEAR.times(10));
        assert_eq!(life(&place, &format!("gateway/{domain}-issuer.pem")), YEAR);
    }
    let _gateway = serve(&place, None);
    let lifetimes = ["--root-lifetime", "5y", "--issuer-lifetime", "200d"];
    succeeded(
        &place.freehold(&[&["rotate", "endpoint", "--yes", "--grace", "1d", "--wait", "30s"][..], &lifetimes].concat()),
    );
    assert_eq!(life(&place, "operator/endpoint-root-2.pem"), YEAR.times(5));
    let status = place.facts(&["status"]);
    let issuer: Timestamp = text(&status["gateways"][0], "endpoint_issuer_until").parse().unwrap();
    let now: Timestamp = text(&status, "at").parse().unwrap();
    assert!((Seconds::DAY.times(199)..=Seconds::DAY.times(200)).contains(&issuer.since(now)), "{issuer}");
}

#[test]
fn lifetimes_have_bounds_and_no_issuing_key_outlives_its_root() {
    let place = Place::new();
    let address = place.address();
    let found = |words: &[&str]| {
        place.freehold(&[&["found", "harbor", "--unprotected", "--advertise", &address], words].concat())
    };
    ended(&found(&["--root-lifetime", "30d"]), 2, "a root lasts between 1y and 50y");
    ended(&found(&["--issuer-lifetime", "20y"]), 2, "between 180d and 10y");
    ended(&found(&["--issuer-lifetime", "soon"]), 2, "no span of time");
    let told = found(&["--root-lifetime", "1y", "--issuer-lifetime", "3y"]);
    succeeded(&told);
    assert!(stderr(&told).contains("end with their root"), "{}", stderr(&told));
    let (root, issuer) =
        (validity(&place, "operator/identity-root.pem"), validity(&place, "gateway/identity-issuer.pem"));
    assert_eq!(root.not_after, issuer.not_after);
}

#[test]
fn the_end_of_a_root_is_told_ninety_days_before_by_everybody_who_looks() {
    let place = Place::founded(&["--root-lifetime", "1y", "--issuer-lifetime", "3y"]);
    let clock = Clock::new(place.path("clock"));
    {
        let _gateway = serve(&place, None);
        place.joined("web-1");
    }
    let status = || stdout(&output(clock.under(place.freehold_command(&["status", "--json"]))));
    let doctor = || stdout(&output(clock.under(place.freehold_command(&["doctor", "--json"]))));
    let of_node = || stdout(&output(clock.under(place.node_command("web-1", &["doctor", "--json"]))));
    let soon = "root ends at";
    for told in [status(), doctor(), of_node()] {
        assert!(!told.contains(soon), "a year before: {told}");
    }
    clock.set("+270d");
    assert!(!status().contains(soon), "95 days before");
    clock.set("+280d");
    for told in [status(), doctor(), of_node()] {
        for domain in ["identity", "endpoint"] {
            assert!(told.contains(&format!("the {domain} {soon}")), "{domain}: {told}");
        }
        assert!(told.contains("freehold rotate identity"), "{told}");
    }
    let _gateway = serve(&place, Some(&clock));
    until("the gateway's log says so", || log_of(&place).contains("the root ends soon"));
}
