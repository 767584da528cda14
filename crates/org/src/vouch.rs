//! Whose name is it? By the members' map of the head: gateways and peers ask the same function. Decides only.
//!
//! An SVID and an admission say that some gateway let a key in under a name. A gateway that was taken over can say that
//! of any key. What it cannot do is change the map, which the operators signed: a name that stands there has that key.

use identity::head::Head;
use identity::id::{Digest, InviteId};
use identity::key::PublicKey;
use identity::members::{BadListing, Listing, NodeLeaf};
use identity::principal::NodeName;
use identity::time::Timestamp;
use identity::verifier::BelievedSvid;

use crate::admission::Admitted;

/// What a verified map says of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    Leaf(NodeLeaf),
    /// The name has none, and that is shown.
    NoLeaf,
    /// The head has no map at all.
    NoMap,
}

impl Shown {
    /// Reads a listing that somebody presents.
    pub fn by(listing: &Listing, root: Digest, name: &NodeName) -> Result<Self, BadListing> {
        match listing {
            Listing::Own { leaf, .. } => {
                listing.check(root, name, leaf.node_key)?;
                Ok(Self::Leaf(leaf.clone()))
            }
            // Which class covers the name says nothing about whose name it is.
            Listing::Class { absence, .. } | Listing::Unlisted { absence } => {
                Listing::Unlisted { absence: absence.clone() }.check(root, name, root)?;
                Ok(Self::NoLeaf)
            }
        }
    }
}

/// An admission that was checked, of the machine that asks.
#[derive(Debug, Clone, Copy)]
pub struct Papers<'a> {
    pub name: &'a NodeName,
    pub node_key: Digest,
    pub admission: Digest,
    pub sponsor: Sponsor<'a>,
}

/// On whose word a key counts that no leaf names yet.
#[derive(Debug, Clone, Copy)]
pub enum Sponsor<'a> {
    /// What the admission itself carries; the set is that which signed the invite, or the claim if there is none.
    Signed { set: u64, invite: Option<InviteId>, gateway: &'a NodeName, voice: PublicKey },
    /// The asked one's own ledger, which knows each invite's cut and each gateway's: it was asked before.
    Ledger,
}

impl<'a> Papers<'a> {
    /// As a peer has them: `voice` made the admission, `set` signed what it rests on.
    pub fn of(admitted: &'a Admitted, voice: PublicKey, set: u64) -> Self {
        let invite = admitted.invite.as_ref().map(|(_, invite)| invite);
        let sponsor = Sponsor::Signed {
            set: invite.map_or(set, |invite| invite.signers),
            invite: invite.map(|invite| invite.id),
            gateway: &admitted.gateway,
            voice,
        };
        let claim = &admitted.claim;
        Self { name: &claim.name, node_key: claim.node_key.digest(), admission: admitted.digest, sponsor }
    }
}

/// What is known here.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The newest head: its revocations, mandates, signer set and floor count, whatever map is shown.
    pub head: &'a Head,
    /// The head whose map is shown: this one, or an earlier one.
    pub listed_in: u64,
    /// The key that was first seen here under this name.
    pub pinned: Option<Digest>,
    /// Keys that ended otherwise than by a revocation in the head: they left.
    pub left: &'a dyn Fn(Digest) -> bool,
    pub now: Timestamp,
}

/// Why the asking key is believed to have the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vouched {
    /// By the operators: the map says so.
    Listed,
    /// By an invite, until the operators publish: whoever asks for the first time is pinned.
    Invited,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unvouched {
    #[error("the admission is another machine's")]
    OtherPapers,
    #[error("the key was revoked")]
    Revoked,
    #[error("the operators published the name `{name}` for the key {published}; the key {presented} uses it too")]
    NameOfAnother { name: NodeName, published: Digest, presented: Digest },
    #[error("the key {pinned} was seen first under the name `{name}`; now the key {presented} uses it")]
    PinnedToAnother { name: NodeName, pinned: Digest, presented: Digest },
    #[error("the operators published this key with another admission")]
    OtherAdmission,
    #[error("its place was shown by head {found}; by now it must be head {floor} or a later one")]
    TooOld { found: u64, floor: u64 },
    #[error("its place was shown by head {found}, which is not known here yet")]
    FromLater { found: u64 },
    #[error("it is not shown that nobody else has the name")]
    NotShown,
    #[error("the invite, or the word, that let it in is by signers who no longer sign for the org")]
    Outdated,
    #[error("the invite that let it in was revoked")]
    InviteRevoked,
    #[error("the gateway `{0}` that let it in has no mandate any more")]
    NoMandate(NodeName),
}

