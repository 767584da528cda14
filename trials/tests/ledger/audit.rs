//! The audit: every change is in it, and every tampering with the gateway's file is named.

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::members::{Leaf, Meant, NodeLeaf};
use org::invite::approve::{Decision, Verdict};
use org::ledger::entry::Action;
use rusqlite::Connection;
use serde_json::Value;
use trials::attack::intruder::Intruder;
use trials::attack::thief::Thief;
use trials::client::joiner::Joiner;
use trials::place::{Place, ended, refused, stderr, stdout, succeeded, text};

#[test]
fn every_change_is_told_with_who_what_whom_and_the_result() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    let invite = place.invite(&["--uses", "2"]);
    let (id, code) = (text(&invite, "id"), text(&invite, "code"));
    succeeded(&place.join("web-1", &code));
    succeeded(&place.join("web-2", &code));
    succeeded(&place.node("web-2", &["leave", "--yes"], ""));
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    succeeded(&place.freehold(&["invite", "revoke", &id, "--yes"]));
    succeeded(&place.freehold(&["refresh"]));
    let lines = place.facts(&["audit"]);
    let org = text(&place.facts(&["org", "list"])[0], "org_id");
    let (ann, quay) = ("signer/ann", "node/quay");
    let expected = [
        (ann, "org.found", org.as_str()),
        (ann, "bootstrap_trust.publish", "identity"),
        (ann, "bootstrap_trust.publish", "endpoint"),
        (ann, "head.publish", "founding"),
        (quay, "node.admit", "quay"),
        (ann, "invite.create", &id),
        (quay, "node.admit", "web-1"),
        (quay, "node.join", "web-1"),
        (quay, "node.admit", "web-2"),
        (quay, "node.join", "web-2"),
        (quay, "node.leave", "web-2"),
        (ann, "node.revoke", "web-1"),
        (ann, "invite.revoke", &id),
        (ann, "head.refresh", "head"),
    ];
    let lines = lines.as_array().unwrap();
    let found = lines.iter().map(|line| (field(line, "actor"), field(line, "action"), field(line, "subject")));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    for line in lines {
        assert_eq!(field(line, "result"), "done");
        assert!(!field(line, "correlation").is_empty() && !field(line, "fingerprint").is_empty(), "{line}");
    }
    let about = |subject: &str| place.facts(&["audit", "--subject", subject]).as_array().unwrap().len();
    assert_eq!((about("web-1"), about("web-2"), about("nobody")), (3, 3, 0));
    assert_eq!(about(&id), 8, "its making, its end, and the machines that came by it");
    assert!(stdout(&place.freehold(&["audit", "--subject", "web-1"])).contains("node.revoke"));
}

#[test]
fn the_ledger_holds_with_the_gateway_running_and_not() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    place.joined("web-1");
    let running = place.facts(&["audit", "--verify"]);
    assert_eq!((&running["ok"], &running["void"], &running["first_bad"]), (&true.into(), &0.into(), &Value::Null));
    assert_eq!(gateway.stop(), Some(0));
    assert_eq!(place.facts(&["audit", "--verify"]), running);
    assert!(stdout(&place.freehold(&["audit", "--verify"])).contains("8 entries hold"));
}

