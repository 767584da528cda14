//! Machines that were off while everything changed.

use trials::faults::Clock;
use trials::place::{Place, output, stderr, succeeded, until};

use super::{find, founder, in_force, rotate, trust};

/// Everything turns twice, and the signers three times, while nobody tells `web-1`.
fn turned(place: &Place, off: &[&str]) {
    let mut signers = vec!["ann".to_owned()];
    for round in 1..=2 {
        for domain in ["endpoint", "identity"] {
            rotate(place, domain, round, off);
        }
        let next = format!("ann-{}", round + 1);
        let words = ["signer", "replace", signers.last().unwrap(), &next, "--unprotected", "--yes"];
        succeeded(&place.freehold(&words));
        signers.push(next);
    }
    let words = ["signer", "replace", signers.last().unwrap(), "ann-4", "--unprotected", "--yes"];
    succeeded(&place.freehold(&words));
}

#[test]
fn a_machine_off_during_two_rotations_of_both_roots_and_three_of_the_signers_comes_back_by_itself() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    for name in ["web-1", "web-2", "web-3"] {
        place.joined(name);
    }
    turned(&place, &["web-1", "web-2", "web-3"]);
    assert_eq!(in_force(&place, "web-1", "endpoint"), [1], "it was off");
    let own = founder(&place);

    // The agent.
    let agent = place.agent("web-1");
    until("it is back", || {
        let status = place.status("web-1");
        status["last_check_in"].is_string() && status["head"].as_u64().is_some() && status["problem"].is_null()
    });
    let told = trust(&place, "web-1");
    for domain in ["endpoint", "identity"] {
        assert_eq!(in_force(&place, "web-1", domain), [3], "{told}");
    }
    assert_eq!(told["svids"][0]["roots"].as_array().unwrap().len(), 1);
    until("the operators read it", || {
        let shown = place.facts(&["node", "show", "web-1"]);
        find(&shown, "trust").is_some_and(|trust| trust["endpoint"]["versions"] == serde_json::json!([3]))
    });
    assert_eq!(agent.stop(), Some(0));

    // A person, without an agent; and one who leaves.
    let doctor = output(place.node_command("web-2", &["doctor"]));
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(told.contains("answers under roots that this machine has not taken yet"), "{told}");
    assert_eq!(in_force(&place, "web-2", "endpoint"), [1], "a doctor changes nothing");
    succeeded(&output(place.node_command("web-2", &["sync"])));
    assert_eq!(in_force(&place, "web-2", "identity"), [3]);
    succeeded(&output(place.node_command("web-3", &["leave", "--yes"])));
    until("it has left", || place.state_of("web-3").as_deref() != Some("member"));

    // The gateway's own machine went along, also after a restart.
    drop(gateway);
    let _gateway = place.serve();
    until("the gateway's machine is well", || {
        let shown = place.facts(&["node", "show", &own]);
        find(&shown, "trust").is_some_and(|trust| trust["identity"]["versions"] == serde_json::json!([3]))
    });
}

#[test]
fn a_machine_whose_clock_was_never_set_comes_home_and_says_by_how_much_it_is_behind() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    rotate(&place, "endpoint", 1, &["web-1"]);
    rotate(&place, "identity", 1, &["web-1"]);
    let clock = Clock::off(place.path("clock"), "-73h");
    let mut command = clock.under(place.node_command("web-1", &["run"]));
    let _agent = trials::place::Running(command.stderr(std::process::Stdio::null()).spawn().unwrap());
    until("it is back, and says what is wrong", || {
        let problem = place.status("web-1")["problem"].as_str().unwrap_or_default().to_owned();
        in_force(&place, "web-1", "endpoint") == [2]
            && problem.contains("this machine's clock is at least 3 days behind")
    });
    let doctor = output(clock.under(place.node_command("web-1", &["doctor"])));
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned() + &stderr(&doctor);
    assert!(told.contains("slow"), "{told}");
}
