//! Turns in the life of the trusted roots: each by the threshold, together with the head that makes it.

use identity::bundle::{Bundle, BundleBody, Domain, Endpoint, InDomain};
use identity::certificate;
use identity::envelope::Envelope;
use identity::head::{Head, TrustLine};
use identity::time::Seconds;
use identity::trust::{self, Step};

use super::world::{NOW, World};
use crate::audit;
use crate::derived;
use crate::entry::{Action, SignedEntry, Turn};
use crate::state::{State, Void};

const D: Domain = Domain::Endpoint;
const WEEK: Seconds = Seconds::DAY.times(7);

/// The rules do not look into a root.
fn body(version: u64, n: u8) -> BundleBody {
    let org = "harbor".parse().unwrap();
    let pem = certificate::to_pem(&[vec![n; 3].into()]);
    Bundle::<Endpoint>::draft((version, version.checked_sub(1)), &org, Vec::new(), &pem, NOW).unwrap()
}

/// Everything that a turn is made of, for tests that spoil a part of it.
struct Case {
    world: World,
}

impl Case {
    /// Version 1 is in use, as founders leave it.
    fn new() -> Self {
        let mut world = World::new(2, &["ann", "ben"]);
        let bundle = world.sealed(&body(1, 1), BOTH);
        world.append("ann", Action::TrustPublish { bundle: bundle.clone(), head: None });
        let mut head = world.next_head("ann");
        head.trust = vec![TrustLine::new(D, 1, bundle.digest(), identity::head::TrustState::Active)];
        let head = world.sealed(&head, BOTH);
        world.append("ann", Action::HeadPublish { head, cause: crate::entry::Cause::Refresh });
        world.share();
        Self { world }
    }

    fn head(&self, step: Step) -> Head {
        let mut head = self.world.next_head("ann");
        head.trust = trust::step(&head.trust, D, step, NOW).unwrap();
        head
    }

    fn publish(&self, n: u8) -> (Envelope, Head) {
        let version = trust::next_version(&self.world.next_head("ann").trust, D);
        let bundle = self.world.sealed(&body(version, n), BOTH);
        let head = self.head(Step::Publish { bundle: bundle.digest() });
        (bundle, head)
    }

    fn add(&mut self, action: Action) -> SignedEntry {
        let entry = self.world.append("ann", action);
        self.world.share();
        entry
    }

    fn stage(&mut self, n: u8) -> SignedEntry {
        let (bundle, head) = self.publish(n);
        let head = Some(self.world.sealed(&head, BOTH));
        self.add(Action::TrustPublish { bundle, head })
    }

    fn activation(&self) -> (Head, Turn) {
        let head = self.head(Step::Activate { version: 2, grace: WEEK });
        let grace = trust::of(&head.trust, D)[0].grace;
        (head, Turn { domain: D, version: 2, replaces: Some(1), grace, waived: Vec::new() })
    }

    fn apply(&self, action: Action) -> Result<State, Void> {
        let mut state = self.world.view("ann").clone();
        let entry = self.world.signed(&self.world.draft("ann", action), "ann");
        state.apply(&entry).unwrap().map(|()| state)
    }

    #[track_caller]
    fn is_void(&self, action: Action, why: &str) {
        let void = self.apply(action).expect_err(why).to_string();
        assert!(void.contains(why), "expected `{why}` in: {void}");
    }
}

const BOTH: &[&str] = &["ann", "ben"];
const ONE: &[&str] = &["ann"];

