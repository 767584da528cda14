//! Scenes of plain attacks: what thieves splice in, date back, replay and forge gets them no place.

use identity::envelope::Envelope;
use identity::id::{Correlation, Digest};

use crate::ledger::counts::NotCounted;
use crate::ledger::draft::Draft;
use crate::ledger::entry::{Action, Entry, SignedEntry, Under};
use crate::ledger::evidence::Evidence;
use crate::ledger::fold::Why;
use crate::ledger::judge::{Facts, MapPlace, Membership, NotMember, Shown, Unseen, judge};
use crate::ledger::tests::drafting::{Wish, draft};
use crate::ledger::tests::replicas::{
    Peer, admission, admit, assert_holds, assert_nobody, assert_waits, give, head_of, hear, install, publish,
    shows_leaf, state, tell, why, write,
};
use crate::ledger::tests::world::{Org, day, invite, junk, key, machine, node, signed, voice};

#[test]
fn what_is_spliced_in_before_a_head_is_drafted_gets_no_leaf() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let names = ["x1", "x2", "x3", "x4"];
    let invite = |id, uses, until| org.invite(id, &names, &[("g1", uses), ("g2", uses)], (until, &["ann"]));
    let (revoked, used_up, outdated, fine) =
        (invite("revoked", 9, 300), invite("used-up", 1, 300), invite("outdated", 9, 5), invite("fine", 9, 300));
    admit(&org, &mut home, ("g1", 1), ("k1", "w"), &org.invite("used-up-w", &["w"], &[("g1", 1)], (300, &["ann"])));
    admit(&org, &mut home, ("g1", 1), ("e0", "unlisted"), &used_up);
    let wish = Wish {
        revoke_invites: vec![super::world::invite("revoked", &[], &[], 0).id],
        close: vec![voice("g2")],
        ..Wish::default()
    };
    publish(&org, &mut home, (100, &["ann"]), &wish);
    let spliced = [("g1", "e1", &revoked), ("g1", "e2", &used_up), ("g1", "e3", &outdated), ("g2", "e4", &fine)];
    let mut names = names.into_iter();
    // Under one name two that counted would contest it, and hide each other.
    let spliced = spliced.map(|(gateway, key, invite)| {
        let name = names.next().expect("each has its own");
        admit(&org, &mut home, (gateway, 101), (key, name), invite)
    });
    let Draft { leaves, head, .. } = draft(&home, day(102), &Wish::default()).unwrap();
    assert_eq!(leaves.keys().map(ToString::to_string).collect::<Vec<_>>(), ["alpha", "w"]);
    hear(&mut home, &org.head(head, leaves, &["ann"]), 102);
    for entry in &spliced {
        assert!(why(&home, entry, 102).is_some(), "and everybody sees that it waits");
    }
    assert_eq!(why(&home, &spliced[0], 102), Some(Why::Passed));
}

#[test]
fn whatever_its_author_says_of_under_and_at_an_entry_counts_alike() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    publish(&org, &mut home, (60, &["ann"]), &Wish::default());
    let good = org.invite("good", &["x"], &[("g2", 1)], (80, &["ann"]));
    let over = org.invite("over", &["x"], &[("g2", 1)], (40, &["ann"]));
    for (version, digest) in [(1, org.first.digest()), (u64::MAX, Digest([5; 32])), (0, Digest([0; 32]))] {
        for at in [0, 30, 5000] {
            for (invite, counts) in [(&good, true), (&over, false)] {
                let mut replica = home.clone();
                let (under, at, correlation) = (Under { version, digest }, day(at), Correlation([0; 8]));
                let action = admission(&org, ("k1", "x"), invite);
                let entry = Entry { voice: voice("g2"), seq: 1, previous: None, under, at, correlation, action };
                tell(&mut replica, &org.seal(&entry, &["g2"]), 61);
                assert_eq!(state(&replica, 61).members.contains_key(&node("x")), counts);
            }
        }
    }
}

#[test]
fn a_claim_by_signers_counts_only_by_the_set_in_force_and_until_it_says() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    install(&org, &mut home, 2, &org.later(2, 1, &["bob"]), (&["ann"], &["bob"]));
    let admit = |home: &mut _, claim: Envelope| {
        write(&org, home, "g1", 3, Action::NodeAdmit { claim, invite: None, approval: None })
    };
    let replaced = admit(&mut home, org.word(("k-eve", "x"), 500, &["ann"]));
    assert_waits(&home, &replaced, 3, &NotMember::Word(NotCounted::NotSigned { found: 0, needed: 1 }));
    let over = admit(&mut home, org.word(("k1", "y"), 1, &["bob"]));
    assert_waits(&home, &over, 3, &NotMember::Word(NotCounted::Over { until: day(1) }));
    admit(&mut home, org.word(("k2", "z"), 500, &["bob"]));
    assert_holds(&home, "z", "k2", 3);
    assert_nobody(&home, "x", 3);
}

