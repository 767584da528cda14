//! The operator closes the laptop's lid: nobody is harmed. Then the laptop is removed. Or a gateway moves to other addresses.

mod addresses;

use rustix::process::Signal;
use trials::place::{stderr, succeeded, text, until};

use super::{Two, signal};

#[test]
fn a_closed_lid_harms_nothing_after_a_move() {
    let (two, laptop, _vps) = Two::serving();
    let (place, b) = (&two.place, two.address());
    place.joined("web-1");
    let _agent = place.agent("web-1");
    two.settle();
    let moved = place.facts(&["gateway", "move", "vps", "--wait", "30s"]);
    assert_eq!(moved["not_yet"].as_array().map(Vec::len), Some(0), "{moved}");
    // The node goes there by itself.
    until("the node knows of the other gateway first", || {
        place.status("web-1")["gateways"][0] == b.as_str() && place.status("web-1")["problem"].is_null()
    });
    signal(&laptop, Signal::STOP);
    let before = place.status("web-1")["head"].as_u64().unwrap();
    // Without a word about which gateway: the tool finds it.
    let invite = place.invite(&["--name", "web-2"]);
    succeeded(&place.join("web-2", &text(&invite, "code")));
    succeeded(&place.freehold(&["refresh"]));
    until("the node hears of what is decided", || place.status("web-1")["head"].as_u64().unwrap() > before);
    succeeded(&place.freehold(&["node", "revoke", "web-2", "--yes"]));
    // The lid is opened: the laptop catches up.
    signal(&laptop, Signal::CONT);
    let a = place.address();
    until("the laptop has caught up", || two.state_at(&a, "web-2").as_deref() == Some("revoked"));
    two.settle();
    // And goes for good. What it issued is worth nothing; the node comes back by itself.
    succeeded(&place.freehold(&["gateway", "remove", "laptop", "--yes"]));
    let head = two.at(&b, &["gateway", "list"]);
    assert_eq!(head.as_array().unwrap().len(), 1, "{head}");
    drop(laptop);
    let before = place.status("web-1")["head"].as_u64().unwrap();
    succeeded(&place.freehold(&["refresh"]));
    until("the node is there without the laptop", || {
        let status = place.status("web-1");
        status["head"].as_u64().unwrap() > before && status["problem"].is_null()
    });
    // Whoever was let in by a gateway that is gone can still be judged by operators.
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
}

#[test]
fn machines_that_were_off_while_the_gateway_moved_come_back() {
    let (two, laptop, _vps) = Two::serving();
    let place = &two.place;
    // One has heard of the other gateway, one has not.
    place.joined("web-1");
    place.joined("web-2");
    succeeded(&place.freehold(&["gateway", "move", "vps", "--no-wait"]));
    succeeded(&place.node("web-1", &["sync"], ""));
    two.settle();
    succeeded(&place.freehold(&["gateway", "remove", "laptop", "--yes"]));
    laptop.stop();
    let agent = place.agent("web-1");
    until("it is back by its node key", || {
        let status = place.status("web-1");
        status["problem"].is_null() && status["gateways"][0] == two.address().as_str()
    });
    agent.stop();
    // Whoever knows nobody any more is told by a fresh code where they are; its name and its key stay.
    let before = place.facts(&["node", "show", "web-2"])["node_key"].clone();
    succeeded(&place.join("web-2", &place.code(&["--name", "web-9"])));
    assert_eq!(place.facts(&["node", "show", "web-2"])["node_key"], before);
    let _agent = place.agent("web-2");
    until("it goes on there", || place.status("web-2")["problem"].is_null());
    // A backup with the folder of a gateway that was removed is a backup.
    let (out, words) = (two.file("harbor.backup"), place.passphrase("correct horse"));
    succeeded(&place.freehold(&["backup", "create", "--out", &out, "--backup-passphrase-file", &words]));
    succeeded(&place.freehold(&["backup", "verify", &out, "--backup-passphrase-file", &words]));
}

#[test]
fn the_last_gateway_stays_and_a_voice_that_was_removed_never_returns() {
    let (two, _laptop, vps) = Two::serving();
    let place = &two.place;
    succeeded(&place.freehold(&["gateway", "remove", "vps", "--yes"]));
    let told = place.freehold(&["gateway", "remove", "laptop", "--yes"]);
    assert!(!told.status.success() && stderr(&told).contains("the last gateway"), "{}", stderr(&told));
    vps.stop();
    let told = place.freehold(&["gateway", "add", "vps.request", "--out", "again.grant", "--yes"]);
    assert!(!told.status.success() && stderr(&told).contains("was closed, and never returns"), "{}", stderr(&told));
}
