//! The engine on real folders: what is on the disk after each change, each damage, each crash.

mod damage;
mod power;

use std::path::PathBuf;

use identity::text::Bytes;
use manifest::stored::{Access, ApplyPolicy, Caller, Check, Confirm, Delivered, Listener, Probe, SCHEMA};

use super::*;

pub(super) struct Node {
    pub(super) folder: tempfile::TempDir,
    pub(super) engine: Engine,
}

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_unix(1_800_000_000 + second)
}

/// What went back is offered once more by a person (`sync --now`).
pub(super) fn again(engine: &mut Engine, urge: Urge, now: Timestamp) -> Result<Outcome, ApplyError> {
    let item = engine.standing.failed.as_ref().unwrap().item;
    let bytes = engine.shelf.get(item.digest)?.bytes;
    engine.offer(Offered { digest: item.digest, bytes: &bytes, head: engine.standing.head, urged: Some(urge) }, now)
}

/// A manifest that differs from others by its number, in what can break a node.
pub(super) fn manifest(number: u8) -> Manifest {
    let mut manifest = Manifest::empty(SCHEMA);
    let motd = Delivered { content: Bytes(format!("number {number}").into_bytes()), executable: false };
    manifest.runs.files.insert("etc/motd".parse().unwrap(), motd);
    manifest.runs.apply = ApplyPolicy { deadline: Seconds(300), confirm: Confirm::Offline };
    let wiki = Listener { addr: "127.0.0.1:80".parse().unwrap(), tells_caller: false };
    manifest.runs.services.insert("wiki".parse().unwrap(), wiki);
    manifest
}

/// Lets these users in.
pub(super) fn with_access(mut manifest: Manifest, users: &[&str]) -> Manifest {
    let row = |user: &&str| Caller::Placed {
        principal: format!("spiffe://harbor/user/{user}").parse().unwrap(),
        at: vec![manifest::stored::Place::Node("laptop".parse().unwrap())],
    };
    let mut access = Access::default();
    access.callers.insert("wiki".parse().unwrap(), users.iter().map(row).collect());
    manifest.access = access;
    manifest
}

/// With a check that fails.
pub(super) fn failing(mut manifest: Manifest) -> Manifest {
    let probe = Probe::Command(vec!["false".to_owned()]);
    manifest.runs.checks.insert("never".parse().unwrap(), Check { probe, timeout: Seconds(5) });
    manifest
}

pub(super) async fn checked(engine: &mut Engine, second: i64) -> Outcome {
    engine.tick(at(second));
    let ended = tokio::time::timeout(Duration::from_mins(1), engine.checks_ended()).await;
    assert!(ended.is_ok(), "no checks run");
    engine.tick(at(second))
}

impl Node {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(folder.path(), at(0)).unwrap();
        Self { folder, engine }
    }

    pub(super) fn state(&self) -> PathBuf {
        self.folder.path().join(FOLDER)
    }

    pub(super) fn offer(&mut self, manifest: &Manifest, head: u64, second: i64) -> Outcome {
        self.try_offer(manifest, head, second).unwrap()
    }

    pub(super) fn try_offer(&mut self, manifest: &Manifest, head: u64, second: i64) -> Result<Outcome, ApplyError> {
        let bytes = manifest.bytes();
        self.engine.offer(Offered { digest: manifest.digest(), bytes: &bytes, head, urged: None }, at(second))
    }

    /// Waits for the checks, and lets the engine decide.
    pub(super) async fn check(&mut self, second: i64) -> Outcome {
        checked(&mut self.engine, second).await
    }

    pub(super) async fn confirm(&mut self, manifest: &Manifest, head: u64, second: i64) {
        assert_eq!(self.offer(manifest, head, second), Outcome::OnTrial);
        assert_eq!(self.check(second).await, Outcome::Confirmed);
    }

    /// As after a kill: only the disk is left.
    pub(super) fn restart(self, second: i64) -> Self {
        let Self { folder, engine } = self;
        drop(engine);
        let engine = Engine::open(folder.path(), at(second)).unwrap();
        Self { folder, engine }
    }

    pub(super) fn motd(&self) -> Option<String> {
        std::fs::read_to_string(self.state().join("current/files/etc/motd")).ok()
    }

    pub(super) fn on_shelf(&self) -> usize {
        std::fs::read_dir(self.state().join("manifests")).unwrap().count()
    }

    /// Who of them may call the wiki?
    pub(super) fn may(&self, user: &str) -> bool {
        let principal = format!("spiffe://harbor/user/{user}").parse().unwrap();
        let (wiki, laptop, access) = ("wiki".parse().unwrap(), "laptop".parse().unwrap(), self.engine.access());
        access.all().count() > 0 && access.all().all(|table| table.permits(&wiki, &principal, &laptop))
    }

    pub(super) fn is(&self, manifest: &Manifest) -> bool {
        self.engine.current() == Some(manifest) && self.engine.shelf.pointed() == Some(manifest.digest())
    }
}

