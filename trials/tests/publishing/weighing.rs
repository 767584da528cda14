//! Whom a head newly lists, and whose keys it ends, is seen by whoever signs it; a co-signer holds it against its own home.

use identity::envelope::Envelope;
use identity::head::{Cause, Head, Recorded};
use identity::id::Digest;
use identity::members::{ClassLeaf, Leaf, Meant, MembersMap, NodeLeaf};
use serde_json::{Value, json};
use trials::attack::thief::Thief;
use trials::place::{Place, ended, json as facts, stderr, succeeded, text};

use super::{QUAY, Scene, wiki_on};

#[test]
fn a_command_that_signs_a_head_names_whom_it_lists_and_whose_key_it_ends() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    assert_eq!(place.facts(&["refresh"])["lists"], json!(["quay"]), "the first head names no map");
    place.joined("web-1");
    place.joined("web-2");
    let refreshed = place.freehold(&["refresh"]);
    succeeded(&refreshed);
    assert!(stderr(&refreshed).contains("lists 2 new members: web-1, web-2\n"), "{}", stderr(&refreshed));
    assert_eq!(place.facts(&["refresh"])["lists"], json!([]), "they are listed by now");
    place.joined("web-3");
    let revoked = place.facts(&["node", "revoke", "web-2", "--yes"]);
    assert_eq!((&revoked["lists"], &revoked["revokes_keys"]), (&json!(["web-3"]), &json!(["web-2"])));
    assert_eq!(revoked["leaves_waiting"], json!([]));
}

/// Each drafts the very head that it would sign; nobody is there to say yes.
#[test]
fn whoever_is_asked_is_told_before_what_the_head_does_to_machines() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1"]);
    let place = &scene.place;
    scene.declare(QUAY);
    scene.publish();
    scene.declare(&wiki_on("web-1"));
    place.joined("web-2");
    let head = place.facts(&["status"])["head"]["version"].clone();
    let before = (head.as_u64().unwrap() - 1).to_string();
    let commands: [&[&str]; 10] = [
        &["publish", "fleet"],
        &["rollback"],
        &["signer", "add", "ben", "--unprotected"],
        &["signer", "threshold", "1"],
        &["mandate", "change", "quay", "--svid-ttl", "8h"],
        &["user", "revoke", "ann"],
        &["node", "revoke", "web-1"],
        &["node", "replace", "web-1"],
        &["refresh", "--around", &before],
        &["rotate", "identity", "--compromised"],
    ];
    for words in commands {
        let told = place.freehold(words);
        ended(&told, 2, if words.contains(&"--compromised") { "this must be confirmed" } else { "this needs a yes" });
        assert!(stderr(&told).contains("lists 1 new member: web-2\n"), "{words:?}: {}", stderr(&told));
    }
    assert_eq!(place.facts(&["status"])["head"]["version"], head, "nothing was signed");
}

/// Where nobody is asked, too.
#[test]
fn each_head_of_a_rotation_is_told_of_before_it_is_signed() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    succeeded(&place.freehold(&["refresh"]));
    place.joined("web-1");
    let rotated = place.freehold(&["rotate", "endpoint", "--no-wait"]);
    ended(&rotated, 5, "not every node has version 2 yet");
    let told = stderr(&rotated);
    let at = |words: &str| told.find(words).unwrap_or_else(|| panic!("no `{words}` in {told}"));
    assert!(at("a new root is to be handed out") < at("lists 1 new member: web-1\n"), "{told}");
    assert!(at("lists 1 new member: web-1\n") < at("version 2 is handed out"), "{told}");
    assert_eq!(told.matches("lists 1 new member").count(), 1, "{told}");
}

/// One key stays with ann, the others go to homes of their own.
fn two_of_three() -> (Place, String) {
    let place = Place::founded(&["--signers", "2-of-3", "--node", "quay"]);
    let code = place.code(&["--uses", "3"]);
    for (signer, home) in [("ann-2", "ben"), ("ann-3", "cat")] {
        let to = place.path(home).to_string_lossy().into_owned();
        succeeded(&place.freehold(&["signer", "hand-over", signer, "--to", &to]));
    }
    (place, code)
}

#[test]
fn a_co_signer_sees_whom_a_head_lists_and_signs_for_nobody_whom_its_own_home_does_not_know() {
    let (place, code) = two_of_three();
    let _gateway = place.serve();
    succeeded(&place.operator("ben", &["node", "list"]));
    for node in ["web-1", "web-2"] {
        succeeded(&place.join(node, &code));
    }
    let told = place.facts(&["refresh"]);
    assert_eq!(told["lists"], json!(["quay", "web-1", "web-2"]));
    let file = text(&told["pending"], "file");
    // Of these machines this home has not heard: it does not take another operator's word.
    let unheard = place.operator("ben", &["sign", &file, "--yes"]);
    ended(&unheard, 3, "it lists `web-1`, of which this home's copy of the ledger knows nothing (and 1 more)");
    assert!(stderr(&unheard).contains("freehold node list"), "{}", stderr(&unheard));
    let shown = facts(&place.operator("ben", &["sign", "--show", &file, "--json"]));
    assert_eq!(shown["contradicts"].as_array().unwrap().len(), 2);
    assert!(text(&shown, "not_compared").contains("which this home does not have"), "{shown}");

    // Whoever writes somebody out of the file changes what it says, not what is signed.
    let mut hidden: Value = serde_json::from_slice(&std::fs::read(place.path(&file)).unwrap()).unwrap();
    hidden["listing"]["come"].as_array_mut().unwrap().pop();
    std::fs::write(place.path("hidden"), hidden.to_string()).unwrap();
    ended(&place.operator("ben", &["sign", "hidden", "--yes"]), 1, "it shows other members than its head names");

    succeeded(&place.operator("ben", &["node", "list"]));
    let signed = place.operator("ben", &["sign", &file, "--yes"]);
    succeeded(&signed);
    assert!(stderr(&signed).contains("lists 3 new members: quay, web-1, web-2\n"), "{}", stderr(&signed));
    succeeded(&place.operator("ben", &["send", &file, "--no-wait"]));
    assert_eq!(place.facts(&["refresh"])["lists"], json!([]), "they are listed by now");
}

