//! What everything here is judged by: the signer set in force, its head, and what was taken back. Pure.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::{Head, Mandate, Revocations, TrustLine};
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::signers::SignerSet;
use identity::trust;

use crate::ledger::signers::{Frozen, InForce};
use crate::state::HeadRecord;

/// Heads as they came, by digest; nothing about them is believed yet.
pub type Heads = BTreeMap<Digest, HeadRecord>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    pub org: OrgId,
    pub set: SignerSet,
    /// The head in force. Nothing if the set has signed none that is here, and the one that stands in is not here.
    pub head: Option<HeadRecord>,
    /// Lines of all heads of the set in force, and of those that the head in force reaches.
    pub revoked: Revocations,
    /// By the set in force, not reached: they only take away.
    pub rivals: Vec<HeadRecord>,
    /// The head in force, and all that it reaches through `previous`, as far as they are here.
    pub reached: BTreeSet<Digest>,
}

/// Heads are ordered by signer set, then version; of two alike the lower digest is the higher.
pub fn rank(head: &HeadRecord) -> (u64, u64, std::cmp::Reverse<Digest>) {
    (head.head.signers.version, head.head.version, std::cmp::Reverse(head.digest))
}

/// Signed by the threshold of the very set that it names. A replica keeps no signature that does not hold.
pub fn is_of(record: &HeadRecord, set: &SignerSet) -> bool {
    let quorum = &set.quorum;
    record.head.signers == set.as_ref() && record.envelope.kept_of(&quorum.keys()) >= quorum.threshold()
}

pub fn ground(org: OrgId, in_force: &InForce, heads: &Heads) -> Ground {
    let set = &in_force.set;
    let own: Vec<&HeadRecord> = heads.values().filter(|record| is_of(record, set)).collect();
    let newest = own.iter().copied().max_by_key(|record| rank(record));
    // Until the set has signed a head, the one that its succession names stands in, and no other.
    let top = newest.or_else(|| in_force.stands_in.and_then(|named| heads.get(&named)));
    let reached = reach(top, heads);
    let rivals: Vec<&HeadRecord> = own.into_iter().filter(|record| !reached.contains(&record.digest)).collect();
    let mut revoked = Revocations::default();
    for record in reached.iter().filter_map(|digest| heads.get(digest)).chain(rivals.iter().copied()) {
        revoked.absorb(&record.head.revocations);
    }
    let mut rivals: Vec<HeadRecord> = rivals.into_iter().cloned().collect();
    rivals.sort_by_key(|record| std::cmp::Reverse(rank(record)));
    Ground { org, set: set.clone(), head: top.cloned(), revoked, rivals, reached }
}

/// Whoever is frozen takes no head: what runs, runs by the one that the first rival names, and by what that reaches. If it
/// is not here, by what the last set signed.
pub fn frozen_ground(org: OrgId, frozen: &Frozen, heads: &Heads) -> Ground {
    ground_at(org, &InForce::before(frozen), frozen.named, heads)
}

/// As it was when this head was in force: of others only what it reaches counts.
pub fn ground_at(org: OrgId, in_force: &InForce, named: Option<Digest>, heads: &Heads) -> Ground {
    let Some(named) = named.and_then(|named| heads.get(&named)) else { return ground(org, in_force, heads) };
    let reached = reach(Some(named), heads);
    let heads = heads.iter().filter(|(digest, _)| reached.contains(*digest));
    ground(org, in_force, &heads.map(|(digest, record)| (*digest, record.clone())).collect())
}

fn reach(top: Option<&HeadRecord>, heads: &Heads) -> BTreeSet<Digest> {
    let mut reached = BTreeSet::new();
    let mut edge: Vec<&HeadRecord> = top.into_iter().collect();
    while let Some(record) = edge.pop() {
        if reached.insert(record.digest) {
            edge.extend(record.head.previous.iter().filter_map(|before| heads.get(before)));
        }
    }
    reached
}

impl Ground {
    /// Of whoever keeps one head alone, as nodes do: all that it knows was signed into that.
    pub fn alone(set: SignerSet, head: HeadRecord) -> Self {
        let (revoked, reached) = (head.head.revocations.clone(), BTreeSet::from([head.digest]));
        Self { org: set.org, set, head: Some(head), revoked, rivals: Vec::new(), reached }
    }

    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref().map(|record| &record.head)
    }

    /// Does the map of this head still show who is a member?
    pub fn shows(&self, head: Digest) -> bool {
        self.head.as_ref().is_some_and(|own| own.digest == head || own.head.recent.contains(&head))
    }

    /// The mandate of a voice, unless it was closed, or over when the head was made.
    pub fn mandate(&self, voice: PublicKey) -> Option<&Mandate> {
        let head = self.head()?;
        let mandate = head.mandate_for_voice(voice).filter(|mandate| head.issued_at < mandate.not_after);
        mandate.filter(|_| !self.revoked.voices.contains(&voice))
    }

    /// What is so of trust: as the head in force says, and whatever a rival took away.
    pub fn trust(&self) -> Vec<TrustLine> {
        let own = self.head().map(|head| head.trust.clone()).unwrap_or_default();
        self.rivals.iter().fold(own, |lines, rival| taken_away(&lines, &rival.head.trust))
    }
}

/// A rival retires roots and adds none; only where its retirements cannot stand alone, what takes their place comes too.
pub(super) fn taken_away(lines: &[TrustLine], told: &[TrustLine]) -> Vec<TrustLine> {
    let heeded = trust::heed(lines, told, false);
    let retires = |line: &&TrustLine| !line.state.is_trusted() && lines.iter().any(|it| it.is_same(line));
    let all =
        told.iter().filter(retires).all(|line| heeded.iter().any(|it| it.is_same(line) && it.state == line.state));
    if all { heeded } else { trust::heed(lines, told, true) }
}
