//! A gateway that says nothing, or too much: the agent neither spins nor hangs.

use std::time::{Duration, Instant};

use identity::principal::NodeName;
use trials::attack::liar::{Loot, Told};
use trials::place::until;
use wire::sync::{SyncAnswer, SyncRequest};

use super::{Scene, honest, silence};

#[test]
fn an_agent_does_not_spin_when_a_gateway_answers_at_once_for_ever() {
    let (scene, gateway) = Scene::new(&["web-1"]);
    let head = scene.publish("sync: {wait: 20s}", "");
    let _web = scene.place.agent("web-1");
    scene.until_settled("web-1", head);
    let liar = scene.take_over(gateway, honest(std::sync::Arc::default()));
    scene.until_well("web-1");
    let check = |what: &str| {
        // The first ones may be about what was before.
        let from = liar.asked() + 2;
        until("it asks", || liar.asked() >= from);
        let began = Instant::now();
        until("it asks again", || liar.asked() >= from + 4);
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(2), "{what}: four questions in {took:?}");
    };
    liar.now(|loot: &Loot, _: &NodeName, _: &SyncRequest| loot.nothing().into());
    check("nothing");
    liar.now(|loot: &Loot, name: &NodeName, request: &SyncRequest| {
        let known = SyncRequest { listed: 0, ..request.clone() };
        loot.truth(loot.newest(), name, &known).into()
    });
    check("what is known already");
    liar.now(|loot: &Loot, name: &NodeName, _: &SyncRequest| {
        let listing = Some(loot.listing(loot.newest(), &"quay".parse().unwrap()));
        let _ = name;
        SyncAnswer { listing, ..loot.nothing() }.into()
    });
    check("lies");
    liar.now(|_: &Loot, _: &NodeName, _: &SyncRequest| Told::HangUp);
    check("hanging up");
}

#[test]
fn an_agent_whose_gateway_never_answers_goes_back_at_its_deadline_and_says_so() {
    let (scene, gateway) = Scene::new(&["web-1"]);
    let head = scene.publish("sync: {wait: 20s}", "");
    let _web = scene.place.agent("web-1");
    scene.until_settled("web-1", head);
    // Something that waits for an operator's word: it is on trial for as long as it may.
    let newer = scene.publish("apply: {deadline: 8s, confirm: operator}", "");
    until("it is on trial", || !scene.place.status("web-1")["applied"]["trial"].is_null());
    let liar = scene.take_over(gateway, silence());
    until("it went back", || !scene.place.status("web-1")["applied"]["rolled_back"].is_null());
    let back = scene.place.status("web-1")["applied"]["rolled_back"].clone();
    // Asked for without an answer, it would hang for half a minute.
    let at: identity::time::Timestamp = serde_json::from_value(back["at"].clone()).unwrap();
    let began = liar.loot().thief.known().head.head.issued_at;
    assert!(at.since(began).0 < 28, "it went back {} seconds after it was published", at.since(began).0);
    liar.now(|loot: &Loot, name: &NodeName, request: &SyncRequest| loot.truth(loot.newest(), name, request).into());
    scene.until_well("web-1");
    assert_eq!(scene.place.status("web-1")["head"], newer, "the head stays");
}
