//! Turns in the life of the trusted roots: each by the head that makes it, and told by the audit.

use identity::bundle::{Bundle, BundleBody, Domain, Endpoint};
use identity::certificate;
use identity::envelope::Envelope;
use identity::head::{BadHead, Cause, Head, TrustLine, TrustState, Turn};
use identity::time::Seconds;
use identity::trust::{self, TrustStep};

use super::world::{HERE, Site};
use crate::audit;
use crate::ledger::draft::Draft;
use crate::ledger::entry::SignedEntry;
use crate::ledger::tests::drafting::{Wish, draft};
use crate::ledger::tests::world::{Org, Sent, day};

const D: Domain = Domain::Endpoint;
const WEEK: Seconds = Seconds::DAY.times(7);
const BOTH: &[&str] = &["ann", "ben"];

/// The rules do not look into a root.
fn body(version: u64, n: u8) -> BundleBody {
    let pem = certificate::to_pem(&[vec![n; 3].into()]);
    let org = "harbor".parse().unwrap();
    Bundle::<Endpoint>::draft(version, version.checked_sub(1), &org, Vec::new(), &pem, day(0)).unwrap()
}

fn turn(version: u64, replaces: Option<u64>) -> Turn {
    Turn { domain: D, version, replaces, grace: None, waived: Vec::new() }
}

struct Case {
    org: Org,
    site: Site,
}

impl Case {
    /// Version 1 is in use, as founders leave it.
    fn new() -> Self {
        let org = Org::new(2, BOTH);
        let mut site = Site::of(&org);
        let bundle = org.seal(&body(1, 1), BOTH);
        site.handed((HERE, 1), &bundle.clone().into());
        let mut case = Self { org, site };
        let head = case.head(|head| head.trust = vec![TrustLine::new(D, 1, bundle.digest(), TrustState::Active)]);
        case.add(&case.signed(head.0, &head.1, BOTH));
        case
    }

    /// The next head, with this change, and its map.
    fn head(&self, change: impl FnOnce(&mut Head)) -> (Head, Draft) {
        let made = draft(&self.site.state.replica, day(1), &Wish::default()).unwrap();
        let mut head = made.head.clone();
        change(&mut head);
        (head, made)
    }

    fn step(&self, step: TrustStep, cause: Cause) -> (Head, Draft) {
        self.head(|head| {
            head.trust = trust::step(&head.trust, D, step, day(1)).unwrap();
            head.cause = cause;
        })
    }

    fn signed(&self, head: Head, made: &Draft, by: &[&str]) -> Sent {
        self.org.head(head, made.leaves.clone(), by)
    }

    fn add(&mut self, sent: &Sent) -> SignedEntry {
        self.site.handed((HERE, 1), sent)
    }

    fn turned(&mut self, step: TrustStep, cause: Cause) -> SignedEntry {
        let (head, made) = self.step(step, cause);
        let sent = self.signed(head, &made, BOTH);
        self.add(&sent)
    }

    fn bundle(&mut self, body: &BundleBody) -> Envelope {
        let bundle = self.org.seal(body, BOTH);
        self.add(&bundle.clone().into());
        bundle
    }

    fn stage(&mut self, n: u8) -> SignedEntry {
        let bundle = self.bundle(&body(2, n)).digest();
        self.turned(TrustStep::Publish { bundle }, Cause::TrustPublish(turn(2, Some(1))))
    }

    fn trusted(&self) -> Vec<u64> {
        self.site.state.trusted_bundles(D).map(|record| record.body.trust_bundle_version).collect()
    }
}

#[test]
fn a_rotation_is_written_with_all_its_turns_and_told_by_the_audit() {
    let mut case = Case::new();
    let staged = case.stage(2);
    let activation = TrustStep::Activate { version: 2, grace: WEEK };
    let grace = trust::of(&case.step(activation, Cause::Refresh).0.trust, D)[0].grace;
    let activated = case.turned(activation, Cause::TrustActivate(Turn { grace, ..turn(2, Some(1)) }));
    let gone = Turn { waived: vec!["web-3".to_owned()], ..turn(1, None) };
    let retired = case.turned(TrustStep::Retire { version: 1, early: true }, Cause::TrustRetire(gone));
    let lines: Vec<_> = [&staged, &activated, &retired].map(|entry| audit::line(&case.site.state, entry)).into();
    let told: Vec<_> = lines.iter().map(|it| (it.action.as_str(), it.version, it.replaces)).collect();
    let wanted = [
        ("bootstrap_trust.publish", Some(2), Some(1)),
        ("bootstrap_trust.activate", Some(2), Some(1)),
        ("bootstrap_trust.retire", Some(1), None),
    ];
    assert_eq!(told, wanted);
    assert!(lines.iter().all(|line| line.environment.as_ref().is_some_and(|org| org.as_str() == "harbor")));
    assert!(lines.iter().all(|line| line.actor.to_string().contains("ann")), "who signed, not who took it");
    let roots: Vec<_> = lines.iter().map(|line| line.roots.unwrap()).collect();
    assert_eq!(roots, [body(2, 2), body(2, 2), body(1, 1)].map(|body| body.sha256_fingerprint));
    assert_eq!(lines[1].grace, grace);
    assert_eq!(lines[2].waived, ["web-3"]);
    assert_eq!((lines[2].stolen_replaced_by, lines[2].remark()), (None, None));
    assert_eq!(case.trusted(), [2]);
}

