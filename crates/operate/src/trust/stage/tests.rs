//! Where a rotation stands after each of its steps.

use identity::head::Grace;
use identity::id::Digest;
use identity::time::Seconds;
use identity::trust::{TrustStep, step};

use super::*;

const NOW: Timestamp = Timestamp::from_unix(1_000_000);

#[test]
fn a_rotation_is_found_where_it_stands_after_each_step() {
    let (domain, grace) = (Domain::Endpoint, Seconds::DAY);
    let bundle = |n: u8| Digest([n; 32]);
    let lines = vec![TrustLine::new(domain, 1, bundle(1), TrustState::Active)];
    assert_eq!(stage(&lines, domain), Stage::Settled { active: 1 });
    let staged = step(&lines, domain, TrustStep::Publish { bundle: bundle(2) }, NOW).unwrap();
    assert_eq!(stage(&staged, domain), Stage::Staged { version: 2, active: Some(1) });
    let used = step(&staged, domain, TrustStep::Activate { version: 2, grace }, NOW).unwrap();
    assert_eq!(stage(&used, domain), Stage::Leaving { active: 2, version: 1, until: NOW + grace });
    let retired = step(&used, domain, TrustStep::Retire { version: 1, early: true }, NOW).unwrap();
    assert_eq!(stage(&retired, domain), Stage::Settled { active: 2 });
    // A second one begins while the first is in grace: it comes first.
    let second = step(&used, domain, TrustStep::Publish { bundle: bundle(3) }, NOW).unwrap();
    assert_eq!(stage(&second, domain), Stage::Staged { version: 3, active: Some(2) });
}

#[test]
fn a_rotation_is_finished_by_its_last_step_until_the_next_turn() {
    let line = |action: &str, at: i64, result: &str| AuditLine {
        at: Timestamp::from_unix(at),
        actor: "signer/ann".parse().unwrap(),
        seq: 1,
        action: action.to_owned(),
        subject: "endpoint".to_owned(),
        version: None,
        replaces: None,
        fingerprint: Digest([0; 32]),
        correlation: identity::id::Correlation([0; 8]),
        environment: None,
        roots: None,
        grace: None,
        waived: Vec::new(),
        stolen_replaced_by: None,
        result: result.to_owned(),
    };
    let mut lines = vec![line("bootstrap_trust.publish", 1, DONE), line("bootstrap_trust.activate", 2, DONE)];
    assert_eq!(finished(&lines), None);
    lines.push(line("bootstrap_trust.retire", 3, DONE));
    lines.push(line("node.admit", 4, DONE));
    lines.push(line("bootstrap_trust.publish", 5, "void: why"));
    assert_eq!(finished(&lines), Some(Timestamp::from_unix(3)));
    lines.push(line("bootstrap_trust.rollback", 6, DONE));
    assert_eq!(finished(&lines), None);
}

#[test]
fn of_several_in_grace_the_one_is_next_whose_time_ends_first() {
    let line = |version: u64, until: i64| {
        let mut line = TrustLine::new(Domain::Identity, version, Digest([0; 32]), TrustState::Grace);
        line.grace = Some(Grace { since: NOW, until: Timestamp::from_unix(until) });
        line
    };
    let active = TrustLine::new(Domain::Identity, 3, Digest([3; 32]), TrustState::Active);
    let lines = vec![line(1, 3_000_000), line(2, 2_000_000), active];
    let next = Stage::Leaving { active: 3, version: 2, until: Timestamp::from_unix(2_000_000) };
    assert_eq!(stage(&lines, Domain::Identity), next);
}
