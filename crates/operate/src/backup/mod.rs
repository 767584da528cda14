//! A backup: an age file with a tar file in it, which holds an org's folder. What is in it, and how it is written.

pub mod inside;
pub mod tar;
mod pack;
pub mod read;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ground::archive::{ArchiveError, Sum, To};
use ground::file::{self, FileError};
use identity::id::{Digest, OrgId};
use identity::principal::OrgName;
use identity::time::Timestamp;
use pack::Packer;
use serde::{Deserialize, Serialize};
use tar::BadTar;
use zeroize::Zeroizing;

use crate::backup::inside::{Inside, NotInside};
use crate::folder::LastBackup;

/// The ledger's place in a backup. It is copied by whoever can open it; all else is read as it lies.
pub const LEDGER: &str = "gateway/ledger.db";
/// The list of all that is in it comes first.
pub(crate) const LIST: &str = "contents.json";
/// Nothing that we keep comes near this.
const MAX_ITEMS: usize = 100_000;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("`{}`: {source}", path.display())]
    Archive { path: PathBuf, source: ArchiveError },
    #[error("there already is a file `{}`", .0.display())]
    Exists(PathBuf),
    #[error("`{}` is a link that leads out of the org's folder, so the file behind it would be missing", .0.display())]
    LeadsOut(PathBuf),
    #[error("the list of what is in the backup does not hold: {0}")]
    BadList(BadList),
    #[error(transparent)]
    NotInside(#[from] NotInside),
    #[error("`{0}` in the backup is damaged: it is not what was put in")]
    BadItem(Inside),
    #[error("what is in the backup does not hold: {0}")]
    Tar(#[from] BadTar),
}

/// Why a list of what is in a backup is not believed.
#[derive(Debug, thiserror::Error)]
pub enum BadList {
    #[error("{0}")]
    Json(serde_json::Error),
    #[error("it is of version {0}, and this freehold knows 1: upgrade freehold")]
    Version(u32),
    #[error("it is too long")]
    TooLong,
    #[error("`{0}` has no place in an org's folder")]
    NoPlace(Inside),
    #[error("`{0}` is in it twice")]
    Twice(Inside),
    #[error("`{path}` lies below `{above}`, which is no folder")]
    Below { path: Inside, above: Inside },
    #[error("`{path}` has the mode {mode:o}")]
    Mode { path: Inside, mode: u32 },
    #[error("it changed while it was read")]
    Changed,
    #[error("`{LIST}` is not the first file in it")]
    NotFirst,
    #[error("`{}` is in the backup, but not in its list", .0.escape_default())]
    Unlisted(String),
    #[error("`{0}` is in the list, but not in the backup")]
    Missing(String),
    #[error("something follows its end")]
    Beyond,
}

impl From<BadList> for BackupError {
    fn from(why: BadList) -> Self {
        Self::BadList(why)
    }
}

/// Of what a backup is made, and when.
#[derive(Debug, Clone)]
pub struct BackupOrigin {
    pub org: OrgName,
    pub org_id: OrgId,
    pub at: Timestamp,
}

/// What is in a backup: the first file in it says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupContents {
    pub schema: u32,
    pub org: OrgName,
    pub org_id: OrgId,
    pub made_at: Timestamp,
    /// The version of the program that made it.
    pub by: String,
    pub files: Vec<Item>,
    pub links: Vec<Link>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    pub path: Inside,
    pub mode: u32,
    pub size: u64,
    pub sha256: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub path: Inside,
    pub target: Inside,
}

impl BackupContents {
    pub fn has(&self, half: &str) -> bool {
        self.files.iter().any(|item| item.path.first() == half)
    }

    /// Whoever wrote the list knew the passphrase, or whom to encrypt to: that is no reason to let it reach beyond its folder.
    fn check(&self) -> Result<(), BadList> {
        if self.schema != 1 {
            return Err(BadList::Version(self.schema));
        }
        if self.files.len() + self.links.len() > MAX_ITEMS {
            return Err(BadList::TooLong);
        }
        let links: BTreeSet<&Inside> = self.links.iter().map(|link| &link.path).collect();
        let paths = || self.files.iter().map(|item| &item.path).chain(self.links.iter().map(|link| &link.path));
        let mut seen = BTreeSet::new();
        for path in paths() {
            if !matches!(path.first(), "operator" | "gateway") || path.depth() < 2 {
                return Err(BadList::NoPlace(path.clone()));
            }
            if !seen.insert(path) {
                return Err(BadList::Twice(path.clone()));
            }
        }
        let above = |path: &Inside| path.above().find(|above| links.contains(above) || seen.contains(above));
        if let Some((path, above)) = paths().find_map(|path| Some((path.clone(), above(path)?))) {
            return Err(BadList::Below { path, above });
        }
        match self.files.iter().find(|item| item.mode & !0o644 != 0) {
            Some(item) => Err(BadList::Mode { path: item.path.clone(), mode: item.mode }),
            None => Ok(()),
        }
    }
}

/// What will be written: small files as they were read, the ledger where its copy lies.
#[derive(Debug)]
pub struct Gathered {
    items: Vec<(Item, Body)>,
    links: Vec<Link>,
}

#[derive(Debug)]
enum Body {
    Read(Zeroizing<Vec<u8>>),
    Copied(PathBuf),
}

/// Reads one half of an org's folder. Locks, sockets, drafts, released files, the ledger and its side files stay out.
pub fn gather(org_folder: &Path, half: &str) -> Result<Gathered, BackupError> {
    let mut gathered = Gathered { items: Vec::new(), links: Vec::new() };
    gathered.folder(&org_folder.join(half), &Inside::new(half)?)?;
    Ok(gathered)
}

