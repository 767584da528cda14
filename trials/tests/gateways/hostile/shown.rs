//! What strangers show a gateway about its own future.

use trials::attack::thief::Thief;
use trials::client::stranger::Dial;
use trials::place::succeeded;
use wire::permit::Ask;
use wire::sync::ShowRequest;

use super::Scene;

#[test]
fn a_head_by_signers_who_were_replaced_stops_nothing_and_revokes_nobody() {
    let scene = Scene::new();
    scene.place.joined("web-1");
    // Ann's key was stolen, and Ann replaces it.
    let thief = Thief::of(&scene.place);
    let (mut head, stolen) = (thief.known().head.head, thief.signer());
    succeeded(&scene.place.freehold(&["signer", "replace", "ann", "ann-2", "--unprotected", "--yes"]));
    head.version = 1_000_000;
    head.revocations.principals.insert("spiffe://harbor/node/web-1".parse().unwrap());
    let request = ShowRequest { head: thief.seal(&head, &stolen), tip: None };
    assert_eq!(Dial::to(scene.port()).line().code(Ask::Show, &request), "bad_proof");

    scene.place.joined("web-2");
    let next = scene.place.facts(&["refresh"])["head"].as_u64().unwrap();
    assert!(next < 100, "the thief moved the head to {next}");
    assert_eq!(scene.place.state_of("web-1").unwrap(), "member");
    scene.audit();
}
