//! What is true now (a materialized view): what came here, judged. Records and questions; `take` has what comes,
//! `conclude` the judging.

pub mod consent;
mod invites;
mod members;
mod objects;
mod judged;
pub mod signer;
pub mod head;
pub(crate) mod trust;
pub(crate) mod decide;
pub(crate) mod conclude;
mod settle;
pub mod grant;
pub mod take;
pub mod accept;
mod waiting;

use std::collections::BTreeSet;

use identity::bundle::Domain;
use identity::envelope::Envelope;
use identity::head::Revocations;
use identity::id::{Digest, InviteId, OrgId};
use identity::key::PublicKey;
use identity::principal::{NodeName, OrgName};
use identity::time::Timestamp;

pub use invites::{InviteRecord, Invites};
pub use judged::Judged;
pub use members::{AdmissionRecord, MemberRecord, Members, Standing};
pub use objects::{BundleRecord, Objects, ReleaseRecord, SuspensionRecord};

use crate::founding::Founding;
use crate::ledger::fold::Leaves;
use crate::ledger::frontier::Frontier;
use crate::ledger::heads::{HeadRecord, KnownHead};
use crate::ledger::replica::Replica;

/// Equal heads, objects, entries and sights give equal states, in whatever order they came.
#[derive(Debug, Clone)]
pub struct State {
    pub org: OrgId,
    pub name: OrgName,
    pub founding: Envelope,
    /// Everything that came.
    pub replica: Replica,
    /// What the ledger's judges say of it.
    pub judged: Judged,
    pub objects: Objects,
    pub invites: Invites,
    pub members: Members,
    /// How far each chain is here.
    pub frontier: Frontier,
    /// Objects that came since it was judged last.
    pub(crate) fresh: BTreeSet<Digest>,
}

impl State {
    /// Of an org in which nothing has happened yet.
    pub fn of(founding: &Founding) -> Self {
        let replica = Replica::new(founding, None);
        Self {
            org: founding.id,
            name: founding.record.name.clone(),
            founding: founding.envelope.clone(),
            judged: Judged::of(&replica, Timestamp::from_unix(0)),
            replica,
            objects: Objects::default(),
            invites: Invites::default(),
            members: Members::default(),
            frontier: Frontier::default(),
            fresh: BTreeSet::new(),
        }
    }

    /// What was taken back.
    pub const fn revoked(&self) -> &Revocations {
        &self.judged.ground.revoked
    }

    /// The head in force.
    pub const fn head(&self) -> Option<&HeadRecord> {
        self.judged.ground.head.as_ref()
    }

    /// A head that the one in force reaches, or a rival, by its digest.
    pub fn head_named(&self, digest: Digest) -> Option<KnownHead<'_>> {
        let counts = self.judged.ground.reached.contains(&digest)
            || self.judged.ground.rivals.iter().any(|it| it.digest == digest);
        self.replica.heads.held(&digest).filter(|_| counts)
    }

    /// Every head that counts for something.
    pub fn heads(&self) -> impl Iterator<Item = KnownHead<'_>> {
        self.judged.ground.counting(&self.replica.heads)
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
        self.revoked().node_keys.contains(&key)
            || self.members.get(&key).is_some_and(|member| member.standing == Standing::Revoked)
    }

    /// The machine that holds a name now.
    pub fn holder(&self, name: &NodeName) -> Option<&MemberRecord> {
        let key = self.judged.fold.members.get(name).map(|admitted| admitted.key)?;
        self.members.get(&key)
    }

    /// Every machine that ever claimed the name.
    pub fn named(&self, name: &NodeName) -> impl Iterator<Item = &MemberRecord> {
        self.members.named(name)
    }

    pub fn member(&self, node_key: &PublicKey) -> Option<&MemberRecord> {
        self.members.get(&node_key.digest())
    }

    /// Of several that were signed under one id: one that the signers in force signed, with rights in chains that go on.
    pub fn invite(&self, id: InviteId) -> Option<(&Digest, &InviteRecord)> {
        self.invites.of(id).rev().max_by_key(|(_, record)| (!self.is_outdated(record), record.open_rights().count()))
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
        self.invites.of(id).map(|(_, record)| record)
    }

    /// The release that the head in force names.
    pub fn release(&self) -> Option<&ReleaseRecord> {
        self.objects.releases.get(&self.head()?.head.release?)
    }

    /// The files that a gateway must not give up: those of the release in force, and of each invite that somebody can
    /// still use.
    pub fn named_files(&self, now: Timestamp) -> BTreeSet<Digest> {
        let released = self.release().into_iter().flat_map(|record| record.release.files());
        let open = self.open_invites(now);
        released.chain(open.flat_map(|record| record.invite.files.iter().copied())).collect()
    }
}
