//! Clocks that are wrong by a year, either way, on each side: clear words, nothing signed or issued by them that
//! lasts, and all is well when the clock is right again.

use trials::faults::Clock;
use trials::place::{Place, ended, output, refused, stderr, stdout, succeeded, text, until};

use super::{agent, counter, log_of, serve};

const YEAR: [&str; 2] = ["+365d", "-365d"];

/// A founded org, a gateway with the right time, and a clock that is not.
fn scene(by: &str) -> (Place, Clock) {
    let place = Place::founded(&[]);
    let clock = Clock::off(place.path("clock"), by);
    (place, clock)
}

#[test]
fn a_machine_with_a_wrong_clock_is_told_so_and_joins_when_it_is_right() {
    for by in YEAR {
        let (place, clock) = scene(by);
        let _gateway = serve(&place, None);
        let code_file = place.path("code");
        std::fs::write(&code_file, place.code(&[])).unwrap();
        let words = ["join", "--name", "web-1", "--invite-file", code_file.to_str().unwrap()];
        let join = || output(clock.under(place.node_command("web-1", &words)));
        let told = join();
        refused(&told, "this machine's clock and that of the gateway at");
        assert!(stderr(&told).contains("days apart"), "{}", stderr(&told));
        assert!(stderr(&told).contains("set the clock that is wrong"), "{}", stderr(&told));
        assert!(!place.scope("web-1").exists(), "nothing is left behind");
        clock.set("+0");
        succeeded(&join());
        assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    }
}

#[test]
fn a_machine_whose_clock_is_off_by_less_than_a_certificates_life_is_told_before_a_use_is_spent() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let invite = place.invite(&["--uses", "2"]);
    let code_file = place.path("code");
    std::fs::write(&code_file, text(&invite, "code")).unwrap();
    let clock = Clock::off(place.path("clock"), "+2d");
    let join = |name: &str| {
        let words = ["join", "--name", name, "--invite-file", code_file.to_str().unwrap()];
        output(clock.under(place.node_command(name, &words)))
    };
    let told = join("web-1");
    refused(&told, "which is over here: this machine's clock");
    // It is the one that is wrong, but nobody can know that by it.
    assert!(stderr(&told).contains("nothing that was signed tells which of the two is wrong"), "{}", stderr(&told));
    assert!(stderr(&told).contains("hint: compare `date -u` here"), "{}", stderr(&told));
    assert_eq!(place.spent(&text(&invite, "id")), 0);
    clock.set("+0");
    succeeded(&join("web-1"));
    // A minute or so harms nobody.
    clock.set("-90s");
    succeeded(&join("web-2"));
    assert_eq!(place.spent(&text(&invite, "id")), 2);
}

#[test]
fn an_agent_whose_clock_goes_wrong_keeps_its_keys_and_goes_on_when_it_is_right() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    place.joined("web-1");
    let clock = Clock::new(place.path("clock"));
    let running = agent(&place, "web-1", &clock);
    let status = || place.status("web-1");
    until("it has checked in", || status()["last_check_in"].is_string());
    // A clock that is behind is no obstacle: what the operators signed last is in the past.
    for (by, apart) in [("+365d", "days apart"), ("-365d", "days behind"), ("-3h", "hours behind")] {
        clock.set(by);
        until("it says what is wrong", || status()["problem"].as_str().is_some_and(|told| told.contains(apart)));
        clock.set("+0");
        until("it is well again", || status()["problem"].is_null());
    }
    assert_eq!((status()["state"].as_str(), counter(&place, "web-1")), (Some("member"), 1), "nothing was renewed");
    assert_eq!(running.stop(), Some(0));
    assert!(place.facts(&["node", "show", "web-1"])["alarm"].is_null());
}

#[test]
fn an_agent_whose_clock_is_ahead_does_not_renew_without_end() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    place.joined("web-1");
    let clock = Clock::off(place.path("clock"), "+18h");
    let running = agent(&place, "web-1", &clock);
    until("it is told", || {
        place.status("web-1")["problem"].as_str().is_some_and(|told| told.contains("hours ahead of the gateway's"))
    });
    until("it has renewed", || counter(&place, "web-1") == 2);
    // Its check-ins go on.
    let mut seen = std::collections::BTreeSet::new();
    until("it has checked in five times", || {
        seen.extend(place.status("web-1")["last_check_in"].as_str().map(str::to_owned));
        seen.len() >= 5
    });
    assert_eq!(counter(&place, "web-1"), 2, "an SVID that seems due as soon as it is there is not renewed each time");
    assert_eq!(running.stop(), Some(0));
}

