//! Every machine that a gateway let in, and how it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use identity::id::{Digest, InviteId};
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::invite::admission::Claim;
use crate::ledger::fold::Why;

/// By digest of the node key. Every name that one of them ever claimed leads to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    records: BTreeMap<Digest, MemberRecord>,
    names: BTreeMap<NodeName, BTreeSet<Digest>>,
}

impl Deref for Members {
    type Target = BTreeMap<Digest, MemberRecord>;

    fn deref(&self) -> &Self::Target {
        &self.records
    }
}

impl Members {
    pub(crate) fn insert(&mut self, key: Digest, record: MemberRecord) {
        for admission in record.admissions() {
            self.names.entry(admission.claim.name.clone()).or_default().insert(key);
        }
        self.records.insert(key, record);
    }

    /// Every machine that ever claimed the name.
    pub(crate) fn named(&self, name: &NodeName) -> impl Iterator<Item = &MemberRecord> {
        self.keys_of(name).filter_map(|key| self.records.get(key))
    }

    pub fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.names.keys()
    }

    pub(crate) fn keys_of(&self, name: &NodeName) -> impl Iterator<Item = &Digest> {
        self.names.get(name).into_iter().flatten()
    }
}

/// One node key, with every admission that gateways gave it; the one that counts, or the lowest digest, stands first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRecord {
    pub admission: AdmissionRecord,
    pub others: Vec<AdmissionRecord>,
    /// The node came back over mTLS.
    pub joined: bool,
    /// It said so itself.
    pub left: bool,
    pub standing: Standing,
    /// Why it waits.
    pub why: Option<Why>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionRecord {
    pub claim: Claim,
    /// The invite behind it: that which the claim names, or the pattern that let it in.
    pub invite: Option<InviteId>,
    /// Digest of the claim's envelope.
    pub claimed: Digest,
    /// Of the entry, which is the admission.
    pub digest: Digest,
    pub gateway: NodeName,
    pub voice: PublicKey,
    pub seq: u64,
    pub at: Timestamp,
}

impl MemberRecord {
    pub const fn claim(&self) -> &Claim {
        &self.admission.claim
    }

    pub(crate) fn admissions(&self) -> impl Iterator<Item = &AdmissionRecord> {
        std::iter::once(&self.admission).chain(&self.others)
    }

    /// Is this admission one of its own?
    pub fn was_given(&self, admission: Digest) -> bool {
        self.admissions().any(|given| given.digest == admission)
    }
}

/// A member as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    Waiting,
    Issued,
    Member,
    Revoked,
}

impl Standing {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Issued => "issued",
            Self::Member => "member",
            Self::Revoked => "revoked",
        }
    }

    /// Does it belong?
    pub const fn is_live(self) -> bool {
        match self {
            Self::Issued | Self::Member => true,
            Self::Waiting | Self::Revoked => false,
        }
    }
}
