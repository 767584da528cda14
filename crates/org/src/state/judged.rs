//! What the ledger's judges say of a replica at one moment.

use std::collections::{BTreeMap, BTreeSet};

use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::ledger::fold;
use crate::ledger::ground::{Ground, frozen_ground, ground};
use crate::ledger::heads::KnownHead;
use crate::ledger::replica::Replica;
use crate::ledger::signers::Signers;

/// A function of the replica and the moment: equal ones give equal judgments.
#[derive(Debug, Clone)]
pub struct Judged {
    /// A recovery takes effect by time alone.
    pub as_of: Timestamp,
    /// By how many seconds the clock was ahead then; dates that follow from it are by that clock.
    pub(crate) ahead: i64,
    pub signers: Signers,
    /// If two signer sets claim one place: of the last that nobody contests.
    pub ground: Ground,
    pub fold: fold::Projection,
    /// Gateways' voices, of every head that counts.
    pub voices: BTreeMap<PublicKey, NodeName>,
    /// Claims to which a signer of the set in force said no.
    pub(crate) denied: BTreeSet<Digest>,
}

impl Judged {
    pub(crate) fn of(replica: &Replica, now: Timestamp) -> Self {
        let signers = replica.signers(now);
        let ground = ground_of(replica, &signers);
        let fold = replica.fold(&ground);
        Self::by(replica, now, signers, ground, fold)
    }

    /// For whoever has asked some of the judges already.
    pub(crate) fn by(
        replica: &Replica,
        now: Timestamp,
        signers: Signers,
        ground: Ground,
        fold: fold::Projection,
    ) -> Self {
        // What the head in force says of a voice comes last, and stays.
        let heads = ground.counting(&replica.heads).chain(ground.head.as_ref().map(KnownHead::Whole));
        let voices = heads.flat_map(KnownHead::voices).collect();
        let denied = replica.denied(&ground);
        Self { as_of: now, ahead: replica.ahead, signers, ground, fold, voices, denied }
    }
}

/// By the set in force; if two claim its place, by the last that nobody contests.
pub(crate) fn ground_of(replica: &Replica, signers: &Signers) -> Ground {
    match signers {
        Signers::InForce(in_force) => ground(replica.org, in_force, &replica.heads, &replica.sets()),
        Signers::Frozen(frozen) => frozen_ground(replica.org, frozen, &replica.heads, &replica.sets()),
    }
}
