//! A static tree (a TUF repository on a dumb server): everything that a node needs, as files for any web server, bucket
//! or USB stick.
//!
//! Whoever keeps the files is believed in nothing. What is signed is checked as if a gateway had said it; how a node is
//! listed, and its manifest, lie in a box that only that node opens.

use std::collections::BTreeMap;

use ground::sealed_box::{self, BadBox};
use identity::envelope::Envelope;
use identity::id::{Digest, OrgId};
use identity::members::{BadListing, Listing, Said};
use identity::principal::{NodeName, OrgName};
use identity::text::Bytes;
use identity::time::Timestamp;
use manifest::stored::{BadManifest, MAX_BYTES, Manifest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::known::{BadKnowledge, Known};

/// What the layout is, as a whole; raised when a reader of the old one would go wrong.
pub(crate) const LAYOUT: u32 = 1;
/// Written last and read first: it names the folder in which the rest lies.
pub const INDEX: &str = "freehold-tree.json";
/// No file of a tree comes near this.
pub const MAX_FILE: usize = 4 * MAX_BYTES;

const FOUNDING: &str = "founding.json";
const SIGNERS: &str = "signers.json";
const HEAD: &str = "head.json";
const TRUST: &str = "trust.json";
const SUSPENSIONS: &str = "suspensions.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeIndex {
    pub freehold_tree: u32,
    pub org: OrgName,
    pub org_id: OrgId,
    pub head: u64,
    /// Digest of the head, and the folder's name.
    pub folder: Digest,
}

/// Read first, so that a newer layout is named as such even if the rest cannot be read.
#[derive(Deserialize)]
struct Marked {
    freehold_tree: u32,
}

/// What goes into a tree beside what is known of the org.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// The bundles that the head trusts.
    pub trust: Vec<Envelope>,
    pub suspensions: Vec<Envelope>,
    pub nodes: Vec<ForNode>,
}

/// What lies there for one node.
#[derive(Debug, Clone)]
pub struct ForNode {
    /// Digest of the node key.
    pub node_key: Digest,
    pub seal_key: [u8; 32],
    pub listing: Listing,
    pub manifest: Vec<u8>,
}

/// The inside of a node's box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inside {
    listing: Listing,
    manifest: Bytes,
}

