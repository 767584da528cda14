//! Files by their SHA-256: what a gateway hands to strangers. Each is whole and right, or not there.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use ground::file::{self, FileAccess, FileError};
use identity::id::{Digest, Hasher};
use identity::time::Seconds;
use org::release::MAX_FILE;

/// One signer alone can hand files in: all of them together take no more than this.
const MAX_STORE: u64 = 4 << 30;
const MAX_UPLOADS: usize = 16;
const PART: &str = "part";
/// An upload that nobody goes on with is given up after so long.
const UPLOAD_LIFE: Duration = Duration::from_hours(24);

#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    /// Whoever adds or removes holds it. Whoever reads need not: a file is in place or it is not.
    changes: Mutex<()>,
}

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("a file is between 1 byte and {} MiB", MAX_FILE >> 20)]
    Size,
    #[error("a part lies beyond the end of its file")]
    BeyondEnd,
    #[error("what was handed in is something else than was said: it was thrown away")]
    OtherBytes,
    #[error("there is no room for more: {MAX_UPLOADS} uploads at once, and {} GiB in all", MAX_STORE >> 30)]
    Full,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub files: u64,
    pub bytes: u64,
}

impl Files {
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, changes: Mutex::new(()) }
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(digest.to_string())
    }

    fn part(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{digest}.{PART}"))
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn has(&self, digest: Digest) -> bool {
        self.path(digest).is_file()
    }

    /// The file and its length, to be read from a place on.
    pub fn open(&self, digest: Digest) -> io::Result<Option<(File, u64)>> {
        match File::open(self.path(digest)) {
            Ok(file) => {
                let length = file.metadata()?.len();
                Ok(Some((file, length)))
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Puts small things in whole.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, FilesError> {
        let _held = self.lock();
        let digest = Digest::of(bytes);
        if !self.has(digest) {
            file::make_private_folder(&self.folder)?;
            file::write(&self.path(digest), bytes, FileAccess::Private)?;
        }
        Ok(digest)
    }

    /// How much of a file is there, if it is not there whole. Whoever asks is about to name it: it stays for a while.
    pub fn missing(&self, digest: Digest) -> Option<u64> {
        let _held = self.lock();
        let touch = |path: &Path| File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
        if touch(&self.path(digest)).is_ok() {
            return None;
        }
        Some(fs::metadata(self.part(digest)).map_or(0, |meta| meta.len()))
    }

    /// Takes a part, if it begins where the last one ended; says how much is there now. With the last one the file is
    /// put in place, if it is the one that was said.
    pub fn add_part(&self, digest: Digest, size: u64, from: u64, bytes: &[u8]) -> Result<u64, FilesError> {
        if !(1..=MAX_FILE).contains(&size) {
            return Err(FilesError::Size);
        }
        let until = from.checked_add(bytes.len() as u64).filter(|until| *until <= size);
        let until = until.ok_or(FilesError::BeyondEnd)?;
        let _held = self.lock();
        if self.has(digest) {
            return Ok(size);
        }
        let path = self.part(digest);
        let have = fs::metadata(&path).map_or(0, |meta| meta.len());
        // Cut off after the last part came, and before it was put in place.
        if have >= size {
            self.settle(digest, &path)?;
            return Ok(size);
        }
        if from != have || bytes.is_empty() {
            return Ok(have);
        }
        if have == 0 {
            file::make_private_folder(&self.folder)?;
            self.check_room(size)?;
        }
        append(&path, from, bytes).map_err(|source| FilesError::Io { doing: "write", path: path.clone(), source })?;
        if until < size {
            return Ok(until);
        }
        self.settle(digest, &path)?;
        Ok(size)
    }

    /// From here on it is read from the disk: what a power cut or another hand made of it is noticed.
    fn settle(&self, digest: Digest, path: &Path) -> Result<(), FilesError> {
        let failed = |source| FilesError::Io { doing: "read", path: path.to_owned(), source };
        let found = hash(path).map_err(failed)?;
        if found != digest {
            let _ = fs::remove_file(path);
            return Err(FilesError::OtherBytes);
        }
        File::open(path).and_then(|file| file.sync_all()).map_err(failed)?;
        Ok(file::rename(path, &self.path(digest))?)
    }

    fn check_room(&self, size: u64) -> Result<(), FilesError> {
        let there: Vec<Found> = self.list();
        let uploads = there.iter().filter(|found| found.is_part).count();
        let bytes: u64 = there.iter().map(|found| found.bytes).sum();
        if uploads >= MAX_UPLOADS || bytes.saturating_add(size) > MAX_STORE { Err(FilesError::Full) } else { Ok(()) }
    }

    /// Removes what nothing names and nobody touched for so long, and uploads that nobody goes on with.
    pub fn sweep(&self, named: &BTreeSet<Digest>, unused_for: Seconds) -> Swept {
        let _held = self.lock();
        let mut swept = Swept::default();
        for found in self.list() {
            let grace = Duration::from_secs(unused_for.0);
            let (kept, grace) = match found.digest {
                Some(digest) if !found.is_part => (named.contains(&digest), grace),
                // An upload, or what a process that was killed left of one.
                _ => (false, UPLOAD_LIFE.max(grace)),
            };
            if !kept && found.age >= grace && fs::remove_file(&found.path).is_ok() {
                swept.files += 1;
                swept.bytes += found.bytes;
            }
        }
        swept
    }

    fn list(&self) -> Vec<Found> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| Found::read(&entry)).collect()
    }
}

struct Found {
    path: PathBuf,
    digest: Option<Digest>,
    is_part: bool,
    bytes: u64,
    age: Duration,
}

impl Found {
    fn read(entry: &fs::DirEntry) -> Option<Self> {
        let meta = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let path = entry.path();
        let is_part = path.extension().is_some_and(|ending| ending == PART);
        let digest = path.file_stem()?.to_str()?.parse().ok();
        // A clock that was set back makes it young, not old.
        let age = meta.modified().ok()?.elapsed().unwrap_or_default();
        Some(Self { path, digest, is_part, bytes: meta.len(), age })
    }
}

/// On a disk that is full nothing of the part stays, so that the next try begins where this one did.
fn append(path: &Path, from: u64, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    file.seek(SeekFrom::Start(from))?;
    file.write_all(bytes).inspect_err(|_| {
        let _ = file.set_len(from);
    })
}

fn hash(path: &Path) -> io::Result<Digest> {
    let (mut file, mut hasher) = (File::open(path)?, Hasher::new());
    let mut chunk = vec![0; 128 << 10];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hasher.finish()),
            read => hasher.add(chunk.get(..read).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests;
