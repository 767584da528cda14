//! What is published to nodes: the members' map of the head in force, with every leaf and manifest.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use identity::id::Digest;
use identity::members::change::MapChange;
use identity::members::{self, ClassLeaf, ClassLeaves, InClass, Leaf, Listing, Meant, MembersMap, NodeLeaf, Said};
use identity::principal::host::HostName;
use identity::principal::{Name, NodeName, Principal};
use identity::text::Bytes;
use ledger::error::LedgerError;
use ledger::store::Ledger;
use manifest::stored::Manifest;
use org::state::State;
use tokio::sync::watch;
use wire::written::Written;

use crate::write::told::Told;

/// One signer alone can hand in a map: it takes no more memory than this until the threshold has named it.
pub(crate) const READ_AHEAD: usize = 256 << 20;

/// What is published now, and a bell for those who wait for news.
#[derive(Debug, Default)]
pub struct Shelf {
    now: ArcSwapOption<Published>,
    told: ArcSwap<Told>,
    bell: watch::Sender<Rung>,
}

/// How often the bell rang, and whether the gateway ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rung {
    pub times: u64,
    pub closing: bool,
}

impl Shelf {
    pub fn now(&self) -> Option<Arc<Published>> {
        self.now.load_full()
    }

    /// Takes what the head in force names: what was read when the head was taken, or what the disk has.
    pub fn bring_up(&self, ledger: &Ledger, state: &State, fresh: Option<Published>) {
        let root = state.head().and_then(|record| record.head.members);
        if self.now().map(|published| published.root()) == root {
            return;
        }
        let Some(root) = root else { return self.now.store(None) };
        let read = match fresh {
            Some(fresh) if fresh.root() == root => Ok(fresh),
            _ => Published::read(ledger, root),
        };
        match read {
            Ok(published) => self.now.store(Some(Arc::new(published))),
            // Whose name is whose, and who is where, the one before says meanwhile.
            Err(why) => tracing::error!(%why, "what is published to nodes cannot be read: they learn nothing new"),
        }
    }

    /// What every node is told. Whoever holds the state that readers see has what belongs to it.
    pub fn told(&self) -> Arc<Told> {
        self.told.load_full()
    }

    /// Called with the state, while nobody reads it.
    pub fn tell(&self, told: Told) {
        self.told.store(Arc::new(told));
    }

    /// Wakes everybody who waits for news.
    pub fn ring(&self) {
        self.bell.send_modify(|rung| rung.times += 1);
    }

    /// Nobody waits any longer.
    pub fn close(&self) {
        self.bell.send_modify(|rung| rung.closing = true);
    }

    pub fn listen(&self) -> watch::Receiver<Rung> {
        self.bell.subscribe()
    }
}

/// What was handed in last, ready for the head that names it. Leaves and manifests never change under their digests.
#[derive(Debug, Default)]
pub struct Staged(Option<(Published, Instant)>);

impl Staged {
    /// A head that waits for more signatures reads it again.
    const TIME: Duration = Duration::from_mins(1);

    pub fn keep(&mut self, published: Option<Published>) {
        self.0 = published.map(|published| (published, Instant::now()));
    }

    pub fn take(&mut self, root: Digest) -> Option<Published> {
        self.0.take_if(|(published, _)| published.root() == root).map(|(published, _)| published)
    }

    /// Without taking it.
    pub fn look(&self, root: Digest) -> Option<&Published> {
        self.0.as_ref().map(|(published, _)| published).filter(|published| published.root() == root)
    }

    pub fn forget_old(&mut self) {
        self.0.take_if(|(_, since)| since.elapsed() > Self::TIME);
    }
}

#[derive(Debug)]
pub struct Published {
    map: MembersMap,
    nodes: BTreeMap<NodeName, NodeLeaf>,
    classes: Vec<ClassLeaf>,
    manifests: HashMap<Digest, Arc<[u8]>>,
    /// Those of classes, which many nodes are told.
    written: HashMap<Digest, Written>,
}

/// Why a map cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum Incomplete {
    #[error("the members' map {0} was not handed in, or not whole")]
    NoMap(Digest),
    #[error("a leaf or manifest of the members' map is missing: {0}")]
    Missing(Digest),
    #[error("a leaf of the members' map cannot be read: {0}")]
    Unreadable(Digest),
    #[error("the leaf of `{0}` names a class that the members' map does not have, or that does not cover it")]
    NoClass(NodeName),
    #[error("the members' map {0} is too large to be read ahead")]
    TooLarge(Digest),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

fn write(manifest: &[u8]) -> Written {
    Written::of(&Bytes(manifest.to_vec()))
}

fn wanted(leaves: &[Leaf]) -> BTreeSet<Digest> {
    leaves.iter().filter_map(Leaf::manifest).collect()
}

