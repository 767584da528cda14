//! The gateway's folder was put back from an older copy: it is noticed, and going on is a decision.

use serde_json::Value;
use trials::place::{Place, Running, refused, stderr, succeeded, text, until};

/// A gateway whose folder is a copy from before `after` happened. The operator's folder is today's.
fn set_back(place: &Place, gateway: Running, after: impl FnOnce(&Running)) -> Running {
    gateway.stop();
    place.copy(&place.org().join("gateway"), &place.path("old"));
    let gateway = place.serve();
    after(&gateway);
    gateway.stop();
    std::fs::rename(place.org().join("gateway"), place.path("newest")).unwrap();
    std::fs::rename(place.path("old"), place.org().join("gateway")).unwrap();
    place.serve()
}

#[test]
fn a_ledger_that_was_set_back_issues_nothing_until_an_epoch_begins() {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = place.serve();
    place.joined("web-1");
    let open = place.invite(&["--uses", "2", "--label", "open"]);
    let mut lost_code = String::new();
    let gateway = set_back(&place, gateway, |_| {
        succeeded(&place.join("web-2", &text(&open, "code")));
        lost_code = place.code(&[]);
        succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    });
    // Whoever saw more says so, and then nobody gets anything.
    refused(&place.freehold(&["node", "list"]), "is older than head");
    refused(&place.join("web-3", &text(&open, "code")), "ledger is older");
    refused(&place.join("web-3", &lost_code), "ledger is older");

    let begun = place.facts(&["epoch", "begin", "--yes"]);
    assert_eq!((&begun["epoch"], &begun["pending"]), (&2.into(), &Value::Null), "{begun}");
    assert_eq!(begun["frozen_invites"], serde_json::json!([text(&open, "id")]));
    // What this home still knew is not lost: the revocation stands.
    assert_eq!(place.state_of("web-1").unwrap(), "revoked");
    refused(&place.join("web-3", &text(&open, "code")), "nobody has confirmed it since");
    refused(&place.join("web-3", &lost_code), "this org has no invite");
    succeeded(&place.freehold(&["invite", "confirm", "open", "--yes"]));
    succeeded(&place.join("web-3", &text(&open, "code")));
    // The machine that joined in what was lost is a stranger now, and is told so.
    let _agent = place.agent("web-2");
    until("it is told", || place.status("web-2")["problem"].as_str().is_some_and(|why| why.contains("does not know")));
    succeeded(&place.freehold(&["invite", "create"]));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
    // A restart forgets nothing of this; and there is nothing to give up a second time.
    gateway.stop();
    let _gateway = place.serve();
    succeeded(&place.join("web-4", &text(&open, "code")));
    refused(&place.freehold(&["epoch", "begin", "--yes"]), "there is nothing to give up");
}

#[test]
fn a_machine_that_saw_a_later_head_brings_what_was_revoked() {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = place.serve();
    place.joined("web-1");
    place.joined("web-2");
    place.copy(&place.org().join("operator"), &place.path("old-operator"));
    let gateway = set_back(&place, gateway, |_| {
        let agent = place.agent("web-1");
        succeeded(&place.freehold(&["node", "revoke", "web-2", "--yes"]));
        let head = place.facts(&["refresh"])["head"].clone();
        until("it has seen the head", || place.status("web-1")["head"] == head);
        agent.stop();
    });
    // The operator's machine is as old as the ledger: only web-1 knows what was lost.
    std::fs::remove_dir_all(place.org().join("operator")).unwrap();
    std::fs::rename(place.path("old-operator"), place.org().join("operator")).unwrap();
    let _agent = place.agent("web-1");
    until("it showed what it knows", || {
        let told = place.freehold(&["refresh"]);
        !told.status.success() && stderr(&told).contains("older than what was shown")
    });
    succeeded(&place.freehold(&["epoch", "begin", "--yes"]));
    assert_eq!(place.state_of("web-2").unwrap(), "revoked", "the revocation came back from the machine");
    until("the machine goes on", || place.status("web-1")["problem"].is_null());
    drop(gateway);
}

/// The number of the SVID in use.
fn counter(place: &Place, node: &str) -> u64 {
    let target = std::fs::read_link(place.scope(node).join("current")).unwrap();
    target.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap()
}