/// What a node took from a tree, all of it checked.
#[derive(Debug)]
pub struct FromTree {
    pub known: Known,
    /// Where the rest lies.
    pub folder: Digest,
    pub trust: Vec<Envelope>,
    /// Not checked against the signers: each is one signer's word, for whoever heeds them.
    pub suspensions: Vec<Envelope>,
    /// Nothing if the tree has no box for this node: it keeps what it has.
    pub listed: Option<Listed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub listing: Listing,
    pub digest: Digest,
    /// As it was compiled; read it by the digest.
    pub manifest: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum BadTree<E: std::error::Error + 'static> {
    #[error("the tree could not be read")]
    Get(#[source] E),
    #[error("there is no tree: `{INDEX}` is missing")]
    NoTree,
    #[error("the tree has layout {found}; this program knows {LAYOUT}: upgrade it")]
    NewerLayout { found: u32 },
    #[error("`{file}` of the tree is missing: the tree is being replaced, or was not copied whole")]
    Missing { file: String },
    #[error("`{file}` of the tree cannot be read: {why}")]
    Malformed { file: String, why: String },
    #[error("the tree is of another org: `{0}`")]
    OtherOrg(OrgName),
    #[error("the tree knows less than this machine: head {found}, and head {known} is known")]
    Behind { found: u64, known: u64 },
    #[error(transparent)]
    Knowledge(#[from] BadKnowledge),
    #[error("the box of this node does not open")]
    Box(#[from] BadBox),
    #[error(transparent)]
    Listing(#[from] BadListing),
    #[error(transparent)]
    Manifest(#[from] BadManifest),
}

#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    #[error("the box of node key {node_key} cannot be sealed")]
    Box {
        node_key: Digest,
        #[source]
        source: BadBox,
    },
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Where the box of a node lies. Its name is nowhere.
fn box_of(folder: Digest, node_key: Digest) -> String {
    format!("{folder}/nodes/{node_key}.box")
}

/// What a box is for: this org, this node key, this map.
fn bound(org: OrgId, node_key: Digest, root: Option<Digest>) -> Vec<u8> {
    let root = root.unwrap_or(Digest([0; 32]));
    [&b"freehold tree box v1\0"[..], &org.0, &node_key.0, &root.0].concat()
}

/// Every file of a tree, by its relative path.
pub fn files(known: &Known, contents: &Contents) -> Result<BTreeMap<String, Vec<u8>>, NotWritten> {
    let (folder, head) = (known.head.digest, &known.head.head);
    let org = known.founding.record.name.clone();
    let index = TreeIndex { freehold_tree: LAYOUT, org, org_id: known.org(), head: head.version, folder };
    let mut files: BTreeMap<String, Vec<u8>> = [(INDEX.to_owned(), serde_json::to_vec_pretty(&index)?)].into();
    let mut add = |name: &str, bytes: Vec<u8>| files.insert(format!("{folder}/{name}"), bytes);
    add(FOUNDING, serde_json::to_vec(&known.founding.envelope)?);
    add(SIGNERS, serde_json::to_vec(&known.chain)?);
    add(HEAD, serde_json::to_vec(&known.head_envelope)?);
    add(TRUST, serde_json::to_vec(&contents.trust)?);
    add(SUSPENSIONS, serde_json::to_vec(&contents.suspensions)?);
    for node in &contents.nodes {
        let inside = Inside { listing: node.listing.clone(), manifest: Bytes(node.manifest.clone()) };
        let bound = bound(known.org(), node.node_key, head.members);
        let sealed = sealed_box::seal_to(&node.seal_key, &bound, &serde_json::to_vec(&inside)?);
        let sealed = sealed.map_err(|source| NotWritten::Box { node_key: node.node_key, source })?;
        files.insert(box_of(folder, node.node_key), sealed);
    }
    Ok(files)
}

/// A machine that reads a tree.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    pub known: &'a Known,
    pub name: &'a NodeName,
    pub node_key: Digest,
    pub seal_secret: &'a [u8; 32],
}

impl Reader<'_> {
    /// Reads what is new to this machine. `get` is given a relative path and gives the bytes of that file, at most
    /// `MAX_FILE` of them, or nothing if it is not there.
    pub fn read<E: std::error::Error + 'static>(
        &self,
        now: Timestamp,
        mut get: impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<FromTree, BadTree<E>> {
        let mut read = self.authority(now, &mut get)?;
        read.listed = self.listed(&read, get)?;
        Ok(read)
    }

    /// Signer sets and head alone: they stay also if the rest does not hold.
    pub fn authority<E: std::error::Error + 'static>(
        &self,
        now: Timestamp,
        mut get: impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<FromTree, BadTree<E>> {
        let index = self.index(get(INDEX).map_err(BadTree::Get)?)?;
        let mut file = |name: &str| -> Result<Got, BadTree<E>> {
            let file = format!("{}/{name}", index.folder);
            let bytes = get(&file).map_err(BadTree::Get)?.ok_or(BadTree::Missing { file: file.clone() })?;
            Ok(Got { file, bytes })
        };
        let chain: Vec<Envelope> = parse(file(SIGNERS)?)?;
        let head: Envelope = parse(file(HEAD)?)?;
        let (trust, suspensions) = (parse(file(TRUST)?)?, parse(file(SUSPENSIONS)?)?);
        let known = match self.known.advance(&chain, Some(&head), now) {
            Err(BadKnowledge::Head(why)) if why.is_behind() => return Err(self.behind(&index)),
            other => other?,
        };
        Ok(FromTree { known, folder: index.folder, trust, suspensions, listed: None })
    }

    /// How this machine is listed by the head that was just read; nothing if the tree has no box for it.
    pub fn listed<E: std::error::Error + 'static>(
        &self,
        read: &FromTree,
        mut get: impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Option<Listed>, BadTree<E>> {
        let path = box_of(read.folder, self.node_key);
        match get(&path).map_err(BadTree::Get)? {
            None => Ok(None),
            Some(sealed) => self.open(&read.known, path, &sealed).map(Some),
        }
    }

    fn index<E: std::error::Error + 'static>(&self, bytes: Option<Vec<u8>>) -> Result<TreeIndex, BadTree<E>> {
        let bytes = bytes.ok_or(BadTree::NoTree)?;
        let Marked { freehold_tree } = lenient(&bytes)?;
        if freehold_tree > LAYOUT {
            return Err(BadTree::NewerLayout { found: freehold_tree });
        }
        let index: TreeIndex = parse(Got { file: INDEX.to_owned(), bytes })?;
        if index.org_id == self.known.org() { Ok(index) } else { Err(BadTree::OtherOrg(index.org)) }
    }

    fn open<E: std::error::Error + 'static>(
        &self,
        known: &Known,
        path: String,
        sealed: &[u8],
    ) -> Result<Listed, BadTree<E>> {
        let root = known.head.head.members.ok_or(BadListing::NoMap)?;
        let bound = bound(known.org(), self.node_key, Some(root));
        let opened = sealed_box::open(self.seal_secret, &bound, sealed)?;
        let Inside { listing, manifest } = parse(Got { file: path.clone(), bytes: opened.to_vec() })?;
        let digest = match listing.check(root, self.name, self.node_key)? {
            Said::Manifest(digest) => digest,
            Said::Nothing => Manifest::nothing().digest(),
            Said::NoWord => return Err(BadTree::Malformed { file: path, why: "it gives no manifest".to_owned() }),
        };
        Manifest::read(&manifest.0, digest)?;
        Ok(Listed { listing, digest, manifest: manifest.0 })
    }

    const fn behind<E: std::error::Error + 'static>(&self, index: &TreeIndex) -> BadTree<E> {
        BadTree::Behind { found: index.head, known: self.known.head.head.version }
    }
}

/// A file of the tree, as somebody gave it.
struct Got {
    file: String,
    bytes: Vec<u8>,
}

fn parse<T: DeserializeOwned, E: std::error::Error + 'static>(Got { file, bytes }: Got) -> Result<T, BadTree<E>> {
    if bytes.len() > MAX_FILE {
        return Err(BadTree::Malformed { file, why: "it is too large".to_owned() });
    }
    serde_json::from_slice(&bytes).map_err(|why| BadTree::Malformed { file, why: why.to_string() })
}

fn lenient<T: DeserializeOwned, E: std::error::Error + 'static>(bytes: &[u8]) -> Result<T, BadTree<E>> {
    let malformed = |why: serde_json::Error| BadTree::Malformed { file: INDEX.to_owned(), why: why.to_string() };
    serde_json::from_slice(bytes).map_err(malformed)
}

#[cfg(test)]
mod tests;
