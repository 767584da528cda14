//! What was so at a moment: the ledger folded up to it, by the times that its authors wrote.
//!
//! Those times are the authors' own words; a chain or what its author had seen can only put one later, never earlier.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::Head;
use identity::id::{Digest, OrgId};
use identity::members::NodeLeaf;
use identity::principal::{Author, NodeName, SignerName};
use identity::signers::{Signer, SignerSet};
use identity::time::Timestamp;

use crate::admission::{Admission, Claim};
use crate::entry::{Action, SignedEntry};
use crate::founding::Founding;
use crate::ledger::judge::NotMember;
use crate::refusal::Refusal;
use crate::renew;
use crate::state::{HeadRecord, State, SuspensionRecord};
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

/// An entry counts when it is dated, and everything before it is: nobody can have seen what was not there.
fn dated(entries: Vec<SignedEntry>) -> Vec<Dated> {
    let mut moments: BTreeMap<(Author, u64), Timestamp> = BTreeMap::new();
    let mut there = BTreeSet::new();
    let mut all = Vec::with_capacity(entries.len());
    for signed in entries {
        let entry = &signed.entry;
        if !there.insert(signed.digest) {
            continue;
        }
        let own = entry.seq.checked_sub(1).map(|seq| (entry.author.clone(), seq));
        let seen = entry.seen.0.iter().map(|(author, place)| (author.clone(), place.seq));
        let before = own.into_iter().chain(seen).filter_map(|place| moments.get(&place)).max().copied();
        let at = before.map_or(entry.at, |before| before.max(entry.at));
        moments.insert((entry.author.clone(), entry.seq), at);
        all.push(Dated { at, signed });
    }
    // Stable: of one moment, in the order in which they came.
    all.sort_by_key(|dated| dated.at);
    all
}

impl Past {
    /// From entries in an order in which each comes after what it has seen.
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

    /// Walks on. What is no part of the ledger changes nothing.
    pub fn walk_to(&mut self, moment: Timestamp) -> &State {
        while let Some(dated) = self.entries.get(self.next).filter(|dated| dated.at <= moment) {
            let _unfit = self.state.apply(&dated.signed);
            self.next += 1;
        }
        &self.state
    }

    /// The entry that brought a head.
    pub fn brought(&self, head: Digest) -> Option<&Dated> {
        self.entries.iter().find(|dated| dated.signed.entry.action.head().is_some_and(|it| it.digest() == head))
    }

    /// Moments at which the rights of these machines may have changed, without any that lie ahead of `now`.
    pub fn turns(&self, now: Timestamp, concerns: impl Fn(&NodeName) -> bool) -> BTreeSet<Timestamp> {
        let mut turns = BTreeSet::new();
        for dated in &self.entries {
            let action = &dated.signed.entry.action;
            if action.head().is_some() || named(self.state.org, action).is_some_and(|name| concerns(&name)) {
                turns.insert(dated.at);
            }
            turns.extend(ends(self.state.org, action));
        }
        turns.retain(|turn| *turn <= now);
        turns
    }
}

/// Times at which something changes without an entry.
fn ends(org: OrgId, action: &Action) -> Vec<Timestamp> {
    if let Action::NodeSuspend { suspension, .. } = action {
        let body = suspension.peek::<Suspension>(Some(org));
        return body.map(|body| body.until).into_iter().collect();
    }
    let head = action.head().and_then(|head| head.peek::<Head>(Some(org)).ok());
    let mandates = head.into_iter().flat_map(|head| head.mandates);
    mandates.flat_map(|mandate| [mandate.not_before, mandate.not_after]).collect()
}

/// The machine that an entry is about, if it is about one and brings no head.
fn named(org: OrgId, action: &Action) -> Option<NodeName> {
    match action {
        Action::NodeSuspend { name, .. } | Action::NodeJoin { name, .. } | Action::NodeLeave { name, .. } => {
            Some(name.clone())
        }
        Action::NodeApprove { name, .. } => Some(name.clone()),
        Action::NodeAdmit { admission } => {
            let body: Admission = admission.peek(Some(org)).ok()?;
            body.claim.peek::<Claim>(Some(org)).ok().map(|claim| claim.name)
        }
        _ => None,
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
    Contradicted { name: NodeName, why: NotMember },
}

impl State {
    /// Would a peer with the head in force have believed the machine of this name?
    pub fn believed(&self, name: &NodeName, leaf: Option<&NodeLeaf>, at: Timestamp) -> Result<(), NotBelieved> {
        if self.head().is_none() {
            return Err(NotBelieved::Nobody(name.clone()));
        }
        let member = self.holder(name).or_else(|| self.named(name).last());
        let member = member.ok_or_else(|| NotBelieved::Nobody(name.clone()))?;
        renew::check_standing(self, member).map_err(|why| match why {
            Refusal::KeyLeft => NotBelieved::Left(name.clone()),
            Refusal::KeyRevoked => NotBelieved::Revoked(name.clone()),
            _ => NotBelieved::Waiting(name.clone()),
        })?;
        if let Some(SuspensionRecord { by, until, .. }) = self.is_suspended(member.claim().node_key.digest(), at) {
            return Err(NotBelieved::Suspended { name: name.clone(), by: by.clone(), until: *until });
        }
        let name = name.clone();
        self.contradiction(member, leaf).map_or(Ok(()), |why| Err(NotBelieved::Contradicted { name, why }))
    }

    /// Who signed a head, and the set that they are of.
    pub fn signers_of(&self, head: &HeadRecord) -> Option<(&SignerSet, Vec<Signer>)> {
        let set = self.signer_sets().find(|set| set.as_ref() == head.head.signers)?;
        let keys = head.envelope.signers_among(&set.quorum.keys());
        let signed = set.quorum.signers().iter().filter(|signer| keys.contains(&signer.key)).cloned();
        Some((set, signed.collect()))
    }
}
