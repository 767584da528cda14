//! Who counts as having a version, and why somebody does not.

use std::collections::BTreeMap;

use ground::random;
use identity::id::Fingerprint;
use identity::key::{PublicKey, Sign as _};
use org::report::{Applied, Mark, Report};

use super::*;
use crate::session::reports::Heard;

const PUBLISHED: Timestamp = Timestamp::from_unix(1_000_000);
const NOW: Timestamp = Timestamp::from_unix(1_000_600);

fn told(versions: &[u64], trial: Option<u64>, refused: Option<i64>) -> DomainTold {
    DomainTold {
        version: versions.iter().copied().max().unwrap_or(0),
        fingerprint: Fingerprint([1; 32]),
        versions: versions.to_vec(),
        trial,
        updated_at: None,
        refused: refused
            .map(|at| Refused { at: Timestamp::from_unix(at), why: "no gateway under the new roots".to_owned() }),
    }
}

/// A report in which the endpoint domain stands so; the identity domain has only version 1.
fn heard(name: &str, key: PublicKey, endpoint: Option<DomainTold>) -> Heard {
    let report = Report {
        node: name.parse().unwrap(),
        node_key: key,
        at: PUBLISHED,
        head: Mark { version: 7, digest: Digest([2; 32]) },
        schema: 2,
        applied: Applied::Nothing,
        refused: None,
        agent: "0.1.0".to_owned(),
        trust: endpoint.map(|endpoint| TrustTold { endpoint, identity: told(&[1], None, None), svids: Vec::new() }),
        left: None,
        beside: None,
        programs: Vec::new(),
    };
    Heard { report, received_at: PUBLISHED }
}

fn member(name: &str, last_seen: Option<Timestamp>) -> (TrustStance, PublicKey) {
    let name = name.parse().unwrap();
    (TrustStance { name, last_seen, svid_expires_at: None, agent: None, trust: None }, random::p256().unwrap().public())
}

fn stances(members: &[(TrustStance, PublicKey)], reports: impl IntoIterator<Item = Heard>) -> Stances {
    Stances {
        members: members.iter().map(|(stance, key)| (stance.clone(), key.digest())).collect(),
        reports: reports.into_iter().map(|heard| (heard.report.node_key.digest(), heard)).collect(),
        after: 0,
        read_at: NOW,
    }
}

/// What a node said last.
enum Said {
    Nothing,
    NothingOfTrust,
    This(DomainTold),
}

/// One node with this last word, last seen so long ago: what is said of version 2.
fn check(said: Said, seen_ago: Option<u64>, wanted: &str) {
    let (stance, key) = member("web-1", seen_ago.map(|ago| NOW - Seconds(ago)));
    let reports = match said {
        Said::Nothing => None,
        Said::NothingOfTrust => Some(heard("web-1", key, None)),
        Said::This(endpoint) => Some(heard("web-1", key, Some(endpoint))),
    };
    let adoption = stances(&[(stance, key)], reports).adoption(Domain::Endpoint, 2, PUBLISHED, NOW);
    let said = if adoption.is_whole() { "adopted".to_owned() } else { adoption.rest().join("; ") };
    assert_eq!(said, wanted);
    assert_eq!(adoption.all(), 1);
}

#[test]
fn a_node_has_what_it_says_and_otherwise_there_is_a_reason() {
    let after = PUBLISHED.unix() + 60;
    check(Said::This(told(&[1, 2], None, None)), Some(5), "adopted");
    check(Said::This(told(&[1, 2], None, Some(after))), Some(5), "adopted");
    check(Said::This(told(&[1], Some(2), None)), Some(5), "`web-1` tries it");
    // As an agent says it: it goes by what it tries.
    check(Said::This(told(&[1, 2], Some(2), None)), Some(5), "`web-1` tries it");
    check(Said::This(told(&[1], None, None)), Some(5), "`web-1`: not yet; last seen at 1970-01-12T13:56:35Z");
    check(
        Said::This(told(&[1], None, Some(after))),
        Some(5),
        "`web-1` went back at 1970-01-12T13:47:40Z: no gateway under the new roots",
    );
    // A refusal of an earlier version says nothing about this one.
    check(
        Said::This(told(&[1], None, Some(PUBLISHED.unix() - 1))),
        Some(5),
        "`web-1`: not yet; last seen at 1970-01-12T13:56:35Z",
    );
    check(Said::This(told(&[1], None, None)), Some(300), "`web-1`: offline since 1970-01-12T13:51:40Z");
    check(Said::NothingOfTrust, Some(5), "`web-1`: its agent is too old to say");
    check(Said::Nothing, None, "`web-1`: its agent never ran");
}

#[test]
fn another_domain_and_another_key_count_for_nothing() {
    let (stance, key) = member("web-1", Some(NOW));
    let members = [(stance, key)];
    let own = heard("web-1", key, Some(told(&[1, 2], None, None)));
    let of_identity = stances(&members, [own]).adoption(Domain::Identity, 2, PUBLISHED, NOW);
    assert_eq!((of_identity.adopted.len(), of_identity.missing.len()), (0, 1));
    let by_another = heard("web-1", random::p256().unwrap().public(), Some(told(&[1, 2], None, None)));
    let renamed = heard("web-2", key, Some(told(&[1, 2], None, None)));
    for report in [by_another, renamed] {
        let adoption = stances(&members, [report]).adoption(Domain::Endpoint, 2, PUBLISHED, NOW);
        assert_eq!(adoption.missing.len(), 1, "{adoption:?}");
        assert_eq!(adoption.missing.first().unwrap().state, Silence::NeverSpoke);
    }
}

#[test]
fn the_bar_is_full_only_when_nobody_is_left_and_names_are_bounded() {
    let members: Vec<_> = (0..40).map(|nth| member(&format!("n-{nth:02}"), Some(NOW))).collect();
    let reports = |adopted: usize| -> BTreeMap<usize, Heard> {
        let of = |nth: usize, (stance, key): &(TrustStance, PublicKey)| {
            let versions: &[u64] = if nth < adopted { &[1, 2] } else { &[1] };
            (nth, heard(stance.name.as_str(), *key, Some(told(versions, None, None))))
        };
        members.iter().enumerate().map(|(nth, member)| of(nth, member)).collect()
    };
    for (adopted, bar) in [
        (0, "[------------] 0 of 40"),
        (37, "[###########-] 37 of 40"),
        (39, "[###########-] 39 of 40"),
        (40, "[############] 40 of 40"),
    ] {
        let stances = stances(&members, reports(adopted).into_values());
        let adoption = stances.adoption(Domain::Endpoint, 2, PUBLISHED, NOW);
        assert_eq!(adoption.bar(), bar);
        let rest = bounded(&adoption.rest());
        assert_eq!(rest.len(), (40 - adopted).min(11));
        assert_eq!(rest.last().is_some_and(|last| last == "and 30 more"), adopted == 0, "{rest:?}");
    }
    let nobody = stances(&[], []).adoption(Domain::Endpoint, 2, PUBLISHED, NOW);
    assert_eq!(nobody.bar(), "[------------] 0 of 0");
}
