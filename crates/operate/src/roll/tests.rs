//! Who is listed next, and by which heads members may show themselves.

use identity::head::{Epoch, Revocations};
use identity::members::ClassLeaf;
use identity::signers::SignersRef;
use identity::time::{Seconds, Timestamp};

use super::*;

const NOW: Timestamp = Timestamp::from_unix(1_000_000);

fn key(n: u8) -> Digest {
    Digest([n; 32])
}

fn leaf(name: &str, n: u8, manifest: Meant) -> Leaf {
    Leaf::Node(NodeLeaf { name: name.parse().unwrap(), node_key: key(n), admission: key(n + 100), manifest })
}

fn web() -> Leaf {
    let names = vec!["web-*".parse().unwrap()];
    Leaf::Class(ClassLeaf { class: "web".parse().unwrap(), names, manifest: key(200) })
}

fn of_web() -> Meant {
    Meant::Class("web".parse().unwrap())
}

fn newcomer(name: &str, n: u8) -> Newcomer {
    let known = MemberKnown { name: name.parse().unwrap(), node_key: key(n), admission: key(n + 100) };
    Newcomer { known, replaces: None, low: false }
}

fn head() -> Head {
    Head {
        version: 2,
        previous: Vec::new(),
        recent: Vec::new(),
        reverts: None,
        issued_at: NOW,
        fresh_until: NOW + Seconds::DAY,
        members: None,
        members_floor: 0,
        mandates: Vec::new(),
        record: BTreeMap::new(),
        placements: Vec::new(),
        revocations: Revocations::default(),
        trust: Vec::new(),
        signers: SignersRef { version: 1, id: key(0) },
        epoch: Epoch::first(),
        release: None,
        fleet: None,
    }
}

fn org() -> OrgName {
    "harbor".parse().unwrap()
}

/// Names, keys and what each is meant to be.
fn shown(roll: &Roll, head: &Head) -> Vec<(String, u8, Meant)> {
    let leaves = roll.next(head, &org());
    let mut all: Vec<_> =
        nodes(&leaves).map(|leaf| (leaf.name.to_string(), leaf.node_key.0[0], leaf.manifest.clone())).collect();
    all.sort();
    all
}

#[test]
fn whoever_came_since_is_listed_by_class_or_with_nothing() {
    let before = vec![web(), leaf("alpha", 1, Meant::Own(key(201)))];
    let members = vec![newcomer("alpha", 1), newcomer("web-1", 2), newcomer("stray", 3)];
    let roll = Roll { before, members, ..Roll::default() };
    let expected = [
        ("alpha".to_owned(), 1, Meant::Own(key(201))),
        ("stray".to_owned(), 3, Meant::Nothing),
        ("web-1".to_owned(), 2, of_web()),
    ];
    assert_eq!(shown(&roll, &head()), expected);
    // Their invite is over, or their gateway is gone: they keep their leaves.
    let later = Roll { before: roll.next(&head(), &org()), ..Roll::default() };
    assert_eq!(shown(&later, &head()), expected);
}

#[test]
fn whom_the_head_revokes_and_who_left_has_no_leaf() {
    let before = ["a", "b", "c", "d"].iter().zip(1..).map(|(name, n)| leaf(name, n, Meant::Nothing)).collect();
    let roll = Roll { before, left: [key(2)].into(), members: vec![newcomer("a", 1)], ..Roll::default() };
    let mut head = head();
    head.revocations.node_keys.insert(key(1));
    head.revocations.principals.insert(Principal::node(&org(), &"c".parse().unwrap()));
    assert_eq!(shown(&roll, &head), [("d".to_owned(), 4, Meant::Nothing)]);
}

