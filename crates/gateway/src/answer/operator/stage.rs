//! What operators hand in before a head names it, and what they read back: leaves, manifests, maps, reports.

use std::collections::BTreeSet;

use identity::id::Digest;
use identity::members::Leaf;
use identity::members::change::MapChange;
use identity::text::Bytes;
use manifest::stored::MAX_BYTES;
use org::refusal::Refusal;
use wire::control::{BYTES_PER_CALL, ControlAnswer, DIGESTS_PER_CALL, ReportView};

use crate::write::published::{Incomplete, Published, Shelf};
use crate::write::transaction::Transaction;

const REPORTS_PER_CALL: u32 = 1_000;
/// No fleet has so many leaves.
const MAX_LEAVES: u64 = 1_000_000;

fn malformed(why: &str) -> Refusal {
    Refusal::Malformed { why: why.to_owned() }
}

fn check_count(digests: &[Digest]) -> Result<(), Refusal> {
    if digests.len() > DIGESTS_PER_CALL { Err(malformed("too many digests in one call")) } else { Ok(()) }
}

pub(crate) fn missing(tx: &mut Transaction<'_>, digests: &[Digest]) -> Result<ControlAnswer, Refusal> {
    check_count(digests)?;
    let mut missing = Vec::new();
    for digest in digests {
        if !tx.keep(|tx| tx.ledger.has_blob(*digest))? {
            missing.push(*digest);
        }
    }
    Ok(ControlAnswer::Missing { digests: missing })
}

pub(crate) fn blobs(tx: &mut Transaction<'_>, blobs: &[Bytes]) -> Result<ControlAnswer, Refusal> {
    if blobs.iter().any(|blob| blob.0.len() > MAX_BYTES) {
        return Err(malformed("a manifest is too large"));
    }
    for blob in blobs {
        tx.keep(|tx| tx.ledger.put_blob(&blob.0))?;
    }
    Ok(ControlAnswer::Staged {})
}

/// One part after the other, and with the last one the whole, if its digest is the one that was said.
pub(crate) fn part(
    tx: &mut Transaction<'_>,
    digest: Digest,
    size: u64,
    from: u64,
    bytes: &Bytes,
) -> Result<ControlAnswer, Refusal> {
    let until = from.saturating_add(bytes.0.len() as u64);
    // At places of their own: overlapping ones would together be as large as somebody likes.
    let placed = from.is_multiple_of(BYTES_PER_CALL as u64) && bytes.0.len() <= BYTES_PER_CALL;
    if !placed || size > MAX_BYTES as u64 || until > size || bytes.0.is_empty() {
        return Err(malformed("a part is empty, or lies beyond the end of what it is a part of"));
    }
    if tx.keep(|tx| tx.ledger.has_blob(digest))? {
        return Ok(ControlAnswer::Staged {});
    }
    tx.keep(|tx| tx.ledger.put_part(digest, from, &bytes.0))?;
    if until < size {
        return Ok(ControlAnswer::Staged {});
    }
    let whole = tx.keep(|tx| tx.ledger.parts(digest))?;
    tx.keep(|tx| tx.ledger.drop_parts(digest))?;
    if Digest::of(&whole) != digest {
        return Err(malformed("the parts together are something else than was said"));
    }
    tx.keep(|tx| tx.ledger.put_blob(&whole))?;
    Ok(ControlAnswer::Staged {})
}

pub(crate) fn map(
    tx: &mut Transaction<'_>,
    root: Digest,
    from: u64,
    leaves: &[Digest],
) -> Result<ControlAnswer, Refusal> {
    check_count(leaves)?;
    if from.saturating_add(leaves.len() as u64) > MAX_LEAVES {
        return Err(malformed("the map has too many leaves"));
    }
    // What is published, or is whole and may wait for the others' signatures, is never begun anew: no signer alone takes
    // away what the threshold is about to name.
    let named = tx.state.heads().any(|head| head.members() == Some(root));
    let in_use = named && tx.keep(|tx| tx.ledger.leaves(root))?.is_some();
    if !in_use && !tx.keep(|tx| Published::is_whole(tx.ledger, root))? {
        tx.keep(|tx| tx.ledger.put_map(root, from, leaves))?;
        // Most often the last part.
        if leaves.len() < DIGESTS_PER_CALL {
            tx.read_ahead(root);
            tx.look_for_map()?;
        }
    }
    Ok(ControlAnswer::Staged {})
}