#[tokio::test]
async fn a_confirmed_manifest_is_read_through_the_link_and_outlives_a_start() {
    let mut node = Node::new();
    assert!(node.engine.current().is_none() && !node.may("alice"));
    let one = with_access(manifest(1), &["alice"]);
    node.confirm(&one, 1, 10).await;
    assert_eq!(node.motd().as_deref(), Some("number 1"));
    let node = node.restart(9_999);
    assert!(node.is(&one) && node.may("alice") && !node.may("bob"));
    assert_eq!(node.engine.next_wake(at(9_999)), None);
}

#[tokio::test]
async fn an_unconfirmed_manifest_goes_back_at_the_deadline_and_its_access_still_narrows() {
    let mut node = Node::new();
    let one = with_access(manifest(1), &["alice", "bob"]);
    node.confirm(&one, 1, 10).await;
    let two = failing(with_access(manifest(2), &["bob", "carol"]));
    assert_eq!(node.offer(&two, 2, 20), Outcome::OnTrial);
    assert!(node.is(&two) && node.motd().as_deref() == Some("number 2"));
    assert!(node.may("carol") && !node.may("alice"));
    assert_eq!(node.check(30).await, Outcome::Ignored);
    let view = node.engine.view().trial.unwrap();
    assert_eq!((view.previous, view.deadline), (Some(one.digest()), at(320)));
    assert_eq!(view.waits_for, ["the checks: `never`: `false` ended with exit status: 1"]);
    assert_eq!(node.engine.tick(at(320)), Outcome::WentBack);
    assert!(node.is(&one) && node.motd().as_deref() == Some("number 1"));
    // Old AND new: alice lost it, carol never had it here.
    assert_eq!([node.may("alice"), node.may("bob"), node.may("carol")], [false, true, false]);
    let mut node = node.restart(400);
    assert_eq!([node.may("alice"), node.may("bob"), node.may("carol")], [false, true, false]);
    let back = node.engine.view().rolled_back.unwrap();
    assert_eq!((back.digest, back.to, back.at), (two.digest(), Some(one.digest()), at(320)));
    assert!(back.why.contains("`false` ended with exit status: 1"), "{}", back.why);
    assert_eq!(node.offer(&two, 3, 410), Outcome::NotAgain);
    assert!(node.is(&one));
    let urge = Urge { within: Some(Seconds(60)) };
    assert_eq!(again(&mut node.engine, urge, at(420)).unwrap(), Outcome::OnTrial);
    assert!(node.is(&two) && node.engine.view().trial.unwrap().deadline == at(480));
}

#[tokio::test]
async fn a_first_manifest_that_fails_leaves_nothing_behind_the_link() {
    let mut node = Node::new();
    let one = failing(with_access(manifest(1), &["alice"]));
    assert_eq!(node.offer(&one, 1, 10), Outcome::OnTrial);
    assert_eq!(node.engine.tick(at(310)), Outcome::WentBack);
    let node = node.restart(311);
    assert!(node.engine.current().is_none() && node.engine.shelf.pointed().is_none() && !node.may("alice"));
    assert!(std::fs::symlink_metadata(node.state().join("current")).is_err());
}

#[tokio::test]
async fn a_trial_goes_on_after_a_start_and_ends_while_nobody_runs() {
    let mut node = Node::new();
    node.confirm(&manifest(1), 1, 10).await;
    let two = manifest(2);
    assert_eq!(node.offer(&two, 2, 20), Outcome::OnTrial);
    let mut node = node.restart(30);
    assert!(node.is(&two) && node.engine.is_on_trial());
    assert_eq!(node.check(40).await, Outcome::Confirmed);
    assert_eq!(node.offer(&manifest(3), 3, 50), Outcome::OnTrial);
    let node = node.restart(9_999);
    assert!(node.is(&two) && node.engine.view().rolled_back.is_some());
}

