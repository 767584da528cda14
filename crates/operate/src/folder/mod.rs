//! An operator's folder: signer keys, roots, and what this operator knows and remembers of the org.

pub mod card;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ground::clock;
use ground::file::{self, FileAccess, FileError, Lock};
use ground::steady::Steady;
use identity::bundle::{Bundle, Endpoint, InDomain as _, Roots};
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::principal::{Address, NodeName, OrgName, SignerName};
use identity::time::Timestamp;
use org::ledger::frontier::Frontier;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wire::known::{BadKnowledge, Known, KnownFile};

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: FileDamage },
    #[error("`{}` is missing", path.display())]
    Missing { path: PathBuf },
    #[error("what is known of the org no longer holds")]
    Knowledge(#[from] BadKnowledge),
}

/// Why a file is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum FileDamage {
    #[error("{0}")]
    Json(serde_json::Error),
    #[error("it was written by a newer freehold: upgrade this one")]
    Newer,
}

/// Where the copy of the ledger lies. No backup carries it: gateways have it.
pub(crate) const REPLICA: &str = "replica";

/// Where trust bundles are kept that say whom to dial, each under its digest.
const BUNDLES: &str = "bundles";

#[derive(Debug, Clone)]
pub struct OperatorFolder {
    pub folder: PathBuf,
}

/// What this operator's tool saw last. A gateway that shows less was restored from an old copy, or lies.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub schema: u32,
    /// Whose key signs calls.
    pub signer: Option<SignerName>,
    pub tip: Option<Envelope>,
    pub gateway: Option<NodeName>,
    pub gateways: Vec<Address>,
    /// How far this home's own copy of the ledger is, and since when.
    #[serde(default, skip_serializing_if = "Frontier::is_empty")]
    pub pulled: Frontier,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulled_at: Option<Timestamp>,
    /// When that gateway served this home last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_at: Option<Timestamp>,
    /// It has heads beside the one in force: what those took away counts, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside: bool,
    /// What lay in the gateway's inbox when it was told last: each is told once.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub told: BTreeSet<Digest>,
}

/// When this operator last made a backup; the reminder ends with the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastBackup {
    pub schema: u32,
    pub made_at: Timestamp,
    /// Where it was written to.
    pub place: String,
}

impl LastBackup {
    pub const FILE: &'static str = "backup.json";
}

impl OperatorFolder {
    pub fn at(home: &Path, org: &OrgName) -> Self {
        Self { folder: home.join(org.as_str()).join("operator") }
    }

