//! One org's folder on a node (data directory): keys, SVID, trust, and what is known of the org.
//!
//! `svid.pem` and `svid.key` are links through `current`, which is moved in one step: a reader never sees the
//! certificate of one and the key of another.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ground::file::{self, FileAccess, FileError, Lock};
use ground::random::{self, NoRandomness};
use identity::bundle::{Bundle, Endpoint, Identity, Roots};
use identity::certificate;
use identity::envelope::Envelope;
use identity::id::{InviteId, OrgId};
use identity::key::{BadKey, P256Key};
use identity::principal::{Address, NodeName, OrgName, Principal};
use identity::time::Timestamp;
use org::invite::admission::SealKey;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wire::known::{BadKnowledge, Known};
use wire::tls::OwnSvid;
use zeroize::Zeroizing;

use self::trust::{BadTrustPath, TrustPaths};

pub(crate) mod word;
pub mod trust;
mod older;
mod left;
mod count;
mod worth;
pub mod waiting;
mod unsound;

pub use unsound::Unsound;

#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: Unsound },
    #[error("`{}` is damaged", path.display())]
    DamagedKey {
        path: PathBuf,
        #[source]
        source: BadKey,
    },
    #[error("what is known of the org no longer holds")]
    Knowledge(#[source] BadKnowledge),
    #[error(
        "`{}` was written before the first release of freehold, and is not read any more. Nothing was changed; let this \
         machine join again: `freehold-node leave --local`, then `freehold-node join`",
        path.display()
    )]
    Older { path: PathBuf },
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error(transparent)]
    TrustPath(#[from] BadTrustPath),
}

/// A node's folder for one org.
#[derive(Debug, Clone)]
pub struct Scope {
    pub folder: PathBuf,
}

/// Who this node is. Written last: its presence means that the node was admitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFile {
    pub schema: u32,
    pub org: OrgName,
    pub org_id: OrgId,
    pub name: NodeName,
    pub invite: Option<InviteId>,
    pub gateways: Vec<Address>,
    /// Came back over mTLS.
    pub joined: bool,
    /// Where other programs read the roots, if not in the scope's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<TrustPaths>,
}

impl NodeFile {
    pub fn principal(&self) -> Principal {
        Principal::node(&self.org, &self.name)
    }
}

/// An SVID that is being asked for: kept until it is there, so that a lost reply changes nothing.
#[derive(Debug)]
pub struct Pending {
    pub counter: u64,
    pub key: P256Key,
}

/// The SVID in use.
#[derive(Debug)]
pub struct Svid {
    pub own: OwnSvid,
    pub counter: u64,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// What it carries beside the principal.
    pub dns: Vec<String>,
}

impl Svid {
    pub fn is_good(&self, now: Timestamp) -> bool {
        (self.not_before..self.not_after).contains(&now)
    }
}

impl Scope {
    pub fn at(root: &Path, org: &OrgName) -> Self {
        Self { folder: root.join(org.as_str()) }
    }

