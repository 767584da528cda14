//! A peer that belongs: an SVID that a handshake proved, and papers that show whose name it is. Decides only.
//!
//! No gateway is asked. The head that the operators signed says who has which name; a machine that joined after it was
//! published shows its admission, and that nobody else has the name.

use identity::envelope::{BadEnvelope, Envelope};
use identity::head::Head;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::members::{BadListing, Listing, NodeLeaf};
use identity::principal::{NodeName, Principal, SignerName};
use identity::time::Timestamp;
use identity::verifier::untrusted::Untrusted;
use identity::verifier::{BelievedSvid, ProvenSvid, Standard};
use serde::{Deserialize, Serialize};

use crate::ledger::counts::NotCounted;
use crate::ledger::entry::SignedEntry;
use crate::ledger::evidence::{BadEvidence, Evidence};
use crate::ledger::ground::Ground;
use crate::ledger::judge::{Fact, Facts, Link, MapPlace, Member, NotMember, Shown, judge};

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
    pub ground: &'a Ground,
    /// The key that was first seen here under a name.
    pub pinned: &'a dyn Fn(&NodeName) -> Option<Digest>,
    /// Not before the head was signed, whatever the clock says.
    pub now: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAPeer {
    #[error(transparent)]
    Svid(#[from] Untrusted),
    #[error("the head by which it is shown cannot be read")]
    Unreadable(#[source] BadEnvelope),
    #[error("its place was shown by head {found}, which is not known here yet")]
    FromLater { found: u64 },
    #[error("its place was shown by head {found}, which does not count any more beside head {known}")]
    TooOld { found: u64, known: u64 },
    #[error("its place in the members' map does not hold")]
    Listing(#[from] BadListing),
    #[error("its admission does not hold")]
    Admission(#[from] BadEvidence),
    #[error(transparent)]
    NotMember(#[from] NotMember),
    #[error("the head here is past its time, and this key was never met before")]
    Stale,
    /// Not by `recognize`, which knows of heads alone: whoever keeps suspensions says it.
    #[error("`{by}` suspended its machine until {until}")]
    Suspended { by: SignerName, until: Timestamp },
}

impl NotAPeer {
    /// Would another connection, with newer papers, help?
    pub const fn is_outdated(&self) -> bool {
        matches!(self, Self::TooOld { .. } | Self::FromLater { .. } | Self::NotMember(NotMember::TooOld))
    }
}

/// Built only by `recognize`.
#[derive(Debug, Clone)]
pub struct Peer {
    svid: ProvenSvid,
    is: BelievedSvid,
    stands: Stands,
    /// By the head with this digest.
    by: Digest,
    evidence: Option<Evidence>,
    /// As it was judged when it was met.
    member: Member,
}

/// How its name stands in the map that it showed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stands {
    Leaf(NodeLeaf),
    NoLeaf,
    NoMap,
}

impl Peer {
    /// Every signature is checked here; `check` asks again without them.
    pub fn recognize(svid: &ProvenSvid, presented: &Presented, company: Company<'_>) -> Result<Self, NotAPeer> {
        let is = svid.believe(company.standard, company.now)?;
        let (by, root) = (presented.by.digest(), map_of(&presented.by, company)?);
        let stands = match (root, &presented.listing) {
            (None, None) => Stands::NoMap,
            (Some(root), Some(listing)) => {
                listing.leaf_of(root, &is.node)?.map_or(Stands::NoLeaf, |leaf| Stands::Leaf(leaf.clone()))
            }
            (None, Some(_)) => return Err(BadListing::NoMap.into()),
            (Some(_), None) => return Err(NotMember::NotShown.into()),
        };
        let is_named = matches!(&stands, Stands::Leaf(leaf) if leaf.node_key == is.node_key.digest());
        let admission = presented.admission.as_ref().filter(|_| !is_named);
        let evidence = admission.map(|envelope| evidence(envelope, company)).transpose()?;
        let member = judged(&is, &stands, by, evidence.as_ref(), company)?;
        Ok(Self { svid: svid.clone(), is, stands, by, evidence, member })
    }

    /// May it ask for something new, by what is known now?
    pub fn check(&self, company: Company<'_>) -> Result<(), NotAPeer> {
        self.svid.believe(company.standard, company.now)?;
        judged(&self.is, &self.stands, self.by, self.evidence.as_ref(), company).map(drop)
    }

    /// Does the map of this very head name its key?
    pub fn is_listed_by(&self, head: Digest) -> bool {
        matches!(&self.stands, Stands::Leaf(leaf) if leaf.node_key == self.is.node_key.digest()) && self.by == head
    }

    /// Has it what the operators say of its name, and of its class? If not, it has what any node has.
    pub const fn is_meant(&self) -> bool {
        self.member.is_meant()
    }

    /// May what it opened before stay open?
    pub fn endures(&self, head: &Head) -> Result<(), NotAPeer> {
        self.svid.endures(head)?;
        let invite = self.evidence.as_ref().and_then(|evidence| evidence.invite.as_ref());
        if invite.is_some_and(|(_, invite)| head.revocations.invite_is_revoked(invite.id)) {
            return Err(NotMember::Invite(NotCounted::Revoked).into());
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
}

fn judged(
    is: &BelievedSvid,
    stands: &Stands,
    by: Digest,
    evidence: Option<&Evidence>,
    company: Company<'_>,
) -> Result<Member, NotAPeer> {
    let place = match stands {
        Stands::Leaf(leaf) => MapPlace::Leaf { leaf, by },
        Stands::NoLeaf => MapPlace::NoLeaf { by },
        Stands::NoMap => MapPlace::NoMap,
    };
    let key = is.node_key.digest();
    let member = judge(Shown { name: &is.node, key, place, evidence }, company.ground, &Met(company))?;
    let fresh = company.ground.head().is_some_and(|head| head.is_fresh(company.now));
    match &member {
        Member::Invited { .. } if !fresh && (company.pinned)(&is.node) != Some(key) => Err(NotAPeer::Stale),
        Member::Listed | Member::Invited { .. } => Ok(member),
    }
}

/// The root of the map by which somebody is shown: of the head in force, or of one that it names by digest. Whoever signed
/// an older one counts for nothing.
fn map_of(envelope: &Envelope, company: Company<'_>) -> Result<Option<Digest>, NotAPeer> {
    let (digest, own) = (envelope.digest(), company.ground.head.as_ref().ok_or(NotMember::NoHead)?);
    if digest == own.digest {
        return Ok(own.head.members);
    }
    let named: Head = envelope.peek(Some(company.ground.org)).map_err(NotAPeer::Unreadable)?;
    if company.ground.shows(digest) {
        return Ok(named.members);
    }
    let rank = |head: &Head| (head.signers.version, head.version);
    let (found, known) = (named.version, own.head.version);
    if rank(&named) > rank(&own.head) {
        Err(NotAPeer::FromLater { found })
    } else {
        Err(NotAPeer::TooOld { found, known })
    }
}

/// An entry of a gateway's chain; whether that gateway may say so is the judge's to ask.
fn evidence(envelope: &Envelope, company: Company<'_>) -> Result<Evidence, NotAPeer> {
    let org = company.ground.org;
    let signed = SignedEntry::open(org, envelope.clone()).map_err(BadEvidence::from)?;
    Ok(Evidence::of(org, &signed)?)
}

/// A peer holds no chains: what they say is not known here.
struct Met<'a>(Company<'a>);

impl Facts for Met<'_> {
    fn name_of(&self, _: Digest) -> Fact<Option<NodeName>> {
        Fact::Unknown
    }

    fn has_left(&self, _: Digest) -> Fact<bool> {
        Fact::Unknown
    }

    fn link(&self, _: PublicKey, _: Digest) -> Fact<Link> {
        Fact::Unknown
    }

    fn spent_before(&self, _: PublicKey, _: Digest, _: Digest) -> Fact<u64> {
        Fact::Unknown
    }

    fn is_denied(&self, _: Digest) -> Fact<bool> {
        Fact::Unknown
    }

    fn pinned(&self, name: &NodeName) -> Fact<Option<Digest>> {
        Fact::Known((self.0.pinned)(name))
    }
}

impl std::fmt::Debug for Company<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let head = self.ground.head().map(|head| head.version);
        f.debug_struct("Company").field("head", &head).field("now", &self.now).finish()
    }
}
