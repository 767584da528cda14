//! Several operators who must agree: what one begins, the others sign, and somebody delivers.

use serde_json::{Value, json};
use trials::place::{Place, ended, refused, stderr, stdout, succeeded, text, until};

/// Two of three must agree; each has a home of their own: `home`, `ben`, `cat`.
fn two_of_three() -> Place {
    let place = Place::founded(&["--signers", "2-of-3", "--node", "quay"]);
    for (signer, home) in [("ann-2", "ben"), ("ann-3", "cat")] {
        let to = place.path(home).to_string_lossy().into_owned();
        succeeded(&place.freehold(&["signer", "hand-over", signer, "--to", &to]));
    }
    place
}

/// Signs with the second home, once it has heard of what the head settles, and delivers.
fn agree(place: &Place, file: &str) {
    succeeded(&place.operator("ben", &["node", "list"]));
    let signed = place.operator_facts("ben", &["sign", file, "--yes"]);
    assert_eq!(signed["complete"], true, "{signed}");
    succeeded(&place.operator("ben", &["send", file]));
}

fn pending(told: &Value) -> String {
    text(&told["pending"], "file")
}

#[test]
fn what_the_very_head_does_to_machines_is_told_before_it_is_signed() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let before = place.facts(&["status"])["head"]["version"].clone();
    let told = place.freehold(&["node", "revoke", "web-1"]);
    assert!(!told.status.success(), "nobody said yes");
    assert!(stderr(&told).contains("revokes the key of web-1"), "{}", stderr(&told));
    assert_eq!(place.facts(&["status"])["head"]["version"], before);
}

