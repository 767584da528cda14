//! When a member gets its next SVID, and how a clone is noticed by its counter (clone detection). Decides only.

use std::collections::BTreeMap;
use std::net::IpAddr;

use identity::id::{Digest, Serial};
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;
use crate::state::{MemberRecord, Standing, State};
use crate::suspend::suspended::Stopped;

/// The last SVID that was made for a principal: one row of the issuance log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issuance {
    /// Counts renewals; persisted by the node too, so that a clone shows itself.
    pub counter: u64,
    /// Digest of the certificate request.
    pub request: Digest,
    pub serial: Serial,
    pub issued_at: Timestamp,
    pub not_after: Timestamp,
    /// From where it was asked for; unknown for what was made at founding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
}

/// One asking for an SVID, as the gateway saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sighting {
    pub counter: u64,
    /// The key that was asked for: two machines never ask for the same.
    pub request: Digest,
    pub at: Timestamp,
    pub source: Option<IpAddr>,
}

/// Evidence that two machines hold one node key, or that a disk was put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// What was issued last.
    pub known: Option<Sighting>,
    /// What was then asked for.
    pub presented: Sighting,
    /// Who asked since, and when last.
    pub since: BTreeMap<IpAddr, Timestamp>,
}

impl Conflict {
    /// More addresses than a pair of machines has use for are not kept.
    const MOST: usize = 16;

    pub fn new(known: Option<&Issuance>, presented: &Issuance) -> Self {
        Self { known: known.map(Issuance::sighting), presented: presented.sighting(), since: BTreeMap::new() }
    }

    pub fn note(&mut self, source: IpAddr, at: Timestamp) {
        if self.since.len() < Self::MOST || self.since.contains_key(&source) {
            self.since.insert(source, at);
        }
    }

    pub fn refusal(&self) -> Refusal {
        let known = self.known.as_ref().map_or(0, |known| known.counter);
        Refusal::CounterConflict { presented: self.presented.counter, known }
    }
}

impl Issuance {
    fn sighting(&self) -> Sighting {
        Sighting { counter: self.counter, request: self.request, at: self.issued_at, source: self.source }
    }
}

/// After this long without an SVID a node needs an operator's word.
pub(crate) const RETURN_WINDOW: Seconds = Seconds::DAY.times(365);

/// May this counter and this request follow the last issuance?
///
/// A gateway that was set back has lost a part of its log of issuances: a machine may then be ahead of it, once. What
/// is issued to it thereby is dated after that, and the rule holds again.
pub fn check_counter(
    last: Option<&Issuance>,
    counter: u64,
    request: Digest,
    restored_at: Option<Timestamp>,
) -> Result<(), Refusal> {
    let known = last.map_or(0, |last| last.counter);
    let is_old = restored_at.is_some_and(|at| last.is_none_or(|last| last.issued_at < at));
    if is_old && counter > known {
        return Ok(());
    }
    let is_next = known.checked_add(1) == Some(counter);
    let is_retry = last.is_some_and(|last| last.counter == counter && last.request == request);
    if is_next || is_retry { Ok(()) } else { Err(Refusal::CounterConflict { presented: counter, known }) }
}

/// Is the counter beyond the last issuance that is known here? Where other gateways issue, too, one of them may have
/// made what lies between, and not told of it yet.
pub fn is_ahead(last: Option<&Issuance>, counter: u64) -> bool {
    counter > last.map_or(0, |last| last.counter)
}

/// The member that an SVID speaks for. Its node key must be admitted under this very name: else one admitted machine
/// and a stolen issuing key could together speak for every other machine.
pub fn member_behind<'a>(state: &'a State, node_key: &PublicKey, node: &NodeName) -> Result<&'a MemberRecord, Refusal> {
    state.member(node_key).filter(|member| member.claim().name == *node).ok_or(Refusal::NotAdmitted)
}

/// Does it belong? One that is suspended does, and hears what is new; it gets no SVID.
pub fn check_standing(state: &State, member: &MemberRecord) -> Result<(), Refusal> {
    match state.standing(member) {
        Standing::Issued | Standing::Member => Ok(()),
        Standing::Waiting => Err(state.waits(member)),
        Standing::Revoked if member.left => Err(Refusal::KeyLeft),
        Standing::Revoked => Err(Refusal::KeyRevoked),
    }
}

/// May this node key have an SVID now?
pub fn check_suspended(stopped: &Stopped, node_key: Digest, now: Timestamp) -> Result<(), Refusal> {
    match stopped.of(node_key, now) {
        Some(word) => Err(Refusal::Suspended { by: word.by.clone(), until: word.until }),
        None => Ok(()),
    }
}

/// May a node whose SVID expired come back by its node key?
pub fn check_absence(last: Option<&Issuance>, now: Timestamp) -> Result<(), Refusal> {
    match last {
        Some(last) if now.since(last.not_after) > RETURN_WINDOW => Err(Refusal::AwayTooLong),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(counter: u64) -> Issuance {
        let at = Timestamp::from_unix(1_000_000);
        Issuance {
            counter,
            request: Digest([1; 32]),
            serial: Serial([0; 16]),
            issued_at: at,
            not_after: at,
            source: None,
        }
    }

    #[test]
    fn a_retry_is_harmless_and_a_clone_shows_itself() {
        let (same, other) = (Digest([1; 32]), Digest([2; 32]));
        assert_eq!(check_counter(None, 1, same, None), Ok(()));
        assert_eq!(check_counter(Some(&last(4)), 5, other, None), Ok(()));
        assert_eq!(check_counter(Some(&last(4)), 4, same, None), Ok(()));
        for (counter, request) in [(4, other), (3, same), (6, other), (0, same)] {
            let found = check_counter(Some(&last(4)), counter, request, None);
            assert_eq!(found, Err(Refusal::CounterConflict { presented: counter, known: 4 }));
        }
    }

    #[test]
    fn after_a_restore_a_machine_may_be_ahead_of_the_log_once() {
        let (same, other) = (Digest([1; 32]), Digest([2; 32]));
        let old = last(4);
        let restored_at = Some(old.issued_at + Seconds(1));
        let conflict = |counter| Err(Refusal::CounterConflict { presented: counter, known: 4 });
        assert_eq!(check_counter(None, 9, other, restored_at), Ok(()));
        assert_eq!(check_counter(Some(&old), 9, other, restored_at), Ok(()));
        assert_eq!(check_counter(Some(&old), 9, other, None), conflict(9), "nothing was restored");
        assert_eq!(check_counter(Some(&old), 4, same, restored_at), Ok(()), "a retry");
        for lower in [0, 3, 4] {
            assert_eq!(check_counter(Some(&old), lower, other, restored_at), conflict(lower));
        }
        // What was issued since the gateway was set back is known for certain.
        for begun_at in [old.issued_at, old.issued_at - Seconds(1)] {
            assert_eq!(check_counter(Some(&old), 9, other, Some(begun_at)), conflict(9));
        }
    }

    #[test]
    fn a_node_returns_within_a_year_and_not_after() {
        let expired = last(1).not_after;
        assert_eq!(check_absence(Some(&last(1)), expired + Seconds::DAY.times(364)), Ok(()));
        assert_eq!(check_absence(Some(&last(1)), expired + Seconds::DAY.times(366)), Err(Refusal::AwayTooLong));
    }
}