/// A map by what it differs in from another. Nothing of it is kept unless it has the root that was said.
pub(crate) fn change(
    tx: &mut Transaction<'_>,
    shelf: &Shelf,
    root: Digest,
    base: Digest,
    change: &MapChange,
) -> Result<ControlAnswer, Refusal> {
    if change.len() > DIGESTS_PER_CALL {
        return Err(malformed("too many digests in one call"));
    }
    if tx.keep(|tx| Published::is_whole(tx.ledger, root))? {
        return Ok(ControlAnswer::Staged {});
    }
    let leaves = tx.keep(|tx| tx.ledger.map(base, 0, usize::MAX))?;
    let leaves = change.apply(leaves).ok_or_else(|| Refusal::NotFound { what: "map to change".to_owned() })?;
    if leaves.len() as u64 > MAX_LEAVES {
        return Err(malformed("the map has too many leaves"));
    }
    let now = shelf.now().filter(|published| published.root() == base);
    match Published::changed(tx.ledger, now.as_deref(), root, leaves, change) {
        Ok(published) => {
            tx.keep(|tx| tx.ledger.put_map_change(root, base, change))?;
            tx.have_ready(published);
            tx.look_for_map()?;
            Ok(ControlAnswer::Staged {})
        }
        Err(Incomplete::Ledger(why)) => tx.keep(|_| Err(why)),
        Err(why) => Err(malformed(&why.to_string())),
    }
}

/// What one map differs in from another, if both are here and it fits into one answer.
pub(crate) fn read_change(tx: &mut Transaction<'_>, root: Digest, base: Digest) -> Result<Option<MapChange>, Refusal> {
    let (old, new) = tx.keep(|tx| {
        let whole = |root| tx.ledger.map(root, 0, usize::MAX);
        Ok((whole(base)?, whole(root)?))
    })?;
    let change = MapChange::between(&old, &new);
    Ok(Some(change).filter(|change| !old.is_empty() && !new.is_empty() && change.len() <= DIGESTS_PER_CALL))
}

/// A part of a map that a head names and this gateway does not have whole.
pub(crate) fn keep_map(tx: &mut Transaction<'_>, root: Digest, from: u64, leaves: &[Digest]) -> Result<(), Refusal> {
    check_count(leaves)?;
    if from.saturating_add(leaves.len() as u64) > MAX_LEAVES {
        return Err(malformed("the map has too many leaves"));
    }
    tx.keep(|tx| tx.ledger.put_map(root, from, leaves))
}

/// Leaves of a map that are not here, as many as go into one question; if all are, manifests that they name.
pub(crate) fn lacking(tx: &mut Transaction<'_>, root: Digest) -> Result<Vec<Digest>, Refusal> {
    let leaves = tx.keep(|tx| tx.ledger.map(root, 0, usize::MAX))?;
    lacking_of(tx, leaves)
}

/// The same of these leaves.
pub(crate) fn lacking_of(tx: &mut Transaction<'_>, leaves: Vec<Digest>) -> Result<Vec<Digest>, Refusal> {
    let (mut lacking, mut manifests) = (Vec::new(), BTreeSet::new());
    for digest in leaves {
        match tx.keep(|tx| tx.ledger.blob(digest))? {
            None => lacking.push(digest),
            Some(bytes) => {
                manifests.extend(serde_json::from_slice::<Leaf>(&bytes).ok().and_then(|leaf| leaf.manifest()));
            }
        }
    }
    if lacking.is_empty() {
        for digest in manifests {
            if !tx.keep(|tx| tx.ledger.has_blob(digest))? {
                lacking.push(digest);
            }
        }
    }
    lacking.truncate(DIGESTS_PER_CALL);
    Ok(lacking)
}

pub(crate) fn read_map(tx: &mut Transaction<'_>, root: Digest, from: u64) -> Result<ControlAnswer, Refusal> {
    let leaves = tx.keep(|tx| tx.ledger.map(root, from, DIGESTS_PER_CALL))?;
    let next = (leaves.len() == DIGESTS_PER_CALL).then(|| from.saturating_add(leaves.len() as u64));
    Ok(ControlAnswer::Map { leaves, next })
}

pub(crate) fn read_blobs(tx: &mut Transaction<'_>, digests: &[Digest]) -> Result<ControlAnswer, Refusal> {
    check_count(digests)?;
    let (mut blobs, mut size) = (Vec::new(), 0);
    for digest in digests {
        if let Some(bytes) = tx.keep(|tx| tx.ledger.blob(*digest))? {
            size += bytes.len();
            // An answer always has one, however large.
            if !blobs.is_empty() && size > BYTES_PER_CALL {
                break;
            }
            blobs.push(Bytes(bytes));
        }
    }
    Ok(ControlAnswer::Blobs { blobs })
}

pub(crate) fn reports(tx: &mut Transaction<'_>, after: u64) -> Result<ControlAnswer, Refusal> {
    let rows = tx.keep(|tx| tx.ledger.reports(after, REPORTS_PER_CALL))?;
    let more = rows.len() == usize::try_from(REPORTS_PER_CALL).unwrap_or(usize::MAX);
    let last = rows.last().map_or(after, |row| row.number);
    let reports = rows.into_iter().map(|row| ReportView { report: row.report, received_at: row.received_at });
    Ok(ControlAnswer::Reports { reports: reports.collect(), last, more })
}
