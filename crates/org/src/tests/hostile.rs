//! Entries that should not be: each changes nothing, whatever it says.

use identity::envelope::Envelope;
use identity::head::{BadHead, Head};
use identity::key::Sign as _;
use identity::time::Seconds;

use super::world::{NOW, World, author, digests, ed, node, node_key, quorum};
use crate::admission::{Admission, Claim, ClaimAuthority, Leave};
use crate::entry::{Action, Cause, SignedEntry};
use crate::fold::{fold, fold_opened};
use crate::refusal::Refusal;
use crate::renew::member_behind;
use crate::state::{State, Void};

/// One member, one open invite, everybody knows.
fn quiet() -> World {
    let mut world = World::new(1, &["ann", "ben"]);
    world.invite("ann", 1, [5, 5]);
    world.share();
    world.admit("gw-1", 1, 1, "web");
    world.share();
    world
}

/// What is true, apart from where the chains end and what they hold in vain.
fn truth(state: &State) -> State {
    State { frontier: crate::frontier::Frontier::default(), void: std::collections::BTreeMap::new(), ..state.clone() }
}

/// Appends the action to the author's own chain, rightly signed: it stands there in vain.
fn check_void(who: &str, action: impl FnOnce(&World) -> Action, expected: impl FnOnce(&Void) -> bool, case: &str) {
    let mut world = quiet();
    let before = truth(&world.fold().state);
    let action = action(&world);
    let signed = world.append(who, action);
    let after = world.fold();
    assert_eq!(truth(&after.state), before, "{case}");
    let void = after.state.void.get(&signed.digest);
    assert!(void.is_some_and(expected), "{case}: {void:?}");
}

#[test]
fn an_action_beyond_its_authors_power_stands_in_vain() {
    let power = |void: &Void| *void == Void::BeyondPower;
    let head = |world: &World| world.sealed(&world.next_head("ann"), &["ann", "ben"]);
    let publish = |world: &World| Action::HeadPublish { head: head(world), cause: Cause::Refresh };
    check_void("gw-1", publish, power, "a gateway publishes a head, although well signed");
    let invite = |world: &World| world.sealed(&world.invite_body("ann", 7, [1, 1]), &["ann", "ben"]);
    check_void("gw-1", |world| Action::InviteCreate { invite: invite(world) }, power, "a gateway invites");
    let install = |world: &World| world.install("ann", quorum(1, &["ann"]), &["ann", "ben"], &["ann"]);
    check_void("gw-1", install, power, "a gateway installs signers");
    let founding = |world: &World| Action::OrgFound { founding: world.founding.envelope.clone() };
    check_void("gw-1", founding, power, "a gateway founds");
    check_void("ann", |world| world.admission("gw-1", 2, 1, "db"), power, "a signer admits");
    let join = Action::NodeJoin { node_key: node_key(1).public().digest(), name: node("web") };
    check_void("ann", |_| join, power, "a signer says that a node joined");
    check_void("ann", |world| leave(world, &node_key(1)), power, "a signer says that a node left");
    let anothers = |world: &World| {
        let Action::NodeAdmit { admission } = world.admission("gw-2", 2, 1, "db") else { panic!("an admission") };
        let body: Admission = admission.peek(Some(world.founding.id)).unwrap();
        Action::NodeAdmit { admission: world.sealed(&body, &["gw-1"]) }
    };
    check_void("gw-1", anothers, power, "a gateway admits in another's name");
}

fn leave(world: &World, by: &dyn identity::key::Sign) -> Action {
    let leave = Leave { node_key: node_key(1).public(), at: NOW };
    let leave = Envelope::seal(Some(world.founding.id), &leave).unwrap().signed(by).unwrap();
    Action::NodeLeave { leave, name: node("web") }
}

