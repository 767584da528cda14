//! Members' maps that this home has read or made, kept beside its copy of the ledger: what is here is not asked for again.

use std::collections::{BTreeMap, BTreeSet};

use identity::id::Digest;
use identity::members::change::MapChange;
use identity::members::{Leaf, MembersMap};
use ledger::error::LedgerError;
use ledger::store::Ledger;
use wire::known::Known;

use crate::folder::OperatorFolder;
use crate::replica::store;

/// The store at home. What fails there is asked for at a gateway, and kept another time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept<'a> {
    pub folder: &'a OperatorFolder,
    pub known: &'a Known,
}

impl Kept<'_> {
    fn with<T>(self, act: impl FnOnce(&Ledger) -> Result<T, LedgerError>) -> Option<T> {
        let (ledger, _lock) = store(self.folder, self.known).ok()?;
        act(&ledger).ok()
    }

    /// The leaves of a map, by their digests; none if it is not here.
    pub(crate) fn values(self, root: Digest) -> Vec<Digest> {
        self.with(|ledger| ledger.map(root, 0, usize::MAX)).unwrap_or_default()
    }

    /// The map that was read or made last.
    pub(crate) fn last(self) -> Option<(Digest, Vec<Digest>)> {
        self.with(|ledger| {
            let last = ledger.last_map()?;
            last.map(|last| Ok((last, ledger.map(last, 0, usize::MAX)?))).transpose()
        })?
    }

    /// The leaves of a map that is here, without asking anybody.
    pub(crate) fn leaves(self, root: Digest) -> Option<Vec<Leaf>> {
        let read = |ledger: &Ledger| {
            let values = ledger.map(root, 0, usize::MAX)?;
            Ok((blobs(ledger, &values)?, values))
        };
        let (blobs, values) = self.with(read)?;
        let leaf = |value: &Digest| serde_json::from_slice(blobs.get(value)?).ok();
        let leaves: Vec<Leaf> = values.iter().map(leaf).collect::<Option<_>>()?;
        MembersMap::of(&leaves).is_ok_and(|map| map.root() == root).then_some(leaves)
    }

    /// Leaves and manifests by their digests, as far as they are here.
    pub(crate) fn blobs(self, wanted: &[Digest]) -> BTreeMap<Digest, Vec<u8>> {
        self.with(|ledger| blobs(ledger, wanted)).unwrap_or_default()
    }

    /// Manifests that these leaves name, as far as they are here.
    pub(crate) fn manifests(self, leaves: &[Leaf]) -> BTreeMap<Digest, Vec<u8>> {
        self.blobs(&manifests_of(leaves))
    }

    pub(crate) fn keep_blobs<'b>(self, blobs: impl IntoIterator<Item = &'b Vec<u8>>) {
        self.write(|ledger| blobs.into_iter().try_for_each(|bytes| ledger.put_blob(bytes)));
    }

    pub(crate) fn keep_map(self, root: Digest, values: &[Digest]) {
        self.write(|ledger| {
            ledger.put_map(root, 0, values)?;
            ledger.keep_last_map(root)
        });
    }

    pub(crate) fn keep_change(self, root: Digest, base: Digest, change: &MapChange) {
        self.write(|ledger| {
            ledger.put_map_change(root, base, change)?;
            ledger.keep_last_map(root)
        });
    }

    /// Keeps a map that was made here, so that it can be handed in again, and the next made from it.
    pub(crate) fn keep_made(self, root: Digest, base: Option<(Digest, &MapChange)>, leaves: &[Leaf]) {
        self.keep_blobs(&leaves.iter().map(Leaf::bytes).collect::<Vec<_>>());
        match base.filter(|(base, _)| !self.values(*base).is_empty()) {
            Some((base, change)) => self.keep_change(root, base, change),
            None => self.keep_map(root, &leaves.iter().map(Leaf::value).collect::<Vec<_>>()),
        }
    }

    fn write(self, act: impl FnOnce(&Ledger) -> Result<(), LedgerError>) {
        self.with(|ledger| {
            ledger.begin()?;
            act(ledger)?;
            ledger.commit()
        });
    }
}

fn blobs(ledger: &Ledger, wanted: &[Digest]) -> Result<BTreeMap<Digest, Vec<u8>>, LedgerError> {
    let found =
        wanted.iter().filter_map(|digest| Some(ledger.blob(*digest).transpose()?.map(|bytes| (*digest, bytes))));
    found.collect()
}

/// What these leaves name, each once.
pub(crate) fn manifests_of(leaves: &[Leaf]) -> Vec<Digest> {
    leaves.iter().filter_map(Leaf::manifest).collect::<BTreeSet<_>>().into_iter().collect()
}
