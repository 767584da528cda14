//! Handing leaves, manifests and the map in before a head names them. They mean nothing until one does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use identity::id::Digest;
use identity::members::change::MapChange;
use identity::members::{Leaf, MembersMap};
use identity::text::Bytes;
use manifest::compile::Compiled;
use org::ledger::draft::NotDrafted;
use org::refusal::Refusal;
use org::state::State;
use wire::control::{Answer, BYTES_PER_CALL, Call, DIGESTS_PER_CALL};

use crate::desk::{Desk, DeskError};
use crate::listing::Listing;
use crate::pending::Pending;
use crate::roll::Roll;
use crate::session::{OperateError, Session};
use crate::weigh::listed_by;

type Told<'t> = &'t mut (dyn FnMut(usize, usize) + Send);
/// A map: its root, its leaves, and the manifests that are at hand.
type Made<'m> = (Digest, &'m [Leaf], &'m BTreeMap<Digest, Vec<u8>>);

impl<D: Desk> Session<D> {
    /// Hands in what the gateway does not have yet. `told` hears how much of it is done, of how much.
    pub async fn stage(
        &mut self,
        named: &Compiled,
        mut told: impl FnMut(usize, usize) + Send,
    ) -> Result<(), OperateError> {
        let before = match self.known.head.head.members {
            Some(root) => Some((root, self.leaves_of(root).await?.1)),
            None => None,
        };
        self.keep_blobs(named.manifests.values());
        self.hand_in_leaves((named.root, &named.leaves, &named.manifests), before, &mut told).await
    }

    /// The map of the head that was drafted last: every head lists all members.
    pub(crate) async fn stage_drafted(&mut self) -> Result<(Option<Roll>, Option<Listing>), OperateError> {
        let Some((leaves, roll)) = self.take_drafted() else { return Ok(Default::default()) };
        let root = MembersMap::of(&leaves).map_err(NotDrafted::from)?.root();
        self.stage_map(root, &leaves).await?;
        let base = self.base();
        let before = base.map_or_else(|| Some(Vec::new()), |base| self.leaves_at_home(base));
        Ok((Some(roll), before.map(|before| Listing::between(base, &before, &leaves))))
    }