#[test]
fn an_object_without_the_right_signatures_stands_in_vain() {
    let bad = |void: &Void| matches!(void, Void::BadObject(_));
    let publish = |head, cause| Action::HeadPublish { head, cause };
    let head = |world: &World, by: &[&str]| world.sealed(&world.next_head("ann"), by);
    check_void("ann", |world| publish(head(world, &[]), Cause::Refresh), bad, "nobody signed the head");
    check_void("ann", |world| publish(head(world, &["eve"]), Cause::Refresh), bad, "a stranger signed the head");
    let unlike = Cause::NodeRevoke { name: node("web"), node_key: node_key(1).public().digest() };
    check_void("ann", |world| publish(head(world, &["ann"]), unlike), bad, "the head does not do what is said");
    let older = |world: &World| {
        let mut body: Head = world.next_head("ann");
        body.signers.version = 2;
        publish(world.sealed(&body, &["ann"]), Cause::Refresh)
    };
    check_void("ann", older, bad, "the head names another signer set");
    let invite = |world: &World| world.sealed(&world.invite_body("ann", 7, [1, 1]), &["eve"]);
    check_void("ann", |world| Action::InviteCreate { invite: invite(world) }, bad, "a stranger signed the invite");
    let install = |world: &World| world.install("ann", quorum(1, &["eve"]), &["eve"], &["eve"]);
    check_void("ann", install, bad, "a stranger signed the set");
    let headless = |world: &World| world.install("ann", quorum(1, &["eve"]), &["ann"], &["ann"]);
    check_void("ann", headless, bad, "the head of the new set is signed by the old one");
    check_void("gw-1", |world| leave(world, &ed("gw-1")), bad, "the gateway speaks for the node that leaves");
}

#[test]
fn an_admission_needs_invite_key_node_key_and_voice() {
    let bad = |void: &Void| matches!(void, Void::BadObject(_));
    let admit = |world: &World, claim: &Claim, by: &[&str], own: bool, at| {
        let mut claim = world.sealed(claim, by);
        if own {
            claim.sign(&node_key(2)).unwrap();
        }
        let admission =
            Admission { claim, invite: Some(world.invites[&1].clone()), approval: None, gateway: node("gw-1"), at };
        Action::NodeAdmit { admission: world.sealed(&admission, &["gw-1"]) }
    };
    let claim = World::claim(2, 1, "db");
    let good = |world: &World| admit(world, &claim, &["invite 1"], true, NOW);
    let mut world = quiet();
    let action = good(&world);
    let entry = world.append("gw-1", action);
    assert_eq!(world.fold().state.void.get(&entry.digest), None);

    check_void("gw-1", |world| admit(world, &claim, &[], true, NOW), bad, "no invite key");
    check_void("gw-1", |world| admit(world, &claim, &["invite 2"], true, NOW), bad, "another invite's key");
    check_void("gw-1", |world| admit(world, &claim, &["invite 1"], false, NOW), bad, "no node key");
    let late = NOW + Seconds::DAY;
    check_void("gw-1", |world| admit(world, &claim, &["invite 1"], true, late), bad, "after the invite's end");
    let other = Claim { authority: World::claim(2, 2, "db").authority, ..claim.clone() };
    check_void("gw-1", |world| admit(world, &other, &["invite 1"], true, NOW), bad, "another invite's id");
    let greedy = Claim { roles: ["admin".parse().unwrap()].into(), ..claim.clone() };
    check_void("gw-1", |world| admit(world, &greedy, &["invite 1"], true, NOW), bad, "a role that it does not give");
    let founder = Claim { authority: ClaimAuthority::Signers, ..claim.clone() };
    check_void("gw-1", |world| admit(world, &founder, &["ann"], true, NOW), bad, "an invite where none belongs");
    let soft = Claim { node_key: ed("soft").public(), ..claim };
    check_void(
        "gw-1",
        |world| admit(world, &soft, &["invite 1", "soft"], true, NOW),
        bad,
        "a node key of another kind",
    );
}

#[test]
fn what_was_never_admitted_neither_joins_nor_leaves() {
    let unknown = |void: &Void| matches!(void, Void::Unknown(_));
    let join = Action::NodeJoin { node_key: node_key(2).public().digest(), name: node("web") };
    check_void("gw-1", |_| join, unknown, "join");
    let leave = |world: &World| {
        let leave = Leave { node_key: node_key(2).public(), at: NOW };
        let leave = Envelope::seal(Some(world.founding.id), &leave).unwrap().signed(&node_key(2)).unwrap();
        Action::NodeLeave { leave, name: node("db") }
    };
    check_void("gw-1", leave, unknown, "leave");
}

#[test]
fn a_key_that_its_gateway_knows_as_admitted_spends_nothing_more() {
    let repeats = |void: &Void| *void == Void::Repeats;
    for gateway in ["gw-1", "gw-2"] {
        check_void(gateway, |world| world.admission(gateway, 1, 1, "web"), repeats, gateway);
        check_void(gateway, |world| world.admission(gateway, 1, 1, "db"), repeats, "under another name");
    }
}

