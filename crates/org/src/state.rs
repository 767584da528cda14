//! What is true now, as a fold over the ledger says. Records and questions; `effect` has what changes them.

use std::collections::{BTreeMap, BTreeSet};

use identity::bundle::{BundleBody, Domain};
use identity::envelope::Envelope;
use identity::head::{Cut, Head, Revocations};
use identity::id::{Digest, InviteId, OrgId};
use identity::key::PublicKey;
use identity::principal::{Author, NodeName, OrgName};
use identity::signers::SignerSet;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::admission::{Claim, ClaimAuthority};
use crate::founding::Founding;
use crate::frontier::Frontier;
use crate::invite::{Invite, Uses};

/// Everything here is a union of facts or a choice that does not depend on the order in which facts came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub org: OrgId,
    pub name: OrgName,
    pub founding: Envelope,
    /// Signer set 1.
    pub first: SignerSet,
    /// Later signer sets, by version and id.
    pub later: Vec<Installed>,
    pub heads: BTreeMap<u64, HeadRecord>,
    /// Union over all heads: remove wins.
    pub revocations: Revocations,
    pub bundles: BTreeMap<Digest, BundleRecord>,
    /// Gateways' voices, and the first entries that mandated each.
    pub voices: BTreeMap<PublicKey, BTreeMap<NodeName, BTreeSet<Cut>>>,
    /// By digest of the invite's envelope.
    pub invites: BTreeMap<Digest, InviteRecord>,
    /// By digest of the node key.
    pub members: BTreeMap<Digest, MemberRecord>,
    /// Every node key that ever claimed a name: an index over `members`.
    pub names: BTreeMap<NodeName, BTreeSet<Digest>>,
    /// An index over `invites`; ids are drawn at random, so there is one digest each.
    pub invite_ids: BTreeMap<InviteId, BTreeSet<Digest>>,
    /// First entries that ended a node key: revocations, or its own leave.
    pub endings: BTreeMap<Digest, BTreeSet<Cut>>,
    pub frontier: Frontier,
    /// Entries that stand in the ledger without effect, and why.
    pub void: BTreeMap<Digest, Void>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    pub set: SignerSet,
    pub envelope: Envelope,
    pub by: BTreeSet<Cut>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadRecord {
    pub digest: Digest,
    pub envelope: Envelope,
    pub head: Head,
    /// Another head with this version exists.
    pub contested: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleRecord {
    pub body: BundleBody,
    pub envelope: Envelope,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InviteRecord {
    pub invite: Invite,
    pub envelope: Envelope,
    pub by: BTreeSet<Cut>,
    /// Who joined, by digest of the node key. Spending is a fact that nothing undoes. Kept in a table of its own.
    #[serde(skip)]
    pub spent: BTreeMap<Digest, BTreeSet<Spend>>,
    /// How many node keys each gateway let in.
    pub spent_at: BTreeMap<Author, u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Spend {
    pub by: Cut,
    pub at: Timestamp,
}

/// One node key, with every admission that gateways gave it; the lowest in history stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    pub admission: AdmissionRecord,
    pub rivals: Vec<AdmissionRecord>,
    /// The node came back over mTLS.
    pub joined: BTreeSet<Cut>,
    pub left: bool,
    /// Another machine holds the name.
    pub outrun: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionRecord {
    pub claim: Claim,
    pub digest: Digest,
    pub gateway: NodeName,
    pub at: Timestamp,
    /// Where it stands in the ledger, and what its gateway had seen.
    pub entry: Cut,
    pub entry_digest: Digest,
    pub seen: Frontier,
    pub height: u64,
}

impl AdmissionRecord {
    pub const fn rank(&self) -> (u64, Digest) {
        (self.height, self.entry_digest)
    }

    pub fn has_seen(&self, at: &Cut) -> bool {
        if at.author == self.entry.author {
            (at.epoch, at.seq) < (self.entry.epoch, self.entry.seq)
        } else {
            self.seen.covers(at)
        }
    }
}

/// Why an entry has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Void {
    #[error("its author may not do this")]
    BeyondPower,
    #[error("the object inside does not hold: {0}")]
    BadObject(String),
    #[error("all uses of the invite at this gateway were spent")]
    Overspent,
    #[error("it names something that is not in its past: {0}")]
    Unknown(String),
    #[error("its author's chain forks at this point")]
    Forked,
    #[error("its author was cut off before this point")]
    CutOff,
    #[error("it repeats what was already so")]
    Repeats,
}

/// A member as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    Claimed,
    Waiting,
    Issued,
    Member,
    Revoked,
}

impl Standing {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Waiting => "waiting",
            Self::Issued => "issued",
            Self::Member => "member",
            Self::Revoked => "revoked",
        }
    }
}