#[test]
fn an_invite_a_revocation_and_a_refresh_wait_for_the_second_signature() {
    let place = two_of_three();
    let _gateway = place.serve();
    let invite = place.invite(&["--label", "rack 3"]);
    assert_eq!(invite["pending"]["needs"][0]["signed"], json!(["ann"]));
    let file = pending(&invite);
    // Until it is delivered it is nothing.
    refused(&place.join("web-1", &text(&invite, "code")), "this org has no invite");
    let shown = place.operator("cat", &["sign", "--show", &file]);
    succeeded(&shown);
    for words in ["lets machines join", "rack 3", "uses: 1 at `quay`"] {
        assert!(stderr(&shown).contains(words), "`{words}` in {}", stderr(&shown));
    }
    ended(&place.operator("ben", &["send", &file]), 5, "needs 2 signatures and has 1");
    agree(&place, &file);
    succeeded(&place.join("web-1", &text(&invite, "code")));

    let revoked = place.facts(&["node", "revoke", "web-1", "--yes"]);
    assert_eq!(revoked["revoked"], false);
    assert_eq!(place.state_of("web-1").unwrap(), "member");
    agree(&place, &pending(&revoked));
    assert_eq!(place.state_of("web-1").unwrap(), "revoked");

    let before = place.facts(&["audit", "--verify"])["head"].clone();
    let refreshed = place.facts(&["refresh"]);
    assert!(refreshed["pending"].is_object(), "{before} {refreshed}");
    agree(&place, &pending(&refreshed));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn replacing_a_node_waits_for_the_second_signature_under_both() {
    let place = two_of_three();
    let _gateway = place.serve();
    let invite = place.invite(&[]);
    agree(&place, &pending(&invite));
    succeeded(&place.join("web-1", &text(&invite, "code")));
    let old_key = place.facts(&["node", "show", "web-1"])["node_key"].clone();

    let replaced = place.facts(&["node", "replace", "web-1", "--yes", "--pending", "replace"]);
    let files: Vec<_> = replaced["pending"].as_array().unwrap().iter().map(|waiting| text(waiting, "file")).collect();
    assert_eq!(files, ["replace", "replace.2"]);
    // Neither the old key nor the new code is touched before the others agree, and half of it is half.
    assert_eq!(place.state_of("web-1").unwrap(), "member");
    agree(&place, &files[0]);
    refused(&place.join("web-2", &text(&replaced, "code")), "");
    agree(&place, &files[1]);
    assert_eq!(place.state_of("web-1").unwrap(), "revoked");
    succeeded(&place.node("web-1", &["join", "--name", "web-1"], &text(&replaced, "code")));
    let node = place.facts(&["node", "show", "web-1"]);
    assert_eq!(node["state"], "member");
    assert_ne!(node["node_key"], old_key);
    // One that is revoked already needs the invite alone.
    let revoked = place.facts(&["node", "revoke", "web-1", "--yes"]);
    agree(&place, &pending(&revoked));
    let again = place.facts(&["node", "replace", "web-1", "--yes"]);
    assert_eq!((&again["head"], again["pending"].as_array().unwrap().len()), (&Value::Null, 1));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn copies_signed_apart_are_put_together_and_a_third_signature_is_not_needed() {
    let place = two_of_three();
    let _gateway = place.serve();
    let file = pending(&place.facts(&["refresh"]));
    place.copy(&place.path(&file), &place.path("copy.pending"));
    // Both start from ann's; cat signs a copy that ann never saw again.
    succeeded(&place.co_sign("cat", "copy.pending"));
    refused(&place.operator("cat", &["sign", "copy.pending", "--yes"]), "has signed it already");
    succeeded(&place.operator("ben", &["send", &file, "copy.pending"]));
    let other = pending(&place.facts(&["refresh"]));
    let mixed = place.operator("ben", &["send", &other, "copy.pending"]);
    ended(&mixed, 1, "the copies are of different things");
}

#[test]
fn what_was_overtaken_is_refused_and_says_so() {
    let place = two_of_three();
    let _gateway = place.serve();
    let invite = place.invite(&[]);
    agree(&place, &pending(&invite));
    let first = pending(&place.facts(&["invite", "revoke", &text(&invite, "id"), "--yes"]));
    agree(&place, &pending(&place.facts(&["refresh"])));
    let late = place.operator("ben", &["sign", &first, "--yes"]);
    ended(&late, 1, "it would not follow what is so now");
    assert!(stderr(&late).contains("ask for a new one"), "{}", stderr(&late));
}

#[test]
fn a_changed_pending_file_is_worth_nothing() {
    let place = two_of_three();
    let _gateway = place.serve();
    let invite = place.invite(&[]);
    let path = place.path(&pending(&invite));
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let payload = file["handed"][0]["payload"].as_str().unwrap().to_owned();
    let body = identity::text::from_base64(&payload).unwrap();
    let more = String::from_utf8(body).unwrap().replace("\"uses\":\"1\"", "\"uses\":\"9\"");
    assert!(more.contains("\"9\""), "the file is not what it was");
    file["handed"][0]["payload"] = identity::text::base64(more.as_bytes()).into();
    std::fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
    let told = place.operator_facts("ben", &["sign", &pending(&invite), "--yes"]);
    assert_eq!(told["complete"], false, "ann's signature is not over this");
    assert!(told["does"].to_string().contains("uses: 9"), "what is shown is what is signed: {told}");
    ended(&place.operator("ben", &["send", &pending(&invite)]), 5, "needs 2 signatures and has 1");
}

#[test]
fn one_signer_suspends_alone_for_a_while_and_only_once() {
    let place = two_of_three();
    let _gateway = place.serve();
    let invite = place.invite(&[]);
    agree(&place, &pending(&invite));
    succeeded(&place.join("web-1", &text(&invite, "code")));
    let _agent = place.agent("web-1");
    until("it has checked in", || place.status("web-1")["last_check_in"].is_string());
    refused_usage(&place.operator("cat", &["suspend", "web-1", "--for", "25h", "--yes"]));
    let told = place.operator_facts("cat", &["suspend", "web-1", "--for", "20s", "--reason", "odd", "--yes"]);
    assert_eq!(told["name"], "web-1");
    until("the machine is told", || {
        place.status("web-1")["problem"].as_str().is_some_and(|why| why.contains("ann-3 suspended this machine"))
    });
    let shown = place.freehold(&["node", "show", "web-1"]);
    assert!(stdout(&shown).contains("by ann-3"), "{}", stdout(&shown));
    let again = place.operator("cat", &["suspend", "web-1", "--yes"]);
    refused(&again, "it cannot be repeated");
    until("it ends by itself", || place.status("web-1")["problem"].is_null());
    refused(&place.operator("cat", &["suspend", "web-1", "--yes"]), "it cannot be repeated");
    ended(&place.operator("ben", &["suspend", "quay", "--yes"]), 1, "is a gateway with a mandate");
}

fn refused_usage(output: &std::process::Output) {
    ended(output, 1, "one signer suspends for between");
}

#[test]
fn signers_come_and_go_and_the_last_one_stays() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    place.joined("web-1");
    ended(&place.freehold(&["signer", "remove", "ann", "--yes"]), 1, "is the last signer");
    // Ben makes his key in his own home, from the card.
    succeeded(&place.freehold(&["org", "card", "--out", "harbor.card"]));
    let made = place.operator_facts("ben", &["signer", "new", "ben", "--card", "harbor.card", "--unprotected"]);
    let key = text(&made, "key");
    refused(&place.operator("ben", &["node", "list"]), "no operator's signature");
    let added = place.facts(&["signer", "add", "ben", "--key", &key, "--threshold", "2", "--yes"]);
    let file = pending(&added);
    assert_eq!(added["pending"]["needs"][1]["others"], json!(["ben"]), "ben shows that he has the key");
    let shown = place.operator("ben", &["sign", "--show", &file]);
    for words in ["adds the signer `ben`", "2 of 2 must agree (now 1 of 1)"] {
        assert!(stderr(&shown).contains(words), "`{words}` in {}", stderr(&shown));
    }
    // Until then no gateway answers him, and his home cannot tell whether the head is right.
    ended(&place.operator("ben", &["sign", &file, "--yes"]), 3, "this home's copy of the ledger is not as new");
    succeeded(&place.operator("ben", &["sign", &file, "--yes", "--anyway"]));
    succeeded(&place.freehold(&["send", &file]));
    // His home hears of it with the next command.
    assert_eq!(place.operator_facts("ben", &["signer", "list"]).as_array().unwrap().len(), 2);
    assert_eq!(place.operator_facts("ben", &["node", "list"]).as_array().unwrap().len(), 2);
    let invite = place.operator_facts("ben", &["invite", "create"]);
    let file = pending(&invite);
    succeeded(&place.freehold(&["sign", &file, "--yes"]));
    succeeded(&place.freehold(&["send", &file]));
    succeeded(&place.join("web-2", &text(&invite, "code")));

    // A name stands for one key for ever, and too few cannot agree.
    ended(&place.freehold(&["signer", "remove", "ben", "--yes"]), 1, "2 of 1 cannot be met");
    let away = place.facts(&["signer", "remove", "ben", "--threshold", "1", "--yes"]);
    // The head lists `web-2`: his home must have heard of it.
    succeeded(&place.co_sign("ben", &pending(&away)));
    succeeded(&place.freehold(&["send", &pending(&away)]));
    refused(&place.operator("ben", &["node", "list"]), "no operator's signature");
    let back = place.freehold(&["signer", "add", "ben", "--unprotected", "--yes"]);
    assert!(stderr(&back).contains("belongs to another key"), "{}", stderr(&back));
    // The agent of a machine that was there all along walks the chain of sets.
    let _agent = place.agent("web-1");
    until("it has followed", || place.status("web-1")["head"].as_u64() >= Some(3));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn an_invite_dies_with_the_signer_who_made_it() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    let invite = place.invite(&["--uses", "3"]);
    succeeded(&place.join("web-1", &text(&invite, "code")));
    let added = place.facts(&["signer", "add", "spare", "--unprotected", "--yes"]);
    assert_eq!(added["pending"], Value::Null, "both keys are here");
    succeeded(&place.join("web-2", &text(&invite, "code")));
    let replaced = place.facts(&["signer", "replace", "ann", "ann-new", "--unprotected", "--yes"]);
    assert_eq!(replaced["pending"], Value::Null);
    refused(&place.join("web-3", &text(&invite, "code")), "signed by people who no longer sign for the org");
    succeeded(&place.join("web-3", &place.code(&[])));
    assert_eq!(place.facts(&["node", "list"]).as_array().unwrap().len(), 4, "who is in stays in");
}

#[test]
fn what_a_change_of_signers_ends_is_named_and_carried_over_by_new_signatures() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    let invite = place.invite(&["--uses", "3", "--label", "rack 3"]);
    let (id, code) = (text(&invite, "id"), text(&invite, "code"));
    let replaced = place.facts(&["signer", "replace", "ann", "ben", "--unprotected", "--yes"]);
    assert_eq!((&replaced["ends"][0]["id"], &replaced["ends"][0]["label"]), (&json!(id), &json!("rack 3")));
    refused(&place.join("web-1", &code), "signed by people who no longer sign for the org");
    let over = place.freehold(&["sign", "--over", "--yes"]);
    succeeded(&over);
    let named = format!("invite {} \"rack 3\", signed by ann, until ", &id[..8]);
    assert!(stderr(&over).contains(&named), "{}", stderr(&over));
    succeeded(&place.join("web-1", &code));
    assert_eq!(place.facts(&["sign", "--over", "--yes"])["over"], json!([]), "they count");

    // From two of two on, both must carry over what one had signed.
    let added = place.facts(&["signer", "add", "cat", "--unprotected", "--threshold", "2", "--yes"]);
    assert_eq!(added["ends"][0]["id"], json!(id));
    let to = place.path("cat").to_string_lossy().into_owned();
    succeeded(&place.freehold(&["signer", "hand-over", "cat", "--to", &to]));
    refused(&place.join("web-2", &code), "signed by people who no longer sign for the org");
    let file = pending(&place.facts(&["sign", "--over", "--yes"]));
    let shown = place.operator("cat", &["sign", "--show", &file]);
    assert!(stderr(&shown).contains(&format!("lets machines join with invite {id}")), "{}", stderr(&shown));
    succeeded(&place.operator("cat", &["sign", &file, "--yes"]));
    succeeded(&place.operator("cat", &["send", &file]));
    succeeded(&place.join("web-2", &code));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

/// The change was signed before the machine came, and delivered after.
#[test]
fn whoever_joined_while_a_change_of_signers_waited_waits_and_is_carried_over_with_its_invite() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    succeeded(&place.freehold(&["org", "card", "--out", "harbor.card"]));
    let made = place.operator_facts("ben", &["signer", "new", "ben", "--card", "harbor.card", "--unprotected"]);
    let key = text(&made, "key");
    let code = place.code(&[]);
    let change = pending(&place.facts(&["signer", "add", "ben", "--key", &key, "--threshold", "2", "--yes"]));
    succeeded(&place.join("late", &code));
    let agree = |file: &str| {
        // Before he is a signer no gateway answers him.
        succeeded(&place.operator("ben", &["sign", file, "--yes", "--anyway"]));
        succeeded(&place.freehold(&["send", file]));
    };
    agree(&change);
    let shown = place.facts(&["node", "show", "late"]);
    assert_eq!(shown["state"], "waiting");
    assert!(text(&shown, "waits").contains("1 of the 2 signers that it needs"), "{shown}");
    // His home hears that he signs now.
    succeeded(&place.operator("ben", &["node", "list"]));
    agree(&pending(&place.facts(&["sign", "--over", "--yes"])));
    assert_eq!(place.state_of("late").as_deref(), Some("member"));
    assert_eq!(place.facts(&["node", "show", "late"]).get("waits"), None);
}