    pub(crate) fn take_drafted(&self) -> Option<(Vec<Leaf>, Roll)> {
        self.drafted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What waited for signatures may go to another gateway than the one that was handed its map.
    pub(crate) async fn stage_again(&mut self, pending: &Pending) -> Result<(), OperateError> {
        let head = pending.handed.head(self.known.org());
        let map = head.and_then(|head| {
            let leaves = listed_by(pending, &head, |root| self.leaves_at_home(root)).ok()?;
            Some((head.members?, leaves))
        });
        match map {
            Some((root, leaves)) => self.stage_map(root, &leaves).await,
            None => Ok(()),
        }
    }

    /// The map of the head in force. While several signer sets claim one place, that of the head on which everybody stands: the
    /// one that this home follows may be one of theirs.
    fn base(&self) -> Option<Digest> {
        let frozen = self.fold.as_deref().filter(|state| state.is_frozen()).and_then(State::head);
        frozen.map_or(&self.known.head.head, |record| &record.head).members
    }

    async fn stage_map(&mut self, root: Digest, leaves: &[Leaf]) -> Result<(), OperateError> {
        let base = self.base();
        // One that is held back may know the head and lack its map.
        if self.survey.halt.is_none() && (base == Some(root) || self.handed_in == Some(root)) {
            return Ok(());
        }
        let manifests = self.manifests_at_home(leaves);
        let before = base.filter(|base| *base != root).and_then(|base| Some((base, self.leaves_at_home(base)?)));
        self.hand_in_leaves((root, leaves, &manifests), before, &mut |_, _| {}).await
    }

    /// By what it differs in from a map that the gateway has; if it does not have that one, all of it.
    pub(crate) async fn hand_in_leaves(
        &mut self,
        (root, leaves, manifests): Made<'_>,
        before: Option<(Digest, Vec<Leaf>)>,
        told: Told<'_>,
    ) -> Result<(), OperateError> {
        let values: Vec<Digest> = leaves.iter().map(Leaf::value).collect();
        let mut blobs: BTreeMap<Digest, Vec<u8>> = manifests.clone();
        blobs.extend(values.iter().copied().zip(leaves.iter().map(Leaf::bytes)));
        if let Some((base, before)) = before.filter(|(_, before)| !before.is_empty()) {
            let old: Vec<Digest> = before.iter().map(Leaf::value).collect();
            let change = MapChange::between(&old, &values);
            let there: BTreeSet<Digest> = old.into_iter().chain(before.iter().filter_map(Leaf::manifest)).collect();
            let fresh = blobs.iter().filter(|(digest, _)| !there.contains(digest));
            let fresh: BTreeMap<Digest, Vec<u8>> = fresh.map(|(digest, bytes)| (*digest, bytes.clone())).collect();
            if change.len() <= DIGESTS_PER_CALL && self.hand_in_change((root, base), &change, fresh, told).await? {
                self.keep_made(root, Some((base, &change)), leaves);
                self.handed_in = Some(root);
                return Ok(());
            }
        }
        self.hand_in_missing(blobs, told).await?;
        self.hand_in_map(root, &values).await?;
        self.keep_made(root, None, leaves);
        self.handed_in = Some(root);
        Ok(())
    }

    /// False if the gateway lacks what it would be a change of.
    async fn hand_in_change(
        &mut self,
        (root, base): (Digest, Digest),
        change: &MapChange,
        fresh: BTreeMap<Digest, Vec<u8>>,
        told: Told<'_>,
    ) -> Result<bool, OperateError> {
        self.hand_in_missing(fresh, told).await?;
        match self.staged(Call::StageChange { root, base, change: change.clone() }).await {
            Ok(()) => Ok(true),
            Err(OperateError::Desk(why)) if lacks(&why) => Ok(false),
            Err(why) => Err(why),
        }
    }

    async fn hand_in_missing(
        &mut self,
        mut blobs: BTreeMap<Digest, Vec<u8>>,
        told: Told<'_>,
    ) -> Result<(), OperateError> {
        let missing = self.not_there(&blobs).await?;
        let (mut done, mut batch, mut size) = (0, Vec::new(), 0);
        for digest in &missing {
            let Some(bytes) = blobs.remove(digest) else {
                continue;
            };
            if bytes.len() > BYTES_PER_CALL {
                self.hand_in_parts(*digest, &bytes).await?;
                done += 1;
                told(done, missing.len());
                continue;
            }
            if !batch.is_empty() && size + bytes.len() > BYTES_PER_CALL {
                done += batch.len();
                self.hand_in_blobs(std::mem::take(&mut batch)).await?;
                told(done, missing.len());
                size = 0;
            }
            size += bytes.len();
            batch.push(Bytes(bytes));
        }
        if !batch.is_empty() {
            self.hand_in_blobs(batch).await?;
            told(missing.len(), missing.len());
        }
        Ok(())
    }

    async fn not_there(&mut self, blobs: &BTreeMap<Digest, Vec<u8>>) -> Result<Vec<Digest>, OperateError> {
        let all: Vec<Digest> = blobs.keys().copied().collect();
        let mut missing = Vec::new();
        for some in all.chunks(DIGESTS_PER_CALL) {
            let Answer::Missing { digests } = self.ask(Call::Missing { digests: some.to_vec() }).await? else {
                return Err(DeskError::OtherAnswer.into());
            };
            missing.extend(digests.into_iter().filter(|digest| blobs.contains_key(digest)));
        }
        missing.sort_unstable();
        missing.dedup();
        Ok(missing)
    }

    async fn hand_in_blobs(&mut self, blobs: Vec<Bytes>) -> Result<(), OperateError> {
        self.staged(Call::Stage { blobs }).await
    }

    async fn hand_in_parts(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), OperateError> {
        let size = bytes.len() as u64;
        for (nth, part) in bytes.chunks(BYTES_PER_CALL).enumerate() {
            let from = (nth * BYTES_PER_CALL) as u64;
            self.staged(Call::StagePart { digest, size, from, bytes: Bytes(part.to_vec()) }).await?;
        }
        Ok(())
    }

    async fn hand_in_map(&mut self, root: Digest, values: &[Digest]) -> Result<(), OperateError> {
        if values.is_empty() {
            return self.staged(Call::StageMap { root, from: 0, leaves: Vec::new() }).await;
        }
        let parts = values.chunks(DIGESTS_PER_CALL).map(<[Digest]>::to_vec).enumerate();
        for (nth, leaves) in parts {
            let from = (nth * DIGESTS_PER_CALL) as u64;
            self.staged(Call::StageMap { root, from, leaves }).await?;
        }
        Ok(())
    }

    async fn staged(&mut self, call: Call) -> Result<(), OperateError> {
        match self.ask(call).await? {
            Answer::Staged {} => Ok(()),
            _ => Err(DeskError::OtherAnswer.into()),
        }
    }
}

/// It has another map than this home thinks, or not every leaf and manifest of it.
const fn lacks(why: &DeskError) -> bool {
    matches!(why, DeskError::Refused(Refusal::NotFound { .. } | Refusal::Malformed { .. }))
}
