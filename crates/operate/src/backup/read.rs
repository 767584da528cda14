//! Reads a backup: of now, and of the time before it was an age file with a tar file in it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ground::archive::{ArchiveError, Opener, Sum, With};
use ground::file;
use zeroize::Zeroizing;

use super::tar::{self, TarEntry, TarEntryKind};
use super::{BackupContents, BackupError, BadList, Item, LIST};
use crate::backup::inside::Inside;

/// Nothing that we keep comes near this.
const MAX_LIST: u64 = 16 << 20;
const PIECE: usize = 64 << 10;

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
    pub contents: BackupContents,
    stream: Stream,
}

impl Backup {
    /// Opens it and reads the list of what is in it.
    pub fn open(path: &Path, with: &With) -> Result<Self, BackupError> {
        let io = |source| BackupError::Io { doing: "read", path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let opener = Opener::begin(file, with);
        let opener = opener.map_err(|source| BackupError::Archive { path: path.to_owned(), source })?;
        let mut stream = Stream { path: path.to_owned(), opener };
        let list = stream.list()?;
        let contents: BackupContents = serde_json::from_slice(&list).map_err(BadList::Json)?;
        contents.check()?;
        Ok(Self { contents, stream })
    }

    /// Reads all of it from its beginning to its end and checks every sum. Gives back what went to memory.
    pub fn unpack(&mut self, sink: impl Fn(&Item) -> Sink) -> Result<Kept, BackupError> {
        let stream = &mut self.stream;
        stream.opener.rewind().map_err(|source| stream.archive(source))?;
        // Read anew, and the same: the file is one that nobody else writes to.
        let list = stream.list()?;
        if serde_json::from_slice(&list).ok().as_ref() != Some(&self.contents) {
            return Err(BadList::Changed.into());
        }
        let mut kept = Kept::new();
        if stream.opener.is_first() {
            for item in &self.contents.files {
                stream.item(item, sink(item), &mut kept)?;
            }
        } else {
            stream.entries(&self.contents, sink, &mut kept)?;
        }
        stream.opener.expect_end().map_err(|source| stream.archive(source))?;
        Ok(kept)
    }
}

#[derive(Debug)]
struct Stream {
    path: PathBuf,
    opener: Opener<File>,
}

impl Stream {
    fn archive(&self, source: ArchiveError) -> BackupError {
        BackupError::Archive { path: self.path.clone(), source }
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<(), BackupError> {
        self.opener.fill(out).map_err(|source| self.archive(source))
    }

    /// The list, which comes first.
    fn list(&mut self) -> Result<Vec<u8>, BackupError> {
        let is_first = self.opener.is_first();
        let size = if is_first {
            let mut length = [0; 4];
            self.fill(&mut length)?;
            u64::from(u32::from_be_bytes(length))
        } else {
            match tar::next(|out| self.fill(out))? {
                Some(TarEntry { path, kind: TarEntryKind::File { size } }) if path == LIST => size,
                _ => return Err(BadList::NotFirst.into()),
            }
        };
        if size > MAX_LIST {
            return Err(BadList::TooLong.into());
        }
        let mut list = vec![0; usize::try_from(size).unwrap_or_default()];
        self.fill(&mut list)?;
        if !is_first {
            self.padding(size)?;
        }
        Ok(list)
    }

    /// Every entry that the list names, once, and nothing else; then zeros up to the end.
    fn entries(
        &mut self,
        contents: &BackupContents,
        sink: impl Fn(&Item) -> Sink,
        kept: &mut Kept,
    ) -> Result<(), BackupError> {
        let mut files: BTreeMap<&str, &Item> = contents.files.iter().map(|item| (item.path.as_str(), item)).collect();
        let mut links: BTreeMap<&str, &str> =
            contents.links.iter().map(|link| (link.path.as_str(), link.target.as_str())).collect();
        while let Some(entry) = tar::next(|out| self.fill(out))? {
            let path = entry.path.as_str();
            let unlisted = || BackupError::from(BadList::Unlisted(path.to_owned()));
            match entry.kind {
                // They come into being with what is in them.
                TarEntryKind::Folder => {}
                TarEntryKind::Link { target } => {
                    if links.remove(path) != Some(target.as_str()) {
                        return Err(unlisted());
                    }
                }
                TarEntryKind::File { size } => {
                    let item = files.remove(path).ok_or_else(unlisted)?;
                    if item.size != size {
                        return Err(BackupError::BadItem(item.path.clone()));
                    }
                    self.item(item, sink(item), kept)?;
                    self.padding(size)?;
                }
            }
        }
        if let Some(path) = files.keys().chain(links.keys()).next() {
            return Err(BadList::Missing((*path).to_owned()).into());
        }
        let mut block = [0; tar::BLOCK];
        while !self.opener.is_at_end().map_err(|source| self.archive(source))? {
            self.fill(&mut block)?;
            if block != [0; tar::BLOCK] {
                return Err(BadList::Beyond.into());
            }
        }
        Ok(())
    }

    /// Reads one file and checks its sum.
    fn item(&mut self, item: &Item, sink: Sink, kept: &mut Kept) -> Result<(), BackupError> {
        let mut memory = None;
        let mut out = match sink {
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
            self.fill(part)?;
            sum.add(part);
            if let Some(memory) = &mut memory {
                memory.extend_from_slice(part);
            }
            if let Some((out, path)) = &mut out {
                out.write_all(part).map_err(|source| BackupError::Io { doing: "write", path: path.clone(), source })?;
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
        Ok(())
    }

    fn padding(&mut self, size: u64) -> Result<(), BackupError> {
        let mut rest: Vec<u8> = tar::padding(size).collect();
        self.fill(&mut rest)
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