#[test]
fn a_gateway_with_a_wrong_clock_does_not_serve_and_says_which_times_do_not_fit() {
    for (by, why) in [("+365d", "its mandate ended at"), ("-365d", "its mandate begins at")] {
        let (place, clock) = scene(by);
        let told = output(clock.under(place.freehold_command(&["serve", "--listen", &place.address()])));
        ended(&told, 1, why);
        let told = stderr(&told);
        assert!(told.contains("and this machine's clock says") && told.contains("clock right?"), "{told}");
        clock.set("+0");
        let _gateway = serve(&place, Some(&clock));
        place.joined("web-1");
    }
}

#[test]
fn a_gateway_whose_clock_goes_wrong_issues_nothing_that_lasts_and_is_believed_again_when_it_is_right() {
    let (place, clock) = scene("+0");
    let _gateway = serve(&place, Some(&clock));
    place.joined("web-1");
    let code = place.code(&[]);
    let running = place.agent("web-1");
    let status = || place.status("web-1");
    until("it has checked in", || status()["last_check_in"].is_string());
    // Within its mandate, so that only the others can tell. Its certificate is made anew by the wrong clock.
    clock.set("+300d");
    let own = || place.org().join("gateway/node");
    let own_counter = || std::fs::read_link(own().join("current")).unwrap();
    let before = own_counter();
    until("it has a certificate from the future", || log_of(&place).contains("renewed the gateway's certificate"));
    refused(&place.join("web-2", &code), "days apart");
    until("its own node, which believes the same clock, has renewed", || own_counter() != before);
    let future = own_counter();
    clock.set("+0");
    until("a machine joins again", || place.join("web-2", &code).status.success());
    until("the agent is well", || status()["problem"].is_null());
    assert_eq!((status()["state"].as_str(), counter(&place, "web-1")), (Some("member"), 1), "it took nothing");
    // Its own SVID is from the future: it comes back by its node key.
    until("its own node is well", || own_counter() != future);
    trials::place::openssl(&own(), &["x509", "-in", "svid.pem", "-noout", "-checkend", "0"]);
    let nodes = place.facts(&["node", "list"]);
    assert!(nodes.as_array().unwrap().iter().all(|node| node["alarm"].is_null()), "{nodes}");
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
    assert_eq!(running.stop(), Some(0));
}

#[test]
fn a_gateway_whose_clock_falls_behind_has_no_node_set_its_own() {
    let (place, clock) = scene("+0");
    let _gateway = serve(&place, Some(&clock));
    place.joined("web-1");
    let running = place.agent("web-1");
    let problem = || place.status("web-1")["problem"].as_str().unwrap_or_default().to_owned();
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    clock.set("-3h");
    until("it says whose clock is wrong", || problem().contains("the clock of the gateway"));
    assert!(problem().contains("leave this machine's as it is"), "{}", problem());
    clock.set("+0");
    until("the agent is well", || place.status("web-1")["problem"].is_null());
    assert_eq!(running.stop(), Some(0));
}

#[test]
fn a_joiner_that_meets_a_mandate_out_of_force_by_the_gateways_clock_hears_of_both_clocks() {
    let (place, clock) = scene("+0");
    let _gateway = serve(&place, Some(&clock));
    let code = place.code(&[]);
    // Beyond its mandate: its certificate, which it cannot renew by that clock, is still good here.
    clock.set("+500d");
    let told = place.join("web-1", &code);
    refused(&told, "the gateway's mandate is not in force");
    let told = stderr(&told);
    assert!(told.contains("500 days behind the gateway's") || told.contains("499 days behind the gateway's"), "{told}");
    assert!(told.contains("hint: compare `date -u` here and on"), "{told}");
    clock.set("+0");
    until("it joins", || place.join("web-1", &code).status.success());
}

