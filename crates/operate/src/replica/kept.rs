//! Members' maps that this home has read or made, kept beside its copy of the ledger: what is here is not asked for again.

use std::collections::{BTreeMap, BTreeSet};

use identity::id::Digest;
use identity::members::change::MapChange;
use identity::members::{Leaf, MembersMap};
use ledger::error::LedgerError;
use ledger::store::Ledger;
use wire::control::{Answer, Call};
use wire::known::Known;

use crate::folder::OperatorFolder;
use crate::replica::Replica;
use crate::session::desk::{Desk, DeskError};
use crate::session::{OperateError, Session};

impl<D: Desk> Session<D> {
    /// Does something with the store at home. What fails there is asked for at a gateway, and kept another time.
    fn at_home<T>(&self, act: impl FnOnce(&Ledger) -> Result<T, LedgerError>) -> Option<T> {
        at_home(&self.folder, &self.known, act)
    }

    /// The leaves of the map with this root, sorted by key: exactly that, or an error.
    pub(crate) async fn leaves_of(&mut self, root: Digest) -> Result<(MembersMap, Vec<Leaf>), OperateError> {
        if let Some(read) = self.read_map.as_ref().filter(|(map, _)| map.root() == root) {
            return Ok(read.clone());
        }
        let whole = self.leaves_from_anywhere(root).await?;
        self.read_map = Some(whole.clone());
        Ok(whole)
    }

    async fn leaves_from_anywhere(&mut self, root: Digest) -> Result<(MembersMap, Vec<Leaf>), OperateError> {
        let read = |ledger: &Ledger| {
            let last = ledger.last_map()?;
            let base = last.map(|last| ledger.map(last, 0, usize::MAX)).transpose()?;
            Ok((ledger.map(root, 0, usize::MAX)?, last.zip(base)))
        };
        let (values, last) = self.at_home(read).unwrap_or_default();
        if (!values.is_empty() || is_empty(root))
            && let Some(whole) = self.assemble(root, &values).await?
        {
            return Ok(whole);
        }
        if let Some((base, values)) = last
            && let Some(change) = self.ask_change(root, base).await?
            && let Some(values) = change.apply(values)
            && let Some(whole) = self.assemble(root, &values).await?
        {
            self.keep_change(root, base, &change);
            return Ok(whole);
        }
        let values = self.map_values(root).await?;
        let not_whole = || OperateError::NotKept { what: "the whole members' map", digest: root };
        let whole = self.assemble(root, &values).await?.ok_or_else(not_whole)?;
        self.keep_map(root, &values);
        Ok(whole)
    }

    async fn ask_change(&mut self, root: Digest, base: Digest) -> Result<Option<MapChange>, OperateError> {
        match self.ask(Call::MapChange { root, base }).await? {
            Answer::MapChange(change) => Ok(change),
            _ => Err(DeskError::OtherAnswer.into()),
        }
    }

    /// Nothing if these are not the leaves of that map.
    async fn assemble(
        &mut self,
        root: Digest,
        values: &[Digest],
    ) -> Result<Option<(MembersMap, Vec<Leaf>)>, OperateError> {
        let blobs = self.kept_blobs(values).await?;
        let mut leaves = Vec::with_capacity(values.len());
        for value in values {
            let leaf = blobs.get(value).and_then(|bytes| serde_json::from_slice::<Leaf>(bytes).ok());
            let Some(leaf) = leaf.filter(|leaf| leaf.value() == *value) else { return Ok(None) };
            leaves.push(leaf);
        }
        let map = MembersMap::of(&leaves).ok().filter(|map| map.root() == root);
        leaves.sort_by_cached_key(Leaf::key);
        Ok(map.map(|map| (map, leaves)))
    }

    /// Leaves and manifests by their digests: from here, and the rest from the gateway.
    pub(crate) async fn kept_blobs(&mut self, wanted: &[Digest]) -> Result<BTreeMap<Digest, Vec<u8>>, OperateError> {
        let mut found = self.blobs_at_home(wanted);
        let rest: Vec<Digest> = wanted.iter().filter(|digest| !found.contains_key(digest)).copied().collect();
        if !rest.is_empty() {
            let fetched = self.blobs(&rest).await?;
            self.keep_blobs(fetched.values());
            found.extend(fetched);
        }
        Ok(found)
    }