#[test]
fn a_machine_that_renewed_in_what_was_lost_renews_again_without_an_alarm() {
    let place = Place::founded(&["--node", "quay", "--svid-ttl", "15s"]);
    let gateway = place.serve();
    place.joined("web-1");
    let known = counter(&place, "web-1");
    let _gateway = set_back(&place, gateway, |_| {
        let agent = place.agent("web-1");
        until("it renewed twice", || counter(&place, "web-1") >= known + 2);
        assert_eq!(agent.stop(), Some(0));
        // Somebody must have seen more than the old copy knows.
        succeeded(&place.freehold(&["refresh"]));
    });
    succeeded(&place.freehold(&["epoch", "begin", "--yes"]));
    // Once it may be ahead of the log; from then on it goes step by step, as ever.
    let before = counter(&place, "web-1");
    let _agent = place.agent("web-1");
    until("it renews twice again", || counter(&place, "web-1") >= before + 2);
    let node = place.facts(&["node", "show", "web-1"]);
    assert_eq!((text(&node, "state"), &node["alarm"]), ("member".to_owned(), &Value::Null));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn several_operators_agree_on_an_epoch() {
    let place = Place::founded(&["--signers", "2-of-2", "--node", "quay"]);
    let to = place.path("ben").to_string_lossy().into_owned();
    let gateway = place.serve();
    let gateway = set_back(&place, gateway, |_| {
        succeeded(&place.freehold(&["refresh"]));
    });
    succeeded(&place.freehold(&["signer", "hand-over", "ann-2", "--to", &to]));
    let begun = place.facts(&["epoch", "begin", "--yes"]);
    let file = text(&begun["pending"], "file");
    succeeded(&place.operator("ben", &["sign", &file, "--yes"]));
    refused(&place.freehold(&["node", "list"]), "is older than head");
    succeeded(&place.operator("ben", &["send", &file]));
    succeeded(&place.freehold(&["node", "list"]));
    drop(gateway);
}

#[test]
fn the_newest_copy_goes_on_although_an_old_one_ran_for_a_while() {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = place.serve();
    place.joined("web-1");
    let old = set_back(&place, gateway, |_| place.joined("web-2"));
    let _agent = place.agent("web-1");
    until("web-1 met the old copy", || place.status("web-1")["last_check_in"].is_string());
    old.stop();
    std::fs::rename(place.org().join("gateway"), place.path("old-again")).unwrap();
    std::fs::rename(place.path("newest"), place.org().join("gateway")).unwrap();
    let _gateway = place.serve();
    until("web-1 met the newest", || place.status("web-1")["problem"].is_null());
    succeeded(&place.freehold(&["node", "list"]));
}

/// Two copies of one folder were served by turns: the chain has two branches, and everybody saw another one.
#[test]
fn a_folder_that_was_served_from_two_copies_is_cured_by_an_epoch() {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = place.serve();
    let code = text(&place.invite(&["--uses", "5"]), "code");
    succeeded(&place.join("web-0", &code));
    gateway.stop();
    let (org, old, newest) = (place.org().join("gateway"), place.path("old"), place.path("newest"));
    place.copy(&org, &old);
    let gateway = place.serve();
    succeeded(&place.join("web-1", &code));
    gateway.stop();
    std::fs::rename(&org, &newest).unwrap();
    std::fs::rename(&old, &org).unwrap();
    let gateway = place.serve();
    succeeded(&place.join("web-2", &code));
    let agent = place.agent("web-0");
    until("it has heard this copy's word", || place.status("web-0")["problem"].is_null());
    let _ = place.freehold(&["node", "list"]);
    agent.stop();
    gateway.stop();
    // As the hint says: the newest copy in its place.
    std::fs::rename(&org, place.path("evidence")).unwrap();
    std::fs::rename(&newest, &org).unwrap();
    let _gateway = place.serve();
    let _agents = ["web-0", "web-1"].map(|name| place.agent(name));
    let begun = place.freehold(&["epoch", "begin", "--yes"]);
    succeeded(&begun);
    succeeded(&place.freehold(&["node", "list"]));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    succeeded(&place.freehold(&["invite", "create"]));
    succeeded(&place.freehold(&["audit", "--verify"]));
    place.joined("web-3");
    for name in ["web-0", "web-1"] {
        until("its agent has no problem", || place.status(name)["problem"].is_null());
    }
}
