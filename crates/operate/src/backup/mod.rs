//! A backup: one encrypted file with an org's folder in it. What is in it, how it is written, how it is read.

pub mod inside;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ground::archive::{ArchiveError, Opener, Sealer, Sum};
use ground::file::{self, FileError};
use ground::passphrase::Passphrase;
use identity::id::{Digest, OrgId};
use identity::principal::OrgName;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::backup::inside::{Inside, NotInside};
use crate::folder::LastBackup;

/// The ledger's place in a backup. It is copied by whoever can open it; all else is read as it lies.
pub const LEDGER: &str = "gateway/ledger.db";
/// Nothing that we keep comes near these.
const MAX_LIST: usize = 16 << 20;
const MAX_ITEMS: usize = 100_000;
const PIECE: usize = 64 << 10;

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
}

/// Of what a backup is made, and when.
#[derive(Debug, Clone)]
pub struct Origin {
    pub org: OrgName,
    pub org_id: OrgId,
    pub at: Timestamp,
}

/// What is in a backup. It stands at the beginning, inside the encryption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
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

impl Contents {
    pub fn has(&self, half: &str) -> bool {
        self.files.iter().any(|item| item.path.first() == half)
    }

    /// Whoever wrote the list knew the passphrase; that is no reason to let it reach beyond its folder.
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
        let io = |source| BackupError::Io { doing: "read", path: copy.to_owned(), source };
        let (mut sum, mut size) = (Sum::default(), 0);
        each_piece(copy, |piece| {
            sum.add(piece);
            size += piece.len() as u64;
            Ok(())
        })
        .map_err(|why| match why {
            ArchiveError::Io(source) => io(source),
            source => BackupError::Archive { path: copy.to_owned(), source },
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
    pub fn write(self, to: &Path, origin: Origin, passphrase: &Passphrase) -> Result<Contents, BackupError> {
        let Origin { org, org_id, at: made_at } = origin;
        let files = self.items.iter().map(|(item, _)| item.clone()).collect();
        let by = env!("CARGO_PKG_VERSION").to_owned();
        let contents = Contents { schema: 1, org, org_id, made_at, by, files, links: self.links };
        contents.check().map_err(BackupError::BadList)?;
        if to.symlink_metadata().is_ok() {
            return Err(BackupError::Exists(to.to_owned()));
        }
        let name = to.file_name().unwrap_or_default().to_string_lossy();
        let draft = to.with_file_name(format!(".{name}.{}.draft", std::process::id()));
        let bodies = self.items.into_iter().map(|(_, body)| body);
        let written = write_all(&draft, &contents, bodies, passphrase)
            .map_err(|source| BackupError::Archive { path: to.to_owned(), source });
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
}

fn write_all(
    draft: &Path,
    contents: &Contents,
    bodies: impl Iterator<Item = Body>,
    passphrase: &Passphrase,
) -> Result<(), ArchiveError> {
    let _ = fs::remove_file(draft);
    let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    let mut sealer = Sealer::begin(out, passphrase)?;
    let list = serde_json::to_vec(contents).map_err(std::io::Error::other)?;
    let length = u32::try_from(list.len()).map_err(std::io::Error::other)?;
    sealer.write(&length.to_be_bytes())?;
    sealer.write(&list)?;
    for body in bodies {
        match body {
            Body::Read(bytes) => sealer.write(&bytes)?,
            Body::Copied(path) => each_piece(&path, |piece| sealer.write(piece))?,
        }
    }
    Ok(sealer.finish()?.sync_all()?)
}

fn each_piece(path: &Path, mut take: impl FnMut(&[u8]) -> Result<(), ArchiveError>) -> Result<(), ArchiveError> {
    let (mut from, mut piece) = (File::open(path)?, vec![0; PIECE]);
    loop {
        let count = from.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        take(piece.get(..count).unwrap_or_default())?;
    }
}

/// Where a file of the backup goes while it is read. Its sum is checked wherever it goes.
#[derive(Debug)]
pub enum Sink {
    Nowhere,
    Memory,
    File(PathBuf),
}

/// What went to memory.
pub type Kept = BTreeMap<Inside, Zeroizing<Vec<u8>>>;

/// A backup that is being read.
#[derive(Debug)]
pub struct Backup {
    path: PathBuf,
    opener: Opener<File>,
    pub contents: Contents,
}

impl Backup {
    /// Opens it and reads the list of what is in it.
    pub fn open(
        path: &Path,
        passphrase: impl FnOnce() -> Result<Passphrase, ArchiveError>,
    ) -> Result<Self, BackupError> {
        let damaged = |source| BackupError::Archive { path: path.to_owned(), source };
        let io = |source| BackupError::Io { doing: "read", path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let mut opener = Opener::begin(file, passphrase).map_err(damaged)?;
        let mut length = [0; 4];
        opener.fill(&mut length).map_err(damaged)?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_LIST {
            return Err(BackupError::BadList(BadList::TooLong));
        }
        let mut list = vec![0; length];
        opener.fill(&mut list).map_err(damaged)?;
        let unreadable = |why| BackupError::BadList(BadList::Json(why));
        let contents: Contents = serde_json::from_slice(&list).map_err(unreadable)?;
        contents.check().map_err(BackupError::BadList)?;
        Ok(Self { path: path.to_owned(), opener, contents })
    }

    /// Reads all of it to its end and checks every sum. Gives back what went to memory.
    pub fn unpack(mut self, sink: impl Fn(&Item) -> Sink) -> Result<(Contents, Kept), BackupError> {
        let mut kept = BTreeMap::new();
        for item in &self.contents.files {
            let mut memory = None;
            let mut out = match sink(item) {
                Sink::Nowhere => None,
                Sink::Memory => {
                    memory = Some(Zeroizing::new(Vec::new()));
                    None
                }
                Sink::File(path) => Some((new_file(&path, item.mode)?, path)),
            };
            let (mut sum, mut left, mut piece) = (Sum::default(), item.size, Zeroizing::new(vec![0; PIECE]));
            while left > 0 {
                let count = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
                let part = piece.get_mut(..count).unwrap_or_default();
                let damaged = |source| BackupError::Archive { path: self.path.clone(), source };
                self.opener.fill(part).map_err(damaged)?;
                sum.add(part);
                if let Some(memory) = &mut memory {
                    memory.extend_from_slice(part);
                }
                if let Some((out, path)) = &mut out {
                    let io = |source| BackupError::Io { doing: "write", path: path.clone(), source };
                    std::io::Write::write_all(out, part).map_err(io)?;
                }
                left -= count as u64;
            }
            if sum.finish() != item.sha256.0 {
                return Err(BackupError::BadItem(item.path.clone()));
            }
            if let Some((out, path)) = out {
                out.sync_all().map_err(|source| BackupError::Io { doing: "write", path, source })?;
            }
            if let Some(memory) = memory {
                kept.insert(item.path.clone(), memory);
            }
        }
        let damaged = |source| BackupError::Archive { path: self.path.clone(), source };
        self.opener.expect_end().map_err(damaged)?;
        Ok((self.contents, kept))
    }
}

/// A new file with its folders, never through what is already there.
fn new_file(path: &Path, mode: u32) -> Result<File, BackupError> {
    if let Some(folder) = path.parent() {
        file::make_private_folder(folder)?;
    }
    let io = |source| BackupError::Io { doing: "write", path: path.to_owned(), source };
    let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
    out.set_permissions(fs::Permissions::from_mode(mode)).map_err(io)?;
    Ok(out)
}

#[cfg(test)]
mod tests;