#[test]
fn a_name_goes_on_as_what_it_was_only_if_its_old_key_handed_it_on() {
    let before = vec![leaf("alpha", 1, Meant::Own(key(201))), leaf("beta", 2, Meant::Own(key(202)))];
    let heir = Newcomer { replaces: Some(key(1)), ..newcomer("alpha", 3) };
    let members = vec![heir, newcomer("beta", 4)];
    let roll = Roll { before, members, left: [key(1), key(2)].into(), ..Roll::default() };
    let expected = [("alpha".to_owned(), 3, Meant::Own(key(201))), ("beta".to_owned(), 4, Meant::Nothing)];
    assert_eq!(shown(&roll, &head()), expected);
}

#[test]
fn nobody_is_listed_under_a_name_that_another_has_or_claims() {
    let before = vec![leaf("alpha", 1, Meant::Nothing)];
    let members = vec![newcomer("alpha", 2), newcomer("beta", 3), newcomer("beta", 4), newcomer("gamma", 1)];
    let roll = Roll { before, members, ..Roll::default() };
    assert_eq!(shown(&roll, &head()), [("alpha".to_owned(), 1, Meant::Nothing)]);
}

#[test]
fn a_machine_that_proved_nothing_is_not_listed_in_a_class_that_serves() {
    let low = |name: &str, n: u8| Newcomer { low: true, ..newcomer(name, n) };
    let members = vec![low("web-1", 1), low("stray", 2)];
    let closed = ["web".parse().unwrap()].into();
    let roll = Roll { before: vec![web()], members: members.clone(), closed, ..Roll::default() };
    assert_eq!(shown(&roll, &head()), [("stray".to_owned(), 2, Meant::Nothing)]);
    let open = Roll { before: vec![web()], members, ..Roll::default() };
    assert_eq!(shown(&open, &head()).last(), Some(&("web-1".to_owned(), 1, of_web())));
}

#[test]
fn a_fleet_is_for_those_too_who_came_while_it_was_looked_at() {
    let named = vec![web(), leaf("alpha", 1, Meant::Own(key(201)))];
    let members = vec![newcomer("alpha", 1), newcomer("web-1", 2)];
    let roll = Roll { before: Vec::new(), named: Some(named), members, ..Roll::default() };
    let expected = [("alpha".to_owned(), 1, Meant::Own(key(201))), ("web-1".to_owned(), 2, of_web())];
    assert_eq!(shown(&roll, &head()), expected);
}

#[test]
fn heads_that_show_a_key_under_a_name_which_it_has_no_longer_are_not_named() {
    let (now, older, oldest) = (key(50), key(51), key(52));
    let before = vec![leaf("alpha", 1, Meant::Nothing), leaf("beta", 2, Meant::Nothing)];
    let mut known = SignedHead { head: head(), digest: now };
    (known.head.members, known.head.recent) = (Some(key(60)), vec![older, oldest]);
    let recent = |roll: &Roll, change: &dyn Fn(&mut Head)| {
        let mut head = head();
        change(&mut head);
        roll.settle(&mut head, &known, &org());
        head.recent
    };
    let only = |name: &str, n: u8| listed(&[leaf(name, n, Meant::Nothing)]);
    let roll = Roll {
        before: before.clone(),
        recent: [(older, only("alpha", 1)), (oldest, only("beta", 2))].into(),
        ..Roll::default()
    };
    assert_eq!(recent(&roll, &|_| {}), [now, older, oldest]);
    // Who is revoked shows itself by none of them.
    assert_eq!(recent(&roll, &|head| assert!(head.revocations.node_keys.insert(key(1)))), [now, older, oldest]);
    let heir = Newcomer { replaces: Some(key(1)), ..newcomer("alpha", 3) };
    let replaced = Roll { members: vec![heir], left: [key(1)].into(), ..roll };
    assert!(replaced.may_lose());
    assert_eq!(recent(&replaced, &|_| {}), [oldest], "the others show the old key");
    let unread = Roll { recent: BTreeMap::new(), ..replaced };
    assert!(recent(&unread, &|_| {}).is_empty(), "a map that is not here is not vouched for");
    let late = |head: &mut Head| head.issued_at = NOW + RECENT + Seconds(1);
    assert!(recent(&Roll { before, ..Roll::default() }, &late).is_empty(), "their time is over");
}
