//! A member that the operators passed over waits until the threshold lists it.

use identity::head::Cause;
use serde_json::json;
use trials::attack::thief::Thief;
use trials::place::{Place, ended, refused, stderr, stdout, succeeded};

#[test]
fn a_member_that_was_passed_over_is_listed_by_a_word() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    place.joined("web-1");
    refused(&place.freehold(&["node", "approve", "web-1", "--yes"]), "no such machine waits");
    // A head settles all that the gateway wrote, and lists nobody new.
    let thief = Thief::of(&place);
    let frontier = thief.survey().frontier;
    let head = thief.head(|head| {
        head.version += 1;
        head.previous = vec![thief.known().head.digest];
        (head.issued_at, head.cause) = (ground::clock::now(), Cause::Refresh);
        head.record = frontier.0;
    });
    assert_eq!(thief.hand_in(vec![head]), ("ok".to_owned(), String::new()));
    assert_eq!(place.state_of("web-1").as_deref(), Some("waiting"));
    let list = place.freehold(&["node", "list"]);
    assert!(stdout(&list).contains("freehold node approve web-1"), "{}", stdout(&list));
    let asked = place.freehold(&["node", "approve", "web-1"]);
    ended(&asked, 2, "no terminal to ask at");
    assert!(stderr(&asked).contains("lists 1 new member: web-1\n"), "{}", stderr(&asked));
    let status = place.facts(&["status"]);
    let waits = json!([{ "why": "the operators have recorded it, and gave it no place among the members", "nodes": ["quay", "web-1"] }]);
    assert_eq!((&status["waits"], &status["alarms"]), (&waits, &json!([])));
    assert!(stdout(&place.freehold(&["status"])).contains("waits     quay, web-1: the operators have recorded it"));
    let told = place.facts(&["node", "approve", "web-1", "--yes"]);
    assert_eq!((&told["name"], &told["head"], &told["pending"]), (&json!("web-1"), &json!(3), &json!(null)));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    succeeded(&place.node("web-1", &["sync"], ""));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}
