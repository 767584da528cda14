//! How long machines last without a gateway, and a warning before that gets shorter.

use identity::time::{Seconds, Timestamp};
use serde_json::Value;
use trials::faults::Clock;
use trials::place::{Place, ended, json, output, stderr, stdout, succeeded, until};

use crate::publishing::{Scene, wiki_on};

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn the_status_tells_who_breaks_first_without_a_gateway_and_what_limits_it() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1", "web-2"]);
    let status = scene.place.facts(&["status"]);
    assert_eq!((status["org"].as_str(), status["head"]["version"].as_u64()), (Some("harbor"), Some(2)));
    assert_eq!((status["head"]["fresh"].as_bool(), status["nodes"]["member"].as_u64()), (Some(true), Some(3)));
    assert_eq!(status["gateways"][0]["name"], "quay");
    assert_eq!(status["gateways"][0]["svid_ttl"], 24 * 3_600);
    let mandate = time(&status["gateways"][0]["mandate_until"]);
    assert!(time(&status["gateways"][0]["issuer_until"]) > mandate, "{status}");
    assert_eq!(status["trust"].as_array().unwrap().len(), 2);
    assert_eq!(status["alarms"].as_array().unwrap().len(), 0, "{status}");

    let survival = status["survival"].as_array().unwrap();
    assert_eq!(survival.len(), 3);
    let ends: Vec<_> = survival.iter().map(|it| time(&it["until"])).collect();
    assert!(ends.is_sorted(), "the first to break comes first: {ends:?}");
    for it in survival {
        assert_eq!(it["limit"], "svid");
        assert_eq!(it["until"], it["svid_until"]);
        assert_eq!(time(&it["returns_until"]), time(&it["svid_until"]) + Seconds::DAY.times(365));
        assert_eq!(it["shouts_from"], status["head"]["fresh_until"]);
    }
    let one = scene.place.facts(&["status", "web-1"]);
    assert_eq!(one["survival"].as_array().unwrap().len(), 1);
    let words = stdout(&scene.place.freehold(&["status", "web-1"]));
    assert!(words.contains("limited   by its SVID") && words.contains("returns   by its node key until"), "{words}");
    ended(&scene.place.freehold(&["status", "web-9"]), 1, "there is no node `web-9`");

    // The machine says the same of itself.
    let own = scene.place.status("web-1")["survival"].clone();
    for field in ["until", "limit", "returns_until"] {
        assert_eq!(own[field], one["survival"][0][field], "{field}");
    }
    let words = stdout(&scene.place.node("web-1", &["status"], ""));
    assert!(words.contains("without any gateway, until ") && words.contains(": limited by its SVID"), "{words}");

    // A mandate that ends sooner than the SVIDs under it.
    succeeded(&scene.place.freehold(&["mandate", "change", "quay", "--yes", "--lasts", "2h"]));
    let status = scene.place.facts(&["status"]);
    for it in status["survival"].as_array().unwrap() {
        assert_eq!((&it["limit"], &it["until"]), (&Value::from("mandate"), &status["gateways"][0]["mandate_until"]));
    }
    let _agent = scene.place.agent("web-2");
    until("the machine has heard of it", || {
        let own = scene.place.status("web-2")["survival"].clone();
        let limited = (&own["limit"], &own["until"]) == (&"mandate".into(), &status["gateways"][0]["mandate_until"]);
        limited && own["shouts_from"] == status["head"]["fresh_until"]
    });
    // SVIDs that were made for longer than is allowed now are not believed until they are renewed.
    succeeded(&scene.place.freehold(&["mandate", "change", "quay", "--yes", "--lasts", "300d", "--svid-ttl", "1h"]));
    let shortened = scene.place.facts(&["status", "web-1"])["survival"][0].clone();
    assert_eq!((&shortened["limit"], &shortened["left"]), (&Value::from("too_long"), &Value::from(0)));
    succeeded(&scene.place.freehold(&["mandate", "change", "quay", "--yes", "--lasts", "2h", "--svid-ttl", "1d"]));
    let words = stdout(&scene.place.freehold(&["status"]));
    assert!(words.contains("LIMITED BY") && words.contains("the mandate of its gateway"), "{words}");
}

