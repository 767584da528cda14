//! Something that waits for more signatures (a partially signed transaction), as a file that goes from one operator to
//! the next.

pub(crate) mod handed;
pub(crate) mod listing;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ground::clock;
use ground::file::{self, FileAccess, FileError};
use identity::envelope::{BadEnvelope, Envelope, Payload as _};
use identity::head::{BadHead, Cause, Head, SignedHead};
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::members::Leaf;
use identity::principal::{OrgName, SignerName};
use identity::signers::{BrokenChain, Quorum, SignersRef};
use identity::time::Timestamp;
use org::invite::Invite;
use org::invite::approve::Waiver;
use org::ledger::step::SignerStep;
use org::release::{BadRelease, Release};
use serde::{Deserialize, Serialize};
use wire::control::waiting_digest;
use wire::known::Known;
use wire::known::freeze::names;

use crate::folder::FileDamage;
use crate::key::{KeyError, SignerKeys};
use crate::pending::handed::Handed;
use crate::pending::listing::{ListingDiff, NotListed};

const SCHEMA: u32 = 2;

/// As it lies on disk. Nothing in it is believed: what it says is read from the signed bytes inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    pub freehold_pending: u32,
    pub org: OrgName,
    pub org_id: OrgId,
    pub made_at: Timestamp,
    pub handed: Handed,
    /// Whom its head lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listing: Option<ListingDiff>,
}