#[test]
fn a_rotation_is_written_with_all_its_turns_and_told_by_the_audit() {
    let mut case = Case::new();
    let staged = case.stage(2);
    let (head, turn) = case.activation();
    let head = case.world.sealed(&head, BOTH);
    let activated = case.add(Action::TrustActivate { head, turn: turn.clone() });
    let retired = case.head(Step::Retire { version: 1, early: true });
    let gone = Turn { domain: D, version: 1, replaces: None, grace: None, waived: vec!["web-3".to_owned()] };
    let head = case.world.sealed(&retired, BOTH);
    let retired = case.add(Action::TrustRetire { bundle: None, head, turn: gone });
    let state = case.world.fold().state;
    assert!(state.void.is_empty(), "{:?}", state.void);
    let lines: Vec<_> = [&staged, &activated, &retired].map(|entry| audit::line(&state, entry)).into();
    let told: Vec<_> = lines.iter().map(|it| (it.action.as_str(), it.version, it.replaces)).collect();
    let wanted = [
        ("bootstrap_trust.publish", Some(2), Some(1)),
        ("bootstrap_trust.activate", Some(2), Some(1)),
        ("bootstrap_trust.retire", Some(1), None),
    ];
    assert_eq!(told, wanted);
    assert!(lines.iter().all(|line| line.environment.as_ref().is_some_and(|org| org.as_str() == "harbor")));
    let roots: Vec<_> = lines.iter().map(|line| line.roots.unwrap()).collect();
    assert_eq!(roots, [body(2, 2), body(2, 2), body(1, 1)].map(|body| body.sha256_fingerprint));
    assert_eq!(lines[1].grace, turn.grace);
    assert_eq!(lines[2].waived, ["web-3"]);
    assert_eq!((lines[2].stolen_replaced_by, lines[2].outcome().as_str()), (None, "done"));
    assert_eq!(state.trusted_bundles(D).map(|record| record.body.trust_bundle_version).collect::<Vec<_>>(), [2]);
    let restored: State = derived::restore(&case.world.founding, &derived::rows(&state)).unwrap();
    assert_eq!(restored, state, "as rows");
}

#[test]
fn a_turn_counts_by_the_threshold_and_only_if_the_head_makes_it() {
    let mut case = Case::new();
    let (bundle, head) = case.publish(2);
    let sealed = |case: &Case, head: &Head, by| case.world.sealed(head, by);
    let by_one = Action::TrustPublish { bundle: bundle.clone(), head: Some(sealed(&case, &head, ONE)) };
    assert!(case.apply(by_one).is_err(), "a head of one signer");
    let weak = case.world.sealed(&body(2, 2), ONE);
    assert!(case.apply(Action::TrustPublish { bundle: weak, head: Some(sealed(&case, &head, BOTH)) }).is_err());
    let mut bare = head.clone();
    bare.trust.clone_from(&case.world.next_head("ann").trust);
    let bare = Action::TrustPublish { bundle: bundle.clone(), head: Some(sealed(&case, &bare, BOTH)) };
    case.is_void(bare, "names no version 2");
    let mut empty = head.clone();
    empty.trust.retain(|line| line.version == 2);
    let empty = Action::TrustPublish { bundle, head: Some(sealed(&case, &empty, BOTH)) };
    case.is_void(empty, "without a bundle to use");

    case.stage(2);
    let (head, turn) = case.activation();
    let longer = Turn { grace: turn.grace.map(|it| identity::head::Grace { until: it.until + WEEK, ..it }), ..turn };
    let action = Action::TrustActivate { head: sealed(&case, &head, BOTH), turn: longer };
    case.is_void(action, "does not activate");
    let (_, turn) = case.activation();
    let unchanged = case.world.next_head("ann");
    let action = Action::TrustActivate { head: sealed(&case, &unchanged, BOTH), turn };
    case.is_void(action, "does not activate");
}

#[test]
fn a_rollback_and_a_theft_bring_their_bundle_along() {
    let mut case = Case::new();
    case.stage(2);
    let back = BundleBody { reverts: Some(2), replaces_version: Some(2), ..body(3, 1) };
    let bundle = case.world.sealed(&back, BOTH);
    let head = case.head(Step::Rollback { bundle: bundle.digest(), reverts: 2, grace: WEEK });
    let turn = Turn { domain: D, version: 3, replaces: Some(2), grace: None, waived: Vec::new() };
    let head = case.world.sealed(&head, BOTH);
    let plain = case.world.sealed(&body(3, 1), BOTH);
    case.is_void(Action::TrustRollback { bundle: plain, head: head.clone(), turn: turn.clone() }, "does not roll back");
    case.add(Action::TrustRollback { bundle, head, turn });

    let bundle = case.world.sealed(&body(4, 4), BOTH);
    let head = case.head(Step::Replace { bundle: bundle.digest() });
    let turn = Turn { domain: D, version: 3, replaces: None, grace: None, waived: Vec::new() };
    let other = case.world.sealed(&body(4, 5), BOTH);
    let head = case.world.sealed(&head, BOTH);
    case.is_void(
        Action::TrustRetire { bundle: Some(other), head: head.clone(), turn: turn.clone() },
        "does not put the new bundle",
    );
    let stolen = case.add(Action::TrustRetire { bundle: Some(bundle), head, turn });
    let state = case.world.fold().state;
    let line = audit::line(&state, &stolen);
    assert_eq!((line.version, line.stolen_replaced_by, line.result.as_str()), (Some(3), Some(4), "done"));
    assert_eq!(line.outcome(), "done; its root was STOLEN, version 4 took its place");
    assert!(state.void.is_empty(), "{:?}", state.void);
    assert_eq!(state.trusted_bundles(D).map(|record| record.body.trust_bundle_version).collect::<Vec<_>>(), [4]);
    let lines = trust::of(&state.head().unwrap().head.trust, Endpoint::DOMAIN);
    assert_eq!(lines.iter().map(|line| line.distrusted).collect::<Vec<_>>(), [false, false, true, false]);
}