fn read_leaf(ledger: &Ledger, value: Digest) -> Result<Leaf, Incomplete> {
    let bytes = ledger.blob(value)?.ok_or(Incomplete::Missing(value))?;
    let leaf: Leaf = serde_json::from_slice(&bytes).map_err(|_| Incomplete::Unreadable(value))?;
    // A leaf has one written form; another would have another digest on every node.
    if leaf.value() == value { Ok(leaf) } else { Err(Incomplete::Unreadable(value)) }
}

fn read_leaves(ledger: &Ledger, root: Digest, values: Vec<Digest>) -> Result<(MembersMap, Vec<Leaf>), Incomplete> {
    let (mut entries, mut leaves) = (Vec::new(), Vec::new());
    for value in values {
        let leaf = read_leaf(ledger, value)?;
        entries.push((leaf.key(), value));
        leaves.push(leaf);
    }
    let map = MembersMap::new(entries).map_err(|_| Incomplete::NoMap(root))?;
    if map.root() != root {
        return Err(Incomplete::NoMap(root));
    }
    check_classes(&leaves)?;
    Ok((map, leaves))
}

/// No node would believe a leaf whose class is not there.
fn check_classes(leaves: &[Leaf]) -> Result<(), Incomplete> {
    let classes = ClassLeaves::of(leaves);
    for leaf in leaves {
        if let Leaf::Node(NodeLeaf { name, manifest: Meant::Class(class), .. }) = leaf
            && !classes.get(class).is_some_and(|leaf| leaf.covers(name))
        {
            return Err(Incomplete::NoClass(name.clone()));
        }
    }
    Ok(())
}

impl Published {
    /// Reads the map with this root, and refuses one that is not whole.
    pub fn read(ledger: &Ledger, root: Digest) -> Result<Self, Incomplete> {
        Self::read_within(ledger, root, usize::MAX)
    }

    /// The same, if its manifests have so many bytes at most.
    pub fn read_within(ledger: &Ledger, root: Digest, most: usize) -> Result<Self, Incomplete> {
        let (map, leaves) = read_leaves(ledger, root, ledger.map(root, 0, usize::MAX)?)?;
        Self::with_manifests(ledger, map, leaves, &HashMap::new(), most)
    }

    /// The map that a change makes of another, if it has this root. What is published of that other need not be read again.
    pub fn changed(
        ledger: &Ledger,
        base: Option<&Self>,
        root: Digest,
        values: Vec<Digest>,
        change: &MapChange,
    ) -> Result<Self, Incomplete> {
        let Some(base) = base else {
            let (map, leaves) = read_leaves(ledger, root, values)?;
            return Self::with_manifests(ledger, map, leaves, &HashMap::new(), READ_AHEAD);
        };
        let mut entries: BTreeMap<Digest, Digest> = base.map.entries().iter().copied().collect();
        let classes = base.classes.iter().map(|leaf| Leaf::Class(leaf.clone()));
        let nodes = base.nodes.values().map(|leaf| Leaf::Node(leaf.clone()));
        let gone: BTreeSet<&Digest> = change.go.iter().collect();
        let mut leaves: Vec<Leaf> = classes.chain(nodes).collect();
        leaves.retain(|leaf| entries.get(&leaf.key()).is_some_and(|value| !gone.contains(value)));
        entries.retain(|_, value| !gone.contains(value));
        for value in &change.come {
            let leaf = read_leaf(ledger, *value)?;
            if entries.insert(leaf.key(), *value).is_some() {
                return Err(Incomplete::NoMap(root));
            }
            leaves.push(leaf);
        }
        let map = MembersMap::new(entries).map_err(|_| Incomplete::NoMap(root))?;
        if map.root() != root {
            return Err(Incomplete::NoMap(root));
        }
        check_classes(&leaves)?;
        Self::with_manifests(ledger, map, leaves, &base.manifests, READ_AHEAD)
    }

    fn with_manifests(
        ledger: &Ledger,
        map: MembersMap,
        leaves: Vec<Leaf>,
        had: &HashMap<Digest, Arc<[u8]>>,
        mut most: usize,
    ) -> Result<Self, Incomplete> {
        let (mut nodes, mut classes, mut manifests) = (BTreeMap::new(), Vec::new(), HashMap::new());
        for digest in wanted(&leaves) {
            if let Some(bytes) = had.get(&digest) {
                manifests.insert(digest, Arc::clone(bytes));
                continue;
            }
            let bytes = ledger.blob(digest)?.ok_or(Incomplete::Missing(digest))?;
            most = most.checked_sub(bytes.len()).ok_or_else(|| Incomplete::TooLarge(map.root()))?;
            manifests.insert(digest, Arc::from(bytes));
        }
        for leaf in leaves {
            match leaf {
                Leaf::Node(leaf) => drop(nodes.insert(leaf.name.clone(), leaf)),
                Leaf::Class(leaf) => classes.push(leaf),
            }
        }
        let shared = classes.iter().map(|leaf: &ClassLeaf| leaf.manifest);
        let shared = shared.filter_map(|digest| Some((digest, write(manifests.get(&digest)?))));
        let written = shared.collect();
        Ok(Self { map, nodes, classes, manifests, written })
    }

