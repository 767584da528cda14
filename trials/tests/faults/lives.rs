//! Things that end: the gateway's certificate, the head, the mandate, the issuing certificates. Each is renewed or
//! warned of in time.

use trials::faults::Clock;
use trials::place::{Place, ended, json, openssl, output, stderr, succeeded, text, until};

use super::{agent, log_of, serve};

/// The serial of the certificate that the gateway shows.
fn shown(place: &Place) -> String {
    let told = openssl(place.home().as_path(), &["s_client", "-connect", &place.address(), "-showcerts"]);
    let folder = place.path("shown");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("chain.pem"), told).unwrap();
    openssl(&folder, &["x509", "-in", "chain.pem", "-noout", "-serial", "-enddate"])
}

#[test]
fn a_gateway_renews_its_certificate_at_half_its_life() {
    let place = Place::founded(&[]);
    let clock = Clock::new(place.path("clock"));
    let _gateway = serve(&place, Some(&clock));
    let first = shown(&place);
    place.joined("web-1");
    let running = agent(&place, "web-1", &clock);
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    // A week is its life. Looked at every few seconds: at three days it is left alone, at four it is new.
    clock.set("+3d");
    until("the agent has come back", || place.status("web-1")["problem"].is_null());
    assert_eq!(shown(&place), first);
    assert!(!log_of(&place).contains("renewed the gateway's certificate"));
    clock.set("+4d");
    until("it has renewed it", || log_of(&place).contains("renewed the gateway's certificate"));
    let second = shown(&place);
    assert_ne!(second, first);
    // The agent's connection goes on, and new ones see the new certificate: past the end of the first.
    clock.set("+8d");
    until("it has renewed again", || shown(&place) != second);
    until("the agent is well", || {
        let status = place.status("web-1");
        status["problem"].is_null() && status["state"] == "member"
    });
    assert_eq!(running.stop(), Some(0));
}

#[test]
fn a_gateway_warns_before_the_head_the_mandate_and_its_issuers_end() {
    let place = Place::founded(&[]);
    let clock = Clock::new(place.path("clock"));
    let cases: [(&str, &[&str], &[&str]); 4] = [
        ("+20d", &[], &["fresh only until", "mandate ends soon", "issuing certificate"]),
        ("+24d", &["the head is fresh only until then", "freehold refresh"], &["mandate ends soon"]),
        ("+340d", &["the gateway's mandate ends soon; renew it: freehold refresh"], &["issuing certificate"]),
        ("+364d", &["the gateway's mandate ends soon"], &[]),
    ];
    for (by, expected, absent) in cases {
        clock.set(by);
        let before = log_of(&place).len();
        let gateway = serve(&place, Some(&clock));
        let log = || log_of(&place)[before..].to_owned();
        until("it has looked", || expected.iter().all(|words| log().contains(words)));
        assert!(absent.iter().all(|words| !log().contains(words)), "{by}: {}", log());
        assert_eq!(gateway.stop(), Some(0));
    }
}

#[test]
fn a_head_that_is_no_longer_fresh_lets_nobody_new_in_members_say_so_and_a_refresh_cures_it() {
    let place = Place::founded(&[]);
    let clock = Clock::new(place.path("clock"));
    let gateway = serve(&place, Some(&clock));
    place.joined("web-1");
    let code_file = place.path("code");
    std::fs::write(&code_file, place.code(&["--ttl", "60d"])).unwrap();
    assert_eq!(gateway.stop(), Some(0));
    clock.set("+31d");
    let _gateway = serve(&place, Some(&clock));
    let running = agent(&place, "web-1", &clock);
    until("the agent says so", || {
        let told = place.status("web-1")["problem"].as_str().unwrap_or_default().to_owned();
        told.contains("fresh only until") && told.contains("freehold refresh")
    });
    let words = ["join", "--name", "web-2", "--invite-file", code_file.to_str().unwrap()];
    let join = || output(clock.under(place.node_command("web-2", &words)));
    let told = join();
    ended(&told, 3, "the head is no longer fresh");
    succeeded(&output(clock.under(place.freehold_command(&["refresh"]))));
    until("the agent is well", || place.status("web-1")["problem"].is_null());
    let told = join();
    assert!(told.status.success(), "{}", stderr(&told));
    assert_eq!(running.stop(), Some(0));
}

#[test]
fn a_mandate_that_ended_is_named_and_a_refresh_cures_it() {
    let place = Place::founded(&[]);
    let clock = Clock::off(place.path("clock"), "+366d");
    let told = output(clock.under(place.freehold_command(&["serve", "--listen", &place.address()])));
    ended(&told, 1, "its mandate ended at");
    assert!(stderr(&told).contains("freehold refresh"), "{}", stderr(&told));
    // The operator knows that a year has passed.
    succeeded(&output(clock.under(place.freehold_command(&["refresh", "--trust-clock"]))));
    let _gateway = serve(&place, Some(&clock));
    let invite = output(clock.under(place.freehold_command(&["invite", "create", "--json"])));
    let code_file = place.path("code");
    std::fs::write(&code_file, text(&json(&invite), "code")).unwrap();
    let words = ["join", "--name", "web-1", "--invite-file", code_file.to_str().unwrap()];
    succeeded(&output(clock.under(place.node_command("web-1", &words))));
}

#[test]
fn an_issuing_certificate_that_ends_soon_is_made_anew_when_the_gateway_is_renewed() {
    let place = Place::founded(&["--node", "quay"]);
    let early = place.facts(&["gateway", "renew", "quay", "--lasts", "300d"]);
    assert_eq!(early["certified"], serde_json::json!([]), "it lasts three years");
    let clock = Clock::off(place.path("clock"), "+1050d");
    let told = |words: &[&str]| output(clock.under(place.freehold_command(words)));
    succeeded(&told(&["refresh", "--trust-clock"]));
    let ends = || {
        let status = json(&told(&["status", "--json"]));
        text(&status["gateways"][0], "issuer_until")
    };
    let before = ends();
    let renewed = json(&told(&["gateway", "renew", "quay", "--json"]));
    assert_eq!(renewed["certified"], serde_json::json!(["identity 1", "endpoint 1"]), "{renewed}");
    assert_eq!((&renewed["grant"], &renewed["unknown"]), (&serde_json::Value::Null, &false.into()), "it lies here");
    assert!(ends() > before, "{before}");
    let gateway = serve(&place, Some(&clock));
    assert_eq!(gateway.stop(), Some(0));
}
