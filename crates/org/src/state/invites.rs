//! Invites, and what was spent of them in each chain.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use identity::envelope::Envelope;
use identity::head::Revocations;
use identity::id::{Digest, InviteId};
use identity::key::PublicKey;
use identity::principal::NodeName;

use crate::invite::{Invite, Right, Uses};
use crate::ledger::fold;

/// By digest of the invite's envelope. Under one id there may be several: a gateway that begins another chain has its rights
/// signed anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invites {
    records: BTreeMap<Digest, InviteRecord>,
    ids: BTreeMap<InviteId, BTreeSet<Digest>>,
}

impl Deref for Invites {
    type Target = BTreeMap<Digest, InviteRecord>;

    fn deref(&self) -> &Self::Target {
        &self.records
    }
}

impl Invites {
    /// Of the same bytes the last copy is kept: it may have more signatures.
    pub(crate) fn insert(&mut self, digest: Digest, invite: Invite, envelope: Envelope) {
        self.ids.entry(invite.id).or_default().insert(digest);
        let record = InviteRecord::new(invite, envelope.clone());
        self.records.entry(digest).or_insert(record).envelope = envelope;
    }

    /// Everything that was signed under one id.
    pub fn of(&self, id: InviteId) -> impl DoubleEndedIterator<Item = (&Digest, &InviteRecord)> + Clone {
        let digests = self.ids.get(&id).into_iter().flatten();
        digests.filter_map(|digest| self.records.get_key_value(digest))
    }

    pub fn ids(&self) -> impl Iterator<Item = &InviteId> {
        self.ids.keys()
    }

    /// As the fold has it: who spent what where, and which chains have ended.
    pub(crate) fn count(&mut self, fold: &fold::Projection, revoked: &Revocations) {
        for record in self.records.values_mut() {
            record.spent.clear();
            record.spent_at.clear();
            let voices = record.invite.rights.iter().map(|right| right.voice);
            record.closed = voices.filter(|voice| revoked.voices.contains(voice)).collect();
        }
        for ((voice, invite), keys) in &fold.spent {
            let Some(record) = self.records.get_mut(invite) else { continue };
            record.spent.extend(keys.keys().map(|key| (*key, *voice)));
            record.spent_at.insert(*voice, u32::try_from(keys.len()).unwrap_or(u32::MAX));
        }
    }

    /// One more node key, which had not spent it there.
    pub(crate) fn spend(&mut self, invite: Digest, voice: PublicKey, key: Digest) {
        if let Some(record) = self.records.get_mut(&invite) {
            record.spent.insert(key, voice);
            let spent = record.spent_at.entry(voice).or_default();
            *spent = spent.saturating_add(1);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InviteRecord {
    pub invite: Invite,
    pub envelope: Envelope,
    /// Who joined with it, in which chain.
    pub spent: BTreeMap<Digest, PublicKey>,
    /// How many node keys spent it in each chain.
    pub spent_at: BTreeMap<PublicKey, u32>,
    /// Chains that have ended, with what was left there.
    pub closed: BTreeSet<PublicKey>,
}

impl InviteRecord {
    pub const fn new(invite: Invite, envelope: Envelope) -> Self {
        Self { invite, envelope, spent: BTreeMap::new(), spent_at: BTreeMap::new(), closed: BTreeSet::new() }
    }

    /// Rights in chains that go on.
    pub fn open_rights(&self) -> impl Iterator<Item = &Right> {
        self.invite.rights.iter().filter(|right| !self.closed.contains(&right.voice))
    }

    /// Nothing: without limit.
    pub fn uses_left(&self, gateway: &NodeName) -> Option<u32> {
        let rights = self.open_rights().filter(|right| right.gateway == *gateway);
        let left = |right: &Right| match right.uses {
            Uses::Unlimited => None,
            Uses::Limited(n) => Some(n.saturating_sub(self.spent_at.get(&right.voice).copied().unwrap_or(0))),
        };
        // Of several voices each spends its own.
        rights.map(left).try_fold(0_u32, |sum, left| Some(sum.saturating_add(left?)))
    }
}
