//! A gateway that leaves out members or invites, so that nobody seems to break.

use std::collections::BTreeMap;

use ground::clock;
use identity::envelope::Payload as _;
use identity::id::Digest;
use identity::time::Seconds;
use org::invite::Invite;
use org::ledger::entry::Entry;
use org::ledger::replica::carried;
use trials::attack::between::Between;
use trials::place::{refused, text, until};
use wire::control::{ControlAnswer, Observed};

use super::{Scene, broken, row};

/// It saw nobody, or everybody a moment ago, with papers for ever.
const LIES: [fn(&mut BTreeMap<Digest, Observed>); 2] = [BTreeMap::clear, |nodes| {
    for node in nodes.values_mut() {
        (node.last_seen, node.svid_expires_at) = (Some(clock::now()), Some(clock::now() + Seconds::DAY));
    }
}];

#[test]
fn a_member_that_the_gateway_does_not_tell_of_breaks_all_the_same() {
    let mut scene = Scene::with_nodes(&[]);
    scene.turned("endpoint");
    for lie in LIES {
        let lie = Between::about_nodes(&scene.place, lie);
        let (plan, exit) = scene.plan(&["retire", "endpoint", "1", "--gateway", &lie.address]);
        assert_eq!((exit, broken(&plan)), (Some(3), vec![("node", "web-2")]));
        let told = scene.place.freehold(&["trust", "retire", "endpoint", "1", "--yes", "--gateway", &lie.address]);
        refused(&told, "web-2");
    }
    assert_eq!(row(&scene.place.facts(&["trust", "list"]), "endpoint", 1)["state"], "grace", "nothing was retired");
}

#[test]
fn a_version_is_not_put_to_use_because_a_gateway_hides_who_lacks_it() {
    let mut scene = Scene::with_nodes(&[]);
    scene.switch_off();
    scene.place.facts(&["trust", "publish", "identity"]);
    until("who is there has it", || scene.adopted("identity", 2) == ["quay", "web-1"]);
    for lie in LIES {
        let lie = Between::about_nodes(&scene.place, lie);
        let told = scene.place.freehold(&["trust", "activate", "identity", "--gateway", &lie.address]);
        refused(&told, "web-2");
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
    let (plan, exit) = scene.plan(&["retire", "endpoint", "1"]);
    assert_eq!((exit, broken(&plan)), (Some(3), vec![("invite", id.as_str())]));
    // It stands in the ledger: this home has its own copy, and of that which it pulls anew nothing can be left out.
    let org = Some(trials::attack::thief::Thief::of(place).known().org());
    let lie = Between::changing(place, move |answer| match answer {
        ControlAnswer::Beyond { mut entries, more } => {
            let tells = |entry: &Entry| carried(&entry.action).any(|carried| carried.kind() == Invite::KIND);
            entries.retain(|entry| !tells(&entry.peek(org).unwrap()));
            ControlAnswer::Beyond { entries, more }
        }
        other => other,
    });
    let plan = || place.freehold(&["trust", "plan", "retire", "endpoint", "1", "--gateway", &lie.address]);
    refused(&plan(), "would break by `freehold trust retire endpoint 1`");
    std::fs::remove_dir_all(place.org().join("operator/replica")).unwrap();
    refused(&plan(), "or it hides something");
}