fn stays_out(path: &Inside) -> bool {
    let name = path.name();
    let is = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    name.starts_with('.')
        || is(&[".lock", ".sock", ".draft", ".bak", ".db", ".db-wal", ".db-shm", ".db-journal", ".log", ".log.1"])
        || matches!(name, "lock" | "serving.json" | LastBackup::FILE)
        // What is restored must not speak in the voice that may have taken its place since: it draws another.
        || path.as_str() == "gateway/voice.spare.key"
        // Large, public, and in the hands of whoever released them.
        || path.as_str() == "gateway/files"
}

impl Gathered {
    fn folder(&mut self, folder: &Path, at: &Inside) -> Result<(), BackupError> {
        let io = |source| BackupError::Io { doing: "read the folder", path: folder.to_owned(), source };
        let mut entries = fs::read_dir(folder).map_err(io)?.collect::<Result<Vec<_>, _>>().map_err(io)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, inside) = (entry.path(), at.join(&entry.file_name().to_string_lossy())?);
            let kind = entry.file_type().map_err(io)?;
            if stays_out(&inside) {
                continue;
            }
            if kind.is_dir() {
                self.folder(&path, &inside)?;
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).map_err(io)?;
                let target = target.to_str().and_then(|target| Inside::new(target).ok());
                let target = target.ok_or(BackupError::LeadsOut(path))?;
                self.links.push(Link { path: inside, target });
            } else if kind.is_file() {
                self.file(&path, inside)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, inside: Inside) -> Result<(), BackupError> {
        let Some(bytes) = file::read_if_there(path)?.map(Zeroizing::new) else {
            // Gone since the folder was listed: a draft that found its place, a key that was used up.
            return Ok(());
        };
        let io = |source| BackupError::Io { doing: "read", path: path.to_owned(), source };
        let mode = fs::metadata(path).map_err(io)?.permissions().mode() & 0o644;
        let mode = if inside.is_key() { 0o600 } else { mode | 0o600 };
        let item = Item { path: inside, mode, size: bytes.len() as u64, sha256: Digest::of(&bytes) };
        self.items.push((item, Body::Read(bytes)));
        Ok(())
    }

    /// Adds the ledger's copy, which stays as it is until it was written.
    pub fn add_ledger(&mut self, copy: &Path) -> Result<(), BackupError> {
        let (mut sum, mut size) = (Sum::default(), 0);
        pack::each_piece(copy, |piece| {
            sum.add(piece);
            size += piece.len() as u64;
            Ok(())
        })?;
        let item = Item { path: Inside::new(LEDGER)?, mode: 0o600, size, sha256: Digest(sum.finish()) };
        self.items.push((item, Body::Copied(copy.to_owned())));
        Ok(())
    }

    pub fn append(&mut self, mut more: Self) {
        self.items.append(&mut more.items);
        self.links.append(&mut more.links);
    }

    /// The keys, and which of them are in use: what must not change while the ledger is copied.
    pub fn keys(&self) -> impl Iterator<Item = (&Inside, String)> {
        let keys = self.items.iter().filter(|(item, _)| item.path.is_key());
        let keys = keys.map(|(item, _)| (&item.path, item.sha256.to_string()));
        keys.chain(self.links.iter().map(|link| (&link.path, link.target.to_string())))
    }

    /// A small file that was read.
    pub fn read(&self, path: &str) -> Option<&[u8]> {
        self.items.iter().find_map(|(item, body)| match body {
            Body::Read(bytes) if item.path.as_str() == path => Some(&bytes[..]),
            _ => None,
        })
    }

    /// Writes the backup: whole or absent, for this user alone, never over another file.
    pub fn write(self, to: &Path, origin: BackupOrigin, for_whom: &To) -> Result<BackupContents, BackupError> {
        let BackupOrigin { org, org_id, at: made_at } = origin;
        let files = self.items.iter().map(|(item, _)| item.clone()).collect();
        let by = env!("CARGO_PKG_VERSION").to_owned();
        let contents = BackupContents { schema: 1, org, org_id, made_at, by, files, links: self.links.clone() };
        contents.check()?;
        if to.symlink_metadata().is_ok() {
            return Err(BackupError::Exists(to.to_owned()));
        }
        let name = to.file_name().unwrap_or_default().to_string_lossy();
        let draft = to.with_file_name(format!(".{name}.{}.draft", std::process::id()));
        let written = self.pack(&draft, &contents, for_whom).map_err(|why| match why {
            BackupError::Archive { source, .. } => BackupError::Archive { path: to.to_owned(), source },
            other => other,
        });
        // A link fails where a name is taken; a rename would not.
        let written = written.and_then(|()| match fs::hard_link(&draft, to) {
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => Err(BackupError::Exists(to.to_owned())),
            Err(_) => Ok(file::rename(&draft, to)?),
            Ok(()) => Ok(()),
        });
        let _ = fs::remove_file(&draft);
        written?;
        let folder = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        file::sync_folder(folder)?;
        Ok(contents)
    }

    fn pack(&self, draft: &Path, contents: &BackupContents, to: &To) -> Result<(), BackupError> {
        let mut packer = Packer::begin(draft, contents, to)?;
        self.links.iter().try_for_each(|link| packer.link(link))?;
        self.items.iter().try_for_each(|(item, body)| packer.file(item, body))?;
        packer.finish()
    }
}

#[cfg(test)]
mod tests;
