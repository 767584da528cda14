//! Handing leaves, manifests and the map in before a head names them. They mean nothing until one does.

use std::collections::{BTreeMap, BTreeSet};

use identity::id::Digest;
use identity::members::change::MapChange;
use identity::members::{Leaf, MembersMap};
use identity::text::Bytes;
use manifest::compile::Compiled;
use org::ledger::draft::NotDrafted;
use org::refusal::Refusal;
use wire::control::{BYTES_PER_CALL, Call, ControlAnswer, DIGESTS_PER_CALL};

use crate::pending::Pending;
use crate::pending::listing::ListingDiff;
use crate::session::{DeskError, OperateError, Result, Session, maps};

type Told<'t> = &'t mut (dyn FnMut(usize, usize) + Send);

/// A map, and the manifests that are at hand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staging<'m> {
    pub root: Digest,
    pub leaves: &'m [Leaf],
    pub manifests: &'m BTreeMap<Digest, Vec<u8>>,
}

/// Hands in what the gateway does not have yet. `told` hears how much of it is done, of how much.
pub(crate) async fn stage(
    session: &mut Session,
    named: &Compiled,
    mut told: impl FnMut(usize, usize) + Send,
) -> Result<()> {
    let before = match session.head().members {
        Some(root) => Some((root, maps::leaves_of(session, root).await?.1)),
        None => None,
    };
    session.kept().keep_blobs(named.manifests.values());
    let map = Staging { root: named.root, leaves: &named.leaves, manifests: &named.manifests };
    hand_in(session, map, before, &mut told).await
}

/// The map of a head that was drafted: every head lists all members. Others are told what it differs in from the one now.
pub(super) async fn stage_drafted(session: &mut Session, leaves: &[Leaf]) -> Result<Option<ListingDiff>> {
    let root = MembersMap::of(leaves).map_err(NotDrafted::from)?.root();
    stage_map(session, root, leaves).await?;
    let base = session.head().members;
    let before = base.map_or_else(|| Some(Vec::new()), |base| session.kept().leaves(base));
    Ok(before.map(|before| ListingDiff::between(base, &before, leaves)))
}

/// What waited for signatures may go to another gateway than the one that was handed its map.
pub(crate) async fn stage_again(session: &mut Session, pending: &Pending) -> Result<()> {
    let head = pending.handed.head(session.known.org());
    let map = head.and_then(|head| {
        let leaves = pending.leaves(&head, |root| session.kept().leaves(root)).ok()?;
        Some((head.members?, leaves))
    });
    match map {
        Some((root, leaves)) => stage_map(session, root, &leaves).await,
        None => Ok(()),
    }
}

async fn stage_map(session: &mut Session, root: Digest, leaves: &[Leaf]) -> Result<()> {
    let base = session.head().members;
    // One that is held back may know the head and lack its map.
    if session.survey.halt.is_none() && (base == Some(root) || session.handed_in == Some(root)) {
        return Ok(());
    }
    let manifests = session.kept().manifests(leaves);
    let before = base.filter(|base| *base != root).and_then(|base| Some((base, session.kept().leaves(base)?)));
    hand_in(session, Staging { root, leaves, manifests: &manifests }, before, &mut |_, _| {}).await
}

/// By what it differs in from a map that the gateway has; if it does not have that one, all of it.
pub(super) async fn hand_in(
    session: &mut Session,
    Staging { root, leaves, manifests }: Staging<'_>,
    before: Option<(Digest, Vec<Leaf>)>,
    told: Told<'_>,
) -> Result<()> {
    let values: Vec<Digest> = leaves.iter().map(Leaf::value).collect();
    let mut blobs: BTreeMap<Digest, Vec<u8>> = manifests.clone();
    blobs.extend(values.iter().copied().zip(leaves.iter().map(Leaf::bytes)));
    if let Some((base, before)) = before.filter(|(_, before)| !before.is_empty()) {
        let old: Vec<Digest> = before.iter().map(Leaf::value).collect();
        let change = MapChange::between(&old, &values);
        let there: BTreeSet<Digest> = old.into_iter().chain(before.iter().filter_map(Leaf::manifest)).collect();
        let fresh = blobs.iter().filter(|(digest, _)| !there.contains(digest));
        let fresh: BTreeMap<Digest, Vec<u8>> = fresh.map(|(digest, bytes)| (*digest, bytes.clone())).collect();
        if change.len() <= DIGESTS_PER_CALL {
            hand_in_missing(session, fresh, told).await?;
            if hand_in_change(session, Call::StageChange { root, base, change: change.clone() }).await? {
                session.kept().keep_made(root, Some((base, &change)), leaves);
                session.handed_in = Some(root);
                return Ok(());
            }
        }
    }
    hand_in_missing(session, blobs, told).await?;
    hand_in_map(session, root, &values).await?;
    session.kept().keep_made(root, None, leaves);
    session.handed_in = Some(root);
    Ok(())
}

