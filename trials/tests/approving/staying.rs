//! A member whose gateway's word was taken back waits until the threshold lets it stay.

use identity::head::Cut;
use identity::principal::Author;
use org::entry::{Action, Cause};
use serde_json::json;
use trials::place::{Place, ended, refused, stdout, succeeded};
use trials::thief::Thief;

#[test]
fn a_member_that_was_cut_off_stays_by_a_word() {
    let place = Place::founded(&["--node", "quay"]);
    let _gateway = place.serve();
    place.joined("web-1");
    refused(&place.freehold(&["node", "approve", "web-1", "--yes"]), "no such machine waits");
    // The operators void what the gateway wrote after its own first entry.
    let thief = Thief::of(&place);
    let author = Author::Gateway("quay".parse().unwrap());
    let epoch = thief.survey().frontier.place_of(&author).unwrap().epoch;
    let head = thief.head(|head| {
        head.version += 1;
        head.issued_at = ground::clock::now();
        head.revocations.authors.insert(Cut { author, epoch, seq: 1 });
    });
    let entry = thief.entry(Action::HeadPublish { head, cause: Cause::Refresh });
    let taken = thief.append(vec![thief.seal(&entry, &thief.signer())]);
    assert_eq!(taken, ("ok".to_owned(), String::new()));
    assert_eq!(place.state_of("web-1").as_deref(), Some("waiting"));
    let list = place.freehold(&["node", "list"]);
    assert!(stdout(&list).contains("let it stay: freehold node approve web-1"), "{}", stdout(&list));
    ended(&place.freehold(&["node", "approve", "web-1"]), 2, "no terminal to ask at");
    let told = place.facts(&["node", "approve", "web-1", "--yes"]);
    assert_eq!((&told["done"], &told["words"]), (&json!(true), &json!(null)));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    succeeded(&place.node("web-1", &["sync"], ""));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
}
