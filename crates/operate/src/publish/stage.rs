//! Handing leaves, manifests and the map in before a head names them. They mean nothing until one does.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use identity::id::Digest;
use identity::members::{Leaf, MembersMap};
use identity::text::Bytes;
use manifest::compile::Compiled;
use org::ledger::draft::NotDrafted;
use wire::control::{Answer, BYTES_PER_CALL, Call, DIGESTS_PER_CALL};

use crate::desk::{Desk, DeskError};
use crate::session::{OperateError, Session};

impl<D: Desk> Session<D> {
    /// Hands in what the gateway does not have yet. `told` hears how much of it is done, of how much.
    pub async fn stage(&mut self, named: &Compiled, told: impl FnMut(usize, usize)) -> Result<(), OperateError> {
        let (values, mut blobs) = written(&named.leaves);
        blobs.extend(named.manifests.iter().map(|(digest, bytes)| (*digest, bytes.clone())));
        self.hand_in((named.root, &values), blobs, told).await
    }

    /// The map of the head that was drafted last: every head lists all members.
    pub(crate) async fn stage_drafted(&mut self) -> Result<(), OperateError> {
        let drafted = self.drafted.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(leaves) = drafted else { return Ok(()) };
        let (values, blobs) = written(&leaves);
        let root = MembersMap::of(&leaves).map_err(NotDrafted::from)?.root();
        if self.known.head.head.members == Some(root) {
            return Ok(());
        }
        self.hand_in((root, &values), blobs, |_, _| {}).await
    }

    pub(crate) async fn hand_in(
        &mut self,
        (root, values): (Digest, &[Digest]),
        mut blobs: BTreeMap<Digest, Vec<u8>>,
        mut told: impl FnMut(usize, usize),
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
        self.hand_in_map(root, values).await
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

/// Leaves by their digests, and those in their order.
fn written(leaves: &[Leaf]) -> (Vec<Digest>, BTreeMap<Digest, Vec<u8>>) {
    let values: Vec<Digest> = leaves.iter().map(Leaf::value).collect();
    let blobs = values.iter().copied().zip(leaves.iter().map(Leaf::bytes)).collect();
    (values, blobs)
}