#[test]
fn a_changed_entry_is_named() {
    let place = with_history();
    let place_in = |envelope: &str, field: &str| envelope.find(&format!("\"{field}\":")).unwrap() + field.len() + 20;
    let change = |ledger: &Connection, field: &str| {
        let envelope: String = ledger.query_row(ENTRY_7, [], |row| row.get(0)).unwrap();
        let at = place_in(&envelope, field);
        let other = if &envelope[at..=at] == "A" { "B" } else { "A" };
        let changed = format!("{}{other}{}", &envelope[..at], &envelope[at + 1..]);
        ledger.execute("UPDATE entries SET envelope = ?1 WHERE id = 7", [changed]).unwrap();
    };
    let why = check_tampering(&place, &["entry 7"], |ledger| change(ledger, "payload"));
    assert!(why.contains("the ledger is damaged"), "{why}");
    let why = check_tampering(&place, &["entry 7"], |ledger| change(ledger, "sig"));
    assert!(why.contains("the ledger does not hold"), "{why}");
    check_tampering(&place, &["entry 7"], |ledger| {
        ledger.execute("UPDATE entries SET envelope = 'x' || envelope WHERE id = 7", []).unwrap();
    });
    check_tampering(&place, &["entry 7"], |ledger| {
        ledger
            .execute("UPDATE entries SET envelope = (SELECT envelope FROM entries WHERE id = 8) WHERE id = 7", [])
            .unwrap();
    });
}

#[test]
fn a_leaf_that_names_the_admission_of_another_has_no_evidence() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    place.joined("web-1");
    place.joined("web-2");
    let leaf = |name: &str, admitted: &str| {
        let [own, other] = [name, admitted].map(|name| place.facts(&["node", "show", name]));
        let key: PublicKey = text(&own, "node_key").parse().unwrap();
        let admission = text(&other, "admission").parse().unwrap();
        Leaf::Node(NodeLeaf {
            name: name.parse().unwrap(),
            node_key: key.digest(),
            admission,
            manifest: Meant::Nothing,
        })
    };
    let thief = Thief::of(&place);
    thief.publish(&[leaf("quay", "quay"), leaf("web-1", "web-2"), leaf("web-2", "web-2")], &[], |_| {});
    let told = place.freehold(&["audit", "--verify"]);
    ended(&told, 1, "`web-1` is listed by head, and the entry that admitted it");
    assert!(stderr(&told).contains("admitted `web-2` with the node key"), "{}", stderr(&told));
    thief.publish(&["quay", "web-1", "web-2"].map(|name| leaf(name, name)), &[], |_| {});
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn what_does_not_count_is_a_line_and_a_number_and_no_failure() {
    let place = with_history();
    let code = place.code(&["--uses", "1"]);
    let intruder = Intruder::at(place.org().join("gateway"));
    // A gateway that was taken over says in its own voice what has no effect.
    intruder.put(&intruder.says(Action::NodeJoin { node_key: Digest([7; 32]), name: "ghost".parse().unwrap() }));
    for name in ["first", "second"] {
        let joiner = Joiner::new(&code, name);
        intruder.put(&intruder.says(joiner.let_in_by(&intruder.state())));
    }
    let word = Decision { about: Digest([7; 32]), verdict: Verdict::Approve, until: None };
    let envelope = Envelope::seal(Some(intruder.founding().id), &word).unwrap().signed(&intruder.voice()).unwrap();
    intruder.put(&intruder.says(Action::Take { envelope }));
    let _gateway = place.serve();
    let verdict = place.facts(&["audit", "--verify"]);
    assert_eq!(
        (&verdict["ok"], &verdict["entries"], &verdict["void"], &verdict["first_bad"]),
        (&true.into(), &13.into(), &3.into(), &Value::Null)
    );
    let told = stdout(&place.freehold(&["audit", "--verify"]));
    assert!(told.contains("13 entries hold") && told.contains("3 of them do not count"), "{told}");
    let subjects = [
        ("ghost", "void: nobody was let in with that key"),
        ("second", "void: all uses of the invite at this gateway were spent"),
    ];
    for (subject, why) in subjects {
        let lines = place.facts(&["audit", "--subject", subject]);
        assert!(field(&lines[0], "result").starts_with(why), "{lines}");
    }
    let lines = place.facts(&["audit"]);
    let last = lines.as_array().unwrap().last().unwrap();
    assert_eq!(field(last, "result"), "void: no signer of this org has signed it", "{last}");
    // Nor is it a failure of what is built on it: machines join, and a backup holds.
    place.joined("web-2");
    assert_eq!(place.facts(&["audit", "--verify"])["void"], 3);
    let words = place.passphrase("a void entry");
    let kept = ["--backup-passphrase-file", &words];
    succeeded(&place.freehold(&[&["backup", "create", "--out", "kept"], &kept[..]].concat()));
    succeeded(&place.freehold(&[&["backup", "verify", "kept"], &kept[..]].concat()));
}