    /// Could it be read? Without reading what one signer alone may have made as large as the disk.
    pub fn is_whole(ledger: &Ledger, root: Digest) -> Result<bool, LedgerError> {
        let leaves = match read_leaves(ledger, root, ledger.map(root, 0, usize::MAX)?) {
            Ok((_, leaves)) => leaves,
            Err(Incomplete::Ledger(why)) => return Err(why),
            Err(_) => return Ok(false),
        };
        for digest in wanted(&leaves) {
            if !ledger.has_blob(digest)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn root(&self) -> Digest {
        self.map.root()
    }

    /// How a node stands in it. Its own leaf, with its class's if it names one; else its class's, if it is meant to be of it,
    /// else neither.
    pub fn listing(&self, name: &NodeName, meant: bool) -> Option<Listing> {
        let key = members::node_key(name);
        if let Some(leaf) = self.nodes.get(name) {
            let class = match &leaf.manifest {
                Meant::Class(class) => {
                    let path = self.map.prove(members::class_key(class))?;
                    Some(InClass { leaf: self.class(class)?.clone(), path })
                }
                Meant::Own(_) | Meant::Nothing => None,
            };
            return Some(Listing::Own { leaf: leaf.clone(), path: self.map.prove(key)?, class });
        }
        let absence = self.map.prove_absence(key)?;
        match self.class_of(name).filter(|_| meant) {
            Some(leaf) => {
                let path = self.map.prove(members::class_key(&leaf.class))?;
                Some(Listing::Class { leaf: leaf.clone(), path, absence })
            }
            None => Some(Listing::Unlisted { absence }),
        }
    }

    /// The manifest that a machine of this name should have.
    pub fn wanted_by(&self, name: &NodeName, meant: bool) -> Option<Digest> {
        match self.nodes.get(name).map(|leaf| &leaf.manifest) {
            Some(Meant::Own(digest)) => Some(*digest),
            Some(Meant::Class(class)) => self.class(class).map(|leaf| leaf.manifest),
            Some(Meant::Nothing) => None,
            None => self.class_of(name).filter(|_| meant).map(|leaf| leaf.manifest),
        }
    }

    fn class(&self, class: &Name) -> Option<&ClassLeaf> {
        self.classes.iter().find(|leaf| leaf.class == *class)
    }

    /// The class that a machine of this name would be in.
    pub fn class_of(&self, name: &NodeName) -> Option<&ClassLeaf> {
        self.classes.iter().find(|leaf| leaf.covers(name))
    }

    /// Do services listen, or users live, on each machine of this class?
    pub fn carries(&self, class: &ClassLeaf) -> bool {
        let manifest = self.manifest(class.manifest).and_then(|bytes| Manifest::read(bytes, class.manifest).ok());
        manifest.is_none_or(|manifest| !manifest.runs.services.is_empty() || !manifest.runs.users.is_empty())
    }

    /// The key that has this name, by the operators' word.
    pub fn key_of(&self, name: &NodeName) -> Option<Digest> {
        self.nodes.get(name).map(|leaf| leaf.node_key)
    }

    pub fn manifest(&self, digest: Digest) -> Option<&Arc<[u8]>> {
        self.manifests.get(&digest)
    }

    /// The same as it stands in an answer.
    pub fn written(&self, digest: Digest) -> Option<Written> {
        let shared = self.written.get(&digest).cloned();
        shared.or_else(|| self.manifest(digest).map(|bytes| write(bytes)))
    }

    /// Every leaf, as the judges want them.
    pub fn leaves(&self) -> (BTreeMap<NodeName, NodeLeaf>, Vec<ClassLeaf>) {
        (self.nodes.clone(), self.classes.clone())
    }

    /// If this node, with this key, may hold an SVID for that user or service: the DNS names that go with it. Asked of nodes
    /// that are meant by their name.
    pub fn names_for(&self, name: &NodeName, key: Digest, principal: &Principal) -> Option<BTreeSet<HostName>> {
        let said = self.listing(name, true).and_then(|listing| listing.check(self.root(), name, key).ok());
        let Some(Said::Manifest(digest)) = said else { return None };
        let manifest = Manifest::read(self.manifest(digest)?, digest).ok()?;
        manifest.places(principal).then(|| manifest.dns_names(principal))
    }
}
