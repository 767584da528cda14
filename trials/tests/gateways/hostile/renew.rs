//! Returning and renewing under another's name, and clones: the first conflict closes the door for both.

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::head::Placement;
use identity::key::{P256Key, Sign as _};
use identity::principal::Principal;
use org::invite::admission::Leave;
use trials::attack::thief::Thief;
use trials::client::joiner::{Ground, Joiner, check_in};
use trials::client::stranger::{Dial, Own};
use wire::enroll::{Issued, RenewRequest};
use wire::permit::Ask;
use wire::sync::LeaveRequest;

use super::Scene;

fn again(key: &P256Key) -> P256Key {
    P256Key::from_pkcs8(key.pkcs8()).unwrap()
}

fn renew(scene: &Scene, own: &Own, request: impl FnOnce(Ground) -> RenewRequest) -> trials::client::stranger::Reply {
    let mut line = Dial::to(scene.port()).with(own).line();
    let ground = Ground::on(&mut line);
    line.ask(Ask::Renew, &request(ground)).unwrap()
}

#[test]
fn nobody_returns_under_anothers_admission() {
    let scene = Scene::new();
    let code = scene.place.code(&["--uses", "2"]);
    let (mine, my_papers) = Joiner::join(&code, "web-1", scene.port());
    let (_, their_papers) = Joiner::join(&code, "web-2", scene.port());
    let before = scene.truth();
    let stranger = Joiner::new(&code, "web-2");
    let mut next = Joiner { counter: 2, node_key: again(&mine.node_key), ..Joiner::new(&code, "web-1") };
    let check = |joiner: &Joiner, admission: &Envelope, expected: &str, case: &str| {
        let mut line = Dial::to(scene.port()).line();
        let ground = Ground::on(&mut line);
        assert_eq!(line.code(Ask::Return, &joiner.come_back(admission, ground)), expected, "{case}");
    };
    check(&next, &their_papers.admission, "not_admitted", "a member under another's admission");
    check(&stranger, &their_papers.admission, "not_admitted", "a stranger under a member's admission");
    next.name = "web-2".parse().unwrap();
    check(&next, &my_papers.admission, "bad_binding", "a member under its own admission, as another");
    next.name = "web-1".parse().unwrap();

    let mut line = Dial::to(scene.port()).line();
    let ground = Ground::on(&mut line);
    let mut unsigned = next.come_back(&my_papers.admission, ground);
    unsigned.by_node = stranger.come_back(&my_papers.admission, ground).by_node;
    assert_eq!(line.code(Ask::Return, &unsigned), "bad_proof", "my admission, signed by another key");
    assert_eq!(line.code(Ask::Return, &next.come_back(&my_papers.admission, ground)), "no_challenge");
    // A proof made for joining is none for returning.
    let ground = Ground::on(&mut line);
    let mut moved = next.come_back(&my_papers.admission, ground);
    moved.by_node = next.request(ground).by_node;
    assert_eq!(line.code(Ask::Return, &moved), "bad_proof");
    assert_eq!(scene.truth(), before);
}

#[test]
fn a_member_renews_for_itself_and_for_what_is_placed_on_it() {
    let scene = Scene::new();
    let code = scene.place.code(&["--uses", "2"]);
    let (mine, papers) = Joiner::join(&code, "web-1", scene.port());
    Joiner::join(&code, "web-2", scene.port());
    let before = scene.truth();
    let own = mine.own(&papers);
    let next = Joiner { counter: 2, node_key: again(&mine.node_key), ..Joiner::new(&code, "web-1") };
    let org = &next.code.name;
    for (case, principal) in [
        ("another node", Principal::node(org, &"web-2".parse().unwrap())),
        ("a node that is not there", Principal::node(org, &"web-9".parse().unwrap())),
        ("a user of another machine", Principal::user(org, &"ann".parse().unwrap())),
        ("a service", "spiffe://harbor/service/db".parse().unwrap()),
        ("another org", "spiffe://other/node/web-1".parse().unwrap()),
    ] {
        let ask = |ground: Ground| {
            let svid = next.svid_for(&principal, ground.not_after);
            RenewRequest { principal: principal.clone(), svid }
        };
        assert_eq!(renew(&scene, &own, ask).code(), "not_placed", "{case}");
    }
    let foreign = Joiner { counter: 2, ..Joiner::new(&code, "web-1") };
    assert_eq!(renew(&scene, &own, |ground| foreign.renew(ground)).code(), "bad_binding", "another node key");
    assert_eq!(scene.truth(), before);
    assert_eq!(renew(&scene, &own, |ground| next.renew(ground)).code(), "ok");
}

