//! An invite whose key lies in a file, to be baked into an image.

use trials::place::{Place, ended, mode, refused, succeeded, text};

#[test]
fn a_key_in_a_file_lets_machines_in_and_is_never_printed() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let file = place.path("image.invite").to_string_lossy().into_owned();
    let made = place.invite(&["--kind", "key", "--out", &file, "--uses", "2", "--name", "web-*"]);
    assert_eq!((text(&made, "kind"), text(&made, "file")), ("key".to_owned(), file.clone()));
    assert_eq!(mode(&place.path("image.invite")), 0o600);
    let code = std::fs::read_to_string(&file).unwrap();
    assert!(code.starts_with("fh1_") && !made.to_string().contains(&code), "the secret lies in the file alone");
    for name in ["web-1", "web-2"] {
        succeeded(&place.node(name, &["join", "--name", name, "--invite-file", &file], ""));
        assert_eq!(place.state_of(name).as_deref(), Some("member"));
    }
    let no = place.node("web-3", &["join", "--name", "web-3", "--invite-file", &file], "");
    refused(&no, "used up: all of its 2 uses are spent");
    let shown = place.facts(&["invite", "show", &text(&made, "id")]);
    assert_eq!((shown["kind"].as_str(), shown["spent"].as_u64()), (Some("key"), Some(2)));
    assert_eq!(place.facts(&["node", "show", "web-1"])["low"], serde_json::Value::Null, "it was proven");
}

#[test]
fn the_file_of_a_key_is_asked_for_and_never_overwritten() {
    let place = Place::founded(&[]);
    ended(&place.freehold(&["invite", "create", "--kind", "key"]), 2, "the form `file` needs a file");
    let file = place.path("old").to_string_lossy().into_owned();
    std::fs::write(&file, "of somebody else").unwrap();
    ended(&place.freehold(&["invite", "create", "--kind", "key", "--out", &file]), 2, "is there already");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "of somebody else");
    assert_eq!(place.facts(&["invite", "list"]).as_array().map(Vec::len), Some(0), "nothing was made");
}

#[test]
fn another_key_proves_nothing() {
    use org::invite::code::{InviteCode, InviteSeed, Ticket};
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let file = place.path("key").to_string_lossy().into_owned();
    place.invite(&["--kind", "key", "--out", &file]);
    let mut code: InviteCode = std::fs::read_to_string(&file).unwrap().parse().unwrap();
    let invite = code.ticket.invite().unwrap();
    code.ticket = Ticket::Key { invite, seed: InviteSeed::new([7; 32]) };
    refused(&place.join("web-1", &code.encode()), "the proof does not hold");
    code.ticket = Ticket::Machine { invite };
    refused(&place.join("web-1", &code.encode()), "the proof does not hold");
    code.ticket = Ticket::Pattern;
    refused(&place.join("web-1", &code.encode()), "no pattern lets in a machine of this name from this network");
}
