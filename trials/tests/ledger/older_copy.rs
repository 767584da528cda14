//! The gateway's folder was put back from an older copy: it is handed what others have, and what nobody can bring is given up by a
//! decision.

use serde_json::Value;
use trials::place::{Place, Running, ended, refused, stderr, succeeded, text, until};

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

/// The gateway was shown its own future by this machine: it stops, until somebody hands over what it lacks, or operators have
/// it begin anew.
fn is_held_back(place: &Place, by: &str) -> bool {
    place.status(by)["problem"].as_str().is_some_and(|why| why.contains("ledger is older") || why.contains("waits"))
}

#[test]
fn a_ledger_that_was_set_back_is_handed_what_this_home_has() {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = place.serve();
    place.joined("web-1");
    let open = place.invite(&["--uses", "3", "--label", "open"]);
    let mut lost_code = String::new();
    let gateway = set_back(&place, gateway, |_| {
        succeeded(&place.join("web-2", &text(&open, "code")));
        lost_code = place.code(&[]);
        succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    });
    // Nobody is accused: the next command hands it all over, of its own chain, too.
    assert_eq!(place.state_of("web-1").as_deref(), Some("revoked"));
    assert_eq!(place.state_of("web-2").as_deref(), Some("member"));
    succeeded(&place.join("web-3", &lost_code));
    succeeded(&place.join("web-4", &text(&open, "code")));
    assert_eq!(place.spent(&text(&open, "id")), 2);
    let _agent = place.agent("web-2");
    until("it goes on", || {
        place.status("web-2")["problem"].is_null() && !place.status("web-2")["last_check_in"].is_null()
    });
    // There is nothing to give up.
    ended(&place.freehold(&["gateway", "reopen", "quay", "--yes"]), 1, "nothing is wrong with `quay`");
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
    gateway.stop();
    let _gateway = place.serve();
    place.joined("web-5");
}

#[test]
fn what_nobody_can_bring_is_given_up_and_the_gateway_begins_another_chain() {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = place.serve();
    place.joined("web-1");
    let open = place.invite(&["--uses", "3", "--label", "open"]);
    let gateway = set_back(&place, gateway, |_| succeeded(&place.join("web-2", &text(&open, "code"))));
    // Only the machine itself was told of the entry that let it in.
    let agent = place.agent("web-2");
    until("it showed what it knows", || is_held_back(&place, "web-2"));
    refused(&place.join("web-3", &text(&open, "code")), "ledger is older");
    ended(&place.freehold(&["gateway", "reopen", "nobody", "--yes"]), 1, "there is no gateway `nobody`");

    let done = place.facts(&["gateway", "reopen", "quay", "--yes"]);
    assert_eq!((&done["pending"], &done["fork"], &done["restored"]), (&Value::Null, &Value::Null, &false.into()));
    let invites = serde_json::json!([{ "id": text(&open, "id"), "label": "open", "uses": "3" }]);
    assert_eq!(done["invites"], invites, "as far as this home knows, it was not used");
    assert_ne!(done["voice"], done["former_voice"]);
    // The running gateway went over by itself; nobody was lost but whom it does not know.
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    succeeded(&place.join("web-3", &text(&open, "code")));
    assert_eq!(place.spent(&text(&open, "id")), 1);
    until("it is told", || place.status("web-2")["problem"].as_str().is_some_and(|why| why.contains("does not know")));
    agent.stop();
    succeeded(&place.node("web-2", &["leave", "--local", "--yes"], ""));
    succeeded(&place.join("web-2", &text(&open, "code")));
    let _agent = place.agent("web-1");
    until("who was in goes on", || place.status("web-1")["last_check_in"].is_string());
    assert_eq!(place.status("web-1")["problem"], Value::Null);
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
    // A restart forgets nothing of this; and there is nothing to give up a second time.
    gateway.stop();
    let _gateway = place.serve();
    succeeded(&place.join("web-4", &text(&open, "code")));
    refused(&place.join("web-5", &text(&open, "code")), "all");
    ended(&place.freehold(&["gateway", "reopen", "quay", "--yes"]), 1, "nothing is wrong with `quay`");
}

