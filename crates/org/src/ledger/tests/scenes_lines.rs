//! Scenes of lines: how long what a head took away stands, and for how long an older map still shows whom it listed.

use identity::id::InviteId;
use identity::key::Sign as _;

use crate::invite::{Invite, InviteKind};
use crate::ledger::entry::Action;
use crate::ledger::judge::{Membership, NotMember};
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::replicas::{admit, assert_holds, assert_waits, hear, publish, shows_leaf, tell, write};
use crate::ledger::tests::world::{FRESH, Org, day, invite, key, machine};

fn revoking(name: &str) -> Wish {
    Wish { revoke_keys: vec![key(name)], ..Wish::default() }
}

#[test]
fn a_line_stands_as_long_as_an_invite_that_its_maker_had_not_heard_of_could_let_the_key_in() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    publish(&org, &mut home, (1, &["ann"]), &revoking("k"));
    let later = org.invite("later", &["x"], &[("g1", 9)], (300, &["ann"]));
    tell(&mut home, &later, 50);
    let mut new = org.newcomer(None);
    hear(&mut new, &publish(&org, &mut home, (100, &["ann"]), &Wish::default()), 100);
    let entry = admit(&org, &mut new, ("g1", 101), ("k", "x"), &later);
    assert_waits(&new, &entry, 101, &NotMember::Revoked);
    let over = publish(&org, &mut home, (300 + FRESH + 1, &["ann"]), &Wish::default());
    assert!(org.body(&over).revocations.node_keys.is_empty(), "and no longer");
}

#[test]
fn a_line_ends_though_invites_are_open_that_were_made_since() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    publish(&org, &mut home, (1, &["ann"]), &revoking("k"));
    for (id, made, until) in [("new", 2, 90), ("newer", 80, 300)] {
        let invite = Invite { created_at: day(made), ..invite(id, &["x"], &[("g1", 9)], until) };
        tell(&mut home, &org.seal(&invite, &["ann"]), made);
    }
    let stands = publish(&org, &mut home, (60, &["ann"]), &Wish::default());
    assert!(org.body(&stands).revocations.node_keys.contains(&key("k")));
    let over = publish(&org, &mut home, (63, &["ann"]), &Wish::default());
    assert!(org.body(&over).revocations.node_keys.is_empty());
    // Whoever has every head knows for ever, and lets the key in by no invite.
    let later = org.invite("newest", &["x"], &[("g1", 9)], (300, &["ann"]));
    tell(&mut home, &later, 64);
    let entry = admit(&org, &mut home, ("g1", 64), ("k", "x"), &later);
    assert_waits(&home, &entry, 64, &NotMember::Revoked);
}

/// It was signed before the key was revoked, and the home that revoked it had not heard of it.
#[test]
fn an_invite_for_one_machine_holds_the_line_of_its_own_key_and_of_no_other() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    for name in ["k", "k2"] {
        publish(&org, &mut home, (1, &["ann"]), &revoking(name));
    }
    let (kind, bound) = (InviteKind::Machine, Some(machine("k").public()));
    let bound = Invite { kind, key: bound, ..invite("machine", &["x"], &[("g1", 1)], 300) };
    tell(&mut home, &org.seal(&bound, &["ann"]), 50);
    let stands = org.body(&publish(&org, &mut home, (100, &["ann"]), &Wish::default())).revocations.node_keys;
    assert_eq!((stands.contains(&key("k")), stands.contains(&key("k2"))), (true, false));
    let over = publish(&org, &mut home, (300 + FRESH + 1, &["ann"]), &Wish::default());
    assert!(org.body(&over).revocations.node_keys.is_empty(), "and no longer than it lives");
}

#[test]
fn the_line_of_an_invite_ends_long_after_the_invite() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let (made, id) = (invite("i", &["x"], &[("g1", 9)], 10), invite("i", &[], &[], 0).id);
    tell(&mut home, &org.seal(&made, &["ann"]), 0);
    let wish = Wish { revoke_invites: vec![id], ..Wish::default() };
    let revokes = publish(&org, &mut home, (1, &["ann"]), &wish);
    assert_eq!(org.body(&revokes).revocations.invites.end_of(&id), Some(Some(day(10 + FRESH + 60))));
    let stands = publish(&org, &mut home, (10 + FRESH + 60, &["ann"]), &Wish::default());
    assert!(org.body(&stands).revocations.invite_is_revoked(id));
    let over = publish(&org, &mut home, (10 + FRESH + 61, &["ann"]), &Wish::default());
    assert!(org.body(&over).revocations.invites.is_empty());
    let unknown = InviteId([9; 16]);
    let wish = Wish { revoke_invites: vec![unknown], ..Wish::default() };
    let revokes = publish(&org, &mut home, (200, &["ann"]), &wish);
    assert_eq!(org.body(&revokes).revocations.invites.end_of(&unknown), Some(None), "nobody knows when it ends");
}

