//! The gateway's inbox: what one signer leaves, the others find, sign and deliver without a file. It decides nothing.

use identity::envelope::Envelope;
use serde_json::{Value, json};
use trials::attack::between::Between;
use trials::attack::thief::{Thief, signed_call};
use trials::client::stranger::Dial;
use trials::place::{Place, ended, stderr, stdout, succeeded, text};
use wire::control::{Call, ControlAnswer};
use wire::permit::Ask;

/// All of three must agree, or two; each has a home of their own: `home`, `ben`, `cat`.
fn three(threshold: &str) -> Place {
    let place = Place::founded(&["--signers", threshold, "--node", "quay"]);
    for (signer, home) in [("ann-2", "ben"), ("ann-3", "cat")] {
        let to = place.path(home).to_string_lossy().into_owned();
        succeeded(&place.freehold(&["signer", "hand-over", signer, "--to", &to]));
    }
    place
}

fn short(left: &Value) -> String {
    text(&left["pending"], "digest")[..8].to_owned()
}

fn objects(left: &Value) -> Vec<Envelope> {
    let file: Value = serde_json::from_slice(&std::fs::read(text(&left["pending"], "file")).unwrap()).unwrap();
    serde_json::from_value(file["handed"].clone()).unwrap()
}

/// How `ann`'s stolen key is answered.
fn stolen(place: &Place, call: &Call) -> String {
    Thief::of(place).call(&mut Dial::to(place.port).line(), call).code()
}

fn head(place: &Place) -> u64 {
    place.facts(&["status"])["head"]["version"].as_u64().unwrap()
}

#[test]
fn what_one_signer_leaves_is_told_to_each_once_signed_by_the_others_and_delivered_by_the_last() {
    let place = three("3-of-3");
    let _gateway = place.serve();
    let before = head(&place);
    let left = place.facts(&["refresh"]);
    assert_eq!(left["pending"]["inbox"], "quay");
    let folder = place.org().join("operator/pending");
    assert!(text(&left["pending"], "file").starts_with(&*folder.to_string_lossy()), "{left}");
    let digits = short(&left);
    let told = format!("SIGN: head, left by ann, waits for your signature: freehold sign {digits}");
    for home in ["ben", "cat"] {
        let first = place.operator(home, &["node", "list"]);
        assert!(stderr(&first).contains(&told), "{}", stderr(&first));
        let second = place.operator(home, &["node", "list"]);
        assert!(!stderr(&second).contains("SIGN:"), "{}", stderr(&second));
    }
    let status = place.operator_facts("ben", &["status"]);
    assert_eq!(status["waits_for_signatures"], 1);
    assert_eq!(status["pending"][0]["inbox"], true, "{status}");
    let shown = place.operator("ben", &["sign", "--show"]);
    assert_eq!(shown.status.code(), Some(0));
    assert!(stdout(&shown).contains("signed by ann; 2 more of: ann-2, ann-3"), "{}", stdout(&shown));
    // What nobody looked at, nobody says yes to.
    ended(&place.operator("ben", &["sign", "--yes"]), 2, "a yes beforehand is for what was looked at");
    ended(&place.operator("ben", &["sign"]), 2, "there is no terminal to ask at");
    let signed = place.operator_facts("ben", &["sign", &digits, "--yes"]);
    assert_eq!(
        (&signed["waits_for_signatures"], &signed["pending"][0]["signed_now"]),
        (&true.into(), &json!(["ann-2"]))
    );
    assert_eq!(head(&place), before);
    let last = place.operator("cat", &["sign", &digits, "--yes", "--json"]);
    assert_eq!(last.status.code(), Some(0), "{}{}", stdout(&last), stderr(&last));
    let last: Value = serde_json::from_slice(&last.stdout).unwrap();
    assert_eq!((&last["waits_for_signatures"], &last["pending"][0]["sent"]), (&false.into(), &true.into()));
    assert_eq!(head(&place), before + 1);
    assert_eq!(place.facts(&["status"])["waits_for_signatures"], 0);
    assert_eq!(place.operator_facts("ben", &["sign", "--show"])["pending"], json!([]));
}

#[test]
fn two_who_sign_at_once_do_not_take_each_others_signature_away() {
    let place = three("3-of-3");
    let _gateway = place.serve();
    let before = head(&place);
    let left = place.facts(&["refresh"]);
    let digits = short(&left);
    // Each has read it before the other has signed: the copies as they would be left.
    let bare = objects(&left);
    for (home, name) in [("ben", "ann-2"), ("cat", "ann-3")] {
        let key = Thief::at(place.path(home).join("harbor"), place.port).signer_of(name);
        let own: Vec<Envelope> = bare.iter().map(|object| object.clone().signed(&key).unwrap()).collect();
        let mut line = Dial::to(place.port).line();
        let call = signed_call(name, &Call::Leave { objects: own }, line.exporter, &key);
        assert_eq!(line.ask(Ask::Control, &call).unwrap().code(), "ok");
    }
    let told = place.facts(&["sign", &digits, "--yes"]);
    assert_eq!(told["pending"][0]["sent"], true, "{told}");
    assert_eq!(head(&place), before + 1);
}

