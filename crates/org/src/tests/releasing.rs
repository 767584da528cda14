//! Releases of the agent: signed by the threshold, named by a head, and what they and live invites keep.

use std::collections::BTreeSet;

use identity::id::Digest;

use super::world::{NOW, World};
use crate::derived;
use crate::entry::{Action, Cause};
use crate::release::{Agent, Release};
use crate::state::{State, Void};

fn release(before: Option<&Release>, version: &str) -> Release {
    let agent = Agent {
        os: "linux".parse().unwrap(),
        arch: "x86_64".parse().unwrap(),
        version: version.parse().unwrap(),
        size: 1,
        sha256: Digest::of(version.as_bytes()),
    };
    Release::next(before, vec![agent], NOW)
}

/// The release by some, the head that names it by others.
fn publish(world: &World, release: &Release, (by, head_by): (&[&str], &[&str])) -> Action {
    let release = world.sealed(release, by);
    let mut head = world.next_head("ann");
    head.release = Some(release.digest());
    Action::ReleasePublish { release, head: world.sealed(&head, head_by) }
}

#[test]
fn a_release_counts_by_the_threshold_and_in_the_head_that_names_it() {
    let world = World::new(2, &["ann", "ben"]);
    let (both, one) = (&["ann", "ben"][..], &["ann"][..]);
    let first = release(None, "0.1.0");
    let apply = |action: Action| {
        let mut state = world.view("ann").clone();
        let applied = state.apply(&world.signed(&world.draft("ann", action), "ann")).unwrap();
        applied.map(|()| state)
    };
    for by in [(one, both), (both, one)] {
        assert!(matches!(apply(publish(&world, &first, by)), Err(Void::BadObject(_))), "{by:?}");
    }
    let mut other = publish(&world, &first, (both, both));
    if let Action::ReleasePublish { release: signed, .. } = &mut other {
        *signed = world.sealed(&release(None, "0.2.0"), both);
    }
    assert!(matches!(apply(other), Err(Void::BadObject(_))), "the head names another");
    let mut broken = first.clone();
    broken.list = Digest([0; 32]);
    assert!(matches!(apply(publish(&world, &broken, (both, both))), Err(Void::BadObject(_))), "another list");
    let state = apply(publish(&world, &first, (both, both))).unwrap();
    assert_eq!(state.release().map(|record| &record.release), Some(&first));
    assert_eq!(state.named_files(NOW), first.files().collect());
    let restored: State = derived::restore(&world.founding, &derived::rows(&state)).unwrap();
    assert_eq!(restored, state, "as rows");
}

#[test]
fn no_gateway_releases_anything() {
    let mut world = World::new(1, &["ann"]);
    let action = publish(&world, &release(None, "0.1.0"), (&["ann"], &["ann"]));
    let entry = world.append("gw-1", action);
    assert_eq!(world.fold().state.void.get(&entry.digest), Some(&Void::BeyondPower));
}

#[test]
fn invites_keep_their_files_until_they_are_over() {
    let mut world = World::new(1, &["ann"]);
    let mut keeps = |n: u8, uses: [u32; 2]| {
        let mut body = world.invite_body("ann", n, uses);
        body.files = BTreeSet::from([Digest([n; 32])]);
        let (until, invite) = (body.expires_at, world.sealed(&body, &["ann"]));
        world.invites.insert(n, invite.clone());
        world.append("ann", Action::InviteCreate { invite });
        until
    };
    let until = keeps(1, [1, 0]);
    keeps(2, [1, 1]);
    keeps(3, [1, 1]);
    world.share();
    world.admit("gw-1", 1, 1, "web");
    world.admit("gw-1", 2, 2, "db");
    world.share();
    world.revoke_invite("ann", 3);
    let state = world.fold().state;
    let named = |now| state.named_files(now).into_iter().map(|digest| digest.0[0]).collect::<Vec<_>>();
    assert_eq!(named(NOW), [2], "used up, half used, revoked");
    assert_eq!(named(until), [0_u8; 0], "expired");
    // A later release does not take away what an invite names.
    let first = publish(&world, &release(None, "0.1.0"), (&["ann"], &["ann"]));
    world.append("ann", first);
    world.publish("ann", Cause::Refresh, |_| {});
    let state = world.fold().state;
    assert!(state.named_files(NOW).contains(&Digest([2; 32])));
    assert!(state.release().is_some(), "a later head keeps the release");
}