#[derive(Debug, thiserror::Error)]
pub enum BadPending {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is no pending file: {why}", path.display())]
    NotPending { path: PathBuf, why: FileDamage },
    #[error("it belongs to another org: `{0}`")]
    OtherOrg(OrgName),
    #[error("this is nothing that waits for signatures")]
    NothingToSign,
    #[error(transparent)]
    Release(#[from] BadRelease),
    #[error("its head names another release")]
    OtherRelease,
    #[error("its head does not come with what its cause needs")]
    OtherCause,
    #[error("it shows other members than its head names")]
    OtherMap,
    #[error("the copies are of different things")]
    Differ,
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error("it would not follow what is so now")]
    Head(#[from] BadHead),
    #[error("it would not follow the signer set that is in force")]
    Signers(#[from] BrokenChain),
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// One object inside, and who must sign it. Of one that several sets must sign there are several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    pub what: String,
    /// Its place among the objects.
    object: usize,
    pub quorum: Quorum,
    pub signed: Vec<SignerName>,
}

impl Need {
    pub fn is_met(&self) -> bool {
        self.signed.len() >= self.quorum.threshold()
    }

    /// Those who have not signed yet.
    pub fn others(&self) -> Vec<&SignerName> {
        let open = self.quorum.signers().iter().filter(|signer| !self.signed.contains(&signer.name));
        open.map(|signer| &signer.name).collect()
    }
}

impl Pending {
    pub fn new(known: &Known, handed: Handed, made_at: Timestamp) -> Self {
        let org = known.founding.record.name.clone();
        Self { freehold_pending: SCHEMA, org, org_id: known.org(), made_at, handed, listing: None }
    }

    pub fn read(path: &Path) -> Result<Self, BadPending> {
        let not = |why: FileDamage| BadPending::NotPending { path: path.to_owned(), why };
        let pending: Self = serde_json::from_slice(&file::read(path)?).map_err(|why| not(FileDamage::Json(why)))?;
        if pending.freehold_pending == SCHEMA { Ok(pending) } else { Err(not(FileDamage::Newer)) }
    }

    pub fn save(&self, path: &Path) -> Result<(), BadPending> {
        let not = |why| BadPending::NotPending { path: path.to_owned(), why: FileDamage::Json(why) };
        Ok(file::write(path, &serde_json::to_vec_pretty(self).map_err(not)?, FileAccess::Private)?)
    }

    /// A name for the file, from what is in it.
    pub fn file_name(&self) -> String {
        let what = match self.handed.cause(self.org_id) {
            Some(cause) => named(&cause),
            None => "invite",
        };
        format!("{}-{what}-{}.pending", self.org, self.short())
    }

    /// What it is called by in a gateway's inbox, whoever has signed it.
    pub fn digest(&self) -> Digest {
        waiting_digest(&self.handed.0)
    }

    /// By this people name it.
    pub fn short(&self) -> String {
        self.digest().to_string().chars().take(8).collect()
    }

    /// What is to be signed, by its digests: independent of who has.
    fn digests(&self) -> Vec<Digest> {
        self.handed.0.iter().map(Envelope::digest).collect()
    }

    /// Who must sign what, in the order of the objects. It must fit what is known: nobody is asked to sign a step
    /// that could not be taken.
    pub fn needs(&self, known: &Known) -> Result<Vec<Need>, BadPending> {
        if self.org_id != known.org() {
            return Err(BadPending::OtherOrg(self.org.clone()));
        }
        match self.handed.0.as_slice() {
            objects if !objects.is_empty() && objects.iter().all(stands_alone) => {
                let needs = objects.iter().enumerate();
                Ok(needs.map(|(nth, object)| need(what(object), &known.signers.quorum, nth, object)).collect())
            }
            [with @ .., head] if head.kind() == Head::KIND => head_needs(known, head, with),
            _ => Err(BadPending::NothingToSign),
        }
    }

    /// The quorums whose members can sign something in it.
    pub fn quorums(&self, known: &Known) -> Result<Vec<Quorum>, BadPending> {
        Ok(self.needs(known)?.into_iter().map(|need| need.quorum).collect())
    }

    /// Whom its head lists: by the map, if it is here, else by what that differs in from one that is.
    pub(crate) fn leaves(
        &self,
        head: &Head,
        at_home: impl Fn(Digest) -> Option<Vec<Leaf>>,
    ) -> Result<Vec<Leaf>, NotListed> {
        let root = head.members.ok_or(NotListed::NoMap)?;
        if let Some(leaves) = at_home(root) {
            return Ok(leaves);
        }
        let listing = self.listing.as_ref().ok_or(NotListed::Unsaid)?;
        let before = listing.base.map_or_else(|| Some(Vec::new()), at_home).ok_or(NotListed::NoBase)?;
        listing.apply(before, root).ok_or(NotListed::OtherMap)
    }

    /// Adds what the keys at hand can add. Returns who signed anew.
    pub fn sign(&mut self, known: &Known, keys: &SignerKeys) -> Result<BTreeSet<SignerName>, BadPending> {
        let mut fresh = BTreeSet::new();
        for need in self.needs(known)? {
            let Some(envelope) = self.handed.0.get_mut(need.object) else { continue };
            let signed = keys.add(envelope, &need.quorum)?;
            fresh.extend(signed.into_iter().filter(|name| !need.signed.contains(name)));
        }
        Ok(fresh)
    }

    /// Takes over what another copy adds that holds, if it is of the same: who sent it need not be believed.
    pub(crate) fn merge_sifted(&mut self, other: &[Envelope], keys: &BTreeSet<PublicKey>) {
        if waiting_digest(other) == self.digest() {
            for (own, theirs) in self.handed.0.iter_mut().zip(other) {
                own.merge(&theirs.kept(keys));
            }
        }
    }

    /// Takes over the signatures of another copy.
    pub fn merge(&mut self, other: &Self) -> Result<(), BadPending> {
        if self.org_id != other.org_id || self.digests() != other.digests() {
            return Err(BadPending::Differ);
        }
        for (own, theirs) in self.handed.0.iter_mut().zip(&other.handed.0) {
            own.merge(theirs);
        }
        Ok(())
    }
}

/// It counts by its signatures alone, without a head.
fn stands_alone(object: &Envelope) -> bool {
    [Invite::KIND, Waiver::KIND].contains(&object.kind())
}

fn what(object: &Envelope) -> &'static str {
    if object.kind() == Waiver::KIND { "waiver" } else { "invite" }
}

/// `object` is its place among the objects.
fn need(what: impl Into<String>, quorum: &Quorum, object: usize, envelope: &Envelope) -> Need {
    Need { what: what.into(), object, quorum: quorum.clone(), signed: signed_by(quorum, envelope) }
}

/// Those of a quorum who signed it.
pub(crate) fn signed_by(quorum: &Quorum, envelope: &Envelope) -> Vec<SignerName> {
    let keys = envelope.signers_among(&quorum.keys());
    let signed = quorum.signers().iter().filter(|signer| keys.contains(&signer.key));
    signed.map(|signer| signer.name.clone()).collect()
}

/// A head that comes alone.
const HEAD: &str = "head";

/// What a file with such a head is called by.
const fn named(cause: &Cause) -> &'static str {
    match cause {
        Cause::SignersInstall => "signers",
        Cause::ReleasePublish { .. } => "release",
        Cause::TrustPublish(_) | Cause::TrustActivate(_) | Cause::TrustRollback(_) | Cause::TrustRetire(_) => "trust",
        Cause::Founding
        | Cause::Refresh
        | Cause::NodeRevoke { .. }
        | Cause::NodeList { .. }
        | Cause::InviteRevoke { .. }
        | Cause::MandateChange { .. }
        | Cause::GatewayAdd { .. }
        | Cause::GatewayMove { .. }
        | Cause::GatewayRemove { .. }
        | Cause::GatewayReopen { .. }
        | Cause::FleetPublish
        | Cause::FleetRollback { .. }
        | Cause::PrincipalRevoke { .. } => HEAD,
    }
}