    /// Every scope under a root.
    pub fn all(root: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
        let mut scopes: Vec<_> = entries
            .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<OrgName>().is_ok()))
            .map(|entry| Self { folder: entry.path() })
            .filter(|scope| scope.path("node.key").exists())
            .collect();
        scopes.sort_by(|a, b| a.folder.cmp(&b.folder));
        scopes
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn create(&self) -> Result<(), ScopeError> {
        file::make_private_folder(&self.folder)?;
        file::make_private_folder(&self.path("trust"))?;
        Ok(file::make_private_folder(&self.path("svids"))?)
    }

    pub fn lock(&self) -> Result<Option<Lock>, ScopeError> {
        Ok(Lock::take(&self.path("lock"))?)
    }

    // ---- who this node is ----

    pub fn node(&self) -> Result<Option<NodeFile>, ScopeError> {
        self.read_json("node.json")
    }

    pub fn save_node(&self, node: &NodeFile) -> Result<(), ScopeError> {
        self.write_json("node.json", node)
    }

    /// The node key: made here, never leaves.
    pub fn node_key(&self) -> Result<P256Key, ScopeError> {
        self.read_key("node.key")
    }

    /// Makes the keys that last, unless a first attempt already has.
    pub fn make_keys(&self) -> Result<(), ScopeError> {
        self.finish_wiping()?;
        self.create()?;
        if !self.path("seal.key").exists() {
            let (secret, _) = random::x25519()?;
            file::write(&self.path("seal.key"), &secret[..], FileAccess::Private)?;
        }
        if !self.path("node.key").exists() {
            file::write(&self.path("node.key"), random::p256()?.to_pem().as_bytes(), FileAccess::Private)?;
        }
        Ok(())
    }

    pub fn seal_key(&self) -> Result<SealKey, ScopeError> {
        Ok(SealKey(random::x25519_public(&*self.seal_secret()?)?))
    }

    /// Opens what is sealed to this node.
    pub fn seal_secret(&self) -> Result<Zeroizing<[u8; 32]>, ScopeError> {
        let path = self.path("seal.key");
        let secret = file::read_secret(&path)?;
        let damaged = || ScopeError::Damaged { path: path.clone(), why: Unsound::NotAKey };
        Ok(Zeroizing::new(secret.as_slice().try_into().map_err(|_| damaged())?))
    }

    pub fn save_admission(&self, admission: &Envelope) -> Result<(), ScopeError> {
        self.write_json("admission.json", admission)
    }

    // ---- what is known of the org ----

    /// The ratchet, on disk before anything is done by it.
    pub fn save_known(&self, known: &Known) -> Result<(), ScopeError> {
        // What cannot be read was never followed, as far as can be told.
        let before = self.known().ok().flatten();
        self.write_json("known.json", &known.to_file())?;
        before.map_or(Ok(()), |before| self.note_left(&before, known))
    }

    /// The founders' own roots. Which versions they are is learned at the first gateway.
    pub fn save_trust(&self, identity: &[Bundle<Identity>], endpoint: &[Bundle<Endpoint>]) -> Result<(), ScopeError> {
        let paths = TrustPaths::default();
        self.write_roots(&paths, &Roots::of_all(identity))?;
        self.write_roots(&paths, &Roots::of_all(endpoint)).map(drop)
    }

    // ---- SVIDs: the node's own in `.`, others' in `principals/<kind>-<name>` ----

    /// The folder in which a principal's SVID lies.
    pub fn seat(&self, principal: &Principal) -> Seat {
        if principal.node_name().is_some() {
            return Seat { folder: self.folder.clone() };
        }
        let name = format!("{}-{}", principal.kind().word(), principal.name());
        Seat { folder: self.path("principals").join(name) }
    }

    /// Everyone who has an SVID here, the node itself first.
    pub fn seated(&self, node: &NodeFile) -> Vec<Principal> {
        let read = |entry: std::fs::DirEntry| {
            let name = entry.file_name();
            let (kind, name) = name.to_str()?.split_once('-')?;
            let principal: Principal = format!("spiffe://{}/{kind}/{name}", node.org).parse().ok()?;
            let seat = self.seat(&principal);
            (seat.folder == entry.path() && seat.is_taken()).then_some(principal)
        };
        let entries = std::fs::read_dir(self.path("principals")).into_iter().flatten().flatten();
        let mut placed: Vec<Principal> = entries.filter_map(read).collect();
        placed.sort();
        std::iter::once(node.principal()).chain(placed).collect()
    }

    /// Forgets the SVIDs of users and services that are at home here no longer.
    pub fn keep_seats(&self, placed: &BTreeSet<Principal>) -> Result<(), ScopeError> {
        let kept: BTreeSet<PathBuf> = placed.iter().map(|principal| self.seat(principal).folder).collect();
        for entry in std::fs::read_dir(self.path("principals")).into_iter().flatten().flatten() {
            let seat = Seat { folder: entry.path() };
            if !kept.contains(&seat.folder) && seat.is_taken() {
                seat.empty()?;
            }
        }
        Ok(())
    }

    /// Wipes every key and removes the folder. It is put aside first, in one step: killed in between, there is no
    /// scope any more, and whoever comes next finishes.
    pub fn wipe(&self) -> Result<(), ScopeError> {
        self.finish_wiping()?;
        if self.folder.exists() {
            file::rename(&self.folder, &self.aside())?;
        }
        self.finish_wiping()
    }

    /// Scopes under a root whose wiping was cut off: they are none any more, and their keys still lie there.
    pub fn half_wiped(root: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.strip_prefix('.')?.strip_suffix(".wiping")?.parse::<OrgName>().ok()
        });
        names.map(|org| Self::at(root, &org)).collect()
    }

    /// What an interrupted wipe left; nothing of a scope that was made since.
    pub fn finish_wiping(&self) -> Result<(), ScopeError> {
        for secret in secrets_below(&self.aside()) {
            file::wipe(&secret)?;
        }
        Ok(file::remove_folder(&self.aside())?)
    }

    fn aside(&self) -> PathBuf {
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        self.folder.with_file_name(format!(".{name}.wiping"))
    }

    fn read_key(&self, name: &str) -> Result<P256Key, ScopeError> {
        read_key(&self.path(name))
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ScopeError> {
        read_json(&self.path(name))
    }

    fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), ScopeError> {
        write_json(&self.path(name), value)
    }
}

/// Where one principal's SVID is kept.
#[derive(Debug, Clone)]
pub struct Seat {
    folder: PathBuf,
}

impl Seat {
    /// The key that is being asked for, made on first use.
    pub fn pending(&self) -> Result<Pending, ScopeError> {
        let path = self.folder.join("pending.key");
        file::make_private_folder(&self.folder.join("svids"))?;
        self.check_count()?;
        self.forget_installed(&path)?;
        if !path.exists() {
            file::write(&path, random::p256()?.to_pem().as_bytes(), FileAccess::Private)?;
        }
        Ok(Pending { counter: self.counter() + 1, key: read_key(&path)? })
    }

