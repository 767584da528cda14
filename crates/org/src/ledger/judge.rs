//! Who is a member? The judge (policy decision point): one answer for fold, peers, gateways and the operator's tool.
//! Decides only.
//!
//! By the head in force and what is shown. What the asked one does not know is said, not guessed: a peer holds no chains,
//! so it cannot tell how often an invite was used.

use std::collections::BTreeSet;

use identity::envelope::{Envelope, Payload as _};
use identity::head::Head;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::members::NodeLeaf;
use identity::principal::{NodeName, PrincipalKind};
use identity::time::Timestamp;

use crate::invite::admission::Claim;
use crate::invite::approve::{Decision, Verdict, Waiver};
use crate::invite::{Approval, Invite, Uses};
use crate::ledger::counts::{NotCounted, counts, counts_within, signers_of};
use crate::ledger::evidence::Evidence;
use crate::ledger::ground::Ground;

/// What a machine shows of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub name: &'a NodeName,
    /// Digest of its node key.
    pub key: Digest,
    pub place: MapPlace<'a>,
    /// Not needed by whom a leaf names.
    pub evidence: Option<&'a Evidence>,
}

/// How the name stands in a map, which was checked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MapPlace<'a> {
    /// In the map of the head with this digest.
    Leaf { leaf: &'a NodeLeaf, by: Digest },
    /// It has none in the map of the head with this digest.
    NoLeaf { by: Digest },
    /// The head in force has no map.
    NoMap,
}