#[tokio::test]
async fn access_alone_is_swapped_in_place() {
    let mut node = Node::new();
    node.confirm(&with_access(manifest(1), &["alice"]), 1, 10).await;
    let other = with_access(manifest(1), &["bob"]);
    assert_eq!(node.offer(&other, 2, 20), Outcome::Swapped);
    assert!(node.is(&other) && node.may("bob") && !node.may("alice") && !node.engine.is_on_trial());
}

#[tokio::test]
async fn a_gateway_has_to_be_reached_under_the_new_state_and_anew_if_gateways_changed() {
    let mut node = Node::new();
    let mut one = manifest(1);
    one.runs.apply.confirm = Confirm::Auto;
    one.runs.gateways = vec!["gw.example:7443".parse().unwrap()];
    assert_eq!(node.offer(&one, 1, 10), Outcome::OnTrial);
    assert_eq!(node.check(11).await, Outcome::Ignored);
    let under = node.engine.obeyed().unwrap();
    assert_eq!(node.engine.reached(under, false, at(12)).unwrap(), Outcome::Noted);
    assert_eq!(node.engine.reached(under, true, at(13)).unwrap(), Outcome::Confirmed);
    // The same gateways: the open connection will do, if it was used under the new state.
    let two = Manifest { runs: Runs { gateways: one.runs.gateways.clone(), ..manifest(2).runs }, ..manifest(2) };
    let two = Manifest { runs: Runs { apply: one.runs.apply, ..two.runs }, ..two };
    assert_eq!(node.offer(&two, 2, 20), Outcome::OnTrial);
    assert_eq!(node.engine.reached(under, true, at(21)).unwrap(), Outcome::Ignored);
    assert_eq!(node.engine.reached(two.digest(), false, at(21)).unwrap(), Outcome::Noted);
    assert_eq!(node.check(22).await, Outcome::Confirmed);
}

#[tokio::test]
async fn an_operators_word_outlives_a_start() {
    let mut node = Node::new();
    let mut one = manifest(1);
    one.runs.apply.confirm = Confirm::Operator;
    assert_eq!(node.offer(&one, 1, 10), Outcome::OnTrial);
    assert_eq!(node.engine.consent(manifest(2).digest(), at(11)).unwrap(), Outcome::Ignored);
    assert_eq!(node.engine.consent(one.digest(), at(11)).unwrap(), Outcome::Noted);
    let mut node = node.restart(12);
    assert_eq!(node.check(13).await, Outcome::Ignored);
    assert_eq!(node.engine.reached(one.digest(), true, at(14)).unwrap(), Outcome::Confirmed);
}

#[tokio::test]
async fn the_shelf_holds_what_can_still_come_back_and_no_more() {
    let mut node = Node::new();
    for number in 1..=5 {
        node.confirm(&manifest(number), u64::from(number), i64::from(number) * 10).await;
        assert_eq!(node.on_shelf(), usize::from(number).min(2), "current, and the one before");
    }
    let bad = failing(manifest(6));
    node.offer(&bad, 6, 100);
    assert_eq!(node.engine.tick(at(400)), Outcome::WentBack);
    assert_eq!(node.on_shelf(), 3, "what went back still narrows");
    node.confirm(&manifest(7), 7, 500).await;
    assert_eq!(node.on_shelf(), 2);
}

#[tokio::test]
async fn what_is_not_what_the_head_names_or_from_an_older_head_is_not_taken() {
    let mut node = Node::new();
    node.confirm(&manifest(1), 5, 10).await;
    let bytes = manifest(2).bytes();
    let offered = Offered { digest: manifest(3).digest(), bytes: &bytes, head: 6, urged: None };
    let refused = node.engine.offer(offered, at(20));
    assert!(matches!(refused, Err(ApplyError::Manifest(BadManifest::OtherBytes))));
    assert_eq!(node.offer(&manifest(2), 4, 20), Outcome::Stale);
    assert!(node.is(&manifest(1)) && node.on_shelf() == 1);
}