    pub(crate) fn blobs_at_home(&self, wanted: &[Digest]) -> BTreeMap<Digest, Vec<u8>> {
        self.at_home(|ledger| read_blobs(ledger, wanted)).unwrap_or_default()
    }

    pub(crate) fn keep_blobs<'b>(&self, blobs: impl IntoIterator<Item = &'b Vec<u8>>) {
        self.at_home(|ledger| {
            ledger.begin()?;
            blobs.into_iter().try_for_each(|bytes| ledger.put_blob(bytes))?;
            ledger.commit()
        });
    }

    fn keep_map(&self, root: Digest, values: &[Digest]) {
        self.at_home(|ledger| {
            ledger.begin()?;
            ledger.put_map(root, 0, values)?;
            ledger.keep_last_map(root)?;
            ledger.commit()
        });
    }

    fn keep_change(&self, root: Digest, base: Digest, change: &MapChange) {
        self.at_home(|ledger| {
            ledger.begin()?;
            ledger.put_map_change(root, base, change)?;
            ledger.keep_last_map(root)?;
            ledger.commit()
        });
    }

    /// Keeps a map that was made here, so that it can be handed in again, and the next made from it.
    pub(crate) fn keep_made(&self, root: Digest, base: Option<(Digest, &MapChange)>, leaves: &[Leaf]) {
        let bytes: Vec<Vec<u8>> = leaves.iter().map(Leaf::bytes).collect();
        self.keep_blobs(&bytes);
        let values: Vec<Digest> = leaves.iter().map(Leaf::value).collect();
        let has_base = base.filter(|(base, _)| {
            self.at_home(|ledger| ledger.map(*base, 0, usize::MAX)).is_some_and(|values| !values.is_empty())
        });
        match has_base {
            Some((base, change)) => self.keep_change(root, base, change),
            None => self.keep_map(root, &values),
        }
    }

    /// The leaves of a map that is here, without asking anybody.
    pub(crate) fn leaves_at_home(&self, root: Digest) -> Option<Vec<Leaf>> {
        leaves_at_home(&self.folder, &self.known, root)
    }

    /// Manifests that these leaves name, as far as they are here.
    pub(crate) fn manifests_at_home(&self, leaves: &[Leaf]) -> BTreeMap<Digest, Vec<u8>> {
        let wanted: BTreeSet<Digest> = leaves.iter().filter_map(Leaf::manifest).collect();
        self.blobs_at_home(&wanted.into_iter().collect::<Vec<_>>())
    }
}

fn at_home<T>(
    folder: &OperatorFolder,
    known: &Known,
    act: impl FnOnce(&Ledger) -> Result<T, LedgerError>,
) -> Option<T> {
    let (ledger, _lock) = Replica::store(folder, known).ok()?;
    act(&ledger).ok()
}

fn read_blobs(ledger: &Ledger, wanted: &[Digest]) -> Result<BTreeMap<Digest, Vec<u8>>, LedgerError> {
    let mut found = BTreeMap::new();
    for digest in wanted {
        found.extend(ledger.blob(*digest)?.map(|bytes| (*digest, bytes)));
    }
    Ok(found)
}

/// The leaves of a map that this home has.
pub(crate) fn leaves_at_home(folder: &OperatorFolder, known: &Known, root: Digest) -> Option<Vec<Leaf>> {
    let read = |ledger: &Ledger| {
        let values = ledger.map(root, 0, usize::MAX)?;
        Ok((read_blobs(ledger, &values)?, values))
    };
    let (blobs, values) = at_home(folder, known, read)?;
    let leaf = |value: &Digest| serde_json::from_slice(blobs.get(value)?).ok();
    let leaves: Vec<Leaf> = values.iter().map(leaf).collect::<Option<_>>()?;
    MembersMap::of(&leaves).is_ok_and(|map| map.root() == root).then_some(leaves)
}

fn is_empty(root: Digest) -> bool {
    MembersMap::of(&[]).is_ok_and(|map| map.root() == root)
}