#[test]
fn a_line_stands_as_long_as_the_signers_own_word_could_let_the_key_in() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let claim = org.word(("k", "x"), 300, &["ann"]);
    let admits = Action::NodeAdmit { claim, invite: None, approval: None };
    write(&org, &mut home, "g1", 1, admits.clone());
    assert_holds(&home, "x", "k", 1);
    publish(&org, &mut home, (2, &["ann"]), &revoking("k"));
    let mut new = org.newcomer(None);
    hear(&mut new, &publish(&org, &mut home, (200, &["ann"]), &Wish::default()), 200);
    let again = write(&org, &mut new, "g2", 201, admits);
    assert_waits(&new, &again, 201, &NotMember::Revoked);
    let over = publish(&org, &mut home, (301, &["ann"]), &Wish::default());
    assert!(org.body(&over).revocations.node_keys.is_empty());
}

#[test]
fn a_line_is_not_dropped_while_a_recent_head_still_lists_the_key() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let listing = publish(&org, &mut home, (50, &["ann"]), &Wish::default());
    let revokes = org.forged(&listing, &["ann"], |head, leaves| {
        (head.version, head.issued_at, head.recent) = (3, day(51), vec![listing.digest()]);
        head.revocations.node_keys.insert_until(key("ka"), day(52));
        leaves.clear();
    });
    hear(&mut home, &revokes, 51);
    let next = publish(&org, &mut home, (60, &["ann"]), &Wish::default());
    assert!(org.body(&next).recent.contains(&listing.digest()));
    let mut new = org.newcomer(None);
    hear(&mut new, &next, 60);
    assert_eq!(shows_leaf(&new, &listing, "alpha", 60), Err(NotMember::Revoked));
}

#[test]
fn whoever_loses_its_last_leaf_gets_a_line_and_cannot_show_itself_by_an_older_map() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["alpha"], &[("g1", 1)], (50, &["ann"]));
    let instead = admit(&org, &mut home, ("g1", 1), ("k1", "alpha"), &invite);
    publish(&org, &mut home, (1, &["ann"]), &Wish { list: vec![instead.digest], ..Wish::default() });
    assert_holds(&home, "alpha", "k1", 1);
    assert_eq!(shows_leaf(&home, &org.first, "alpha", 1), Err(NotMember::Revoked));
}

#[test]
fn an_older_map_shows_nobody_under_a_name_that_its_key_no_longer_has() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    let invite = org.invite("i", &["beta", "alpha"], &[("g1", 5)], (50, &["ann"]));
    tell(&mut home, &invite, 0);
    // The machine of `alpha` is listed anew as `beta`, then another gets the name `alpha`.
    let renamed = admit(&org, &mut home, ("g1", 1), ("ka", "beta"), &invite);
    publish(&org, &mut home, (1, &["ann"]), &Wish { list: vec![renamed.digest], ..Wish::default() });
    admit(&org, &mut home, ("g1", 2), ("k2", "alpha"), &invite);
    publish(&org, &mut home, (2, &["ann"]), &Wish::default());
    assert_holds(&home, "alpha", "k2", 2);
    assert_holds(&home, "beta", "ka", 2);
    assert_eq!(shows_leaf(&home, &org.first, "alpha", 2), Err(NotMember::TooOld));
}

#[test]
fn an_older_map_counts_for_sixty_days_and_no_longer() {
    let org = Org::new(1, &["ann"]);
    let mut home = org.replica();
    publish(&org, &mut home, (60, &["ann"]), &Wish::default());
    assert_eq!(shows_leaf(&home, &org.first, "alpha", 60), Ok(Membership::Listed));
    publish(&org, &mut home, (61, &["ann"]), &Wish::default());
    assert_eq!(shows_leaf(&home, &org.first, "alpha", 61), Err(NotMember::TooOld));
}