impl Unvouched {
    /// Two keys under one name: a person must look.
    pub const fn is_alarm(&self) -> bool {
        matches!(self, Self::NameOfAnother { .. } | Self::PinnedToAnother { .. })
    }
}

/// May this key speak under this name?
pub fn vouch(svid: &BelievedSvid, papers: Papers<'_>, shown: &Shown, ground: Ground<'_>) -> Result<Vouched, Unvouched> {
    if svid.node != *papers.name || svid.node_key.digest() != papers.node_key {
        return Err(Unvouched::OtherPapers);
    }
    has_name(papers, shown, ground)
}

/// The same for a key that proved itself otherwise than by an SVID.
pub fn has_name(papers: Papers<'_>, shown: &Shown, ground: Ground<'_>) -> Result<Vouched, Unvouched> {
    let Ground { head, listed_in, .. } = ground;
    if head.revocations.node_keys.contains(&papers.node_key) {
        return Err(Unvouched::Revoked);
    }
    if listed_in > head.version {
        return Err(Unvouched::FromLater { found: listed_in });
    }
    if listed_in < head.members_floor {
        return Err(Unvouched::TooOld { found: listed_in, floor: head.members_floor });
    }
    match shown {
        Shown::Leaf(leaf) if leaf.name != *papers.name => Err(Unvouched::NotShown),
        Shown::Leaf(leaf) if leaf.node_key == papers.node_key => {
            // The newest map is the operators' last word; an earlier one may be from before somebody else came.
            if listed_in < head.version {
                ground.check_pin(papers)?;
            }
            if leaf.admission == papers.admission { Ok(Vouched::Listed) } else { Err(Unvouched::OtherAdmission) }
        }
        Shown::Leaf(leaf) if !ground.is_gone(leaf.node_key) => Err(Unvouched::NameOfAnother {
            name: papers.name.clone(),
            published: leaf.node_key,
            presented: papers.node_key,
        }),
        Shown::NoMap if head.members.is_some() => Err(Unvouched::NotShown),
        // That somebody is not there is shown by the newest map only: in an earlier one nobody was there yet.
        Shown::Leaf(_) | Shown::NoLeaf if listed_in != head.version => {
            Err(Unvouched::TooOld { found: listed_in, floor: head.version })
        }
        Shown::Leaf(_) | Shown::NoLeaf | Shown::NoMap => {
            ground.check_pin(papers)?;
            ground.check_sponsor(papers.sponsor)
        }
    }
}

impl Ground<'_> {
    fn is_gone(self, key: Digest) -> bool {
        self.head.revocations.node_keys.contains(&key) || (self.left)(key)
    }

    fn check_pin(self, papers: Papers<'_>) -> Result<(), Unvouched> {
        match self.pinned.filter(|pinned| *pinned != papers.node_key && !self.is_gone(*pinned)) {
            None => Ok(()),
            Some(pinned) => {
                Err(Unvouched::PinnedToAnother { name: papers.name.clone(), pinned, presented: papers.node_key })
            }
        }
    }

    fn check_sponsor(self, sponsor: Sponsor<'_>) -> Result<Vouched, Unvouched> {
        let Sponsor::Signed { set, invite, gateway, voice } = sponsor else {
            return Ok(Vouched::Invited);
        };
        if set != self.head.signers.version {
            return Err(Unvouched::Outdated);
        }
        if invite.is_some_and(|invite| self.head.revocations.invite_is_revoked(invite)) {
            return Err(Unvouched::InviteRevoked);
        }
        let mut mandates = self.head.mandates.iter().filter(|mandate| mandate.voice == voice);
        if mandates.any(|mandate| mandate.gateway == *gateway && mandate.is_active(self.now)) {
            Ok(Vouched::Invited)
        } else {
            Err(Unvouched::NoMandate(gateway.clone()))
        }
    }
}

impl std::fmt::Debug for Ground<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ground").field("head", &self.head.version).field("listed_in", &self.listed_in).finish()
    }
}

#[cfg(test)]
mod tests;