#[test]
fn a_thief_with_one_key_of_three_fills_their_own_places_and_keeps_nobody_from_anything() {
    let place = three("2-of-3");
    let _gateway = place.serve();
    let thief = Thief::of(&place);
    let key = thief.signer();
    let mut sent = 0;
    let refused = loop {
        let junk = thief.head(|head| {
            head.version += 1;
            head.previous = vec![thief.known().head.digest];
            head.fresh_until = head.fresh_until + identity::time::Seconds(sent);
        });
        match stolen(&place, &Call::Leave { objects: vec![junk] }).as_str() {
            "ok" => sent += 1,
            other => break other.to_owned(),
        }
    };
    assert_eq!((sent, refused.as_str()), (32, "inbox_full"));
    // Nothing, what nobody signed, what is of another org, what is too large, and too much at once.
    let left = place.operator_facts("ben", &["refresh"]);
    let theirs = objects(&left);
    let other = Place::founded(&[]);
    let foreign = Thief::of(&other).head(|_| {});
    for objects in [vec![], theirs.clone(), vec![foreign], vec![theirs[0].clone(); 65]] {
        assert_ne!(stolen(&place, &Call::Leave { objects }), "ok");
    }
    let huge =
        Call::Leave {
            objects: vec![serde_json::from_value(json!({
        "payloadType": "application/vnd.freehold.head+json", "payload": "AAAA".repeat(200_000), "signatures": []
    })).unwrap()],
        };
    assert_ne!(stolen(&place, &huge), "ok");
    // What another left is not the thief's to take back, and another's signature not to be overwritten.
    let digest = text(&left["pending"], "digest").parse().unwrap();
    assert_eq!(stolen(&place, &Call::Withdraw { digest }), "ok");
    let forged: Vec<Envelope> = theirs
        .iter()
        .map(|object| {
            let mut told = serde_json::to_value(object.clone().signed(&key).unwrap()).unwrap();
            for signature in told["signatures"].as_array_mut().unwrap() {
                if signature["keyid"] != key_text(&key) {
                    signature["sig"] = "AAAA".into();
                }
            }
            serde_json::from_value(told).unwrap()
        })
        .collect();
    assert_eq!(stolen(&place, &Call::Leave { objects: forged }), "inbox_full", "not even that");
    let digits = short(&left);
    let before = head(&place);
    succeeded(&place.operator("cat", &["node", "list"]));
    let signed = place.operator_facts("cat", &["sign", &digits, "--yes"]);
    assert_eq!(signed["pending"][0]["sent"], true, "{signed}");
    assert_eq!(head(&place), before + 1);
    // A head went by: what the thief left is over, and makes room by itself.
    assert_eq!(place.operator_facts("ben", &["sign", "--show"])["pending"], json!([]));
}

fn key_text(key: &identity::key::EdKey) -> String {
    use identity::key::Sign as _;
    key.public().to_string()
}

#[test]
fn a_gateway_that_hides_or_changes_what_lies_there_only_delays() {
    let place = three("2-of-3");
    let _gateway = place.serve();
    let left = place.facts(&["refresh"]);
    let digits = short(&left);
    let file = text(&left["pending"], "file");
    let hides = Between::changing(&place, |answer| match answer {
        ControlAnswer::Inbox { .. } => ControlAnswer::Inbox { left: Vec::new(), next: None },
        other => other,
    });
    let at = |address: &str, words: &[&str]| {
        let mut command = place.freehold_command(&[]);
        command.args(words).arg("--gateway").arg(address);
        trials::place::output(command)
    };
    ended(&at(&hides.address, &["sign", &digits, "--yes"]), 1, "nothing in the gateway's inbox is called so");
    let changes = Between::changing(&place, |answer| match answer {
        ControlAnswer::Inbox { mut left, next } => {
            for view in &mut left {
                let told = serde_json::to_string(&view.objects).unwrap();
                let mut told: Value = serde_json::from_str(&told).unwrap();
                for object in told.as_array_mut().unwrap() {
                    let body = identity::text::from_base64(object["payload"].as_str().unwrap()).unwrap();
                    let other = String::from_utf8(body).unwrap().replace("\"refresh\"", "\"fleet_publish\"");
                    object["payload"] = identity::text::base64(other.as_bytes()).into();
                }
                view.objects = serde_json::from_value(told).unwrap();
            }
            // Neither does it go on for ever.
            ControlAnswer::Inbox { left, next: next.or(Some(1)) }
        }
        other => other,
    });
    let shown = at(&changes.address, &["sign", "--show", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["pending"], json!([]), "nobody who counts signed that");
    // The file way stays.
    succeeded(&place.co_sign("ben", &file));
    succeeded(&place.operator("ben", &["send", &file]));
}

#[test]
fn only_whoever_signs_now_sees_the_inbox_and_what_was_left_goes_with_the_signer() {
    let place = three("2-of-3");
    let _gateway = place.serve();
    let by_cat = place.operator_facts("cat", &["refresh"]);
    assert_eq!(by_cat["pending"]["inbox"], "quay", "{by_cat}");
    let removed = place.facts(&["signer", "remove", "ann-3", "--yes"]);
    succeeded(&place.operator("ben", &["node", "list"]));
    succeeded(&place.operator("ben", &["sign", &short(&removed), "--yes"]));
    let key = Thief::at(place.path("cat").join("harbor"), place.port).signer_of("ann-3");
    for call in [Call::Inbox { after: 0 }, Call::Leave { objects: objects(&by_cat) }] {
        let mut line = Dial::to(place.port).line();
        let call = signed_call("ann-3", &call, line.exporter, &key);
        assert_eq!(line.ask(Ask::Control, &call).unwrap().code(), "not_an_operator");
    }
    assert_eq!(place.facts(&["sign", "--show"])["pending"], json!([]));
}

#[test]
fn what_was_left_is_taken_back_by_whoever_left_it() {
    let place = three("2-of-3");
    let _gateway = place.serve();
    let left = place.facts(&["refresh"]);
    let digits = short(&left);
    succeeded(&place.operator("ben", &["sign", "--drop", &digits]));
    assert_eq!(place.facts(&["sign", "--show"])["pending"].as_array().unwrap().len(), 1, "ben had left none");
    succeeded(&place.freehold(&["sign", "--drop", &digits]));
    assert_eq!(place.facts(&["sign", "--show"])["pending"], json!([]));
}
