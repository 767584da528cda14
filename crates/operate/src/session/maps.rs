//! Members' maps, whole: from this home where it has them, and the rest from a gateway that need not be believed.

use std::collections::{BTreeMap, BTreeSet};

use identity::id::Digest;
use identity::members::change::MapChange;
use identity::members::{Leaf, MembersMap};
use wire::control::{Call, ControlAnswer, DIGESTS_PER_CALL};

use crate::replica::kept::manifests_of;
use crate::replica::published::PublishedMap;
use crate::session::{DeskError, OperateError, Result, Session};

/// What the head in force says of the members; nothing if no fleet was published yet.
pub async fn published(session: &mut Session) -> Result<Option<PublishedMap>> {
    match session.head().members {
        None => Ok(None),
        Some(root) => published_as(session, root).await.map(Some),
    }
}

/// The map with this root, with everything that its leaves name: exactly that, or an error.
pub(crate) async fn published_as(session: &mut Session, root: Digest) -> Result<PublishedMap> {
    let (map, leaves) = leaves_of(session, root).await?;
    let manifests = blobs(session, &manifests_of(&leaves)).await?;
    Ok(PublishedMap { map, leaves, manifests })
}

/// The leaves of the map with this root, sorted by key: exactly that, or an error.
pub(super) async fn leaves_of(session: &mut Session, root: Digest) -> Result<(MembersMap, Vec<Leaf>)> {
    if let Some(read) = session.read_map.as_ref().filter(|(map, _)| map.root() == root) {
        return Ok(read.clone());
    }
    let whole = leaves_from_anywhere(session, root).await?;
    session.read_map = Some(whole.clone());
    Ok(whole)
}

async fn leaves_from_anywhere(session: &mut Session, root: Digest) -> Result<(MembersMap, Vec<Leaf>)> {
    let values = session.kept().values(root);
    let is_empty = MembersMap::of(&[]).is_ok_and(|map| map.root() == root);
    if (!values.is_empty() || is_empty)
        && let Some(whole) = assemble(session, root, &values).await?
    {
        return Ok(whole);
    }
    if let Some((base, values)) = session.kept().last()
        && let Some(change) = ask_change(session, root, base).await?
        && let Some(values) = change.apply(values)
        && let Some(whole) = assemble(session, root, &values).await?
    {
        session.kept().keep_change(root, base, &change);
        return Ok(whole);
    }
    let values = ask_values(session, root).await?;
    let not_whole = || OperateError::NotKept { what: "the whole members' map", digest: root };
    let whole = assemble(session, root, &values).await?.ok_or_else(not_whole)?;
    session.kept().keep_map(root, &values);
    Ok(whole)
}

/// Nothing if these are not the leaves of that map.
async fn assemble(session: &mut Session, root: Digest, values: &[Digest]) -> Result<Option<(MembersMap, Vec<Leaf>)>> {
    let blobs = blobs(session, values).await?;
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
async fn blobs(session: &mut Session, wanted: &[Digest]) -> Result<BTreeMap<Digest, Vec<u8>>> {
    let mut found = session.kept().blobs(wanted);
    let rest: Vec<Digest> = wanted.iter().filter(|digest| !found.contains_key(digest)).copied().collect();
    if !rest.is_empty() {
        let fetched = ask_blobs(session, &rest).await?;
        session.kept().keep_blobs(fetched.values());
        found.extend(fetched);
    }
    Ok(found)
}

async fn ask_change(session: &mut Session, root: Digest, base: Digest) -> Result<Option<MapChange>> {
    match session.ask(Call::MapChange { root, base }).await? {
        ControlAnswer::MapChange(change) => Ok(change),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}

async fn ask_values(session: &mut Session, root: Digest) -> Result<Vec<Digest>> {
    let (mut values, mut from) = (Vec::new(), 0);
    loop {
        let ControlAnswer::Map { leaves, next } = session.ask(Call::Map { root, from }).await? else {
            return Err(DeskError::OtherAnswer.into());
        };
        values.extend(leaves);
        match next {
            // Only forward, however the gateway counts.
            Some(next) if next > from => from = next,
            _ => return Ok(values),
        }
    }
}

/// Bytes by their digests, all of them: what a gateway sends counts only if its digest was asked for.
async fn ask_blobs(session: &mut Session, wanted: &[Digest]) -> Result<BTreeMap<Digest, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open: Vec<Digest> = wanted.to_vec();
    while !open.is_empty() {
        let asked: Vec<Digest> = open.iter().take(DIGESTS_PER_CALL).copied().collect();
        let ControlAnswer::Blobs { blobs } = session.ask(Call::Blobs { digests: asked.clone() }).await? else {
            return Err(DeskError::OtherAnswer.into());
        };
        let asked: BTreeSet<Digest> = asked.into_iter().collect();
        let before = found.len();
        let told = blobs.into_iter().map(|blob| (Digest::of(&blob.0), blob.0));
        found.extend(told.filter(|(digest, _)| asked.contains(digest)));
        if found.len() == before {
            let what = "a leaf or manifest that was published:";
            return Err(OperateError::NotKept { what, digest: open.first().copied().unwrap_or(Digest([0; 32])) });
        }
        open.retain(|digest| !found.contains_key(digest));
    }
    Ok(found)
}