/// Whoever dies while it goes over finds the right voice by the head.
#[test]
fn a_gateway_that_is_not_running_goes_over_and_whichever_file_was_moved_it_starts() {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = place.serve();
    let open = place.invite(&["--uses", "5"]);
    let gateway = set_back(&place, gateway, |_| succeeded(&place.join("web-2", &text(&open, "code"))));
    let agent = place.agent("web-2");
    until("it showed what it knows", || is_held_back(&place, "web-2"));
    agent.stop();
    gateway.stop();
    let folder = place.org().join("gateway");
    let (voice, spare) = (folder.join("voice.key"), folder.join("voice.spare.key"));
    let (old, next) = (std::fs::read(&voice).unwrap(), std::fs::read(&spare).unwrap());
    assert_eq!(trials::place::mode(&spare), 0o600);
    succeeded(&place.freehold(&["gateway", "reopen", "quay", "--yes"]));
    assert_eq!(std::fs::read(&voice).unwrap(), next);
    // As if it had been killed before the files were moved, and in between.
    for (nth, left) in [&old, &next].into_iter().enumerate() {
        for (path, bytes) in [(&voice, left), (&spare, &next)] {
            std::fs::write(path, bytes).unwrap();
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        }
        let gateway = place.serve();
        succeeded(&place.join(&format!("web-{}", nth + 3), &text(&open, "code")));
        assert_eq!(std::fs::read(&voice).unwrap(), next);
        assert_ne!(std::fs::read(&spare).unwrap(), next, "another one lies ready");
        assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
        gateway.stop();
    }
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
    until("it showed what it knows", || is_held_back(&place, "web-1"));
    refused(&place.freehold(&["refresh"]), "older than what was shown");
    succeeded(&place.freehold(&["gateway", "reopen", "quay", "--yes"]));
    assert_eq!(place.state_of("web-2").unwrap(), "revoked", "the revocation came back from the machine");
    until("the machine is a member", || place.state_of("web-1").as_deref() == Some("member"));
    until("the machine goes on", || place.status("web-1")["problem"].is_null());
    place.joined("web-3");
    // What the lost head had settled is nowhere, and stays a gap.
    let audit = place.freehold(&["audit", "--verify"]);
    assert!(
        stderr(&audit).contains("is not whole") || trials::place::stdout(&audit).contains("is not whole"),
        "{audit:?}"
    );
    drop(gateway);
}

/// The number of the SVID in use.
fn counter(place: &Place, node: &str) -> u64 {
    let target = std::fs::read_link(place.scope(node).join("current")).unwrap();
    target.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap()
}

#[test]
fn a_machine_that_renewed_in_what_was_lost_renews_again_without_an_alarm() {
    for handed in [true, false] {
        let place = Place::founded(&["--node", "quay", "--svid-ttl", "15s"]);
        let gateway = place.serve();
        place.joined("web-1");
        let (code, known) = (place.code(&[]), counter(&place, "web-1"));
        let _gateway = set_back(&place, gateway, |_| {
            let agent = place.agent("web-1");
            until("it renewed twice", || counter(&place, "web-1") >= known + 2);
            assert_eq!(agent.stop(), Some(0));
            // Somebody must have seen more than the old copy knows: the operator, or another machine alone.
            if handed {
                succeeded(&place.freehold(&["refresh"]));
            } else {
                succeeded(&place.join("web-2", &code));
            }
        });
        if handed {
            succeeded(&place.freehold(&["node", "list"]));
        } else {
            let _agent = place.agent("web-2");
            until("it showed what it knows", || is_held_back(&place, "web-2"));
            succeeded(&place.freehold(&["gateway", "reopen", "quay", "--yes"]));
        }
        // Once it may be ahead of the log; from then on it goes step by step, as ever.
        let before = counter(&place, "web-1");
        let _agent = place.agent("web-1");
        until("it renews twice again", || counter(&place, "web-1") >= before + 2);
        let node = place.facts(&["node", "show", "web-1"]);
        assert_eq!((text(&node, "state"), &node["alarm"]), ("member".to_owned(), &Value::Null));
        assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
    }
}