#[test]
fn an_operator_with_a_wrong_clock_signs_nothing() {
    for (by, here) in [("+365d", "after the newest that is known"), ("-365d", "before the newest that is known")] {
        let (place, clock) = scene(by);
        let head = place.facts(&["refresh"])["head"].clone();
        let before = place.facts(&["audit"]);
        let run = |words: &[&str]| output(clock.under(place.freehold_command(words)));
        // Alone with the folder: against what was known before.
        for words in [&["refresh"][..], &["invite", "create"], &["node", "list"], &["refresh"]] {
            let told = run(words);
            // Looking harms nobody, and teaches nothing.
            let expected = if words.contains(&"list") { 0 } else { 3 };
            assert_eq!(told.status.code(), Some(expected), "{words:?}: {}{}", stdout(&told), stderr(&told));
        }
        let told = run(&["refresh"]);
        refused(&told, here);
        assert!(stderr(&told).contains("--trust-clock"), "{}", stderr(&told));
        // With a gateway whose clock is right: against that.
        let gateway = serve(&place, None);
        let told = run(&["refresh"]);
        refused(&told, "days apart");
        assert!(stderr(&told).contains("set the clock that is wrong"), "{}", stderr(&told));
        assert_eq!(place.facts(&["audit"]), before, "nothing of it is in the ledger");
        clock.set("+0");
        succeeded(&run(&["refresh"]));
        assert_eq!(gateway.stop(), Some(0));
        assert_eq!(place.facts(&["refresh"])["head"].as_u64(), head.as_u64().map(|head| head + 2));
    }
}

#[test]
fn an_operator_a_few_days_ahead_is_refused_by_both_sides() {
    // Within the life of the gateway's certificate, so that TLS has nothing to say.
    let (place, clock) = scene("+2d");
    let _gateway = serve(&place, None);
    let before = place.facts(&["audit"]);
    let run = |words: &[&str]| output(clock.under(place.freehold_command(words)));
    let told = run(&["refresh"]);
    refused(&told, "and the gateway's says");
    assert!(stderr(&told).contains("they are 2 days apart"), "{}", stderr(&told));
    // Who insists is stopped by the gateway, and nothing is kept that could go out later.
    refused(&run(&["refresh", "--trust-clock"]), "the gateway's clock says");
    assert_eq!(place.facts(&["audit"]), before);
    clock.set("+0");
    succeeded(&run(&["refresh"]));
    let added = place.facts(&["audit"]).as_array().unwrap().len() - before.as_array().unwrap().len();
    assert_eq!(added, 1, "what was signed by the wrong clock was not sent");
}

#[test]
fn an_operator_a_day_slow_keeps_the_one_suspension_of_a_machine() {
    let (place, clock) = scene("-1d");
    let gateway = serve(&place, None);
    place.joined("web-1");
    let before = place.facts(&["audit"]);
    let run = |words: &[&str]| output(clock.under(place.freehold_command(words)));
    let suspend = ["suspend", "web-1", "--for", "1h", "--yes"];
    // By the gateway's certificate, which was made just now.
    refused(&run(&suspend), "hours apart");
    assert_eq!(gateway.stop(), Some(0));
    // And alone with the folder, by what is known of the org.
    let told = run(&suspend);
    refused(&told, "before the newest that is known of the org");
    assert!(stderr(&told).contains("nothing was signed"), "{}", stderr(&told));
    assert_eq!(place.facts(&["audit"]), before);
    let _gateway = serve(&place, None);
    clock.set("+0");
    succeeded(&run(&suspend));
    assert_eq!(place.facts(&["node", "show", "web-1"])["suspensions"].as_array().map(Vec::len), Some(1));
    // Within one second the same words would be the same suspension.
    refused(&run(&["suspend", "web-1", "--for", "2h", "--yes"]), "it cannot be repeated");
}

#[test]
fn an_org_that_rested_for_long_goes_on_when_its_operator_looked_at_the_clock() {
    let (place, clock) = scene("+90d");
    let run = |words: &[&str]| output(clock.under(place.freehold_command(words)));
    refused(&run(&["refresh"]), "days after the newest that is known");
    succeeded(&run(&["refresh", "--trust-clock"]));
    succeeded(&run(&["refresh"]));
    // It was the clock after all: the next head, by the right one, makes it good.
    clock.set("+0");
    refused(&run(&["refresh"]), "before the newest that is known");
    succeeded(&run(&["refresh", "--trust-clock"]));
    let _gateway = serve(&place, None);
    let code = text(&trials::place::json(&run(&["invite", "create", "--json", "--trust-clock"])), "code");
    succeeded(&place.join("web-1", &code));
}