#[test]
fn a_head_by_the_old_set_that_revokes_somebody_is_absorbed_by_nobody() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    install(&org, &mut home, 2, &org.later(2, 1, &["bob"]), (&["ann"], &["bob"]));
    let revokes = org.forged(&org.first, &["ann"], |head, _| {
        head.version = 2;
        head.revocations.node_keys.insert(key("ka"));
    });
    hear(&mut home, &revokes, 3);
    let next = publish(&org, &mut home, (4, &["bob"]), &Wish::default());
    assert!(org.body(&next).revocations.node_keys.is_empty());
    assert_holds(&home, "alpha", "ka", 4);
}

#[test]
fn a_claim_sealed_anew_after_its_key_was_revoked_stays_out() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let old = org.invite("old", &["x"], &[("g1", 9)], (300, &["ann"]));
    admit(&org, &mut home, ("g1", 1), ("k1", "x"), &old);
    publish(&org, &mut home, (2, &["ann"]), &Wish { revoke_keys: vec![key("k1")], ..Wish::default() });
    let anew = org.invite("anew", &["x", "y"], &[("g1", 9)], (300, &["ann"]));
    let by_invite = admit(&org, &mut home, ("g1", 3), ("k1", "y"), &anew);
    let claim = org.word(("k1", "x"), 300, &["ann"]);
    let by_word = write(&org, &mut home, "g1", 3, Action::NodeAdmit { claim, invite: None, approval: None });
    for entry in [&by_invite, &by_word] {
        assert_waits(&home, entry, 3, &NotMember::Revoked);
    }
    assert_eq!(state(&home, 3).members.len(), 1);
}

#[test]
fn a_real_member_is_not_unseated_before_nor_after_the_gateway_is_closed() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x", "alpha"], &[("g1", 9), ("g2", 9)], (300, &["ann"]));
    let real = admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    // Beyond the record a gateway that lies contests a name until the next head; what is listed it cannot touch.
    admit(&org, &mut home, ("g2", 1), ("e1", "x"), &invite);
    admit(&org, &mut home, ("g2", 1), ("e2", "alpha"), &invite);
    assert_eq!(why(&home, &real, 1), Some(Why::Contested));
    assert_holds(&home, "alpha", "ka", 1);
    publish(&org, &mut home, (2, &["ann"]), &Wish { close: vec![voice("g2")], ..Wish::default() });
    admit(&org, &mut home, ("g2", 3), ("e3", "x"), &invite);
    let wish = Wish { list: vec![real.digest], ..Wish::default() };
    publish(&org, &mut home, (3, &["ann"]), &wish);
    admit(&org, &mut home, ("g2", 4), ("e4", "x"), &invite);
    admit(&org, &mut home, ("g1", 4), ("e5", "x"), &invite);
    assert_holds(&home, "x", "k1", 4);
    assert_holds(&home, "alpha", "ka", 4);
}

#[test]
fn a_gateway_cannot_make_a_machine_leave() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let forged =
        crate::invite::admission::Leave { node_key: identity::key::Sign::public(machine("ka").as_ref()), at: day(0) };
    let forged = org.seal(&forged, &["g2"]).signed(machine("k-eve").as_ref()).unwrap();
    write(&org, &mut home, "g2", 1, Action::NodeLeave { leave: forged, name: node("alpha") });
    assert_holds(&home, "alpha", "ka", 1);
    // Nor can a gateway that was closed speak of it.
    publish(&org, &mut home, (2, &["ann"]), &Wish { close: vec![voice("g2")], ..Wish::default() });
    write(&org, &mut home, "g2", 3, Action::NodeLeave { leave: org.leave("ka"), name: node("alpha") });
    assert_holds(&home, "alpha", "ka", 3);
}

#[test]
fn nobody_writes_into_anothers_chain() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x"], &[("g1", 9)], (300, &["ann"]));
    let entry =
        org.entry("g1", None, Under { version: 1, digest: org.first.digest() }, admission(&org, ("k1", "x"), &invite));
    let by_thief = signed(entry.envelope.kept(&std::collections::BTreeSet::new()), &["g2"]);
    assert!(home.take(&by_thief, day(1)).is_err());
    assert!(SignedEntry::open(org.founding.id, by_thief).is_err());
    let other_org = Org::new(1, &["bob"]);
    assert!(home.take(&other_org.first.envelope, day(1)).is_err());
}

