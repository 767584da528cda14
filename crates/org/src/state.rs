//! What is true now, as a fold over the ledger says. Records and questions; `effect` has what changes them.

use std::collections::{BTreeMap, BTreeSet};

use identity::bundle::{BundleBody, Domain};
use identity::envelope::Envelope;
use identity::head::{Cut, Epoch, Head, Revocations};
use identity::id::{Digest, InviteId, OrgId};
use identity::key::PublicKey;
use identity::principal::{Author, NodeName, OrgName, SignerName};
use identity::signers::{Quorum, SignerSet, Word};
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

use crate::admission::{Claim, ClaimAuthority};
use crate::approve::Verdict;
use crate::entry::{Past, SignedEntry};
use crate::founding::Founding;
use crate::frontier::Frontier;
use crate::invite::{Invite, Uses};
use crate::release::Release;

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
    /// The recovery set and its patience, from the founding record.
    pub recovery: Quorum,
    pub recovery_delay: Seconds,
    /// Recoveries that were begun, by the digest of the envelope.
    pub recoveries: BTreeMap<Digest, RecoveryRecord>,
    /// Restores: each began an epoch.
    pub epochs: BTreeMap<u32, EpochRecord>,
    /// By version and digest: two heads under one number are both kept, and shown.
    pub heads: BTreeMap<(u64, Digest), HeadRecord>,
    /// Union over all heads of the signer set in force: remove wins.
    pub revocations: Revocations,
    pub bundles: BTreeMap<Digest, BundleRecord>,
    /// By digest of the release's envelope.
    pub releases: BTreeMap<Digest, ReleaseRecord>,
    /// Gateways' voices, and the first entries that mandated each.
    pub voices: BTreeMap<PublicKey, BTreeMap<NodeName, BTreeSet<Cut>>>,
    /// By digest of the invite's envelope.
    pub invites: BTreeMap<Digest, InviteRecord>,
    /// By digest of the node key.
    pub members: BTreeMap<Digest, MemberRecord>,
    /// Every node key that ever claimed a name: an index over `members`.
    pub names: BTreeMap<NodeName, BTreeSet<Digest>>,
    /// Invites that were confirmed after a restore, and for which epochs.
    pub confirmed: BTreeMap<InviteId, BTreeSet<u32>>,
    /// By digest of the node key, the first in history first.
    pub suspensions: BTreeMap<Digest, Vec<SuspensionRecord>>,
    /// By digest of the node key, then of the manifest: what operators let stay.
    pub consents: BTreeMap<Digest, BTreeMap<Digest, Envelope>>,
    /// By digest of the claim: who said yes, and who no.
    pub decisions: BTreeMap<Digest, BTreeMap<Verdict, Envelope>>,
    /// By digest: names that nobody need look at.
    pub waivers: BTreeMap<Digest, Envelope>,
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
    pub previous: Digest,
    /// On whose word.
    pub word: Word,
    pub envelope: Envelope,
    pub by: BTreeSet<Cut>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryRecord {
    pub set: SignerSet,
    pub envelope: Envelope,
    /// Where gateways wrote that they saw it, and when.
    pub begun: BTreeSet<Spend>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochRecord {
    pub epoch: Epoch,
    pub begun_at: Timestamp,
    pub by: BTreeSet<Cut>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspensionRecord {
    pub by: SignerName,
    pub at: Timestamp,
    pub until: Timestamp,
    pub reason: String,
    pub envelope: Envelope,
    /// Where it stands in the ledger.
    pub entry: Cut,
    pub entry_digest: Digest,
    pub height: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadRecord {
    pub digest: Digest,
    pub envelope: Envelope,
    pub head: Head,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleRecord {
    pub body: BundleBody,
    pub envelope: Envelope,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseRecord {
    pub release: Release,
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
    /// The pattern that let it in: its claim names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<InviteId>,
    /// Digest of the claim's envelope, where a person had to look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Digest>,
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

    /// The invite behind it.
    pub fn invite(&self) -> Option<InviteId> {
        self.pattern.or_else(|| self.claim.authority.invite())
    }

    /// It knew of that entry, or is that entry.
    pub(crate) fn is_after(&self, at: &Cut) -> bool {
        *at == self.entry || self.has_seen(at)
    }

    pub fn has_seen(&self, at: &Cut) -> bool {
        if at.author == self.entry.author {
            at.epoch <= self.entry.epoch && at.seq < self.entry.seq
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
    #[error("it repeats what was already so")]
    Repeats,
}

/// Why an entry cannot enter the ledger at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("`{0}` is no author of this org, or signed with another key")]
    NotAnAuthor(Author),
    #[error("the chain of `{author}` is at {known}; this entry is number {found}")]
    OutOfTurn { author: Author, known: u64, found: u64 },
    #[error("two entries claim place {seq} in the chain of `{author}`")]
    Forks { author: Author, seq: u64 },
    #[error("it has seen entries that are not known here")]
    FromTheFuture,
    #[error("it is of epoch {found} of the ledger; epoch {wanted} is in force")]
    OtherEpoch { found: u32, wanted: u32 },
    #[error("it was given up when the ledger was restored")]
    GivenUp,
    #[error("the threshold has not signed that a new epoch begins")]
    BadEpoch,
    #[error("the new epoch begins at another place than where this ledger stands")]
    EpochElsewhere,
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
            recovery: founding.record.recovery.clone(),
            recovery_delay: founding.record.recovery_delay,
            recoveries: BTreeMap::new(),
            epochs: BTreeMap::new(),
            heads: BTreeMap::new(),
            revocations: Revocations::default(),
            bundles: BTreeMap::new(),
            releases: BTreeMap::new(),
            voices: BTreeMap::new(),
            invites: BTreeMap::new(),
            members: BTreeMap::new(),
            names: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            suspensions: BTreeMap::new(),
            consents: BTreeMap::new(),
            decisions: BTreeMap::new(),
            waivers: BTreeMap::new(),
            invite_ids: BTreeMap::new(),
            endings: BTreeMap::new(),
            frontier: Frontier::default(),
            void: BTreeMap::new(),
        }
    }

    /// The head in force: the newest that the signer set in force signed; of two under one number, the lower digest.
    pub fn head(&self) -> Option<&HeadRecord> {
        let signers = self.signer_set().as_ref();
        let fits = |record: &&HeadRecord| record.head.signers == signers;
        let newest = self.heads.values().rev().find(fits)?.head.version;
        self.heads_at(newest).find(fits)
    }

    /// Every head that was published under a number: one, unless something went wrong.
    pub fn heads_at(&self, version: u64) -> impl Iterator<Item = &HeadRecord> {
        let from = (version, Digest([0; 32]));
        self.heads.range(from..=(version, Digest([0xff; 32]))).map(|(_, record)| record)
    }

    pub fn trusted_bundles(&self, domain: Domain) -> impl Iterator<Item = &BundleRecord> {
        let lines = self.trust_lines().into_iter();
        let trusted = lines.filter(move |line| line.domain == domain && line.state.is_trusted());
        trusted.filter_map(|line| self.bundle_of(&line))
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
        if self.is_let_stay(admission.digest) {
            return false;
        }
        // A gateway that had not heard of the no may have let it in.
        if admission.claimed.is_some_and(|claim| self.is_denied(claim)) {
            return true;
        }
        let by_invite = admission.invite().is_some_and(|id| {
            let mut cuts = self.revocations.invites.iter().filter(|cut| cut.invite == id);
            cuts.any(|cut| !cut.seen.iter().filter(here).any(within))
        });
        by_invite || self.revocations.authors.iter().filter(here).any(|cut| !within(cut))
    }

    /// Was this node key revoked, or did it leave?
    pub fn is_gone(&self, key: Digest) -> bool {
        self.revocations.node_keys.contains(&key) || self.members.get(&key).is_some_and(|member| self.is_ended(member))
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

    pub(crate) fn admissions(&self) -> impl Iterator<Item = &AdmissionRecord> {
        std::iter::once(&self.admission).chain(&self.rivals)
    }

    /// True for every admission that a gateway gave this node key, also for one that another came before.
    pub fn was_given(&self, admission: Digest) -> bool {
        self.admissions().any(|given| given.digest == admission)
    }

    pub(crate) fn is_known_to(&self, past: Past<'_>) -> bool {
        self.admissions().any(|admission| past.holds(&admission.entry))
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

/// Keeps only the first entries of their kind: none that another already had in its past.
pub(crate) fn add_first(first: &mut BTreeSet<Cut>, signed: &SignedEntry) {
    if !first.iter().any(|at| signed.past().holds(at)) {
        first.insert(signed.cut());
    }
}

pub(crate) fn bad(why: &dyn std::fmt::Display) -> Void {
    Void::BadObject(why.to_string())
}