#[test]
fn a_key_that_two_gateways_admit_at_once_is_one_member_and_spends_at_both() {
    let mut world = quiet();
    world.admit("gw-1", 2, 1, "db");
    world.admit("gw-2", 2, 1, "db");
    let state = world.fold().state;
    assert_eq!((state.members.len(), state.void.len()), (2, 0));
    let spent: Vec<_> = state.invites.values().flat_map(|record| &record.spent_at).collect();
    assert_eq!(spent, [(&author("gw-1"), &2), (&author("gw-2"), &1)]);
}

#[test]
fn a_forged_author_never_gets_a_place() {
    let world = quiet();
    let untouched = world.fold();
    let action = || world.admission("gw-1", 2, 1, "db");
    for (case, who, key) in [
        ("a stranger as a gateway", "gw-1", "eve"),
        ("one gateway as another", "gw-1", "gw-2"),
        ("a signer as a gateway", "gw-1", "ann"),
        ("a gateway as a signer", "ann", "gw-1"),
        ("one signer as another", "ann", "ben"),
    ] {
        let mut entry = world.draft(who, action());
        entry.key = ed(key).public();
        let forged = world.signed(&entry, key);
        let mut log = world.log.clone();
        log.insert(0, forged.clone());
        let found = fold_opened(&world.founding, log);
        assert_eq!((&found.state, &found.forks), (&untouched.state, &untouched.forks), "{case}");
        assert_eq!(found.unplaced, digests(&[forged]), "{case}");
    }
    let mut entry = world.draft("ann", action());
    entry.author = author("eve");
    entry.key = ed("eve").public();
    (entry.seq, entry.previous) = (1, None);
    let unknown = world.signed(&entry, "eve");
    let found = fold_opened(&world.founding, world.log.iter().cloned().chain([unknown]));
    assert_eq!(found.state, untouched.state);
}

#[test]
fn an_entry_with_a_bad_signature_is_as_if_it_were_not_there() {
    let mut world = quiet();
    let envelopes = |log: &[SignedEntry]| log.iter().map(|signed| signed.envelope.clone()).collect::<Vec<_>>();
    let before = envelopes(&world.log);
    let signed = world.admit("gw-1", 2, 1, "db");
    let mut json = serde_json::to_value(&signed.envelope).unwrap();
    json["signatures"][0]["sig"] = serde_json::to_value(&before[0]).unwrap()["signatures"][0]["sig"].clone();
    let bad: Envelope = serde_json::from_value(json).unwrap();
    let untouched = fold(&world.founding, before.clone());
    assert_eq!(fold(&world.founding, [bad].into_iter().chain(before.clone())), untouched);
    let by_another = world.sealed(&signed.entry, &["gw-2"]);
    assert_eq!(fold(&world.founding, before.into_iter().chain([by_another])), untouched);
}

#[test]
fn a_gateway_takes_only_a_head_that_follows_the_one_in_force() {
    let mut world = quiet();
    let repeated = world.revoke_node("ann", 1).entry.action;
    let version = world.view("ann").head().unwrap().head.version;
    let follows = |action: Action| {
        let signed = world.signed(&world.draft("ann", action), "ann");
        world.view("ann").check_follows(&signed, signed.entry.at)
    };
    let changed = |change: fn(&mut Head)| {
        let mut head = world.next_head("ann");
        change(&mut head);
        follows(Action::HeadPublish { head: world.sealed(&head, &["ann"]), cause: Cause::Refresh })
    };
    assert_eq!(changed(|_| {}), Ok(()));
    assert_eq!(follows(repeated), Ok(()), "the very same head again");
    let regression = BadHead::Regression { found: version - 1, known: version };
    assert_eq!(changed(|head| head.version -= 2), Err(regression));
    let repeats = |head: &mut Head| (head.version, head.reverts) = (head.version - 1, Some(9));
    assert_eq!(changed(repeats), Err(BadHead::Forked { version }));
    let drafted = |head: &mut Head| head.issued_at = head.issued_at - Seconds::DAY;
    assert!(matches!(changed(drafted), Err(BadHead::DraftedEarlier { .. })), "it was kept back for a day");
    let forgets = BadHead::ForgetsRevocations { version: version + 1 };
    assert_eq!(changed(|head| head.revocations.node_keys.clear()), Err(forgets));
}

#[test]
fn an_admitted_key_speaks_for_its_own_name_only() {
    let world = quiet();
    let (state, key) = (world.view("ann"), node_key(1).public());
    assert!(member_behind(state, &key, &node("web")).is_ok());
    assert_eq!(member_behind(state, &key, &node("gw-1")).err(), Some(Refusal::NotAdmitted));
    assert_eq!(member_behind(state, &node_key(2).public(), &node("web")).err(), Some(Refusal::NotAdmitted));
}