#[test]
fn a_co_signer_signs_no_head_that_does_not_say_whom_it_lists() {
    let (place, _) = two_of_three();
    let _gateway = place.serve();
    succeeded(&place.operator("ben", &["node", "list"]));
    let file = text(&place.facts(&["refresh"])["pending"], "file");
    let mut silent: Value = serde_json::from_slice(&std::fs::read(place.path(&file)).unwrap()).unwrap();
    silent.as_object_mut().unwrap().remove("listing").unwrap();
    std::fs::write(place.path("silent"), silent.to_string()).unwrap();
    for words in [&["sign", "silent", "--yes"][..], &["sign", "silent", "--yes", "--json"]] {
        ended(&place.operator("ben", words), 3, "cannot tell whether it is right: the file does not say whom it lists");
    }
    assert_eq!(place.operator_facts("ben", &["sign", "silent", "--yes", "--anyway"])["signed_now"], json!(["ann-2"]));
}

type Forgery = fn(&mut Head, &mut Vec<Leaf>);

/// What ann left for the others, but for what the forgery changes: rightly signed by her.
fn forge(place: &Place, file: &str, forgery: Forgery) -> String {
    let mut pending: Value = serde_json::from_slice(&std::fs::read(place.path(file)).unwrap()).unwrap();
    let (thief, listing) = (Thief::of(place), &pending["listing"]);
    let head: Envelope = serde_json::from_value(pending["handed"][0].clone()).unwrap();
    let mut head: Head = head.peek(Some(thief.known().org())).unwrap();
    let mut leaves: Vec<Leaf> = serde_json::from_value(listing["come"].clone()).unwrap();
    assert_eq!(listing["base"], Value::Null, "these are all of them");
    forgery(&mut head, &mut leaves);
    head.members = Some(MembersMap::of(&leaves).unwrap().root());
    pending["listing"]["come"] = serde_json::to_value(&leaves).unwrap();
    pending["handed"][0] = serde_json::to_value(thief.seal(&head, &thief.signer())).unwrap();
    std::fs::write(place.path("forged"), pending.to_string()).unwrap();
    "forged".to_owned()
}

#[test]
fn a_co_signer_sees_another_admission_another_meaning_and_a_record_that_nobody_can_follow() {
    let (place, code) = two_of_three();
    let _gateway = place.serve();
    succeeded(&place.join("web-1", &code));
    succeeded(&place.operator("ben", &["node", "list"]));
    let file = text(&place.facts(&["refresh"])["pending"], "file");
    let cases: [(Forgery, &str); 10] = [
        (|_, leaves| node(leaves).admission = Digest([7; 32]), "lists `web-1` by another admission"),
        (
            |_, leaves| node(leaves).manifest = Meant::Own(Digest([7; 32])),
            "means `web-1` to be something else than now",
        ),
        (|_, leaves| leaves.push(class()), "means the class `web` to be something else than now"),
        (
            |head, leaves| {
                // It says that it publishes the fleet, which is the one of now.
                (head.cause, head.fleet) = (Cause::FleetPublish, None);
                leaves.push(class());
            },
            "means the class `web` to be something else than now",
        ),
        // Heads that it names by digest: of what is in them it says nothing.
        (|head, _| head.previous.push(Digest([7; 32])), "it follows or takes in the head 0707"),
        (
            |head, _| head.previous.insert(0, Digest([7; 32])),
            "it goes round the head in force, and the one that it follows is not in this home",
        ),
        (|head, _| head.recent.push(Digest([7; 32])), "it lets members show themselves by the head 0707"),
        (|head, _| head.record.values_mut().for_each(|at| at.digest = Digest([7; 32])), "that is not the one here"),
        (|head, _| head.record.values_mut().for_each(|at| at.seq -= 1), "that is not the one here"),
        (
            |head, _| {
                let nowhere = Recorded { seq: u64::MAX - 1, digest: Digest([7; 32]) };
                head.record.values_mut().for_each(|at| *at = nowhere);
            },
            "cannot tell whether it is right: it settles the chain of `quay` up to entry 18446744073709551614",
        ),
    ];
    for (forgery, why) in cases {
        let forged = forge(&place, &file, forgery);
        let told = place.operator("ben", &["sign", &forged, "--yes"]);
        ended(&told, 3, why);
        assert!(!stderr(&told).contains("  of the fleet"), "nobody says so: {}", stderr(&told));
    }
    succeeded(&place.operator("ben", &["sign", &forge(&place, &file, |_, _| {}), "--yes"]));
}

fn node(leaves: &mut [Leaf]) -> &mut NodeLeaf {
    let mut nodes = leaves.iter_mut().filter_map(|leaf| match leaf {
        Leaf::Node(leaf) => Some(leaf),
        Leaf::Class(_) => None,
    });
    nodes.find(|leaf| leaf.name.as_str() == "web-1").unwrap()
}

fn class() -> Leaf {
    let (class, names) = ("web".parse().unwrap(), vec!["wob-*".parse().unwrap()]);
    Leaf::Class(ClassLeaf { class, names, manifest: Digest([7; 32]) })
}