impl State {
    pub fn of(founding: &Founding) -> Self {
        Self {
            org: founding.id,
            name: founding.record.name.clone(),
            founding: founding.envelope.clone(),
            first: founding.first_signers(),
            later: Vec::new(),
            heads: BTreeMap::new(),
            revocations: Revocations::default(),
            bundles: BTreeMap::new(),
            voices: BTreeMap::new(),
            invites: BTreeMap::new(),
            members: BTreeMap::new(),
            names: BTreeMap::new(),
            invite_ids: BTreeMap::new(),
            endings: BTreeMap::new(),
            frontier: Frontier::default(),
            void: BTreeMap::new(),
        }
    }

    pub fn head(&self) -> Option<&HeadRecord> {
        self.heads.last_key_value().map(|(_, record)| record)
    }

    /// The path from the first set to the one in force. It ends before a version that has two candidates.
    fn signer_path(&self) -> impl Iterator<Item = &Installed> {
        let alone =
            |at: &&Installed| self.later.iter().filter(|other| other.set.version == at.set.version).count() == 1;
        self.later.iter().take_while(alone)
    }

    /// Two successors of one set exist: nothing may be issued until people have looked.
    pub fn is_frozen(&self) -> bool {
        self.signer_path().count() != self.later.len()
    }

    /// The set in force.
    pub fn signer_set(&self) -> &SignerSet {
        self.signer_path().last().map_or(&self.first, |installed| &installed.set)
    }

    /// The envelopes that lead from the set of `version` to the one in force.
    pub fn signer_chain(&self, version: u64) -> Vec<Envelope> {
        let later = self.signer_path().filter(|installed| installed.set.version > version);
        later.map(|installed| installed.envelope.clone()).collect()
    }

    pub fn trusted_bundles(&self, domain: Domain) -> impl Iterator<Item = &BundleRecord> {
        let lines = self.head().into_iter().flat_map(move |record| record.head.trusted_bundles(domain));
        lines.filter_map(|line| self.bundles.get(&line.bundle))
    }

    /// Issued covers claimed too: whether an SVID was made is in the gateway's own log.
    pub fn standing(&self, member: &MemberRecord) -> Standing {
        let (claim, gateway) = (member.claim(), &member.admission.gateway);
        if self.is_ended(member) {
            return Standing::Revoked;
        }
        // A machine whose first reply was lost may have asked elsewhere: one good admission is enough.
        if member.outrun || member.admissions().all(|admission| self.is_cut(admission)) {
            return Standing::Waiting;
        }
        // The gateway's own node has nobody else to come back to.
        let founder = claim.authority == ClaimAuthority::Signers && claim.name == *gateway;
        if founder || !member.joined.is_empty() { Standing::Member } else { Standing::Issued }
    }

    fn is_ended(&self, member: &MemberRecord) -> bool {
        member.left
            || self.revocations.node_keys.contains(&member.claim().node_key.digest())
            || self.revocations.principals.iter().any(|p| p.node_name().as_ref() == Some(&member.claim().name))
    }

    /// Admitted beyond the point up to which its invite, or its gateway, was still good.
    fn is_cut(&self, admission: &AdmissionRecord) -> bool {
        let within = |cut: &Cut| (admission.entry.epoch, admission.entry.seq) <= (cut.epoch, cut.seq);
        let here = |cut: &&Cut| cut.author == admission.entry.author;
        let by_invite = match admission.claim.authority {
            ClaimAuthority::Signers => false,
            ClaimAuthority::Invite(id) => {
                let mut cuts = self.revocations.invites.iter().filter(|cut| cut.invite == id);
                cuts.any(|cut| !cut.seen.iter().filter(here).any(within))
            }
        };
        by_invite || self.revocations.authors.iter().filter(here).any(|cut| !within(cut))
    }

    /// The machine that holds a name now.
    pub fn holder(&self, name: &NodeName) -> Option<&MemberRecord> {
        let holds = |member: &&MemberRecord| {
            member.claim().name == *name && !member.outrun && self.standing(member) != Standing::Revoked
        };
        self.named(name).find(holds)
    }

    /// Every machine that ever claimed the name.
    pub fn named(&self, name: &NodeName) -> impl Iterator<Item = &MemberRecord> {
        self.names.get(name).into_iter().flatten().filter_map(|key| self.members.get(key))
    }

    pub fn member(&self, node_key: &PublicKey) -> Option<&MemberRecord> {
        self.members.get(&node_key.digest())
    }

    /// Ids are drawn at random, so there is one; were there two, the lower digest counts everywhere.
    pub fn invite(&self, id: InviteId) -> Option<(&Digest, &InviteRecord)> {
        let digest = self.invite_ids.get(&id)?.first()?;
        self.invites.get_key_value(digest)
    }
}

impl MemberRecord {
    pub const fn claim(&self) -> &Claim {
        &self.admission.claim
    }
}

impl InviteRecord {
    /// Nothing: without limit.
    pub fn uses_left(&self, gateway: &NodeName) -> Option<u32> {
        let spent = self.spent_at.get(&Author::Gateway(gateway.clone())).copied().unwrap_or(0);
        match self.invite.right_of(gateway) {
            None => Some(0),
            Some(Uses::Unlimited) => None,
            Some(Uses::Limited(n)) => Some(n.saturating_sub(spent)),
        }
    }
}