#[test]
fn no_gateway_turns_trust() {
    let mut case = Case::new();
    let (bundle, head) = case.publish(2);
    let head = Some(case.world.sealed(&head, BOTH));
    let entry = case.world.append("gw-1", Action::TrustPublish { bundle, head });
    assert_eq!(case.world.fold().state.void.get(&entry.digest), Some(&Void::BeyondPower));
}

#[test]
fn what_one_side_retired_stays_retired_when_the_other_did_not_know_and_published_more() {
    let mut case = Case::new();
    case.stage(2);
    let (head, turn) = case.activation();
    let head = case.world.sealed(&head, BOTH);
    case.add(Action::TrustActivate { head, turn });
    // Ann retires at one gateway, ben renews twice at the other.
    let retired = case.head(Step::Retire { version: 1, early: true });
    let gone = Turn { domain: D, version: 1, replaces: None, grace: None, waived: Vec::new() };
    let head = case.world.sealed(&retired, BOTH);
    case.world.append("ann", Action::TrustRetire { bundle: None, head, turn: gone });
    for _ in 0..2 {
        let head = case.world.sealed(&case.world.next_head("ben"), BOTH);
        case.world.append("ben", Action::HeadPublish { head, cause: crate::entry::Cause::Refresh });
    }
    case.world.share();
    let state = case.world.fold().state;
    assert!(state.void.is_empty(), "{:?}", state.void);
    let newest = &state.head().unwrap().head;
    assert_eq!(newest.trusted_bundles(D).count(), 2, "the head in force does not know of it");
    assert_eq!(state.trusted_bundles(D).map(|record| record.body.trust_bundle_version).collect::<Vec<_>>(), [2]);
    assert_eq!(state.named_bundles(D).count(), 2, "whoever follows the head in force finds what it names");
    assert_eq!(trust::of(&state.trust_lines(), D), trust::of(&retired.trust, D));
    assert_eq!(derived::restore(&case.world.founding, &derived::rows(&state)).unwrap(), state, "as rows");

    let taken = |lines: Vec<TrustLine>| {
        let head = Head { trust: lines, ..case.world.next_head("ann") };
        let action = Action::HeadPublish { head: case.world.sealed(&head, BOTH), cause: crate::entry::Cause::Refresh };
        let signed = case.world.signed(&case.world.draft("ann", action), "ann");
        case.world.view("ann").check_follows(&signed, signed.entry.at)
    };
    let undone = taken(newest.trust.clone());
    assert!(matches!(undone, Err(identity::head::BadHead::ForgetsTrust { .. })), "{undone:?}");
    assert!(matches!(taken(Vec::new()), Err(identity::head::BadHead::ForgetsTrust { .. })), "a domain is dropped");
    assert_eq!(taken(state.trust_lines()), Ok(()));
}

#[test]
fn a_bundle_counts_under_its_own_number_alone() {
    let mut case = Case::new();
    let first = trust::of(&case.world.next_head("ann").trust, D)[0].bundle;
    case.stage(2);
    let (mut head, turn) = case.activation();
    head.trust.iter_mut().filter(|line| line.version == 2).for_each(|line| line.bundle = first);
    let state = case.apply(Action::TrustActivate { head: case.world.sealed(&head, BOTH), turn }).unwrap();
    let line = TrustLine::new(D, 2, first, identity::head::TrustState::Active);
    assert!(state.bundle_of(&line).is_none(), "version 1 under the number 2");
    assert!(state.bundle_of(&TrustLine { version: 1, ..line }).is_some());
}