#[test]
fn a_missing_entry_is_named() {
    let place = with_history();
    // This home has not seen these yet.
    check_tampering(&place, &["entry 7 of the chain of", "is missing"], |ledger| {
        ledger.execute("DELETE FROM entries WHERE id = 7", []).unwrap();
    });
    check_tampering(&place, &["the ledger has no head"], |ledger| {
        ledger.execute("DELETE FROM entries", []).unwrap();
    });
}

#[test]
fn a_ledger_that_was_set_back_is_handed_what_it_lacks_by_whoever_saw_more() {
    let place = Place::founded(&[]);
    let ledger = place.org().join("gateway/ledger.db");
    std::fs::copy(&ledger, place.path("old")).unwrap();
    let code = place.code(&[]);
    let before = Intruder::at(place.org().join("gateway")).entries();
    std::fs::copy(place.path("old"), &ledger).unwrap();
    let told = place.freehold(&["audit", "--verify"]);
    succeeded(&told);
    assert!(stderr(&told).contains("it was restored from an old copy"), "{}", stderr(&told));
    assert_eq!(Intruder::at(place.org().join("gateway")).entries(), before, "the very same, and no fork");
    let _gateway = place.serve();
    succeeded(&place.join("web-1", &code));
    place.invite(&[]);
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn a_gateway_that_was_set_back_stops_issuing_once_it_is_shown_its_future() {
    for witness in ["web-1", "web-2"] {
        let place = Place::founded(&[]);
        let code = place.code(&["--uses", "5"]);
        let gateway = place.serve();
        succeeded(&place.join("web-1", &code));
        assert_eq!(gateway.stop(), Some(0));
        let ledger = place.org().join("gateway/ledger.db");
        std::fs::copy(&ledger, place.path("old")).unwrap();
        let gateway = place.serve();
        // One machine is in the old copy, the other is not; both have seen what came after it.
        succeeded(&place.join("web-2", &code));
        succeeded(&place.join("web-1", &code));
        assert_eq!(gateway.stop(), Some(0));
        std::fs::copy(place.path("old"), &ledger).unwrap();
        let _gateway = place.serve();
        let why = "the gateway's ledger is older than what was shown to it";
        let shown = place.join(witness, &code);
        assert!(shown.status.success() || stderr(&shown).contains(why), "{}", stderr(&shown));
        refused(&place.join("web-3", &code), why);
        assert!(!place.scope("web-3").exists(), "shown by `{witness}`");
    }
}

const ENTRY_7: &str = "SELECT envelope FROM entries WHERE id = 7";

/// Eight entries: founding, an invite, a machine that was admitted and joined.
fn with_history() -> Place {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    place.joined("web-1");
    assert_eq!(gateway.stop(), Some(0));
    place
}

/// Changes the file, looks what the check says of it, and puts the file back.
fn check_tampering(place: &Place, expected: &[&str], change: impl FnOnce(&Connection)) -> String {
    let path = place.org().join("gateway/ledger.db");
    let kept = std::fs::read(&path).unwrap();
    let ledger = Connection::open(&path).unwrap();
    change(&ledger);
    drop(ledger);
    let output = place.freehold(&["audit", "--verify"]);
    for words in expected {
        ended(&output, 1, words);
    }
    for side in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(place.org().join(format!("gateway/ledger.db{side}")));
    }
    std::fs::write(&path, kept).unwrap();
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true, "the walk did not put the file back");
    stderr(&output)
}

fn field<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_default()
}
