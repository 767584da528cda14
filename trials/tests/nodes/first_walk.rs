//! Found, invite, join, see, revoke: the path that everything else stands on.

use trials::place::{Place, refused, succeeded};

#[test]
fn a_machine_joins_is_seen_and_is_revoked() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = place.code(&["--uses", "2", "--name", "web-*"]);
    succeeded(&place.join("web-1", &code));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    assert_eq!(place.state_of("web-1").as_deref(), Some("revoked"));
    refused(&place.join("web-1", &code), "revoked");
}
