//! Nothing from the future is signed, sent or taken; what came through is overruled, and everybody sees it.

use ground::clock;
use identity::certificate;
use rustls::AlertDescription as Alert;
use trials::client::joiner::check_in;
use trials::client::stranger::{Cut, Dial};
use trials::faults::Clock;
use trials::place::{Place, json, output, refused, stderr, stdout, succeeded, text, until};
use trials::versions::last_seen;
use wire::permit::Ask;

use crate::faults::{log_of, serve};
use crate::trust::present::own_of;

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
    let alarms = place.facts(&["status"])["alarms"].clone();
    assert!(alarms.as_array().unwrap().len() == 1 && alarms[0].as_str().unwrap().contains("is DOWN"), "{alarms}");
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

#[test]
fn machines_that_heard_a_head_from_the_future_come_back_when_it_is_overruled() {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = serve(&place, None);
    for node in ["web-1", "web-2"] {
        place.joined(node);
    }
    let agent = place.agent("web-1");
    let status = || place.status("web-1");
    until("it is there", || status()["last_check_in"].is_string());
    // The operator's machine, which is the gateway, is wrong by weeks, and nobody contradicts it.
    assert_eq!(gateway.stop(), Some(0));
    let ahead = Clock::off(place.path("clock"), "+40d");
    let refreshed = json(&output(ahead.under(place.freehold_command(&["refresh", "--json"]))));
    let head = refreshed["head"].as_u64().unwrap();
    let gateway = serve(&place, Some(&ahead));
    let sync = || output(place.node_command("web-2", &["sync"]));
    until("both believe that it is that day at least", || {
        drop(sync());
        place.status("web-2")["head"] == head
            && status()["problem"].as_str().is_some_and(|told| told.contains("days behind"))
    });

    // Right again: what the gateway shows is of today, and over by what they know.
    assert_eq!(gateway.stop(), Some(0));
    let _gateway = serve(&place, None);
    let told = sync();
    assert!(!told.status.success() && stderr(&told).contains("expired"), "{}{}", stdout(&told), stderr(&told));
    succeeded(&place.freehold(&["refresh", "--reset-clock"]));
    succeeded(&sync());
    until("the agent is well", || status()["head"] == head + 1 && status()["problem"].is_null());
    let before = last_seen(&place, "web-1");
    until("it is heard of again", || last_seen(&place, "web-1") > before);
    until("the gateway's own machine has a certificate of today", || {
        let chain = std::fs::read_to_string(place.org().join("gateway/node/svid.pem")).unwrap();
        let leaf = certificate::read(&certificate::from_pem(&chain).unwrap()[0]).unwrap();
        leaf.validity.not_before <= clock::now()
    });
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_gateway_whose_clock_was_set_back_believes_no_svid_that_ended_before_the_head_was_signed() {
    let place = Place::new();
    let clock = Clock::off(place.path("clock"), "-3d");
    let run = |words: &[&str]| output(clock.under(place.freehold_command(words)));
    succeeded(&run(&["found", "harbor", "--unprotected", "--node", "quay", "--advertise", &place.address()]));
    let gateway = serve(&place, Some(&clock));
    let code = text(&json(&run(&["invite", "create", "--json"])), "code");
    let mut join = place.node_command("web-1", &["join", "--name", "web-1"]);
    join.env("FREEHOLD_INVITE", code);
    succeeded(&output(clock.under(join)));
    let own = own_of(&place, "web-1");
    let knock = || {
        let mut line = Dial::to(place.port).with(&own).line();
        line.ask(Ask::CheckIn, &check_in()).map(|reply| reply.code())
    };
    assert_eq!(knock(), Ok("ok".to_owned()), "it lives for a day");
    assert_eq!(gateway.stop(), Some(0));

    // Two days later its time is over, and somebody sets the gateway's clock back to when it was not.
    clock.set("+0");
    succeeded(&run(&["refresh"]));
    clock.set("-60h");
    let _gateway = serve(&place, Some(&clock));
    assert_eq!(knock(), Err(Cut(Some(Alert::CertificateExpired))));
    until("it is noted", || log_of(&place).contains("the SVID expired at"));
    assert!(log_of(&place).contains("the head is 2 days ahead of this machine's clock"), "{}", log_of(&place));
}
