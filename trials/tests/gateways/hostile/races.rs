//! Many at once for what there is one of: a use of an invite, a name, a counter.

use std::collections::BTreeMap;
use std::sync::Barrier;

use identity::key::P256Key;
use trials::client::joiner::{Ground, Joiner};
use trials::client::stranger::Dial;
use trials::place::{succeeded, text, until};
use wire::permit::Ask;

use super::Scene;

const RIVALS: usize = 16;

/// All send at the same moment; how often each answer came.
fn race(scene: &Scene, rivals: &[Joiner]) -> BTreeMap<String, usize> {
    let start = Barrier::new(rivals.len());
    let answers = std::thread::scope(|scope| {
        let run = |rival| {
            let start = &start;
            scope.spawn(move || {
                let mut line = Dial::to(scene.port()).line();
                let request = Joiner::request(rival, Ground::on(&mut line));
                start.wait();
                line.code(Ask::Enroll, &request)
            })
        };
        let running: Vec<_> = rivals.iter().map(run).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    answers.into_iter().fold(BTreeMap::new(), |mut count, answer| {
        *count.entry(answer).or_default() += 1;
        count
    })
}

fn counted(ok: usize, refused: (&str, usize)) -> BTreeMap<String, usize> {
    BTreeMap::from([("ok".to_owned(), ok), (refused.0.to_owned(), refused.1)])
}

#[test]
fn an_invite_is_never_spent_beyond_its_uses() {
    let scene = Scene::new();
    let code = scene.place.code(&["--uses", "3"]);
    let rivals: Vec<_> = (0..RIVALS).map(|n| Joiner::new(&code, &format!("web-{n}"))).collect();
    assert_eq!(race(&scene, &rivals), counted(3, ("invite_used_up", RIVALS - 3)));
    assert_eq!(scene.place.facts(&["invite", "list"])[0]["spent"], 3);
    scene.audit();
}

#[test]
fn a_name_goes_to_one_machine_only() {
    let scene = Scene::new();
    let code = scene.place.code(&["--uses", "unlimited"]);
    let rivals: Vec<_> = (0..RIVALS).map(|_| Joiner::new(&code, "web-1")).collect();
    assert_eq!(race(&scene, &rivals), counted(1, ("name_taken", RIVALS - 1)));
    assert_eq!(scene.place.facts(&["invite", "list"])[0]["spent"], 1, "who was refused spent nothing");
    scene.audit();
}

#[test]
fn copies_of_one_machine_that_join_at_once_spend_one_use_and_raise_the_alarm() {
    let scene = Scene::new();
    let code = scene.place.code(&["--uses", "unlimited"]);
    let first = Joiner::new(&code, "web-1");
    let copy =
        |_| Joiner { node_key: P256Key::from_pkcs8(first.node_key.pkcs8()).unwrap(), ..Joiner::new(&code, "web-1") };
    let copies: Vec<_> = (0..RIVALS).map(copy).collect();
    assert_eq!(race(&scene, &copies), counted(1, ("counter_conflict", RIVALS - 1)));
    assert_eq!(scene.place.facts(&["invite", "list"])[0]["spent"], 1);
    assert!(scene.place.facts(&["node", "show", "web-1"])["alarm"].is_string());
    scene.audit();
}

#[test]
fn who_holds_a_leaked_code_cannot_put_off_its_revocation() {
    let scene = Scene::new();
    let invite = scene.place.invite(&["--uses", "unlimited"]);
    let (id, code) = (text(&invite, "id"), text(&invite, "code"));
    // Each joins without pause until it is refused; at most so often, should the revocation never come.
    let last = std::thread::scope(|scope| {
        let crowd: Vec<_> = (0..4)
            .map(|thread| {
                let (scene, code) = (&scene, &code);
                scope.spawn(move || {
                    let mut line = Dial::to(scene.port()).line();
                    let mut join = |n: usize| {
                        let joiner = Joiner::new(code, &format!("n-{thread}-{n}"));
                        let request = joiner.request(Ground::on(&mut line));
                        line.code(Ask::Enroll, &request)
                    };
                    (0..2_000).map(&mut join).find(|answer| answer != "ok")
                })
            })
            .collect();
        until("machines pour in", || scene.place.spent(&id) >= 20);
        succeeded(&scene.place.freehold(&["invite", "revoke", &id, "--yes"]));
        crowd.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(last, vec![Some("invite_revoked".to_owned()); 4]);
    let nodes = scene.place.facts(&["node", "list"]);
    let waiting = nodes.as_array().unwrap().iter().filter(|node| node["state"] == "waiting").count();
    assert_eq!(waiting, 0, "nobody who was let in is cut off");
    scene.audit();
}
