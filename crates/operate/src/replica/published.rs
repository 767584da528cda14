//! What is published: the members' map that a signed head names, read back whole from a gateway that need not be believed.

use std::collections::{BTreeMap, BTreeSet};

use identity::id::Digest;
use identity::members::{ClassLeaves, Leaf, MembersMap, NodeLeaf};
use identity::principal::{Name, NodeName};
use manifest::diff;
use manifest::stored::Manifest;
use wire::control::{Answer, Call, DIGESTS_PER_CALL};

use crate::session::desk::{Desk, DeskError};
use crate::session::{OperateError, Session};

#[derive(Debug, Clone)]
pub struct Published {
    pub map: MembersMap,
    /// In the order of the map.
    pub leaves: Vec<Leaf>,
    pub manifests: BTreeMap<Digest, Vec<u8>>,
}

/// The leaves of nodes, without those of classes.
pub fn nodes(leaves: &[Leaf]) -> impl Iterator<Item = &NodeLeaf> {
    leaves.iter().filter_map(|leaf| match leaf {
        Leaf::Node(leaf) => Some(leaf),
        Leaf::Class(_) => None,
    })
}

impl Published {
    /// To be compared with.
    pub fn as_compared(published: Option<&Self>) -> diff::Published {
        let compared = |it: &Self| diff::Published { leaves: it.leaves.clone(), manifests: it.manifests.clone() };
        published.map(compared).unwrap_or_default()
    }

    /// The highest schema that a published manifest has.
    pub fn schema(&self) -> Option<u32> {
        self.manifests.keys().filter_map(|digest| self.manifest(*digest)).map(|manifest| manifest.schema).max()
    }

    fn manifest(&self, digest: Digest) -> Option<Manifest> {
        Manifest::read(self.manifests.get(&digest)?, digest).ok()
    }

    /// The users for whom a node may speak.
    pub fn users_at(&self, node: &NodeName) -> BTreeSet<Name> {
        let leaf = self.nodes().find(|leaf| leaf.name == *node);
        let digest = leaf.and_then(|leaf| ClassLeaves::of(&self.leaves).manifest_of(leaf));
        digest.and_then(|digest| self.manifest(digest)).map(|manifest| manifest.runs.users).unwrap_or_default()
    }

    /// The nodes and classes on which a user is at home.
    pub fn homes_of(&self, user: &Name) -> Vec<String> {
        let read = |leaf: &Leaf| leaf.manifest().and_then(|digest| self.manifest(digest));
        let has = |leaf: &&Leaf| read(leaf).is_some_and(|it| it.runs.users.contains(user));
        let named = |leaf: &Leaf| match leaf {
            Leaf::Node(leaf) => format!("`{}`", leaf.name),
            Leaf::Class(leaf) => format!("the class `{}`", leaf.class),
        };
        let mut homes: Vec<String> = self.leaves.iter().filter(has).map(named).collect();
        homes.sort();
        homes
    }

    pub fn nodes(&self) -> impl Iterator<Item = &NodeLeaf> {
        nodes(&self.leaves)
    }
}

impl<D: Desk> Session<D> {
    /// What the head in force says of the members; nothing if no fleet was published yet.
    pub async fn published(&mut self) -> Result<Option<Published>, OperateError> {
        match self.known.head.head.members {
            None => Ok(None),
            Some(root) => self.published_as(root).await.map(Some),
        }
    }

    /// The map with this root, with everything that its leaves name: exactly that, or an error.
    pub async fn published_as(&mut self, root: Digest) -> Result<Published, OperateError> {
        let (map, leaves) = self.leaves_of(root).await?;
        let wanted: BTreeSet<Digest> = leaves.iter().filter_map(Leaf::manifest).collect();
        let manifests = self.kept_blobs(&wanted.into_iter().collect::<Vec<_>>()).await?;
        Ok(Published { map, leaves, manifests })
    }

    pub(crate) async fn map_values(&mut self, root: Digest) -> Result<Vec<Digest>, OperateError> {
        let (mut values, mut from) = (Vec::new(), 0);
        loop {
            let Answer::Map { leaves, next } = self.ask(Call::Map { root, from }).await? else {
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
    pub(crate) async fn blobs(&mut self, wanted: &[Digest]) -> Result<BTreeMap<Digest, Vec<u8>>, OperateError> {
        let mut found = BTreeMap::new();
        let mut open: Vec<Digest> = wanted.to_vec();
        while !open.is_empty() {
            let asked: Vec<Digest> = open.iter().take(DIGESTS_PER_CALL).copied().collect();
            let Answer::Blobs { blobs } = self.ask(Call::Blobs { digests: asked.clone() }).await? else {
                return Err(DeskError::OtherAnswer.into());
            };
            let asked: BTreeSet<Digest> = asked.into_iter().collect();
            let before = found.len();
            for blob in blobs {
                let digest = Digest::of(&blob.0);
                if asked.contains(&digest) {
                    found.insert(digest, blob.0);
                }
            }
            if found.len() == before {
                let what = "a leaf or manifest that was published:";
                return Err(OperateError::NotKept { what, digest: open.first().copied().unwrap_or(Digest([0; 32])) });
            }
            open.retain(|digest| !found.contains_key(digest));
        }
        Ok(found)
    }
}