    /// What an observer knows and remembers: no key lies there.
    pub fn of_observer(home: &Path, org: &OrgName) -> Self {
        Self { folder: home.join(org.as_str()).join("observer") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Only one command at a time writes here; each holds it for moments.
    pub fn lock_files(&self) -> Result<Lock, FolderError> {
        Ok(Lock::wait(&self.path("files.lock"))?)
    }

    /// Only one command at a time signs: from the draft until the gateway has it.
    pub(crate) fn lock_signing(&self) -> Result<Option<Lock>, FolderError> {
        Ok(Lock::take(&self.path("signing.lock"))?)
    }

    pub fn known(&self) -> Result<Known, FolderError> {
        let path = self.path("known.json");
        let file: KnownFile = read_json(&path)?.ok_or(FolderError::Missing { path })?;
        let known = Known::from_file(file)?;
        // Its copy of the ledger goes by the same.
        let ahead = Steady::of(&self.path(REPLICA)).ahead(known.now(clock::now()));
        Ok(known.ahead_by(ahead))
    }

    pub fn save_known(&self, known: &Known) -> Result<(), FolderError> {
        write_json(&self.path("known.json"), &known.to_file(), FileAccess::Private)
    }

    /// With what other commands have noticed meanwhile; the later head stays. It takes the lock of the files to look.
    pub fn keep_known(&self, known: Known, _locked: &Lock) -> Result<Known, FolderError> {
        let written = self.known()?;
        let is_later = known.head.head.place() >= written.head.head.place();
        let (later, other) = if is_later { (known, written) } else { (written, known) };
        let kept = later.with_sightings_of(&other);
        self.save_known(&kept)?;
        Ok(kept)
    }

    /// Where what waits for other operators is left, unless another place is named.
    pub fn pending(&self) -> PathBuf {
        self.path("pending")
    }

    pub fn memory(&self) -> Result<Memory, FolderError> {
        Ok(read_json(&self.path("memory.json"))?.unwrap_or_default())
    }

    pub fn save_memory(&self, memory: &Memory) -> Result<(), FolderError> {
        write_json(&self.path("memory.json"), memory, FileAccess::Private)
    }

    /// The last backup that was made from here.
    pub fn last_backup(&self) -> Result<Option<LastBackup>, FolderError> {
        read_json(&self.path(LastBackup::FILE))
    }

    pub fn save_last_backup(&self, last: &LastBackup) -> Result<(), FolderError> {
        write_json(&self.path(LastBackup::FILE), last, FileAccess::Private)
    }

    fn bundle_file(&self, digest: Digest) -> PathBuf {
        self.path(BUNDLES).join(format!("{digest}.json"))
    }

    pub(crate) fn has_bundle(&self, digest: Digest) -> bool {
        self.bundle_file(digest).exists()
    }

    /// A trust bundle that was kept here. A damaged one is none: it is asked for again.
    fn kept_bundle(&self, digest: Digest) -> Option<Envelope> {
        let kept: Option<Envelope> = read_json(&self.bundle_file(digest)).ok().flatten();
        kept.filter(|envelope| envelope.digest() == digest)
    }

    /// The endpoint roots that this home goes by: of the bundles that its head trusts those that are kept here.
    pub fn endpoint_roots(&self, known: &Known) -> Roots<Endpoint> {
        let lines = known.head.head.trusted_bundles(Endpoint::DOMAIN);
        let kept = lines.filter_map(|line| known.open_bundle(&self.kept_bundle(line.bundle)?));
        let kept: Vec<Bundle<Endpoint>> = kept.collect();
        if kept.is_empty() { known.first_endpoint_roots() } else { Roots::of_all(&kept) }
    }

    /// Keeps a trust bundle as it was signed.
    pub(crate) fn keep_bundle(&self, envelope: &Envelope) -> Result<(), FolderError> {
        file::make_private_folder(&self.path(BUNDLES))?;
        write_json(&self.bundle_file(envelope.digest()), envelope, FileAccess::Private)
    }

    pub fn signer_file(&self, name: &SignerName) -> PathBuf {
        self.path("signers").join(format!("{name}.key"))
    }

    pub(crate) fn token_file(&self, name: &SignerName) -> PathBuf {
        self.path("signers").join(format!("{name}.token"))
    }

    /// The signers whose key files are here.
    pub fn signers_here(&self) -> Vec<SignerName> {
        self.signers_with("key")
    }

    /// The signers whose keys are on a token.
    pub fn tokens_here(&self) -> Vec<SignerName> {
        self.signers_with("token")
    }

    fn signers_with(&self, ending: &str) -> Vec<SignerName> {
        let entries = std::fs::read_dir(self.path("signers")).into_iter().flatten().flatten();
        let name_in = |file: &str| file.strip_suffix(ending)?.strip_suffix('.')?.parse().ok();
        let mut names: Vec<SignerName> = entries.filter_map(|entry| name_in(entry.file_name().to_str()?)).collect();
        names.sort();
        names
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FolderError> {
    let bytes = file::read_if_there(path)?;
    bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(damaged(path))).transpose()
}

pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T, access: FileAccess) -> Result<(), FolderError> {
    Ok(file::write(path, &serde_json::to_vec_pretty(value).map_err(damaged(path))?, access)?)
}

fn damaged(path: &Path) -> impl FnOnce(serde_json::Error) -> FolderError {
    move |why| FolderError::Damaged { path: path.to_owned(), why: FileDamage::Json(why) }
}

#[cfg(test)]
mod tests;
