//! A peer that belongs: an SVID that a handshake proved, and papers that show whose name it is. Decides only.
//!
//! No gateway is asked. The head that the operators signed says who has which name; a machine that joined after it was
//! published shows its admission, and that nobody else has the name.

use identity::envelope::Envelope;
use identity::head::{BadHead, Head, SignedHead};
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::members::{BadListing, Listing};
use identity::principal::{NodeName, Principal, SignerName};
use identity::signers::SignerSet;
use identity::time::Timestamp;
use identity::untrusted::Untrusted;
use identity::verifier::{BelievedSvid, ProvenSvid, Standard};
use serde::{Deserialize, Serialize};

use crate::admission::{Admission, Admitted, BadAdmission};
use crate::vouch::{Ground, Papers, Shown, Sponsor, Unvouched, Vouched, vouch};

/// What a machine shows of itself when it meets another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presented {
    /// The head by whose map it is shown: the newest that it was listed by.
    pub by: Envelope,
    /// Its place in that map; absent if the head has none.
    pub listing: Option<Listing>,
    /// Only if no leaf of the map names its key: a leaf names the admission, too.
    pub admission: Option<Envelope>,
}

/// What is known here.
#[derive(Clone, Copy)]
pub struct Company<'a> {
    pub standard: Standard<'a>,
    pub head: &'a SignedHead,
    /// Every signer set from the first to the one in force.
    pub signers: &'a [SignerSet],
    /// The key that was first seen here under a name.
    pub pinned: &'a dyn Fn(&NodeName) -> Option<Digest>,
    /// Not before the head was signed, whatever the clock says.
    pub now: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAPeer {
    #[error(transparent)]
    Svid(#[from] Untrusted),
    #[error("the head by which it is shown is not one of this org's")]
    OtherHead(#[source] BadHead),
    #[error("its place in the members' map does not hold")]
    Listing(#[from] BadListing),
    #[error("its admission does not hold")]
    Admission(#[from] BadAdmission),
    #[error("it shows no admission, and no leaf of the members' map names its key")]
    NoAdmission,
    #[error(transparent)]
    Unvouched(#[from] Unvouched),
    #[error("the head here is past its time, and this key was never met before")]
    Stale,
    /// Not by `recognize`, which knows of heads alone: whoever keeps suspensions says it.
    #[error("`{by}` suspended its machine until {until}")]
    Suspended { by: SignerName, until: Timestamp },
}

/// Built only by `recognize`.
#[derive(Debug, Clone)]
pub struct Peer {
    svid: ProvenSvid,
    is: BelievedSvid,
    shown: Shown,
    listed_in: u64,
    admitted: Option<(Admitted, PublicKey)>,
}

impl Peer {
    /// Every signature is checked here; `check` asks again without them.
    pub fn recognize(svid: &ProvenSvid, presented: &Presented, company: Company<'_>) -> Result<Self, NotAPeer> {
        let is = svid.believe(company.standard, company.now)?;
        let by = head_of(&presented.by, company)?;
        let shown = match (by.head.members, &presented.listing) {
            (None, None) => Shown::NoMap,
            (Some(root), Some(listing)) => Shown::by(listing, root, &is.node)?,
            (None, Some(_)) => return Err(BadListing::NoMap.into()),
            (Some(_), None) => return Err(Unvouched::NotShown.into()),
        };
        let is_named = matches!(&shown, Shown::Leaf(leaf) if leaf.node_key == is.node_key.digest());
        let admitted = match (&presented.admission, is_named) {
            (_, true) => None,
            (Some(envelope), false) => Some(admitted(envelope, company)?),
            (None, false) => return Err(NotAPeer::NoAdmission),
        };
        let peer = Self { svid: svid.clone(), is, shown, listed_in: by.head.version, admitted };
        peer.vouched(company)?;
        Ok(peer)
    }

    /// May it ask for something new, by what is known now?
    pub fn check(&self, company: Company<'_>) -> Result<(), NotAPeer> {
        self.svid.believe(company.standard, company.now)?;
        self.vouched(company).map(drop)
    }

    /// Does the map of this very head name its key?
    pub fn is_listed_by(&self, head: u64) -> bool {
        self.admitted.is_none() && self.listed_in == head
    }

    /// May what it opened before stay open?
    pub fn endures(&self, head: &Head) -> Result<(), NotAPeer> {
        self.svid.endures(head)?;
        let invite = self.admitted.as_ref().and_then(|(admitted, _)| admitted.invite.as_ref());
        if invite.is_some_and(|(_, invite)| head.revocations.invite_is_revoked(invite.id)) {
            return Err(Unvouched::InviteRevoked.into());
        }
        Ok(())
    }

    pub const fn principal(&self) -> &Principal {
        &self.is.principal
    }

    pub const fn node(&self) -> &NodeName {
        &self.is.node
    }

    pub const fn node_key(&self) -> PublicKey {
        self.is.node_key
    }

    /// The end of its SVID: after it, what is new takes another connection.
    pub const fn until(&self) -> Timestamp {
        self.is.not_after
    }

    fn vouched(&self, company: Company<'_>) -> Result<Vouched, NotAPeer> {
        let head = &company.head.head;
        let papers = match (&self.admitted, &self.shown) {
            (Some((admitted, voice)), _) => Papers::of(admitted, *voice, head.signers.version),
            // The leaf names key and admission, and the operators signed it: nobody's word is needed beside it.
            (None, Shown::Leaf(leaf)) => {
                let sponsor = Sponsor::Ledger;
                Papers { name: &leaf.name, node_key: leaf.node_key, admission: leaf.admission, sponsor }
            }
            (None, Shown::NoLeaf | Shown::NoMap) => return Err(NotAPeer::NoAdmission),
        };
        let pinned = (company.pinned)(&self.is.node);
        let ground = Ground { head, listed_in: self.listed_in, pinned, left: &|_| false, now: company.now };
        let vouched = vouch(&self.is, papers, &self.shown, ground)?;
        match vouched {
            Vouched::Invited if !head.is_fresh(company.now) && pinned != Some(self.is.node_key.digest()) => {
                Err(NotAPeer::Stale)
            }
            Vouched::Listed | Vouched::Invited => Ok(vouched),
        }
    }
}

/// The head in force, or an earlier one of this org.
fn head_of(envelope: &Envelope, company: Company<'_>) -> Result<SignedHead, NotAPeer> {
    if envelope.digest() == company.head.digest {
        return Ok(company.head.clone());
    }
    let named: Head = envelope.peek(Some(company.standard.org)).map_err(|why| NotAPeer::OtherHead(why.into()))?;
    let unknown = || BadHead::OtherSigners { found: named.signers.version, known: company.head.head.signers.version };
    let set = company.signers.iter().find(|set| set.version == named.signers.version);
    let by = set.ok_or_else(unknown).and_then(|set| SignedHead::open(set, envelope)).map_err(NotAPeer::OtherHead)?;
    // Two heads of one number, or one of an epoch that was given up: whose map that is, nobody can say here.
    if by.head.version == company.head.head.version {
        return Err(NotAPeer::OtherHead(BadHead::Forked { version: by.head.version }));
    }
    if by.head.version < company.head.head.version && by.head.epoch != company.head.head.epoch {
        return Err(NotAPeer::OtherHead(BadHead::OldEpoch { version: by.head.version }));
    }
    Ok(by)
}

/// With the voice of the gateway that made it, which the head in force must still name.
fn admitted(envelope: &Envelope, company: Company<'_>) -> Result<(Admitted, PublicKey), NotAPeer> {
    let org: OrgId = company.standard.org;
    let named: Admission = envelope.peek(Some(org)).map_err(BadAdmission::from)?;
    let mut mandates = company.head.head.mandates.iter();
    let mandate = mandates.find(|mandate| mandate.gateway == named.gateway && mandate.is_active(company.now));
    let voice = mandate.map(|mandate| mandate.voice).ok_or_else(|| Unvouched::NoMandate(named.gateway.clone()))?;
    Ok((Admission::check(envelope, org, voice, company.signers)?, voice))
}

impl std::fmt::Debug for Company<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Company").field("head", &self.head.head.version).field("now", &self.now).finish()
    }
}