#[test]
fn a_turn_counts_by_the_threshold_alone() {
    let mut case = Case::new();
    let bundle = case.bundle(&body(2, 2)).digest();
    let (head, made) = case.step(TrustStep::Publish { bundle }, Cause::TrustPublish(turn(2, Some(1))));
    let by_one = case.signed(head.clone(), &made, &["ann"]);
    let entry = case.add(&by_one);
    assert_eq!(case.trusted(), [1]);
    let line = audit::line(&case.site.state, &entry);
    assert!(line.result.starts_with("void: "), "{}", line.result);
    // The other's signature comes later, at another gateway.
    let other = case.org.head(head, made.leaves, &["ben"]);
    case.site.handed(("g2", 1), &other);
    assert_eq!(case.trusted(), [1, 2]);
    assert_eq!(audit::line(&case.site.state, &entry).result, audit::DONE);
}

#[test]
fn a_rollback_and_a_theft_are_told() {
    let mut case = Case::new();
    case.stage(2);
    let back = BundleBody { reverts: Some(2), replaces_version: Some(2), ..body(3, 1) };
    let bundle = case.bundle(&back).digest();
    let rolled = TrustStep::Rollback { bundle, reverts: 2, grace: WEEK };
    let rolled = case.turned(rolled, Cause::TrustRollback(turn(3, Some(2))));
    assert_eq!(audit::line(&case.site.state, &rolled).action, "bootstrap_trust.rollback");
    let bundle = case.bundle(&body(4, 4)).digest();
    let stolen = case.turned(TrustStep::Replace { bundle }, Cause::TrustRetire(turn(3, None)));
    let line = audit::line(&case.site.state, &stolen);
    assert_eq!((line.version, line.stolen_replaced_by, line.result.as_str()), (Some(3), Some(4), "done"));
    assert_eq!(line.remark().as_deref(), Some("its root was STOLEN, version 4 took its place"));
    assert_eq!(case.trusted(), [4]);
    let lines = trust::of(&case.site.state.head().unwrap().head.trust, D);
    assert_eq!(lines.iter().map(|line| line.distrusted).collect::<Vec<_>>(), [false, false, true, false]);
}

#[test]
fn what_one_side_retired_stays_retired_when_the_other_did_not_know_and_published_more() {
    let mut case = Case::new();
    case.stage(2);
    case.turned(TrustStep::Activate { version: 2, grace: WEEK }, Cause::TrustActivate(turn(2, Some(1))));
    // One operator retires at one gateway, another renews twice at the other.
    let mut other = case.site.clone();
    let (head, made) = case.step(TrustStep::Retire { version: 1, early: true }, Cause::TrustRetire(turn(1, None)));
    let (retired, sent) = (head.trust.clone(), case.signed(head, &made, BOTH));
    for _ in 0..2 {
        other.publish(&case.org, (2, BOTH), &Wish::default());
    }
    other.handed(("g2", 2), &sent);
    case.site = other;
    let state = &case.site.state;
    let newest = &state.head().unwrap().head;
    assert_eq!(newest.trusted_bundles(D).count(), 2, "the head in force does not know of it");
    assert_eq!(case.trusted(), [2]);
    assert_eq!(state.named_bundles(D).count(), 2, "whoever follows the head in force finds what it names");
    assert_eq!(trust::of(&state.trust_lines(), D), trust::of(&retired, D));
    let follows = |lines: Vec<TrustLine>| {
        let (head, made) = case.head(|head| head.trust = lines);
        state.check_follows(&case.signed(head, &made, BOTH).envelope, day(2))
    };
    assert!(matches!(follows(newest.trust.clone()), Err(BadHead::ForgetsTrust { .. })));
    assert!(matches!(follows(Vec::new()), Err(BadHead::ForgetsTrust { .. })), "a domain is dropped");
    assert_eq!(follows(state.trust_lines()), Ok(()));
}

#[test]
fn a_bundle_counts_under_its_own_number_alone() {
    let case = Case::new();
    let first = case.site.state.head().unwrap().head.trust[0].bundle;
    let line = TrustLine::new(D, 2, first, TrustState::Active);
    assert!(case.site.state.bundle_of(&line).is_none(), "version 1 under the number 2");
    assert!(case.site.state.bundle_of(&TrustLine { version: 1, ..line }).is_some());
}

#[test]
fn a_gateways_own_word_trusts_nothing() {
    let mut case = Case::new();
    let bundle = case.bundle(&body(2, 2)).digest();
    let (head, made) = case.step(TrustStep::Publish { bundle }, Cause::TrustPublish(turn(2, Some(1))));
    let forged = case.signed(head, &made, &[HERE]);
    let entry = case.add(&forged);
    assert_eq!(case.trusted(), [1]);
    assert_eq!(audit::line(&case.site.state, &entry).actor.to_string(), "node/g1");
}
