//! What is true now: what came here, judged. Records and questions; `take` has what comes, `conclude` the judging.

mod suspended;
mod released;
pub mod consent;
pub mod signer;
pub mod head;
pub(crate) mod trust;
pub(crate) mod decide;
pub(crate) mod conclude;
pub mod grant;
pub mod take;
pub mod accept;

use std::collections::{BTreeMap, BTreeSet};

use identity::bundle::{BundleBody, Domain};
use identity::envelope::Envelope;
use identity::head::Revocations;
use identity::id::{Digest, InviteId, OrgId};
use identity::key::PublicKey;
use identity::principal::{NodeName, OrgName, SignerName};
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::founding::Founding;
use crate::invite::admission::Claim;
use crate::invite::approve::Verdict;
use crate::invite::{Invite, Right, Uses};
use crate::ledger::fold::{self, Leaves, Why};
use crate::ledger::frontier::Frontier;
use crate::ledger::ground::Ground;
use crate::ledger::heads::{HeadRecord, Held};
use crate::ledger::replica::Replica;
use crate::ledger::signers::Signers;
use crate::release::Release;

/// Equal heads, objects, entries and sights give equal states, in whatever order they came.
#[derive(Debug, Clone)]
pub struct State {
    pub org: OrgId,
    pub name: OrgName,
    pub founding: Envelope,
    /// Everything that came.
    pub replica: Replica,
    /// As of when it was judged: a recovery takes effect by time alone.
    pub as_of: Timestamp,
    /// By how many seconds the clock was ahead then; dates that follow from it are by that clock.
    pub(crate) ahead: i64,
    pub signers: Signers,
    /// If two signer sets claim one place: of the last that nobody contests.
    pub ground: Ground,
    pub fold: fold::State,
    /// What was taken back, by the ground.
    pub revocations: Revocations,
    /// Gateways' voices, of every head that counts.
    pub voices: BTreeMap<PublicKey, NodeName>,
    pub bundles: BTreeMap<Digest, BundleRecord>,
    /// By digest of the release's envelope.
    pub releases: BTreeMap<Digest, ReleaseRecord>,
    /// By digest of the invite's envelope.
    pub invites: BTreeMap<Digest, InviteRecord>,
    /// An index over `invites`; a gateway that begins another chain has its rights signed anew, under the same id.
    pub invite_ids: BTreeMap<InviteId, BTreeSet<Digest>>,
    /// By digest of the node key.
    pub members: BTreeMap<Digest, MemberRecord>,
    /// Every node key that ever claimed a name: an index over `members`.
    pub names: BTreeMap<NodeName, BTreeSet<Digest>>,
    /// By digest of the node key, the first first.
    pub suspensions: BTreeMap<Digest, Vec<SuspensionRecord>>,
    /// By digest of the node key, then of the manifest: what operators let stay.
    pub consents: BTreeMap<Digest, BTreeMap<Digest, Envelope>>,
    /// By digest of the claim: who said yes, and who no.
    pub decisions: BTreeMap<Digest, BTreeMap<Verdict, Envelope>>,
    /// By digest: names that nobody need look at.
    pub waivers: BTreeMap<Digest, Envelope>,
    /// How far each chain is here.
    pub frontier: Frontier,
    /// Claims to which a signer of the set in force said no.
    pub(crate) denied: BTreeSet<Digest>,
    /// Objects that came since it was judged last.
    pub(crate) fresh: BTreeSet<Digest>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleRecord {
    pub body: BundleBody,
    pub envelope: Envelope,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseRecord {
    pub release: Release,
    pub envelope: Envelope,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuspensionRecord {
    pub by: SignerName,
    pub at: Timestamp,
    pub until: Timestamp,
    pub reason: String,
    pub envelope: Envelope,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InviteRecord {
    pub invite: Invite,
    pub envelope: Envelope,
    /// Who joined with it, in which chain.
    pub spent: BTreeMap<Digest, PublicKey>,
    /// How many node keys spent it in each chain.
    pub spent_at: BTreeMap<PublicKey, u32>,
    /// Chains that have ended, with what was left there.
    pub closed: BTreeSet<PublicKey>,
}

impl InviteRecord {
    pub const fn new(invite: Invite, envelope: Envelope) -> Self {
        Self { invite, envelope, spent: BTreeMap::new(), spent_at: BTreeMap::new(), closed: BTreeSet::new() }
    }

    /// Rights in chains that go on.
    pub fn open_rights(&self) -> impl Iterator<Item = &Right> {
        self.invite.rights.iter().filter(|right| !self.closed.contains(&right.voice))
    }

    /// Nothing: without limit.
    pub fn uses_left(&self, gateway: &NodeName) -> Option<u32> {
        let rights = self.open_rights().filter(|right| right.gateway == *gateway);
        let left = |right: &Right| match right.uses {
            Uses::Unlimited => None,
            Uses::Limited(n) => Some(n.saturating_sub(self.spent_at.get(&right.voice).copied().unwrap_or(0))),
        };
        // Of several voices each spends its own.
        rights.map(left).try_fold(0_u32, |sum, left| Some(sum.saturating_add(left?)))
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

impl State {
    /// Of an org in which nothing has happened yet.
    pub fn of(founding: &Founding) -> Self {
        let replica = Replica::new(founding, None);
        let as_of = Timestamp::from_unix(0);
        let signers = replica.signers(as_of);
        let ground = Self::ground_of(&replica, &signers);
        let fold = replica.fold(&ground);
        Self {
            org: founding.id,
            name: founding.record.name.clone(),
            founding: founding.envelope.clone(),
            replica,
            as_of,
            ahead: 0,
            signers,
            ground,
            fold,
            revocations: Revocations::default(),
            voices: BTreeMap::new(),
            bundles: BTreeMap::new(),
            releases: BTreeMap::new(),
            invites: BTreeMap::new(),
            invite_ids: BTreeMap::new(),
            members: BTreeMap::new(),
            names: BTreeMap::new(),
            suspensions: BTreeMap::new(),
            consents: BTreeMap::new(),
            decisions: BTreeMap::new(),
            waivers: BTreeMap::new(),
            frontier: Frontier::default(),
            denied: BTreeSet::new(),
            fresh: BTreeSet::new(),
        }
    }

    /// The head in force.
    pub const fn head(&self) -> Option<&HeadRecord> {
        self.ground.head.as_ref()
    }

    /// A head that the one in force reaches, or a rival, by its digest.
    pub fn head_named(&self, digest: Digest) -> Option<Held<'_>> {
        let counts = self.ground.reached.contains(&digest) || self.ground.rivals.iter().any(|it| it.digest == digest);
        self.replica.heads.held(&digest).filter(|_| counts)
    }

    /// Every head that counts for something.
    pub fn heads(&self) -> impl Iterator<Item = Held<'_>> {
        let reached = self.ground.reached.iter().filter_map(|digest| self.replica.heads.held(digest));
        reached.chain(self.ground.rivals.iter().map(Held::Whole))
    }

    /// The leaves of nodes in the map of the head in force; nothing if they are not here.
    pub fn leaves(&self) -> Option<&Leaves> {
        self.replica.maps.get(&self.head()?.head.members?)
    }

    pub fn trusted_bundles(&self, domain: Domain) -> impl Iterator<Item = &BundleRecord> {
        let lines = self.trust_lines().into_iter();
        let trusted = lines.filter(move |line| line.domain == domain && line.state.is_trusted());
        trusted.filter_map(|line| self.bundle_of(&line))
    }

    /// Whether an SVID was made of an admission is in the gateway's own log.
    pub const fn standing(&self, member: &MemberRecord) -> Standing {
        member.standing
    }

    /// Was this node key revoked, or did it leave?
    pub fn is_gone(&self, key: Digest) -> bool {
        self.revocations.node_keys.contains(&key)
            || self.members.get(&key).is_some_and(|member| member.standing == Standing::Revoked)
    }

    /// The machine that holds a name now.
    pub fn holder(&self, name: &NodeName) -> Option<&MemberRecord> {
        let key = self.fold.members.get(name).map(|admitted| admitted.key)?;
        self.members.get(&key)
    }

    /// Every machine that ever claimed the name.
    pub fn named(&self, name: &NodeName) -> impl Iterator<Item = &MemberRecord> {
        let keys = self.names.get(name).into_iter().flatten();
        keys.filter_map(|key| self.members.get(key))
    }

    pub fn member(&self, node_key: &PublicKey) -> Option<&MemberRecord> {
        self.members.get(&node_key.digest())
    }

    /// Of several that were signed under one id: one that the signers in force signed, with rights in chains that go on.
    pub fn invite(&self, id: InviteId) -> Option<(&Digest, &InviteRecord)> {
        let digests = self.invite_ids.get(&id)?.iter().rev();
        let records = digests.filter_map(|digest| self.invites.get_key_value(digest));
        records.max_by_key(|(_, record)| (!self.is_outdated(record), record.open_rights().count()))
    }

    /// The one that gives a right in the chain of this voice; else whichever counts.
    pub fn invite_at(&self, id: InviteId, voice: Option<PublicKey>) -> Option<&InviteRecord> {
        let here = |record: &&InviteRecord| voice.is_some_and(|voice| record.invite.right_of(voice).is_some());
        let mut fitting = self.invites_of(id).filter(here);
        let good = fitting.clone().find(|record| !self.is_outdated(record));
        good.or_else(|| fitting.next()).or_else(|| self.invite(id).map(|(_, record)| record))
    }

    /// Everything that was signed under one id.
    pub fn invites_of(&self, id: InviteId) -> impl Iterator<Item = &InviteRecord> + Clone {
        let digests = self.invite_ids.get(&id).into_iter().flatten();
        digests.filter_map(|digest| self.invites.get(digest))
    }
}