/// The head says who is at home on machines that nobody has yet. Whoever comes under such a name by an invite for any name is
/// not the one that is meant.
#[test]
fn who_came_under_a_name_by_an_invite_for_any_has_nothing_that_is_placed_there() {
    let scene = Scene::new();
    let thief = Thief::of(&scene.place);
    let ben = Principal::user(&"harbor".parse().unwrap(), &"ben".parse().unwrap());
    let head = thief.head(|head| {
        (head.version, head.previous) = (head.version + 1, vec![thief.known().head.digest]);
        head.issued_at = clock::now();
        head.placements.extend(["shed", "barn"].map(|node| {
            let node = node.parse().unwrap();
            Placement { principal: ben.clone(), node }
        }));
    });
    assert_eq!(thief.hand_in(vec![head]), ("ok".to_owned(), String::new()));
    for (name, words, expected) in [("shed", &[][..], "not_placed"), ("barn", &["--name", "barn"], "ok")] {
        let (mine, papers) = Joiner::join(&scene.place.code(words), name, scene.port());
        let ask = |ground: Ground| {
            let svid = mine.svid_for(&ben, ground.not_after);
            RenewRequest { principal: ben.clone(), svid }
        };
        assert_eq!(renew(&scene, &mine.own(&papers), ask).code(), expected, "{name}");
    }
}

#[test]
fn a_clone_shows_itself_and_both_copies_are_refused() {
    let scene = Scene::new();
    let (first, papers) = Joiner::join(&scene.place.code(&[]), "web-1", scene.port());
    let own = first.own(&papers);
    let copy = |counter: u64| Joiner {
        counter,
        node_key: again(&first.node_key),
        ..Joiner::new(&first.code.encode(), "web-1")
    };
    let (original, clone) = (copy(2), copy(2));
    let reply = renew(&scene, &own, |ground| original.renew(ground));
    assert_eq!(reply.code(), "ok");
    let renewed: Issued = serde_json::from_value(reply.body).unwrap();
    assert_eq!(renew(&scene, &own, |ground| original.renew(ground)).code(), "ok", "a retry is no conflict");
    assert!(scene.place.facts(&["node", "show", "web-1"])["alarm"].is_null());

    assert_eq!(renew(&scene, &own, |ground| clone.renew(ground)).code(), "counter_conflict", "another key");
    let shown = scene.place.facts(&["node", "show", "web-1"]);
    assert!(shown["alarm"].as_str().is_some_and(|alarm| alarm.contains("renewal 2 does not follow 2")), "{shown}");
    let original_own = original.own(&renewed);
    for (case, next, own) in [("the original", &original, &original_own), ("the clone", &clone, &own)] {
        for counter in [2, 3] {
            let next = Joiner { counter, node_key: again(&first.node_key), svid_key: again(&next.svid_key), ..copy(0) };
            assert_eq!(renew(&scene, own, |ground| next.renew(ground)).code(), "counter_conflict", "{case} {counter}");
            let mut line = Dial::to(scene.port()).line();
            let ground = Ground::on(&mut line);
            let reply = line.code(Ask::Return, &next.come_back(&papers.admission, ground));
            assert_eq!(reply, "counter_conflict", "{case} returns with {counter}");
            let ground = Ground::on(&mut line);
            assert_eq!(line.code(Ask::Enroll, &next.request(ground)), "counter_conflict", "{case} joins again");
        }
    }
}

#[test]
fn a_machine_takes_leave_for_itself_only() {
    let scene = Scene::new();
    let code = scene.place.code(&["--uses", "2"]);
    let (mine, papers) = Joiner::join(&code, "web-1", scene.port());
    let (theirs, _) = Joiner::join(&code, "web-2", scene.port());
    let before = scene.truth();
    let own = mine.own(&papers);
    let mut line = Dial::to(scene.port()).with(&own).line();
    let word = |of: &P256Key, by: &P256Key| {
        let body = Leave { node_key: of.public(), at: ground::clock::now() };
        LeaveRequest { leave: Envelope::seal(Some(mine.code.org), &body).unwrap().signed(by).unwrap() }
    };
    let forged = random::p256().unwrap();
    assert_eq!(line.code(Ask::Leave, &word(&theirs.node_key, &mine.node_key)), "bad_proof", "another's leave by me");
    assert_eq!(line.code(Ask::Leave, &word(&mine.node_key, &forged)), "bad_proof", "my leave by another");
    assert_eq!(scene.truth(), before);
    assert!(!scene.log().contains("could not be written"), "no refusal may undo others' work: {}", scene.log());
    assert_eq!(line.code(Ask::Leave, &word(&mine.node_key, &mine.node_key)), "ok");
    assert_eq!(line.code(Ask::CheckIn, &check_in()), "key_left");
    scene.audit();
}