/// What comes with a head first, then the head.
fn head_needs(known: &Known, head: &Envelope, with: &[Envelope]) -> Result<Vec<Need>, BadPending> {
    let (body, current): (Head, _) = (head.peek(Some(known.org()))?, &known.signers.quorum);
    let last = with.len();
    if let (Cause::SignersInstall, [step]) = (&body.cause, with) {
        let (next, by) = next_step(known, step)?;
        check_signers(&body, next.to.as_ref())?;
        // What settles between two sets leaves the head of one of them, perhaps the one that was followed here.
        if !next.settles {
            check_head(known, head, next.to.as_ref())?;
        }
        let needs = by.into_iter().map(|(what, quorum)| need(what, &quorum, 0, step));
        return Ok(needs.chain([need("its first head", &next.to.quorum, last, head)]).collect());
    }
    check_head(known, head, known.signers.as_ref())?;
    match (&body.cause, with) {
        (Cause::ReleasePublish { number }, [release]) => {
            let told: Release = release.peek(Some(known.org()))?;
            told.check()?;
            if body.release != Some(release.digest()) || told.number != *number {
                return Err(BadPending::OtherRelease);
            }
            Ok(vec![need("release", current, 0, release), need("head that names it", current, last, head)])
        }
        (Cause::TrustPublish(_) | Cause::TrustRollback(_) | Cause::TrustRetire(_), [bundle]) => {
            Ok(vec![need("trust bundle", current, 0, bundle), need("head that turns trust", current, last, head)])
        }
        (Cause::TrustActivate(_) | Cause::TrustRetire(_), []) => {
            Ok(vec![need("head that turns trust", current, last, head)])
        }
        (Cause::GatewayReopen { .. }, invites) if invites.iter().all(|it| it.kind() == Invite::KIND) => {
            let invites = invites.iter().enumerate().map(|(nth, invite)| need("invite", current, nth, invite));
            Ok(invites.chain([need(HEAD, current, last, head)]).collect())
        }
        // Others come with what they name.
        (cause, []) if named(cause) == HEAD => Ok(vec![need(HEAD, current, last, head)]),
        _ => Err(BadPending::OtherCause),
    }
}

/// The step to the set that would follow, and whose thresholds must sign it: each is called by what it leads on from.
fn next_step(known: &Known, step: &Envelope) -> Result<(SignerStep, Vec<(String, Quorum)>), BadPending> {
    let step = SignerStep::read(known.org(), step)?;
    let not_a_successor = || BrokenChain::NotASuccessor { known: known.signers.version, found: step.to.version };
    let asked = known.asks(&step, clock::now()).ok_or_else(not_a_successor)?;
    let what = |quorum: &Quorum| match step.also.as_slice() {
        [] => "signer set".to_owned(),
        [_, ..] => format!("signer set, for {}", names(quorum)),
    };
    let by = asked.into_iter().map(|quorum| (what(&quorum), quorum)).collect();
    Ok((step, by))
}

fn check_signers(head: &Head, signers: SignersRef) -> Result<(), BadPending> {
    if head.signers == signers {
        return Ok(());
    }
    Err(BadHead::OtherSigners { found: head.signers.version, known: signers.version }.into())
}

/// Nothing is signed ahead, for signers who are not there yet.
fn check_head(known: &Known, head: &Envelope, signers: SignersRef) -> Result<(), BadPending> {
    let body: Head = head.peek(Some(known.org()))?;
    check_signers(&body, signers)?;
    Ok(SignedHead { head: body, digest: head.digest() }.may_follow(&known.head)?)
}