#[test]
fn a_copy_with_a_signature_that_does_not_hold_unsigns_nothing() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x"], &[("g1", 9)], (300, &["ann"]));
    let next = org.forged(&org.first, &["ann"], |head, _| head.version = 2);
    let bob = org.later(2, 1, &["bob"]);
    let step = org.succession(&org.set(), &bob, next.digest(), &["ann"]);
    tell(&mut home, &invite, 1);
    hear(&mut home, &next, 1);
    admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    for low in ["0", "A", "a", "z", "~"] {
        tell(&mut home, &junk(&invite, "ann", low), 2);
        tell(&mut home, &junk(&next.envelope, "ann", low), 2);
    }
    assert_eq!(head_of(&home, 2), Some(next.digest()));
    assert_holds(&home, "x", "k1", 2);
    tell(&mut home, &junk(&step, "ann", "A"), 3);
    assert_eq!(state(&home, 3).signers, org.set().as_ref(), "and signs nothing");
    tell(&mut home, &step, 4);
    tell(&mut home, &junk(&step, "ann", "A"), 5);
    assert_eq!(state(&home, 5).signers, bob.as_ref());
}

#[test]
fn a_flood_of_strangers_signatures_unsigns_nothing() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let next = org.forged(&org.first, &["ann"], |head, _| head.version = 2);
    hear(&mut home, &next, 1);
    let bare = next.envelope.kept(&std::collections::BTreeSet::new());
    for flood in 0..3 {
        let names: Vec<String> = (0..40).map(|n| format!("stranger-{flood}-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        tell(&mut home, &signed(bare.clone(), &names), 2);
    }
    assert_eq!(head_of(&home, 2), Some(next.digest()));
    let mut other = org.replica();
    give(&home, &mut other, 3);
    assert_eq!(head_of(&other, 3), Some(next.digest()));
}

#[test]
fn an_absence_or_a_leaf_by_an_older_head_shows_nothing_new() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let forged = org.forged(&org.first, &["eve"], |head, leaves| {
        head.version = 5;
        leaves.insert(node("x"), super::world::leaf("x", "k-eve"));
    });
    hear(&mut home, &forged, 1);
    assert_eq!(shows_leaf(&home, &forged, "x", 1), Err(NotMember::TooOld));
    assert_eq!(head_of(&home, 1), Some(org.first.digest()));
}

#[test]
fn an_invite_of_a_forged_kind_or_another_id_lets_nobody_in() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let bad = crate::invite::Invite { approvers: 0, ..invite("bad", &["x"], &[("g1", 9)], 300) };
    let bad = org.seal(&bad, &["ann"]);
    let malformed = admit(&org, &mut home, ("g1", 1), ("k1", "x"), &bad);
    assert!(matches!(why(&home, &malformed, 1), Some(Why::Unreadable(_))));
    // A claim under one invite is shown with another.
    let (one, other) = (
        org.invite("one", &["x"], &[("g1", 9)], (300, &["eve"])),
        org.invite("other", &["x"], &[("g1", 9)], (300, &["ann"])),
    );
    let claim = org.claim(("k1", "x"), &one, None);
    let swapped = write(&org, &mut home, "g1", 1, Action::NodeAdmit { claim, invite: Some(other), approval: None });
    assert!(matches!(why(&home, &swapped, 1), Some(Why::Unreadable(_))));
}

#[test]
fn a_gateway_lets_in_only_such_names_and_kinds_as_its_mandate_says() {
    let org = Org::new(1, &["ann"]);
    let narrow = org.forged(&org.first, &["ann"], |head, _| {
        head.version = 2;
        head.mandates[0].names = vec!["web-*".parse().unwrap()];
        head.mandates[1].kinds.clear();
    });
    let mut home = org.replica();
    hear(&mut home, &narrow, 1);
    let invite = org.invite("i", &["*"], &[("g1", 9), ("g2", 9)], (300, &["ann"]));
    admit(&org, &mut home, ("g1", 2), ("k1", "web-1"), &invite);
    assert_holds(&home, "web-1", "k1", 2);
    for (gateway, name) in [("g1", "db-1"), ("g2", "web-2")] {
        let beyond = admit(&org, &mut home, (gateway, 2), ("k2", name), &invite);
        assert_waits(&home, &beyond, 2, &NotMember::NoMandate);
    }
}

#[test]
fn a_name_that_was_ended_for_good_is_nobodys() {
    let org = Org::new(1, &["ann"]);
    let ended = org.forged(&org.first, &["ann"], |head, _| {
        head.version = 2;
        for name in ["alpha", "x"] {
            head.revocations.principals.insert(format!("spiffe://harbor/node/{name}").parse().unwrap());
        }
    });
    let mut home = org.replica();
    hear(&mut home, &ended, 1);
    let invite = org.invite("i", &["x", "y"], &[("g1", 9)], (300, &["ann"]));
    let entry = admit(&org, &mut home, ("g1", 2), ("k1", "x"), &invite);
    assert_waits(&home, &entry, 2, &NotMember::NameEnded(node("x")));
    assert_nobody(&home, "alpha", 2);
    admit(&org, &mut home, ("g1", 2), ("k2", "y"), &invite);
    assert_holds(&home, "y", "k2", 2);
}

