//! A peer that belongs: an SVID that a handshake proved, and papers that show whose name it is. Decides only.
//!
//! No gateway is asked. The head that the operators signed says who has which name; a machine that joined after it was
//! published shows its admission, and that nobody else has the name.

use identity::envelope::{BadEnvelope, Envelope};
use identity::head::{BadHead, Head};
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
use crate::ledger::judge::{Fact, Facts, MapPlace, Membership, NotMember, Shown, judge};

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
pub struct PeerContext<'a> {
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
    #[error("the head by which it is shown does not hold")]
    NotSigned(#[source] BadHead),
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

    /// Does it end what is open already? Only these do not: what runs out by itself, and what only newer papers could show.
    /// Operators took nothing back by it.
    pub(crate) const fn cuts(&self) -> bool {
        !matches!(
            self,
            Self::Svid(Untrusted::Expired { .. })
                | Self::TooOld { .. }
                | Self::Stale
                | Self::NotMember(
                    NotMember::TooOld
                        | NotMember::NotShown
                        | NotMember::Invite(NotCounted::Over { .. })
                        | NotMember::Word(NotCounted::Over { .. })
                        | NotMember::ApprovalOver { .. }
                )
        )
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
    member: Membership,
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
    pub fn recognize(svid: &ProvenSvid, presented: &Presented, context: PeerContext<'_>) -> Result<Self, NotAPeer> {
        let is = svid.believe(context.standard, context.now)?;
        let (by, root) = (presented.by.digest(), map_of(&presented.by, context)?);
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
        let evidence = admission.map(|envelope| evidence(envelope, context)).transpose()?;
        let member = judged(&is, &stands, by, evidence.as_ref(), context)?;
        Ok(Self { svid: svid.clone(), is, stands, by, evidence, member })
    }

    /// May it ask for something new, by what is known now?
    pub fn check(&self, context: PeerContext<'_>) -> Result<(), NotAPeer> {
        self.svid.believe(context.standard, context.now)?;
        judged(&self.is, &self.stands, self.by, self.evidence.as_ref(), context).map(drop)
    }

    /// Does the map of this very head name its key?
    pub fn is_listed_by(&self, head: Digest) -> bool {
        self.is_named() && self.by == head
    }

    fn is_named(&self) -> bool {
        matches!(&self.stands, Stands::Leaf(leaf) if leaf.node_key == self.is.node_key.digest())
    }

    /// Has it what the operators say of its name, and of its class? If not, it has what any node has.
    pub const fn is_meant(&self) -> bool {
        self.member.is_meant()
    }

    /// May what it opened before stay open? It is judged as anybody is, but for what runs out by itself: its SVID's time,
    /// and papers that later heads made old.
    pub fn endures(&self, context: PeerContext<'_>) -> Result<(), NotAPeer> {
        let head = context.ground.head.as_ref().ok_or(NotMember::NoHead)?;
        self.svid.endures(&head.head)?;
        let is_shown = match &self.stands {
            Stands::NoMap => head.head.members.is_none(),
            Stands::Leaf(_) if self.is_named() => context.ground.shows(self.by),
            Stands::Leaf(_) | Stands::NoLeaf => self.by == head.digest,
        };
        // Nobody else had the name when it came. Whether somebody has it now, only newer papers could show.
        let stands = if is_shown || self.is_named() { &self.stands } else { &Stands::NoLeaf };
        let by = if is_shown { self.by } else { head.digest };
        match judged(&self.is, stands, by, self.evidence.as_ref(), context) {
            Err(why) if !why.cuts() => Ok(()),
            judged => judged.map(drop),
        }
    }

    /// May it provide what is placed on its name, and speak for the users there? Whoever proved nothing may not before the
    /// operators' map lists it, and their tool places nothing there.
    pub fn may_carry(&self) -> bool {
        let is_low = self.evidence.as_ref().is_some_and(|evidence| evidence.claim.is_low());
        self.is_meant() && (self.member == Membership::Listed || !is_low)
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
    context: PeerContext<'_>,
) -> Result<Membership, NotAPeer> {
    let place = match stands {
        Stands::Leaf(leaf) => MapPlace::Leaf { leaf, by },
        Stands::NoLeaf => MapPlace::NoLeaf { by },
        Stands::NoMap => MapPlace::NoMap,
    };
    let key = is.node_key.digest();
    let member = judge(Shown { name: &is.node, key, place, evidence }, context.ground, &Met(context))?;
    let fresh = context.ground.head().is_some_and(|head| head.is_fresh(context.now));
    match &member {
        Membership::Invited { .. } if !fresh && (context.pinned)(&is.node) != Some(key) => Err(NotAPeer::Stale),
        Membership::Listed | Membership::Invited { .. } => Ok(member),
    }
}

/// The root of the map by which somebody is shown: of the head in force, or of one that it names by digest. Whoever signed
/// an older one counts for nothing.
fn map_of(envelope: &Envelope, context: PeerContext<'_>) -> Result<Option<Digest>, NotAPeer> {
    let (digest, own) = (envelope.digest(), context.ground.head.as_ref().ok_or(NotMember::NoHead)?);
    if digest == own.digest {
        return Ok(own.head.members);
    }
    let named: Head = envelope.peek(Some(context.ground.org)).map_err(NotAPeer::Unreadable)?;
    if context.ground.shows(digest) {
        // That the head in force names it is not enough: who co-signed that may never have seen it.
        context.ground.check_signed(envelope, &named).map_err(NotAPeer::NotSigned)?;
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
fn evidence(envelope: &Envelope, context: PeerContext<'_>) -> Result<Evidence, NotAPeer> {
    let org = context.ground.org;
    let signed = SignedEntry::open(org, envelope.clone()).map_err(BadEvidence::from)?;
    Ok(Evidence::of(org, &signed)?)
}

/// A peer holds no chains: what they say is not known here.
struct Met<'a>(PeerContext<'a>);

impl Facts for Met<'_> {
    fn pinned(&self, name: &NodeName) -> Fact<Option<Digest>> {
        Fact::Known((self.0.pinned)(name))
    }
}

impl std::fmt::Debug for PeerContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let head = self.ground.head().map(|head| head.version);
        f.debug_struct("PeerContext").field("head", &head).field("now", &self.now).finish()
    }
}
