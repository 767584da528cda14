//! The ledger up to a moment.

use identity::envelope::Envelope;
use identity::id::{Correlation, Digest};
use identity::members::ClassLeaf;
use identity::time::{Seconds, Timestamp};

use super::world::{HERE, Site, said};
use crate::audit::hindsight::{NotBelieved, Past, believed, signers_of};
use crate::ledger::entry::{Action, SignedEntry, Stamp, Under};
use crate::ledger::fold::Leaves;
use crate::ledger::heads::KnownHead;
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::world::{Org, Sent, day, ed, invite, key, node};
use crate::suspend::Suspension;

fn minute(n: u64) -> Timestamp {
    day(1) + Seconds::MINUTE.times(n)
}

/// One gateway, which takes and writes everything, each as of a moment.
struct Scene {
    org: Org,
    site: Site,
    log: Vec<SignedEntry>,
}

impl Scene {
    fn new(threshold: usize, signers: &[&str]) -> Self {
        let org = Org::new(threshold, signers);
        let mut scene = Self { site: Site::of(&org), log: Vec::new(), org };
        scene.at(0, Action::Take { envelope: scene.org.first.envelope.clone() });
        scene
    }

    fn at(&mut self, minutes: u64, action: Action) -> SignedEntry {
        let last = self.log.last().map(SignedEntry::place);
        let (under, when) = (
            Under { version: 1, digest: Digest([0; 32]) },
            Stamp { at: minute(minutes), correlation: Correlation([0; 8]) },
        );
        let signed = SignedEntry::write(self.org.founding.id, last, &ed(HERE), under, when, action).unwrap();
        self.site.hear(&signed.clone().into(), 1);
        self.log.push(signed.clone());
        signed
    }

    fn take(&mut self, minutes: u64, envelope: Envelope) -> SignedEntry {
        self.at(minutes, Action::Take { envelope })
    }

    fn publish(&mut self, minutes: u64, by: &[&str], wish: &Wish) -> SignedEntry {
        let Sent { envelope, map } = self.site.clone().publish(&self.org, (1, by), wish);
        self.site.state.replica.take_map(&map.unwrap());
        self.take(minutes, envelope)
    }

    fn past(&self) -> Past {
        Past::of(&self.org.founding, self.log.clone())
    }

    fn map(&self) -> impl Fn(Digest) -> Option<(Leaves, Vec<ClassLeaf>)> {
        |root| self.site.state.replica.maps.get(&root).map(|leaves| (leaves.clone(), Vec::new()))
    }
}

#[test]
fn the_state_at_a_moment_is_that_of_what_was_dated_by_then() {
    let mut scene = Scene::new(1, &["ann", "ben"]);
    let envelope = scene.org.seal(&invite("i", &["*"], &[(HERE, 5)], 20), &["ann"]);
    scene.take(5, envelope.clone());
    let claim = scene.org.claim(("k1", "web"), &envelope, None);
    scene.at(10, Action::NodeAdmit { claim, invite: Some(envelope), approval: None });
    let (at, until, web) = (minute(20), minute(25), node("web"));
    let body = Suspension { node_key: key("k1"), name: web.clone(), at, until, reason: String::new() };
    scene.take(20, scene.org.seal(&body, &["ben"]));
    scene.publish(30, &["ann"], &Wish { revoke_keys: vec![key("k1")], ..Wish::default() });
    let believed = |minutes: u64| {
        let mut past = scene.past();
        believed(past.walk_to(minute(minutes), scene.map()), &web, minute(minutes))
    };
    assert_eq!(believed(9), Err(NotBelieved::Nobody(web.clone())));
    assert_eq!(believed(10), Ok(()));
    assert!(matches!(believed(20), Err(NotBelieved::Suspended { .. })));
    assert_eq!(believed(25), Ok(()), "a suspension ends by itself");
    assert_eq!(believed(30), Err(NotBelieved::Revoked(web.clone())));

    let past = scene.past();
    let turns = past.turns(minute(40), |name| *name == web);
    // Its mandates began on the day of the founding.
    assert_eq!(
        turns.into_iter().collect::<Vec<_>>(),
        [day(0), minute(0), minute(10), minute(20), minute(25), minute(30)]
    );
    assert_eq!(past.founded_at(), Some(minute(0)));
    let mut all = past.clone();
    assert_eq!(said(all.walk_to(minute(40), scene.map())), said(&scene.site.state));
}

#[test]
fn what_is_dated_before_something_in_its_chain_counts_from_then_on() {
    let mut scene = Scene::new(1, &["ann", "ben"]);
    scene.publish(30, &["ann"], &Wish::default());
    // The gateway's clock was put back.
    let late = scene.publish(5, &["ben"], &Wish::default());
    let mut past = scene.past();
    let version = |past: &mut Past, at| past.walk_to(minute(at), scene.map()).head().unwrap().head.version;
    assert_eq!(version(&mut past, 29), 1);
    assert_eq!(version(&mut past, 30), 3);
    let brought = past.brought(past.state().head().unwrap().digest).unwrap();
    assert_eq!((brought.at, brought.signed.digest), (minute(30), late.digest));
}

#[test]
fn a_head_is_told_with_those_who_signed_it_and_no_others() {
    let mut scene = Scene::new(2, &["ann", "ben", "cay"]);
    scene.publish(10, &["ann", "cay", "eve"], &Wish::default());
    let mut past = scene.past();
    let state = past.walk_to(minute(10), scene.map());
    let (set, signed) = signers_of(state, KnownHead::Whole(state.head().unwrap())).unwrap();
    let names: Vec<_> = signed.iter().map(|signer| signer.name.as_str()).collect();
    assert_eq!((names.as_slice(), set.quorum.threshold(), set.quorum.signers().len()), (&["ann", "cay"][..], 2, 3));
}
