//! Writes a backup, entry by entry.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ground::archive::{ArchiveError, Sealer, To};

use super::tar::{self, TarEntry, TarEntryKind};
use super::{BackupContents, BackupError, BadList, Body, Item, LIST, Link};
use crate::backup::inside::Inside;

const PIECE: usize = 64 << 10;

pub(super) struct Packer<'a> {
    sealer: Sealer<File>,
    path: PathBuf,
    contents: &'a BackupContents,
    /// Those that were put in: who unpacks it with another tool gets private ones.
    folders: BTreeSet<Inside>,
}

impl<'a> Packer<'a> {
    /// A new file for this user alone, with the list in it.
    pub(super) fn begin(path: &Path, contents: &'a BackupContents, to: &To) -> Result<Self, BackupError> {
        let _ = fs::remove_file(path);
        let archive = |source| BackupError::Archive { path: path.to_owned(), source };
        let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let out = out.map_err(|source| archive(source.into()))?;
        let sealer = Sealer::begin(out, to).map_err(archive)?;
        let mut packer = Self { sealer, path: path.to_owned(), contents, folders: BTreeSet::new() };
        // For people, too.
        let list = serde_json::to_vec_pretty(contents).map_err(BadList::Json)?;
        packer.header(LIST, TarEntryKind::File { size: list.len() as u64 }, 0o600)?;
        packer.put(&list)?;
        packer.fill_up(list.len() as u64)?;
        Ok(packer)
    }

    pub(super) fn link(&mut self, link: &Link) -> Result<(), BackupError> {
        self.folders_of(&link.path)?;
        self.header(link.path.as_str(), TarEntryKind::Link { target: link.target.to_string() }, 0o777)
    }

    pub(super) fn file(&mut self, item: &Item, body: &Body) -> Result<(), BackupError> {
        self.folders_of(&item.path)?;
        self.header(item.path.as_str(), TarEntryKind::File { size: item.size }, item.mode)?;
        match body {
            Body::Read(bytes) => self.put(bytes)?,
            Body::Copied(path) => each_piece(path, |piece| self.put(piece))?,
        }
        self.fill_up(item.size)
    }

    pub(super) fn finish(mut self) -> Result<(), BackupError> {
        self.put(&tar::END)?;
        let synced = self.sealer.finish().and_then(|out| Ok(out.sync_all()?));
        synced.map_err(|source| BackupError::Archive { path: self.path, source })
    }

    fn folders_of(&mut self, path: &Inside) -> Result<(), BackupError> {
        let mut new: Vec<Inside> = path.above().filter(|above| self.folders.insert(above.clone())).collect();
        new.reverse();
        new.iter().try_for_each(|folder| self.header(&format!("{folder}/"), TarEntryKind::Folder, 0o700))
    }

    fn header(&mut self, path: &str, kind: TarEntryKind, mode: u32) -> Result<(), BackupError> {
        let header = tar::header(&TarEntry { path: path.to_owned(), kind }, mode, self.contents.made_at)?;
        self.put(&header)
    }

    fn fill_up(&mut self, size: u64) -> Result<(), BackupError> {
        self.put(&tar::padding(size).collect::<Vec<_>>())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        let archive = |source: ArchiveError| BackupError::Archive { path: self.path.clone(), source };
        self.sealer.write(bytes).map_err(archive)
    }
}

pub(super) fn each_piece(
    path: &Path,
    mut take: impl FnMut(&[u8]) -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    let io = |source| BackupError::Io { doing: "read", path: path.to_owned(), source };
    let (mut from, mut piece) = (File::open(path).map_err(io)?, vec![0; PIECE]);
    loop {
        let count = from.read(&mut piece).map_err(io)?;
        if count == 0 {
            return Ok(());
        }
        take(piece.get(..count).unwrap_or_default())?;
    }
}