#[test]
fn several_operators_agree_that_a_gateway_begins_another_chain() {
    let place = Place::founded(&["--signers", "2-of-2", "--node", "quay"]);
    let to = place.path("ben").to_string_lossy().into_owned();
    let gateway = place.serve();
    let open = place.invite(&["--uses", "2", "--label", "open"]);
    let gateway = set_back(&place, gateway, |_| succeeded(&place.join("web-1", &text(&open, "code"))));
    succeeded(&place.freehold(&["signer", "hand-over", "ann-2", "--to", &to]));
    let _agent = place.agent("web-1");
    until("it showed what it knows", || is_held_back(&place, "web-1"));
    let begun = place.facts(&["gateway", "reopen", "quay", "--yes"]);
    let file = text(&begun["pending"], "file");
    let signed = place.co_sign("ben", &file);
    succeeded(&signed);
    let told = format!("{}{}", trials::place::stdout(&signed), stderr(&signed));
    for words in ["begin another chain", "ENDS THE CHAIN of `quay`", "signs an invite anew", &text(&open, "id")] {
        assert!(told.contains(words), "{words}: {told}");
    }
    refused(&place.join("web-2", &text(&open, "code")), "ledger is older");
    succeeded(&place.operator("ben", &["send", &file]));
    succeeded(&place.freehold(&["node", "list"]));
    succeeded(&place.join("web-2", &text(&open, "code")));
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
fn a_folder_that_was_served_from_two_copies_is_cured_by_another_chain() {
    is_served_from_two_copies(&["--node", "quay"]);
}

#[test]
fn where_two_must_agree_a_folder_that_was_served_from_two_copies_is_cured_by_both() {
    is_served_from_two_copies(&["--node", "quay", "--signers", "2-of-2"]);
}

/// Says it; where two must agree, `ben` signs it, too, and hands it in.
fn agreed(place: &Place, words: &[&str]) -> Value {
    let told = place.facts(words);
    if let Some(file) = told["pending"]["file"].as_str() {
        succeeded(&place.co_sign("ben", file));
        succeeded(&place.operator("ben", &["send", file]));
    }
    told
}

fn is_served_from_two_copies(founded: &[&str]) {
    let place = Place::founded(founded);
    let gateway = place.serve();
    let open = place.invite(&["--uses", "5"]);
    let code = text(&open, "code");
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
    succeeded(&place.freehold(&["node", "list"]));
    agent.stop();
    gateway.stop();
    // As the hint says: the newest copy in its place.
    std::fs::rename(&org, place.path("evidence")).unwrap();
    std::fs::rename(&newest, &org).unwrap();
    let gateway = place.serve();
    let _agents = ["web-0", "web-1", "web-2"].map(|name| place.agent(name));
    until("the gateway stops", || is_held_back(&place, "web-2"));
    refused(&place.freehold(&["refresh"]), "older than what was shown");
    refused(&place.join("web-3", &code), "ledger is older");
    if founded.contains(&"2-of-2") {
        let ben = place.path("ben").to_string_lossy().into_owned();
        succeeded(&place.freehold(&["signer", "hand-over", "ann-2", "--to", &ben]));
    }
    let done = agreed(&place, &["gateway", "reopen", "quay", "--yes"]);
    let branches = done["fork"]["branches"].as_array().unwrap();
    let mut admitted: Vec<_> = branches.iter().map(|it| it["admitted"].clone()).collect();
    admitted.sort_by_key(ToString::to_string);
    assert_eq!(admitted, [serde_json::json!(["web-1"]), serde_json::json!(["web-2"])], "{done}");
    let waiting: Vec<_> = done["waiting"].as_array().unwrap().iter().map(|it| text(it, "name")).collect();
    assert_eq!(waiting, ["web-1", "web-2"]);
    assert_eq!(done["invites"][0]["uses"], "2", "three of five were spent, on whichever branch");
    // Nothing stays locked: whoever is meant is listed, of either branch.
    for name in ["web-1", "web-2"] {
        assert_eq!(place.state_of(name).as_deref(), Some("waiting"));
        agreed(&place, &["node", "approve", name, "--yes"]);
        until("it is a member", || place.state_of(name).as_deref() == Some("member"));
    }
    succeeded(&place.freehold(&["invite", "create"]));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
    succeeded(&place.join("web-3", &code));
    let joined = |node: &str| {
        let invite = agreed(&place, &["invite", "create", "--name", node]);
        succeeded(&place.join(node, &text(&invite, "code")));
    };
    joined("web-4");
    for name in ["web-0", "web-1", "web-2"] {
        until("its agent has no problem", || place.status(name)["problem"].is_null());
    }
    gateway.stop();
    let _gateway = place.serve();
    joined("web-5");
    ended(&place.freehold(&["gateway", "reopen", "quay", "--yes"]), 1, "nothing is wrong with `quay`");
}