/// What the asked one knows beside the ground. Whatever it does not answer is not known to it.
pub(crate) trait Facts {
    /// The name that the head in force lists for this key.
    fn name_of(&self, _key: Digest) -> Fact<Option<NodeName>> {
        Fact::Unknown
    }
    /// Did the key say itself that it left?
    fn has_left(&self, _key: Digest) -> Fact<bool> {
        Fact::Unknown
    }
    /// Does the admission link to the record, unforked?
    fn link(&self, _voice: PublicKey, _admission: Digest) -> Fact<Link> {
        Fact::Unknown
    }
    /// How many other keys spent the invite in the voice's chain before this one did.
    fn spent_before(&self, _voice: PublicKey, _invite: Digest, _key: Digest) -> Fact<u64> {
        Fact::Unknown
    }
    /// Did a signer of the set in force say no to this claim?
    fn is_denied(&self, _claim: Digest) -> Fact<bool> {
        Fact::Unknown
    }
    /// The key that was seen first under the name.
    fn pinned(&self, _name: &NodeName) -> Fact<Option<Digest>> {
        Fact::Unknown
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact<T> {
    Known(T),
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Linked,
    Forked,
    NotLinked,
}

/// Built only by `judge`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// The operators' map says so.
    Listed,
    /// By an invite, or the signers' word, until the next head.
    Invited { meant: bool, unseen: BTreeSet<Unseen> },
}

impl Membership {
    /// Has it what the operators say of its name, or of a class of such names? If not, it has what any node has.
    pub const fn is_meant(&self) -> bool {
        match self {
            Self::Listed => true,
            Self::Invited { meant, .. } => *meant,
        }
    }
}

/// Whoever no map lists needs an invite that speaks of such names, and not just of any, or a person who looked at this very
/// machine. A yes that the invite does not ask for was looked at by nobody, and a waiver is nobody's look.
pub fn is_meant(invite: &Invite, name: &NodeName, approval: Option<&Envelope>) -> bool {
    let by_person = approval.is_some_and(|approval| approval.kind() == Decision::KIND);
    invite.lists(name) || invite.approval == Approval::Human && by_person
}

/// What was not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unseen {
    Chain,
    Uses,
    Denials,
    Departure,
    OtherNames,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotMember {
    #[error("no head is in force here")]
    NoHead,
    #[error("the key was revoked")]
    Revoked,
    #[error("the name `{0}` was ended for good")]
    NameEnded(NodeName),
    #[error("its place was shown by a head that does not count any more")]
    TooOld,
    #[error("it is not shown that nobody else has the name")]
    NotShown,
    #[error("it shows no admission, and no leaf of the members' map names its key")]
    NoAdmission,
    #[error("the admission is another machine's")]
    OtherEvidence,
    #[error("the operators published this key with another admission")]
    OtherAdmission,
    #[error("the operators published the name `{name}` for the key {published}; the key {presented} uses it too")]
    NameOfAnother { name: NodeName, published: Digest, presented: Digest },
    #[error("the key {pinned} was seen first under the name `{name}`; now the key {presented} uses it")]
    PinnedToAnother { name: NodeName, pinned: Digest, presented: Digest },
    #[error("the operators published this key as `{0}`")]
    ListedAs(NodeName),
    #[error("the machine left")]
    Left,
    #[error("the gateway that let it in has no mandate for that any more")]
    NoMandate,
    #[error("its gateway's chain forks there")]
    Forked,
    #[error("it does not link to what the operators have recorded of its gateway's chain")]
    NotLinked,
    #[error("the invite that let it in does not count: {0}")]
    Invite(NotCounted),
    #[error("the signers' word that let it in does not count: {0}")]
    Word(NotCounted),
    #[error("the invite does not reach so far")]
    BeyondInvite,
    #[error("all uses of the invite at this gateway were spent")]
    NoUsesLeft,
    #[error("how often the invite was used is not known here: a part of its gateway's chain is missing")]
    UsesUnknown,
    #[error("a person must approve the claim, and nobody has")]
    NotApproved,
    /// What was said beforehand, for a while.
    #[error("the operators' word that let it in was over at {until}")]
    ApprovalOver { until: Timestamp },
    #[error("a signer said no to the claim")]
    Denied,
}

impl NotMember {
    /// Two keys under one name: a person must look.
    pub const fn is_alarm(&self) -> bool {
        matches!(self, Self::NameOfAnother { .. } | Self::PinnedToAnother { .. })
    }
}

pub(crate) fn judge(shown: Shown<'_>, ground: &Ground, facts: &dyn Facts) -> Result<Membership, NotMember> {
    let head = ground.head.as_ref().ok_or(NotMember::NoHead)?;
    if ground.revoked.node_keys.contains(&shown.key) {
        return Err(NotMember::Revoked);
    }
    if ground.revoked.principals.iter().any(|it| it.node_name().as_ref() == Some(shown.name)) {
        return Err(NotMember::NameEnded(shown.name.clone()));
    }
    if facts.has_left(shown.key) == Fact::Known(true) {
        return Err(NotMember::Left);
    }
    match shown.place {
        MapPlace::Leaf { leaf, by } => {
            if leaf.name != *shown.name {
                return Err(NotMember::NotShown);
            }
            if !ground.shows(by) {
                return Err(NotMember::TooOld);
            }
            if leaf.node_key == shown.key {
                return listed(shown, leaf, by == head.digest, ground, facts);
            }
            if by != head.digest {
                return Err(NotMember::TooOld);
            }
            if !is_free(leaf.node_key, ground, facts) {
                let (name, published, presented) = (shown.name.clone(), leaf.node_key, shown.key);
                return Err(NotMember::NameOfAnother { name, published, presented });
            }
        }
        // That somebody is not there is shown by the newest map only: in an earlier one nobody was there yet.
        MapPlace::NoLeaf { by } if by != head.digest => return Err(NotMember::TooOld),
        MapPlace::NoMap if head.head.members.is_some() => return Err(NotMember::NotShown),
        MapPlace::NoLeaf { .. } | MapPlace::NoMap => {}
    }
    invited(shown, &head.head, ground, facts)
}

/// A listed name is free when its key is revoked, or left.
fn is_free(key: Digest, ground: &Ground, facts: &dyn Facts) -> bool {
    ground.revoked.node_keys.contains(&key) || facts.has_left(key) == Fact::Known(true)
}

fn listed(
    shown: Shown<'_>,
    leaf: &NodeLeaf,
    newest: bool,
    ground: &Ground,
    facts: &dyn Facts,
) -> Result<Membership, NotMember> {
    if shown.evidence.is_some_and(|evidence| evidence.digest != leaf.admission) {
        return Err(NotMember::OtherAdmission);
    }
    // The newest map is the operators' last word; an earlier one may be from before somebody else came.
    if !newest {
        check_pin(shown, ground, facts)?;
    }
    Ok(Membership::Listed)
}

fn check_pin(shown: Shown<'_>, ground: &Ground, facts: &dyn Facts) -> Result<(), NotMember> {
    match facts.pinned(shown.name) {
        Fact::Known(Some(pinned)) if pinned != shown.key && !is_free(pinned, ground, facts) => {
            Err(NotMember::PinnedToAnother { name: shown.name.clone(), pinned, presented: shown.key })
        }
        Fact::Known(_) | Fact::Unknown => Ok(()),
    }
}

/// Beyond the record: everything by the head in force.
fn invited(shown: Shown<'_>, head: &Head, ground: &Ground, facts: &dyn Facts) -> Result<Membership, NotMember> {
    let evidence = shown.evidence.ok_or(NotMember::NoAdmission)?;
    if evidence.claim.name != *shown.name || evidence.key() != shown.key {
        return Err(NotMember::OtherEvidence);
    }
    let mut unseen = BTreeSet::new();
    if facts.has_left(shown.key) == Fact::Unknown {
        unseen.insert(Unseen::Departure);
    }
    match facts.name_of(shown.key) {
        Fact::Known(Some(name)) if name != *shown.name => return Err(NotMember::ListedAs(name)),
        Fact::Known(_) => {}
        Fact::Unknown => drop(unseen.insert(Unseen::OtherNames)),
    }
    let mandate = ground.mandate(evidence.voice).ok_or(NotMember::NoMandate)?;
    let covers = mandate.names.iter().any(|glob| glob.matches(shown.name.as_str()));
    if !covers || !mandate.kinds.contains(&PrincipalKind::Node) {
        return Err(NotMember::NoMandate);
    }
    match facts.link(evidence.voice, evidence.digest) {
        Fact::Known(Link::Linked) => {}
        Fact::Known(Link::Forked) => return Err(NotMember::Forked),
        Fact::Known(Link::NotLinked) => return Err(NotMember::NotLinked),
        Fact::Unknown => drop(unseen.insert(Unseen::Chain)),
    }
    let meant = match &evidence.invite {
        None => {
            counts::<Claim>(&evidence.signed_claim, ground).map_err(NotMember::Word)?;
            true
        }
        Some((envelope, _)) => {
            let fresh = head.fresh_until.since(head.issued_at);
            let invite: Invite = counts_within(envelope, ground, fresh).map_err(NotMember::Invite)?;
            invite.check_claim(&evidence.claim).map_err(|_| NotMember::BeyondInvite)?;
            check_approved(evidence, &invite, ground, facts, &mut unseen)?;
            check_uses(evidence, envelope.digest(), &invite, facts, &mut unseen)?;
            is_meant(&invite, shown.name, evidence.approval.as_ref())
        }
    };
    check_pin(shown, ground, facts)?;
    Ok(Membership::Invited { meant, unseen })
}

fn check_approved(
    evidence: &Evidence,
    invite: &Invite,
    ground: &Ground,
    facts: &dyn Facts,
    unseen: &mut BTreeSet<Unseen>,
) -> Result<(), NotMember> {
    match facts.is_denied(evidence.claimed) {
        Fact::Known(true) => return Err(NotMember::Denied),
        Fact::Unknown => drop(unseen.insert(Unseen::Denials)),
        Fact::Known(false) => {}
    }
    match invite.approval {
        Approval::None => Ok(()),
        Approval::Human => {
            let approval = evidence.approval.as_ref().ok_or(NotMember::NotApproved)?;
            // A signer's no ends a waiver, too.
            let denied = facts.is_denied(approval.digest()) == Fact::Known(true);
            if denied {
                return Err(NotMember::NotApproved);
            }
            approved(approval, evidence.claimed, &evidence.claim.name, invite, ground)
        }
    }
}

/// Do as many signers as the invite asks for say yes to this very claim, or that nobody need look at such names?
pub(crate) fn approved(
    approval: &Envelope,
    claimed: Digest,
    name: &NodeName,
    invite: &Invite,
    ground: &Ground,
) -> Result<(), NotMember> {
    let said = match approval.kind() {
        Decision::KIND => {
            counts(approval, ground).map(|word: Decision| word.about == claimed && word.verdict == Verdict::Approve)
        }
        // It takes the threshold, too, as whatever is signed beforehand.
        Waiver::KIND => counts(approval, ground).map(|waiver: Waiver| waiver.lets_in(invite, name)),
        _ => Ok(false),
    };
    let by_enough = signers_of(approval, ground) >= usize::from(invite.approvers.max(1));
    match said {
        Ok(true) if by_enough => Ok(()),
        Err(NotCounted::Over { until }) if by_enough => Err(NotMember::ApprovalOver { until }),
        Ok(_) | Err(_) => Err(NotMember::NotApproved),
    }
}

/// Each distinct node key in a voice's chain spends one, in the order of the chain.
fn check_uses(
    evidence: &Evidence,
    digest: Digest,
    invite: &Invite,
    facts: &dyn Facts,
    unseen: &mut BTreeSet<Unseen>,
) -> Result<(), NotMember> {
    let most = match invite.right_of(evidence.voice) {
        None => return Err(NotMember::NoUsesLeft),
        Some(Uses::Unlimited) => return Ok(()),
        Some(Uses::Limited(most)) => most,
    };
    match facts.spent_before(evidence.voice, digest, evidence.key()) {
        Fact::Known(before) if before >= u64::from(most) => Err(NotMember::NoUsesLeft),
        Fact::Known(_) => Ok(()),
        Fact::Unknown => {
            unseen.insert(Unseen::Uses);
            Ok(())
        }
    }
}
