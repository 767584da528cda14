//! A point-in-time view: the ledger folded up to a moment, by the times that its authors wrote.
//!
//! Those times are the authors' own words; what comes before it in its chain can only put one later, never earlier.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::{Envelope, Payload as _};
use identity::head::Head;
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::members::ClassLeaf;
use identity::principal::{NodeName, SignerName};
use identity::signers::{Signer, SignerSet};
use identity::time::Timestamp;

use crate::enroll::renew;
use crate::founding::Founding;
use crate::invite::admission::Claim;
use crate::ledger::entry::{Action, SignedEntry};
use crate::ledger::fold::{Leaves, Why};
use crate::ledger::heads::KnownHead;
use crate::ledger::judge::NotMember;
use crate::refusal::Refusal;
use crate::state::{State, SuspensionRecord};
use crate::suspend::Suspension;

/// An entry, and the moment from which it counts.
#[derive(Debug, Clone)]
pub struct Dated {
    pub at: Timestamp,
    pub signed: SignedEntry,
}

/// The ledger, walked from its beginning on.
#[derive(Debug, Clone)]
pub struct Past {
    state: State,
    entries: Vec<Dated>,
    next: usize,
}

/// An entry counts when it is dated, and everything before it in its chain is.
fn dated(mut entries: Vec<SignedEntry>) -> Vec<Dated> {
    entries.sort_by_key(|signed| signed.entry.seq);
    let mut moments: BTreeMap<PublicKey, Timestamp> = BTreeMap::new();
    let mut all = Vec::with_capacity(entries.len());
    for signed in entries {
        let last = moments.entry(signed.entry.voice).or_insert(signed.entry.at);
        *last = signed.entry.at.max(*last);
        all.push(Dated { at: *last, signed });
    }
    all.sort_by_key(|dated| (dated.at, dated.signed.entry.voice, dated.signed.entry.seq));
    all
}

impl Past {
    pub fn of(founding: &Founding, entries: Vec<SignedEntry>) -> Self {
        Self { state: State::of(founding), entries: dated(entries), next: 0 }
    }

    pub fn founded_at(&self) -> Option<Timestamp> {
        self.entries.first().map(|dated| dated.at)
    }

    pub fn entries(&self) -> &[Dated] {
        &self.entries
    }

    /// As of where the walk stands.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Walks on. `map` gives the leaves of the map with a root.
    pub fn walk_to(&mut self, moment: Timestamp, map: impl Fn(Digest) -> Option<(Leaves, Vec<ClassLeaf>)>) -> &State {
        while let Some(dated) = self.entries.get(self.next).filter(|dated| dated.at <= moment) {
            self.state.take_entry(&dated.signed, dated.at);
            self.next += 1;
        }
        self.state.conclude(moment);
        let named = self.state.head().and_then(|record| record.head.members);
        let missing = named.filter(|root| !self.state.replica.maps.contains_key(root));
        if let Some((root, (leaves, classes))) = missing.and_then(|root| Some((root, map(root)?))) {
            self.state.take_map(root, leaves, classes);
            self.state.conclude(moment);
        }
        &self.state
    }

    /// The entry that brought a head.
    pub fn brought(&self, head: Digest) -> Option<&Dated> {
        self.entries.iter().find(|dated| taken(&dated.signed).is_some_and(|it| it.digest() == head))
    }

    /// Moments at which the rights of these machines may have changed, without any that lie ahead of `now`.
    pub fn turns(&self, now: Timestamp, concerns: impl Fn(&NodeName) -> bool) -> BTreeSet<Timestamp> {
        let mut turns = BTreeSet::new();
        for dated in &self.entries {
            let head = taken(&dated.signed).is_some_and(|it| it.kind() == Head::KIND);
            if head || named(self.state.org, &dated.signed).is_some_and(|name| concerns(&name)) {
                turns.insert(dated.at);
            }
            turns.extend(ends(self.state.org, &dated.signed));
        }
        turns.retain(|turn| *turn <= now);
        turns
    }
}

const fn taken(signed: &SignedEntry) -> Option<&Envelope> {
    match &signed.entry.action {
        Action::Take { envelope } => Some(envelope),
        Action::NodeAdmit { .. } | Action::NodeJoin { .. } | Action::NodeLeave { .. } => None,
    }
}

/// Times at which something changes without an entry.
fn ends(org: OrgId, signed: &SignedEntry) -> Vec<Timestamp> {
    let Some(envelope) = taken(signed) else { return Vec::new() };
    if let Ok(body) = envelope.peek::<Suspension>(Some(org)) {
        return vec![body.until];
    }
    let mandates = envelope.peek::<Head>(Some(org)).into_iter().flat_map(|head| head.mandates);
    mandates.flat_map(|mandate| [mandate.not_before, mandate.not_after]).collect()
}

/// The machine that an entry is about, if it is about one and brings no head.
fn named(org: OrgId, signed: &SignedEntry) -> Option<NodeName> {
    match &signed.entry.action {
        Action::NodeJoin { name, .. } | Action::NodeLeave { name, .. } => Some(name.clone()),
        Action::NodeAdmit { claim, .. } => claim.peek::<Claim>(Some(org)).ok().map(|claim| claim.name),
        Action::Take { envelope } => envelope.peek::<Suspension>(Some(org)).ok().map(|body| body.name),
    }
}

/// Why a machine was not believed under its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotBelieved {
    #[error("no machine had the name `{0}`")]
    Nobody(NodeName),
    #[error("`{0}` was revoked")]
    Revoked(NodeName),
    #[error("`{0}` had left")]
    Left(NodeName),
    #[error("`{name}` was suspended by `{by}` until {until}")]
    Suspended { name: NodeName, by: SignerName, until: Timestamp },
    #[error("`{0}` waited for an operator's word")]
    Waiting(NodeName),
    #[error("`{name}`: {why}")]
    NotMember { name: NodeName, why: NotMember },
}

/// Would a peer with the head in force have believed the machine of this name?
pub fn believed(state: &State, name: &NodeName, at: Timestamp) -> Result<(), NotBelieved> {
    if state.head().is_none() {
        return Err(NotBelieved::Nobody(name.clone()));
    }
    let member = state.holder(name).or_else(|| state.named(name).last());
    let member = member.ok_or_else(|| NotBelieved::Nobody(name.clone()))?;
    renew::check_standing(state, member).map_err(|why| match why {
        Refusal::KeyLeft => NotBelieved::Left(name.clone()),
        Refusal::KeyRevoked => NotBelieved::Revoked(name.clone()),
        _ => match &member.why {
            Some(Why::Judged(why)) => NotBelieved::NotMember { name: name.clone(), why: why.clone() },
            _ => NotBelieved::Waiting(name.clone()),
        },
    })?;
    if let Some(SuspensionRecord { by, until, .. }) = state.objects.suspended(member.claim().node_key.digest(), at) {
        return Err(NotBelieved::Suspended { name: name.clone(), by: by.clone(), until: *until });
    }
    Ok(())
}

/// Who signed a head, and the set that they are of.
pub fn signers_of<'s>(state: &'s State, head: KnownHead<'_>) -> Option<(&'s SignerSet, Vec<Signer>)> {
    let mut sets = state.signer_sets().chain(state.contested_sets());
    let set = sets.find(|set| set.as_ref() == head.signers())?;
    let signed = set.quorum.signers().iter().filter(|signer| head.is_signed_by(&signer.key)).cloned();
    Some((set, signed.collect()))
}