#[test]
fn a_mandate_is_changed_by_the_threshold_and_binds_the_gateway() {
    let place = two_of_three();
    let _gateway = place.serve();
    let change =
        |words: &[&str]| place.freehold(&[&["mandate", "change", "quay", "--yes", "--json"][..], words].concat());
    ended(&change(&["--name", "web-*"]), 1, "could not renew its own certificate");
    ended(&change(&["--svid-ttl", "5s"]), 1, "between 10s and 90d");
    let told = trials::place::json(&change(&["--name", "web-*", "--name", "quay", "--svid-ttl", "2h"]));
    let shown = place.operator("ben", &["sign", "--show", &pending(&told)]);
    assert!(stderr(&shown).contains("CHANGES THE MANDATE of `quay`"), "{}", stderr(&shown));
    agree(&place, &pending(&told));
    let mandates = place.operator_facts("cat", &["mandate", "list"]);
    assert_eq!((&mandates[0]["svid_ttl"], &mandates[0]["names"]), (&7_200.into(), &json!(["web-*", "quay"])));
    let invite = place.invite(&["--uses", "2"]);
    agree(&place, &pending(&invite));
    refused(&place.join("db-1", &text(&invite, "code")), "mandate is not in force");
    succeeded(&place.join("web-1", &text(&invite, "code")));
}

#[test]
fn who_was_cut_off_while_adding_a_signer_runs_it_again() {
    let place = Place::founded(&["--node", "quay"]);
    // Nobody says yes: the key is made, the set is not.
    ended(&place.freehold(&["signer", "add", "spare", "--unprotected"]), 2, "this needs a yes");
    let first = place.facts(&["signer", "new", "spare", "--unprotected"]);
    let again = place.facts(&["signer", "new", "spare", "--unprotected"]);
    assert_eq!(first["key"], again["key"], "the key that was made is shown again, not made anew");
    let added = place.facts(&["signer", "add", "spare", "--unprotected", "--yes"]);
    assert_eq!(added["signers"], json!(["ann", "spare"]));
    refused(&place.freehold(&["signer", "new", "spare", "--unprotected"]), "is here already");
}
