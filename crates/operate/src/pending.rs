//! Something that waits for more signatures, as a file that goes from one operator to the next.

use std::collections::BTreeSet;
use std::path::Path;

use ground::file::{self, Access, FileError};
use identity::envelope::{BadEnvelope, Envelope, Payload as _};
use identity::head::{BadHead, Cause, Head, SignedHead};
use identity::id::{Digest, OrgId};
use identity::principal::{OrgName, SignerName};
use identity::signers::{BrokenChain, Quorum, Recovery, SignerSet, SignersRef, Succession};
use identity::time::Timestamp;
use org::invite::Invite;
use org::release::{BadRelease, Release};
use serde::{Deserialize, Serialize};
use wire::known::Known;

use crate::handed::Handed;
use crate::keys::{KeyError, SignerKeys};

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
}

#[derive(Debug, thiserror::Error)]
pub enum BadPending {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{path}` is no pending file: {why}")]
    NotPending { path: String, why: String },
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

/// One object inside, and who must sign it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    pub what: &'static str,
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
        Self { freehold_pending: SCHEMA, org, org_id: known.org(), made_at, handed }
    }

    pub fn read(path: &Path) -> Result<Self, BadPending> {
        let not = |why: String| BadPending::NotPending { path: path.display().to_string(), why };
        let bytes = file::read(path)?;
        let pending: Self = serde_json::from_slice(&bytes).map_err(|why| not(why.to_string()))?;
        if pending.freehold_pending != SCHEMA {
            return Err(not("it was written by a newer freehold: upgrade this one".to_owned()));
        }
        Ok(pending)
    }

    pub fn save(&self, path: &Path) -> Result<(), BadPending> {
        let not = |why: serde_json::Error| BadPending::NotPending { path: String::new(), why: why.to_string() };
        let json = serde_json::to_vec_pretty(self).map_err(not)?;
        Ok(file::write(path, &json, Access::Private)?)
    }

    /// A name for the file, from what is in it.
    pub fn file_name(&self) -> String {
        let what = match self.handed.cause(self.org_id) {
            Some(cause) => named(&cause),
            None => "invite",
        };
        let digest = self.digests().first().map(ToString::to_string).unwrap_or_default();
        let short: String = digest.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        format!("{}-{what}-{short}.pending", self.org)
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
            [invite] if invite.kind() == Invite::KIND => Ok(vec![need("invite", &known.signers.quorum, invite)]),
            [with @ .., head] if head.kind() == Head::KIND => head_needs(known, head, with),
            _ => Err(BadPending::NothingToSign),
        }
    }

    /// The quorums whose members can sign something in it.
    pub fn quorums(&self, known: &Known) -> Result<Vec<Quorum>, BadPending> {
        Ok(self.needs(known)?.into_iter().map(|need| need.quorum).collect())
    }

    /// Adds what the keys at hand can add. Returns who signed anew.
    pub fn sign(&mut self, known: &Known, keys: &SignerKeys) -> Result<BTreeSet<SignerName>, BadPending> {
        let needs = self.needs(known)?;
        let mut fresh = BTreeSet::new();
        for (envelope, need) in self.handed.0.iter_mut().zip(needs) {
            let signed = keys.add(envelope, &need.quorum)?;
            fresh.extend(signed.into_iter().filter(|name| !need.signed.contains(name)));
        }
        Ok(fresh)
    }

    pub fn is_complete(&self, known: &Known) -> Result<bool, BadPending> {
        Ok(self.needs(known)?.iter().all(Need::is_met))
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

fn need(what: &'static str, quorum: &Quorum, envelope: &Envelope) -> Need {
    let keys = envelope.signers_among(&quorum.keys());
    let signed = quorum.signers().iter().filter(|signer| keys.contains(&signer.key));
    Need { what, quorum: quorum.clone(), signed: signed.map(|signer| signer.name.clone()).collect() }
}

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
        | Cause::PrincipalRevoke { .. } => "head",
    }
}

/// What comes with a head first, then the head.
fn head_needs(known: &Known, head: &Envelope, with: &[Envelope]) -> Result<Vec<Need>, BadPending> {
    let (body, current): (Head, _) = (head.peek(Some(known.org()))?, &known.signers.quorum);
    if let (Cause::SignersInstall, [step]) = (&body.cause, with) {
        let next = next_quorum(known, step)?;
        let set = SignerSet::later(known.org(), known.signers.version + 1, next.clone());
        check_head(known, head, set.as_ref())?;
        let by = if step.kind() == Recovery::KIND { &known.founding.record.recovery } else { current };
        return Ok(vec![need("signer set", by, step), need("its first head", &next, head)]);
    }
    check_head(known, head, known.signers.as_ref())?;
    match (&body.cause, with) {
        (Cause::ReleasePublish { number }, [release]) => {
            let told: Release = release.peek(Some(known.org()))?;
            told.check()?;
            if body.release != Some(release.digest()) || told.number != *number {
                return Err(BadPending::OtherRelease);
            }
            Ok(vec![need("release", current, release), need("head that names it", current, head)])
        }
        (Cause::TrustPublish(_) | Cause::TrustRollback(_) | Cause::TrustRetire(_), [bundle]) => {
            Ok(vec![need("trust bundle", current, bundle), need("head that turns trust", current, head)])
        }
        (Cause::TrustActivate(_) | Cause::TrustRetire(_), []) => Ok(vec![need("head that turns trust", current, head)]),
        (Cause::GatewayReopen { .. }, invites) if invites.iter().all(|it| it.kind() == Invite::KIND) => {
            let invites = invites.iter().map(|invite| need("invite", current, invite));
            Ok(invites.chain([need("head", current, head)]).collect())
        }
        (
            Cause::Founding
            | Cause::Refresh
            | Cause::NodeRevoke { .. }
            | Cause::NodeList { .. }
            | Cause::InviteRevoke { .. }
            | Cause::MandateChange { .. }
            | Cause::GatewayAdd { .. }
            | Cause::GatewayMove { .. }
            | Cause::GatewayRemove { .. }
            | Cause::FleetPublish
            | Cause::FleetRollback { .. }
            | Cause::PrincipalRevoke { .. },
            [],
        ) => Ok(vec![need("head", current, head)]),
        _ => Err(BadPending::OtherCause),
    }
}

/// The quorum of the set that would follow.
pub fn next_quorum(known: &Known, signers: &Envelope) -> Result<Quorum, BadPending> {
    let org = Some(known.org());
    let (found, previous, quorum) = if signers.kind() == Recovery::KIND {
        let next: Recovery = signers.peek(org)?;
        (next.version, next.previous, next.quorum)
    } else {
        let next: Succession = signers.peek(org)?;
        (next.version, next.previous, next.quorum)
    };
    let now = known.signers.version;
    if found != now + 1 || previous != known.signers.id {
        return Err(BrokenChain::NotASuccessor { known: now, found }.into());
    }
    Ok(quorum)
}

/// Nothing is signed ahead, for signers who are not there yet.
fn check_head(known: &Known, head: &Envelope, signers: SignersRef) -> Result<(), BadPending> {
    let body: Head = head.peek(Some(known.org()))?;
    if body.signers != signers {
        return Err(BadHead::OtherSigners { found: body.signers.version, known: signers.version }.into());
    }
    Ok(SignedHead { head: body, digest: head.digest() }.may_follow(&known.head)?)
}
