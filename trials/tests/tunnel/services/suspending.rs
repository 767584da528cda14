//! One signer suspends a machine: what it has open is cut, what it asks for is refused, and it ends by itself.

use std::process::Stdio;

use trials::place::{Place, Running, refused, stderr, stdout, succeeded, until};

use super::hearing::cut_off;
use super::{Harbor, PAGE};
use crate::operators::recover::paper;
use crate::publishing::Scene;

const URL: &str = "http://wiki.harbor.internal/";

#[test]
fn a_suspended_machine_loses_its_streams_opens_none_keeps_syncing_and_is_let_in_again_by_itself() {
    let harbor = Harbor::new();
    let place = &harbor.scene.place;
    let waiting = harbor.curl_command("ann", &format!("{URL}slow")).stderr(Stdio::null()).spawn().unwrap();
    let _open = harbor.wiki.kept.recv().unwrap();
    succeeded(&place.freehold(&["suspend", "beta", "--for", "45s", "--reason", "odd traffic", "--yes"]));
    assert_ne!(Running(waiting).end().0, Some(0));
    let refused = harbor.curl("ann", URL);
    assert!(!refused.status.success(), "{}", stdout(&refused));
    let log = || harbor.log("alpha");
    until("it is written down", || log().iter().any(|line| line["event"] == "suspended"));
    let cut = log().into_iter().find(|line| line["event"] == "cut").unwrap();
    assert!(cut["reason"].as_str().unwrap().contains("`ann` suspended the node until"), "{cut}");
    // The machine itself is told, and hears what is new meanwhile.
    until("it says so", || place.status("beta")["suspended"]["by"] == "ann");
    let head = place.facts(&["refresh"])["head"].clone();
    until("it goes on", || place.status("beta")["head"] == head);
    let told = place.status("beta");
    assert_eq!((&told["suspended"]["reason"], &told["state"]), (&"odd traffic".into(), &"member".into()), "{told}");
    assert!(told["problem"].as_str().unwrap().contains("ann suspended this machine until"), "{told}");
    let words = stdout(&place.node("beta", &["status"], ""));
    assert!(words.contains("suspended by `ann` until") && words.contains("odd traffic"), "{words}");
    until("it is over", || place.status("beta")["suspended"].is_null());
    until("a page is read again", || harbor.curl("ann", URL).status.success());
    let page = harbor.curl("ann", URL);
    assert_eq!(stdout(&page), PAGE, "{}", stderr(&page));
}

#[test]
fn where_two_must_agree_one_of_them_cuts_a_machines_streams_alone_and_does_no_more() {
    let harbor = Harbor::of(Scene::founded(&["--signers", "2-of-3", "--node", "quay"]));
    let place = &harbor.scene.place;
    let ben = place.path("ben").to_string_lossy().into_owned();
    succeeded(&place.freehold(&["signer", "hand-over", "ann-2", "--to", &ben]));
    assert_eq!(stdout(&harbor.curl("ann", URL)), PAGE);
    let waiting = harbor.curl_command("ann", &format!("{URL}slow")).stderr(Stdio::null()).spawn().unwrap();
    let _open = harbor.wiki.kept.recv().unwrap();
    let head = place.status("alpha")["head"].clone();
    let suspend = ["suspend", "beta", "--for", "20s", "--yes"];
    succeeded(&place.operator("ben", &suspend));
    assert_ne!(Running(waiting).end().0, Some(0));
    assert!(!harbor.curl("ann", URL).status.success(), "it opens another one");
    let cut = || harbor.log("alpha").into_iter().find(|line| line["event"] == "cut");
    until("it is written down", || cut().is_some());
    assert!(cut().unwrap()["reason"].as_str().unwrap().contains("`ann-2` suspended the node until"), "{:?}", cut());
    // It is no head, and his word alone revokes nobody.
    assert_eq!(place.operator_facts("ben", &["node", "revoke", "beta", "--yes"])["revoked"], false);
    assert_eq!(place.status("alpha")["head"], head);
    until("it is over", || harbor.curl("ann", URL).status.success());
    // He had his turn. Another one has hers.
    refused(&place.operator("ben", &suspend), "it cannot be repeated");
    succeeded(&place.freehold(&suspend));
    until("it is cut off again", || !harbor.curl("ann", URL).status.success());
}

#[test]
fn while_a_recovery_waits_and_a_root_is_being_replaced_a_signer_in_force_cuts_a_machine_off_and_no_other_does() {
    let (founded, phrases) = Place::with_phrases(&["--node", "quay", "--recovery-delay", "24h"]);
    let harbor = Harbor::of(Scene::at(founded));
    let place = &harbor.scene.place;
    succeeded(&place.freehold(&["trust", "publish", "identity"]));
    succeeded(&place.freehold(&["org", "card", "--out", "harbor.card"]));
    let file = paper(place, "stolen", &phrases[..2]);
    let words = ["recover", "--card", "harbor.card", "--phrases-file", &file, "--signer", "zoe", "--unprotected"];
    succeeded(&place.operator("zoe", &[&words[..], &["--yes"]].concat()));
    assert_eq!(stdout(&harbor.curl("ann", URL)), PAGE);
    let waiting = harbor.curl_command("ann", &format!("{URL}slow")).stderr(Stdio::null()).spawn().unwrap();
    let _open = harbor.wiki.kept.recv().unwrap();
    // Whoever is to sign one day stops nobody today.
    let suspend = ["suspend", "beta", "--for", "15s", "--yes"];
    assert!(!place.operator("zoe", &suspend).status.success());
    assert_eq!(stdout(&harbor.curl("ann", URL)), PAGE);
    succeeded(&place.freehold(&suspend));
    assert_ne!(Running(waiting).end().0, Some(0));
    assert!(!harbor.curl("ann", URL).status.success(), "it opens another one");
    refused(&place.freehold(&suspend), "it cannot be repeated");
    until("it is over", || harbor.curl("ann", URL).status.success());
    // The one still waits, the other is still under way, and both are taken back.
    assert!(place.facts(&["status"])["alarms"].to_string().contains("RECOVERY"));
    assert_eq!(place.facts(&["recover", "--cancel", "--yes"])["state"], "cancelled");
    succeeded(&place.freehold(&["trust", "rollback", "identity"]));
    assert_eq!(stdout(&harbor.curl("ann", URL)), PAGE);
}

#[test]
fn a_suspension_reaches_a_node_that_no_gateway_reaches() {
    let mut harbor = Harbor::new();
    let tree = harbor.scene.place.path("tree").display().to_string();
    harbor.scene.place.facts(&["publish", "--yes", "--to", &tree]);
    let before = harbor.scene.place.status("beta")["head"].as_u64().unwrap();
    harbor.beta = None;
    harbor.beta = Some(cut_off(&harbor.scene.place, "beta", &tree));
    until("the tunnel runs again", || harbor.tunnel("beta")["now"]["head"] == before);
    let place = &harbor.scene.place;
    assert_eq!(stdout(&harbor.curl("ann", URL)), PAGE);
    succeeded(&place.freehold(&["suspend", "alpha", "--yes"]));
    until("its peer knows", || place.status("alpha")["suspended"]["by"] == "ann");
    // It calls, and is told of the very node that it calls.
    until("it heard", || !harbor.curl("ann", URL).status.success());
    assert!(place.scope("beta").join("suspensions.json").exists());
    assert_eq!(place.status("beta")["head"], before, "by no new head");
    assert!(place.status("beta")["suspended"].is_null(), "it is not meant itself");
}