#[test]
fn a_key_that_is_listed_gets_no_second_name() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x"], &[("g1", 9)], (300, &["ann"]));
    let entry = admit(&org, &mut home, ("g1", 1), ("ka", "x"), &invite);
    assert_waits(&home, &entry, 1, &NotMember::ListedAs(node("alpha")));
}

#[test]
fn a_peer_that_holds_no_chains_says_what_it_did_not_see() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["x"], &[("g1", 1)], (50, &["ann"]));
    let entry = admit(&org, &mut home, ("g1", 1), ("k1", "x"), &invite);
    let next = publish(&org, &mut org.replica(), (1, &["ann"]), &Wish::default());
    hear(&mut home, &next, 1);
    let (name, evidence) = (node("x"), Evidence::of(org.founding.id, &entry).unwrap());
    let ground = home.ground(day(1)).unwrap();
    let asked = |by: Digest, facts: &dyn Facts| {
        let place = MapPlace::NoLeaf { by };
        judge(Shown { name: &name, key: key("k1"), place, evidence: Some(&evidence) }, &ground, facts)
    };
    let unseen = [Unseen::Chain, Unseen::Uses, Unseen::Denials, Unseen::Departure, Unseen::OtherNames].into();
    assert_eq!(asked(next.digest(), &Peer { pinned: None }), Ok(Membership::Invited { meant: true, unseen }));
    assert_eq!(asked(org.first.digest(), &Peer { pinned: None }), Err(NotMember::TooOld));
    let pinned = asked(next.digest(), &Peer { pinned: Some(key("k2")) }).unwrap_err();
    assert!(pinned.is_alarm(), "{pinned}");
}

/// One of two signers drafts a head that names another one, which nobody but her has seen; her colleague co-signs that.
#[test]
fn a_head_that_one_of_two_signers_wrote_alone_takes_nothing_back_whoever_names_it() {
    let org = Org::new(2, &["ann", "ben"]);
    let hidden = org.forged(&org.first, &["ann"], |head, _| {
        head.version = 2;
        head.revocations.node_keys.insert(key("ka"));
        head.revocations.voices.insert(voice("g2"));
    });
    let next = org.forged(&org.first, &["ann", "ben"], |head, _| {
        (head.version, head.previous) = (2, vec![org.first.digest(), hidden.digest()]);
    });
    // Whatever came first.
    for order in [[&next, &hidden], [&hidden, &next]] {
        let mut home = org.replica();
        for sent in order {
            hear(&mut home, sent, 2);
        }
        assert_eq!(head_of(&home, 2), Some(next.digest()));
        assert_holds(&home, "alpha", "ka", 2);
        let ground = home.ground(day(2)).unwrap();
        assert!(ground.mandate(voice("g2")).is_some() && !ground.reached.contains(&hidden.digest()));
        let after = draft(&home, day(3), &Wish::default()).unwrap().head;
        assert!(after.revocations.node_keys.is_empty(), "and no head after it carries that on");
    }
}

/// The same, named as one by whose map members may show themselves.
#[test]
fn a_head_that_one_of_two_signers_wrote_alone_stays_in_no_list_of_those_that_count() {
    let org = Org::new(2, &["ann", "ben"]);
    let hidden = org.forged(&org.first, &["ann"], |head, leaves| {
        (head.version, head.issued_at) = (2, day(500));
        leaves.get_mut(&node("alpha")).unwrap().node_key = key("k66");
    });
    let next = org.forged(&org.first, &["ann", "ben"], |head, _| {
        (head.version, head.previous, head.recent) = (2, vec![org.first.digest()], vec![hidden.digest()]);
    });
    let mut home = org.replica();
    for sent in [&next, &hidden] {
        hear(&mut home, sent, 2);
    }
    assert!(!draft(&home, day(3), &Wish::default()).unwrap().head.recent.contains(&hidden.digest()));
}

/// The same, named by a change of signers as the head that stands in until the new set has signed one.
#[test]
fn a_head_that_one_of_two_signers_wrote_alone_stands_in_for_none() {
    let org = Org::new(2, &["ann", "ben"]);
    let hidden = org.forged(&org.first, &["ann"], |head, leaves| {
        head.version = 2;
        leaves.get_mut(&node("alpha")).unwrap().node_key = key("k66");
    });
    let mut home = org.replica();
    hear(&mut home, &hidden, 2);
    let to = org.later(2, 2, &["ann", "ben", "cat"]);
    tell(&mut home, &org.succession(&org.set(), &to, hidden.digest(), &["ann", "ben"]), 2);
    assert_ne!(head_of(&home, 2), Some(hidden.digest()));
}
