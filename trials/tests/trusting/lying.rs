//! A gateway that leaves out members or invites, or names other keys, so that nobody seems to break.

use ground::random;
use identity::envelope::Payload as _;
use identity::key::Sign as _;
use org::entry::Entry;
use org::invite::Invite;
use org::ledger::replica::carried;
use org::state::Standing;
use trials::between::Between;
use trials::place::{refused, text, until};
use wire::control::{Answer, NodeView};

use super::{Scene, broken, row};

fn off(node: &&mut NodeView) -> bool {
    node.name.as_str() == "web-2"
}

#[test]
fn a_member_that_the_gateway_leaves_out_or_shows_with_another_key_is_missed() {
    let mut scene = Scene::with_nodes(&[]);
    scene.turned("endpoint");
    let lies: [fn(&mut Vec<NodeView>); 3] = [
        |nodes| nodes.retain_mut(|node| !off(&node)),
        |nodes| nodes.iter_mut().filter(off).for_each(|node| node.state = Standing::Revoked),
        |nodes| nodes.iter_mut().filter(off).for_each(|node| node.node_key = random::p256().unwrap().public()),
    ];
    for (nth, lie) in lies.into_iter().enumerate() {
        let lie = Between::about_nodes(&scene.place, lie);
        for words in [
            &["plan", "retire", "endpoint", "1"][..],
            &["retire", "endpoint", "1", "--yes"],
            &["list"],
            &["show", "endpoint", "2"],
        ] {
            let told = scene.place.freehold(&[&["trust"], words, &["--gateway", &lie.address]].concat());
            refused(&told, "the gateway's word about the node `web-2` is not what was signed");
            assert!(told.stdout.is_empty(), "lie {nth}, {words:?}: a bar or a plan without it is worse than none");
        }
    }
    let (plan, exit) = scene.plan(&["retire", "endpoint", "1"]);
    assert_eq!((exit, broken(&plan)), (Some(3), vec![("node", "web-2")]));
    assert_eq!(row(&scene.place.facts(&["trust", "list"]), "endpoint", 1)["state"], "grace", "nothing was retired");
}

#[test]
fn a_version_is_not_put_to_use_because_a_gateway_hides_who_lacks_it() {
    let mut scene = Scene::with_nodes(&[]);
    scene.switch_off();
    scene.place.facts(&["trust", "publish", "identity"]);
    until("who is there has it", || scene.adopted("identity", 2) == ["quay", "web-1"]);
    let lie = Between::about_nodes(&scene.place, |nodes| nodes.retain_mut(|node| !off(&node)));
    for words in [&["trust", "activate", "identity"][..], &["rotate", "identity", "--no-wait"]] {
        let told = scene.place.freehold(&[words, &["--gateway", &lie.address]].concat());
        refused(&told, "the gateway's word about the node `web-2` is not what was signed");
    }
    assert_eq!(row(&scene.place.facts(&["trust", "list"]), "identity", 2)["state"], "staged");
}

#[test]
fn an_invite_that_the_gateway_does_not_tell_of_is_named_all_the_same() {
    let scene = Scene::new(&[]);
    let place = &scene.place;
    let id = text(&place.invite(&["--name", "late"]), "id");
    place.facts(&["trust", "publish", "endpoint"]);
    until("the gateway has it", || scene.adopted("endpoint", 2) == ["quay"]);
    place.facts(&["trust", "activate", "endpoint", "--grace", "0s"]);
    let lie = Between::changing(place, |answer| match answer {
        Answer::Invites { next, .. } => Answer::Invites { invites: Vec::new(), next },
        other => other,
    });
    let (plan, exit) = scene.plan(&["retire", "endpoint", "1", "--gateway", &lie.address]);
    assert_eq!((exit, broken(&plan)), (Some(3), vec![("invite", id.as_str())]));
    drop(lie);
    // It stands in the ledger: this home has its own copy, and of that which it pulls anew nothing can be left out.
    let org = Some(trials::thief::Thief::of(place).known().org());
    let lie = Between::changing(place, move |answer| match answer {
        Answer::Beyond { mut entries, more } => {
            let tells = |entry: &Entry| carried(&entry.action).any(|carried| carried.kind() == Invite::KIND);
            entries.retain(|entry| !tells(&entry.peek(org).unwrap()));
            Answer::Beyond { entries, more }
        }
        other => other,
    });
    let plan = || place.freehold(&["trust", "plan", "retire", "endpoint", "1", "--gateway", &lie.address]);
    refused(&plan(), "would break by `freehold trust retire endpoint 1`");
    std::fs::remove_dir_all(place.org().join("operator/replica")).unwrap();
    refused(&plan(), "or it hides something");
}