#[test]
fn what_waits_for_signatures_is_on_the_page() {
    let scene = Scene::founded(&["--node", "quay", "--signers", "2-of-2"]);
    let key = scene.place.org().join("operator/signers/ann-2.key");
    let aside = scene.place.path("ann-2.key");
    std::fs::rename(&key, &aside).unwrap();
    succeeded(&scene.place.freehold(&["refresh"]));
    std::fs::rename(&aside, &key).unwrap();
    let pending = scene.place.facts(&["status"])["pending"].clone();
    assert_eq!(pending[0]["waits_for"], serde_json::json!(["ann-2"]), "{pending}");
    let words = stdout(&scene.place.freehold(&["status"]));
    assert!(words.contains("waits for one of ann-2"), "{words}");
}

#[test]
fn a_plan_warns_in_words_and_as_data_when_machines_would_last_less_long() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.place.joined("web-1");
    scene.declare(&wiki_on("web-1"));
    assert_eq!(scene.place.facts(&["plan"])["warnings"], serde_json::json!([]));
    scene.publish();
    scene.declare_org("  lifetimes:\n    svid: 1h\n  freshness: 7d\n  sync:\n    wait: 55s", &wiki_on("web-1"));
    let golden = [
        "WARNING: SVIDs of `quay`, `web-1` live 1h instead of 1d: without a gateway they last no longer than that; \
         those that were made for longer are refused at once, and renew by the node key",
        "WARNING: `quay`, `web-1` may wait 55s instead of 50s for news: a gateway that is gone is noticed later",
        "WARNING: a head is fresh for 7d instead of 30d: unless somebody publishes or refreshes within that, no machine \
         joins, and every machine shouts",
    ];
    let told = scene.place.freehold(&["plan"]);
    succeeded(&told);
    let found: Vec<String> = stdout(&told).lines().filter(|it| it.starts_with("WARNING")).map(str::to_owned).collect();
    assert_eq!(found, golden);
    let warnings = scene.place.facts(&["plan"])["warnings"].clone();
    assert_eq!((&warnings[0]["about"], &warnings[0]["to"]), (&Value::from("svid_life"), &Value::from(3_600)));
    assert_eq!(warnings[0]["machines"], serde_json::json!(["quay", "web-1"]));
    assert_eq!(warnings[2]["about"], "freshness");

    let published = scene.place.freehold(&["publish", "--yes", "--no-wait"]);
    succeeded(&published);
    assert!(stderr(&published).contains(golden[0]), "whoever publishes sees it, too: {}", stderr(&published));
    // It is so now: nobody is warned again, nor when it gets longer.
    assert_eq!(scene.place.facts(&["plan"])["warnings"], serde_json::json!([]));
    scene.declare_org("  lifetimes:\n    svid: 1d\n  freshness: 30d", &wiki_on("web-1"));
    assert_eq!(scene.publish().get("warnings"), None);
}

#[test]
fn a_certificate_of_an_issuing_key_is_told_of_ninety_days_before_it_ends() {
    let place = Place::founded(&["--node", "quay"]);
    succeeded(&place.freehold(&["mandate", "change", "quay", "--yes", "--lasts", "3650d"]));
    let alarms = |by: &str| -> Vec<String> {
        let clock = Clock::off(place.path("clock"), by);
        let status = json(&output(clock.under(place.freehold_command(&["status", "--json"]))));
        let alarms = status["alarms"].as_array().unwrap().iter().filter_map(Value::as_str);
        alarms.filter(|alarm| alarm.contains("issuing key")).map(str::to_owned).collect()
    };
    assert_eq!(alarms("+1004d"), Vec::<String>::new());
    for (by, what) in [("+1006d", "ends at"), ("+1096d", "ended at")] {
        let told = alarms(by);
        assert_eq!(told.len(), 2, "{told:?}");
        for (alarm, domain) in told.iter().zip(["identity", "endpoint"]) {
            let start = format!("the certificate of the {domain} issuing key of quay {what} ");
            assert!(alarm.starts_with(&start) && alarm.ends_with(&format!("freehold rotate {domain}")), "{alarm}");
        }
    }
}
