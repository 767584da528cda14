//! Releases of the agent: named by a head, and what they and live invites keep.

use std::collections::BTreeSet;

use identity::head::Cause;
use identity::id::Digest;

use super::world::{HERE, Site, invite_id};
use crate::audit;
use crate::ledger::draft::Draft;
use crate::ledger::entry::Action;
use crate::ledger::tests::drafting::{Wish, draft};
use crate::ledger::tests::world::{Org, Sent, day, invite};
use crate::release::{Agent, Release};

fn release(before: Option<&Release>, version: &str) -> Release {
    let agent = Agent {
        os: "linux".parse().unwrap(),
        arch: "x86_64".parse().unwrap(),
        version: version.parse().unwrap(),
        size: 1,
        sha256: Digest::of(version.as_bytes()),
    };
    Release::next(before, vec![agent], day(0))
}

fn naming(org: &Org, site: &Site, release: Digest, by: &[&str]) -> Sent {
    let Draft { mut head, leaves, .. } = draft(&site.state.replica, day(1), &Wish::default()).unwrap();
    (head.release, head.cause) = (Some(release), Cause::ReleasePublish { number: 1 });
    org.head(head, leaves, by)
}

#[test]
fn a_release_counts_in_the_head_that_names_it_and_by_the_threshold() {
    let (org, both) = (Org::new(2, &["ann", "ben"]), &["ann", "ben"][..]);
    let first = release(None, "0.1.0");
    let signed = org.seal(&first, both);
    let mut site = Site::of(&org);
    site.told(&signed, 1);
    assert_eq!(site.state.release(), None, "no head names it");
    site.hear(&naming(&org, &site, signed.digest(), &["ann"]), 1);
    assert_eq!(site.state.release(), None, "a head of one signer");
    let sent = naming(&org, &site, signed.digest(), both);
    let entry = site.handed((HERE, 1), &sent);
    assert_eq!(site.state.release().map(|record| &record.release), Some(&first));
    assert_eq!(site.state.named_files(day(1)), first.files().collect());
    let line = audit::line(&site.state, &entry);
    assert_eq!((line.action.as_str(), line.version, line.result.as_str()), ("release.publish", Some(1), audit::DONE));
    site.publish(&org, (2, both), &Wish::default());
    assert!(site.state.release().is_some(), "a later head keeps it");
}

#[test]
fn a_release_that_does_not_hold_together_is_none_whoever_names_it() {
    let org = Org::new(1, &["ann"]);
    let (mut site, mut broken) = (Site::of(&org), release(None, "0.1.0"));
    broken.list = Digest([0; 32]);
    let signed = org.seal(&broken, &["ann"]);
    site.told(&signed, 1);
    site.hear(&naming(&org, &site, signed.digest(), &["ann"]), 1);
    assert_eq!((site.state.release(), site.state.named_files(day(1))), (None, BTreeSet::new()));
}

#[test]
fn invites_keep_their_files_until_they_are_over() {
    let org = Org::new(1, &["ann"]);
    let mut site = Site::of(&org);
    for (id, n, rights) in
        [("used up", 1, &[(HERE, 1)][..]), ("half", 2, &[(HERE, 1), ("g2", 1)]), ("gone", 3, &[(HERE, 1)])]
    {
        let mut body = invite(id, &["*"], rights, 20);
        body.files = BTreeSet::from([Digest([n; 32])]);
        site.told(&org.seal(&body, &["ann"]), 0);
    }
    for (key, id) in [("k1", "used up"), ("k2", "half")] {
        site.admit((HERE, 1), &org.claim((key, key), &site.invite(id).envelope, None)).unwrap();
    }
    site.publish(&org, (1, &["ann"]), &Wish { revoke_invites: vec![invite_id("gone")], ..Wish::default() });
    let named = |site: &Site, on| site.state.named_files(day(on)).into_iter().map(|it| it.0[0]).collect::<Vec<_>>();
    assert_eq!(named(&site, 1), [2], "used up, half used, revoked");
    assert_eq!(named(&site, 20), [0_u8; 0], "expired");
    // A gateway that spends more than its right takes nothing from the other's.
    let invite = site.invite("half").envelope.clone();
    for key in ["k3", "k4"] {
        let claim = org.claim((key, key), &invite, None);
        site.force((HERE, 1), Action::NodeAdmit { claim, invite: Some(invite.clone()), approval: None });
    }
    assert_eq!(named(&site, 1), [2], "overspent at one gateway");
}
