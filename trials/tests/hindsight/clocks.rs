//! Nothing from the future is signed, sent or taken; what came through is overruled, and everybody sees it.

use trials::faults::Clock;
use trials::place::{Place, output, refused, stderr, stdout, succeeded, text};

use crate::bad_days::serve;

#[test]
fn a_head_ten_minutes_ahead_is_refused_by_the_tool_and_by_the_gateway() {
    let place = Place::founded(&[]);
    let _gateway = serve(&place, None);
    let before = place.facts(&["audit"]);
    let clock = Clock::off(place.path("clock"), "+10m");
    let run = |words: &[&str]| output(clock.under(place.freehold_command(words)));
    let told = run(&["refresh"]);
    refused(&told, "and the gateway's says");
    assert!(stderr(&told).contains("they are 10 minutes apart"), "{}", stderr(&told));
    let told = run(&["refresh", "--trust-clock"]);
    refused(&told, "the gateway's clock says");
    for part in ["minutes ahead", "compare both with NTP"] {
        assert!(stderr(&told).contains(part), "{part}: {}", stderr(&told));
    }
    assert_eq!(place.facts(&["audit"]), before, "nothing of it is in the ledger");
    // Clocks that are a little apart harm nobody.
    clock.set("+2m");
    succeeded(&run(&["refresh"]));
}

#[test]
fn nobody_signs_or_sends_what_another_dated_in_the_future() {
    let place = Place::founded(&["--signers", "2-of-2"]);
    let clock = Clock::off(place.path("clock"), "+3h");
    let file = place.path("ahead.pending").display().to_string();
    // Who has the wrong clock has one key, and nobody to compare it with.
    let second = place.org().join("operator/signers/ann-2.key");
    let aside = place.path("ann-2.key");
    std::fs::rename(&second, &aside).unwrap();
    succeeded(&output(clock.under(place.freehold_command(&["refresh", "--pending", &file, "--trust-clock"]))));
    std::fs::rename(&aside, &second).unwrap();
    let told = place.freehold(&["sign", &file, "--yes"]);
    refused(&told, "the head is dated");
    assert!(stderr(&told).contains("hours ahead of this machine's clock"), "{}", stderr(&told));
    assert!(stderr(&told).contains("NTP"), "{}", stderr(&told));
    // Signed under the wrong clock by both, it is not sent by one whose clock is right.
    succeeded(&output(clock.under(place.freehold_command(&["sign", &file, "--yes"]))));
    refused(&place.freehold(&["send", &file]), "the head is dated");
}

#[test]
fn a_head_from_the_future_is_overruled_by_a_word_that_everybody_sees() {
    let place = Place::founded(&[]);
    let clock = Clock::off(place.path("clock"), "+40d");
    // Alone with its folder, nobody contradicts the wrong clock.
    succeeded(&output(clock.under(place.freehold_command(&["refresh"]))));
    let alarm = text(&serde_json::json!({ "it": place.facts(&["status"])["alarms"][0] }), "it");
    assert!(alarm.contains("39 days ahead of this clock") || alarm.contains("40 days ahead"), "{alarm}");
    let told = place.freehold(&["refresh"]);
    refused(&told, "before the newest that is known");
    assert!(stderr(&told).contains("freehold refresh --reset-clock"), "{}", stderr(&told));
    succeeded(&place.freehold(&["refresh", "--reset-clock"]));
    let lines = place.facts(&["audit"]);
    let last = lines.as_array().unwrap().last().unwrap();
    assert_eq!(last["action"], "head.reset_clock");
    assert!(last["subject"].as_str().unwrap().contains(" -> "), "{last}");
    assert_eq!(place.facts(&["status"])["alarms"].as_array().unwrap().len(), 0);
    // All is well again, and there is nothing left to reset.
    succeeded(&place.freehold(&["refresh"]));
    refused(&place.freehold(&["refresh", "--reset-clock"]), "the newest head is not from the future");
    let _gateway = serve(&place, None);
    place.joined("web-1");
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn co_signers_see_that_the_clock_goes_back_and_by_how_much() {
    let place = Place::founded(&["--signers", "2-of-2"]);
    let clock = Clock::off(place.path("clock"), "+40d");
    succeeded(&output(clock.under(place.freehold_command(&["refresh"]))));
    let file = place.path("back.pending").display().to_string();
    let second = place.org().join("operator/signers/ann-2.key");
    let aside = place.path("ann-2.key");
    std::fs::rename(&second, &aside).unwrap();
    succeeded(&place.freehold(&["refresh", "--reset-clock", "--pending", &file]));
    std::fs::rename(&aside, &second).unwrap();
    let told = place.freehold(&["sign", &file, "--yes"]);
    succeeded(&told);
    assert!(stderr(&told).contains("SETS THE CLOCK BACK by"), "{}{}", stdout(&told), stderr(&told));
    succeeded(&place.freehold(&["send", &file]));
    let lines = place.facts(&["audit"]);
    assert_eq!(lines.as_array().unwrap().last().unwrap()["action"], "head.reset_clock");
}