/// False if the gateway has another map than this home thinks, or not every leaf and manifest of it.
async fn hand_in_change(session: &mut Session, change: Call) -> Result<bool> {
    match staged(session, change).await {
        Ok(()) => Ok(true),
        Err(OperateError::Desk(DeskError::Refused(Refusal::NotFound { .. } | Refusal::Malformed { .. }))) => Ok(false),
        Err(why) => Err(why),
    }
}

async fn hand_in_missing(session: &mut Session, mut blobs: BTreeMap<Digest, Vec<u8>>, told: Told<'_>) -> Result<()> {
    let missing = not_there(session, &blobs).await?;
    let (mut done, mut batch, mut size) = (0, Vec::new(), 0);
    for digest in &missing {
        let Some(bytes) = blobs.remove(digest) else { continue };
        if bytes.len() > BYTES_PER_CALL {
            hand_in_parts(session, *digest, &bytes).await?;
            done += 1;
            told(done, missing.len());
            continue;
        }
        if !batch.is_empty() && size + bytes.len() > BYTES_PER_CALL {
            done += batch.len();
            staged(session, Call::Stage { blobs: std::mem::take(&mut batch) }).await?;
            told(done, missing.len());
            size = 0;
        }
        size += bytes.len();
        batch.push(Bytes(bytes));
    }
    if !batch.is_empty() {
        staged(session, Call::Stage { blobs: batch }).await?;
        told(missing.len(), missing.len());
    }
    Ok(())
}

async fn not_there(session: &mut Session, blobs: &BTreeMap<Digest, Vec<u8>>) -> Result<BTreeSet<Digest>> {
    let all: Vec<Digest> = blobs.keys().copied().collect();
    let mut missing = BTreeSet::new();
    for some in all.chunks(DIGESTS_PER_CALL) {
        let ControlAnswer::Missing { digests } = session.ask(Call::Missing { digests: some.to_vec() }).await? else {
            return Err(DeskError::OtherAnswer.into());
        };
        missing.extend(digests.into_iter().filter(|digest| blobs.contains_key(digest)));
    }
    Ok(missing)
}

async fn hand_in_parts(session: &mut Session, digest: Digest, bytes: &[u8]) -> Result<()> {
    let size = bytes.len() as u64;
    for (nth, part) in bytes.chunks(BYTES_PER_CALL).enumerate() {
        let from = (nth * BYTES_PER_CALL) as u64;
        staged(session, Call::StagePart { digest, size, from, bytes: Bytes(part.to_vec()) }).await?;
    }
    Ok(())
}

async fn hand_in_map(session: &mut Session, root: Digest, values: &[Digest]) -> Result<()> {
    if values.is_empty() {
        return staged(session, Call::StageMap { root, from: 0, leaves: Vec::new() }).await;
    }
    for (nth, leaves) in values.chunks(DIGESTS_PER_CALL).enumerate() {
        let from = (nth * DIGESTS_PER_CALL) as u64;
        staged(session, Call::StageMap { root, from, leaves: leaves.to_vec() }).await?;
    }
    Ok(())
}

async fn staged(session: &mut Session, call: Call) -> Result<()> {
    match session.ask(call).await? {
        ControlAnswer::Staged {} => Ok(()),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}
