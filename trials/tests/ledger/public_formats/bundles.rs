//! Bundles, with the tool `age`.

use org::invite::carried::JoinBundle;
use trials::place::{Place, succeeded, text};

use super::typed;

#[test]
fn age_opens_a_bundle_and_a_machine_joins_by_what_age_sealed() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let [issued, plain, again] =
        ["web-1.bundle", "plain", "again.bundle"].map(|name| place.path(name).to_string_lossy().into_owned());
    let told = place.facts(&["bundle", "issue", "web-1", "--out", &issued]);
    let passphrase = text(&told, "passphrase");
    typed(&format!("age --decrypt --output {plain} {issued}"), &format!("{passphrase}\n"));
    let inside = std::fs::read_to_string(&plain).unwrap();
    let lines: Vec<_> = inside.lines().collect();
    assert_eq!((lines[0], lines[2], lines.len()), ("freehold join bundle", "web-1", 4));
    let bundle: JoinBundle = inside.parse().unwrap();
    assert_eq!(bundle.code.encode().as_str(), lines[1]);
    typed(&format!("age --encrypt --passphrase --output {again} {plain}"), "correct horse\ncorrect horse\n");
    succeeded(&place.node("web-1", &["join", "--bundle", &again], "correct horse\n"));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
}