    /// Killed between putting an SVID in place and forgetting its key: that key is not asked for twice.
    fn forget_installed(&self, pending: &Path) -> Result<(), ScopeError> {
        let in_use = file::read_if_there(&self.folder.join("svid.key"))?;
        if in_use.is_some() && file::read_if_there(pending)? == in_use {
            file::wipe(pending)?;
        }
        Ok(())
    }

    fn is_taken(&self) -> bool {
        self.folder.join("svids").exists() || self.folder.join("current").is_symlink()
    }

    /// Forgets the SVID and its key. What is counted on from stays, and so does a key that was asked for and not
    /// answered: whoever comes back would else look like a second machine to the gateways.
    fn empty(&self) -> Result<(), ScopeError> {
        self.forget_installed(&self.folder.join("pending.key"))?;
        self.leave_count()?;
        for secret in secrets_below(&self.folder.join("svids")) {
            file::wipe(&secret)?;
        }
        for link in ["svid.pem", "svid.key", "current"] {
            match std::fs::remove_file(self.folder.join(link)) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(FileError::Io { doing: "remove", path: self.folder.join(link), source }.into());
                }
                _ => {}
            }
        }
        Ok(file::remove_folder(&self.folder.join("svids"))?)
    }

    /// Puts a new SVID in place, certificate and key together.
    pub fn install(&self, pending: &Pending, chain_pem: &str) -> Result<(), ScopeError> {
        let folder = self.folder.join("svids").join(pending.counter.to_string());
        file::make_private_folder(&folder)?;
        file::write(&folder.join("svid.pem"), chain_pem.as_bytes(), FileAccess::Readable)?;
        file::write(&folder.join("svid.key"), pending.key.to_pem().as_bytes(), FileAccess::Private)?;
        for name in ["svid.pem", "svid.key"] {
            if !self.folder.join(name).is_symlink() {
                file::point_link(&self.folder.join(name), &Path::new("current").join(name))?;
            }
        }
        file::point_link(&self.folder.join("current"), &Path::new("svids").join(pending.counter.to_string()))?;
        file::wipe(&self.folder.join("pending.key"))?;
        self.forget_older(pending.counter);
        Ok(())
    }

    /// The same certificates in another order.
    pub fn reorder(&self, counter: u64, chain_pem: &str) -> Result<(), ScopeError> {
        let folder = self.folder.join("svids").join(counter.to_string());
        Ok(file::write(&folder.join("svid.pem"), chain_pem.as_bytes(), FileAccess::Readable)?)
    }

    /// The one before the last may still be in a reader's hands; older ones are not.
    fn forget_older(&self, current: u64) {
        for entry in std::fs::read_dir(self.folder.join("svids")).into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
            if number.is_some_and(|number| number + 1 < current) {
                for secret in secrets_below(&entry.path()) {
                    let _ = file::wipe(&secret);
                }
                let _ = file::remove_folder(&entry.path());
            }
        }
    }

    /// What lies there, damaged or not.
    pub fn look(&self) -> Result<Option<Svid>, ScopeError> {
        // Through `current` once, so that certificate and key are of one SVID.
        let folder = self.folder.join("svids").join(self.counter().to_string());
        let path = folder.join("svid.pem");
        let Some(pem) = file::read_if_there(&path)? else {
            return Ok(None);
        };
        let damaged = |why| ScopeError::Damaged { path: path.clone(), why };
        let chain = certificate::from_pem(&String::from_utf8_lossy(&pem)).map_err(|why| damaged(why.into()))?;
        let leaf = chain.first().ok_or_else(|| damaged(Unsound::Empty))?;
        let certificate::Reading { validity, dns, .. } = certificate::read(leaf).map_err(|why| damaged(why.into()))?;
        let key = read_key(&folder.join("svid.key"))?;
        Ok(Some(Svid {
            own: OwnSvid { chain, key },
            counter: self.counter(),
            not_before: validity.not_before,
            not_after: validity.not_after,
            dns,
        }))
    }
}

pub fn read_key(path: &Path) -> Result<P256Key, ScopeError> {
    let pem = file::read_secret(path)?;
    let text = std::str::from_utf8(&pem).unwrap_or_default();
    P256Key::from_pem(text).map_err(|source| ScopeError::DamagedKey { path: path.to_owned(), source })
}

pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ScopeError> {
    let Some(bytes) = file::read_if_there(path)? else {
        return Ok(None);
    };
    let damaged = |why: serde_json::Error| ScopeError::Damaged { path: path.to_owned(), why: why.into() };
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), ScopeError> {
    let damaged = |why: serde_json::Error| ScopeError::Damaged { path: path.to_owned(), why: why.into() };
    let json = serde_json::to_vec_pretty(value).map_err(damaged)?;
    Ok(file::write(path, &json, FileAccess::Private)?)
}

fn secrets_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            found.extend(secrets_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "key" || extension == "draft") {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod evidence;
#[cfg(test)]
mod seats;
mod begun;

pub use begun::Wish;
