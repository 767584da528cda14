//! Files that are whole or absent, private ones that stay private, and locks.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{0}` can be read by others (mode {mode:o}); make it private: chmod 600 {0}", path.display())]
    NotPrivate { path: PathBuf, mode: u32 },
    #[error("`{}` is larger than anything that belongs there", path.display())]
    TooLarge { path: PathBuf },
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError::Io { doing, path, source }
}

/// Nothing that we keep in one file comes near this.
const MAX_FILE: u64 = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// 0600: keys, and everything that goes with them.
    Private,
    /// 0644: certificates and trust bundles, for other programs to read.
    Readable,
    /// 0700: programs, for this user alone.
    Program,
}

/// Writes a file so that after a crash it is the old one or the new one, never a part.
pub fn write(path: &Path, bytes: &[u8], access: FileAccess) -> Result<(), FileError> {
    place(path, bytes, access, |draft, path| fs::rename(draft, path))
}

/// Writes a file that is not there yet; one that is there stays as it is, and that is an error.
pub fn write_new(path: &Path, bytes: &[u8], access: FileAccess) -> Result<(), FileError> {
    place(path, bytes, access, |draft, path| {
        fs::hard_link(draft, path)?;
        fs::remove_file(draft)
    })
}

fn place(
    path: &Path,
    bytes: &[u8],
    access: FileAccess,
    settle: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> Result<(), FileError> {
    sweep(path);
    let folder = folder_of(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = folder.join(format!(".{name}.{}.draft", std::process::id()));
    let mode = match access {
        FileAccess::Private => 0o600,
        FileAccess::Readable => 0o644,
        FileAccess::Program => 0o700,
    };
    let write = || -> io::Result<()> {
        let _ = fs::remove_file(&draft);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
        if access == FileAccess::Readable {
            // Also where new files are kept from others by habit (a umask of 077).
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        settle(&draft, path)
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&draft);
        FileError::Io { doing: "write", path: path.to_owned(), source }
    })?;
    sync_folder(folder)
}

/// The folder in which a path lies; for a bare name that is the current one.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes renames and new files in a folder survive a power loss.
pub fn sync_folder(folder: &Path) -> Result<(), FileError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("sync the folder", folder))
}

/// Makes a folder, and those above it, for this user alone.
pub fn make_private_folder(path: &Path) -> Result<(), FileError> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io("make the folder", path))?;
    sync_folder(folder_of(path))
}

pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).map_err(io("put in place", to))?;
    sync_folder(folder_of(to))
}

/// Points a link at a target, in one step.
pub fn point_link(link: &Path, target: &Path) -> Result<(), FileError> {
    sweep(link);
    let name = link.file_name().unwrap_or_default().to_string_lossy();
    let draft = link.with_file_name(format!(".{name}.{}.draft", std::process::id()));
    let _ = fs::remove_file(&draft);
    std::os::unix::fs::symlink(target, &draft).map_err(io("write", &draft))?;
    rename(&draft, link)
}

pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let file = File::open(path).map_err(io("read", path))?;
    let mut bytes = Vec::new();
    let length = file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(io("read", path))?;
    if length as u64 > MAX_FILE { Err(FileError::TooLarge { path: path.to_owned() }) } else { Ok(bytes) }
}

/// Like `read`, but nothing where there is no such file.
pub fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(other) => Err(other),
    }
}

/// Reads a secret; one that others could have read is refused.
pub fn read_secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let mode = fs::metadata(path).map_err(io("read", path))?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(FileError::NotPrivate { path: path.to_owned(), mode });
    }
    read(path).map(Zeroizing::new)
}

/// Overwrites a secret before removing it: the least that can be done on a disk that forgets slowly. Its name goes
/// first: killed in between, nobody finds a key file full of zeros.
pub fn wipe(path: &Path) -> Result<(), FileError> {
    sweep(path);
    if let Ok(length) = fs::metadata(path).map(|meta| meta.len()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let doomed = path.with_file_name(format!(".wiped.{}.{name}", std::process::id()));
        rename(path, &doomed)?;
        overwrite(&doomed, length).map_err(io("wipe", path))?;
        fs::remove_file(&doomed).map_err(io("remove", path))?;
    }
    Ok(())
}

fn overwrite(path: &Path, length: u64) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(&vec![0; usize::try_from(length.min(MAX_FILE)).unwrap_or(0)])?;
    file.sync_all()
}

/// What a process that was killed left of this file: drafts, and secrets that it was about to wipe. Whoever comes next
/// to the same file removes them.
fn sweep(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for entry in fs::read_dir(folder_of(path)).into_iter().flatten().flatten() {
        let left_by = entry.file_name().to_str().and_then(|found| left_by(found, &name));
        if left_by.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let left = entry.path();
            if let Some(meta) = fs::symlink_metadata(&left).ok().filter(fs::Metadata::is_file) {
                let _ = overwrite(&left, meta.len());
            }
            let _ = fs::remove_file(&left);
        }
    }
}

/// The process that wrote this draft of `name`, or that began to wipe it.
fn left_by(found: &str, name: &str) -> Option<u32> {
    let draft = || found.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".draft");
    let wiped = || found.strip_prefix(".wiped.")?.strip_suffix(name)?.strip_suffix('.');
    draft().or_else(wiped)?.parse().ok()
}

pub fn remove_folder(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(io("remove", path)),
    }
}

/// Held while this process is the only one to open what the lock guards; let go at its end, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Nothing if another process holds it.
    pub fn take(path: &Path) -> Result<Option<Self>, FileError> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
        let file = file.map_err(io("open the lock", path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(io("take the lock", path)(source)),
        }
    }

    /// Waits for its turn; for work that takes moments.
    pub fn wait(path: &Path) -> Result<Self, FileError> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
        let file = file.map_err(io("open the lock", path))?;
        file.lock().map_err(io("take the lock", path))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_takes_no_other_s_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_new(&path, b"first", FileAccess::Private).unwrap();
        let why = write_new(&path, b"second", FileAccess::Private).unwrap_err();
        assert!(matches!(why, FileError::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists));
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_written_file_is_private_and_leaves_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        write(&path, b"one", FileAccess::Private).unwrap();
        write(&path, b"two", FileAccess::Private).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(&read_secret(&path).unwrap()[..], b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        write(&path, b"one", FileAccess::Readable).unwrap();
        assert!(matches!(read_secret(&path), Err(FileError::NotPrivate { mode: 0o644, .. })));
    }

    #[test]
    fn a_wiped_secret_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.key");
        write(&path, b"one", FileAccess::Private).unwrap();
        wipe(&path).unwrap();
        wipe(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_process_left_of_a_file_goes_and_what_a_live_one_writes_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // No process has this number: it is beyond what the kernel gives.
        let (dead, live) = (u32::MAX, std::os::unix::process::parent_id());
        let left = [format!(".key.{dead}.draft"), format!(".wiped.{dead}.key")];
        let kept = [format!(".key.{live}.draft"), format!(".other.{dead}.draft"), ".key.draft".to_owned()];
        for name in left.iter().chain(&kept) {
            fs::write(at(name), b"secret").unwrap();
        }
        write(&at("key"), b"one", FileAccess::Private).unwrap();
        assert!(left.iter().all(|name| !at(name).exists()));
        assert!(kept.iter().all(|name| at(name).exists()));
    }

    #[test]
    fn a_bare_name_lies_in_the_current_folder() {
        assert_eq!(folder_of(Path::new("home")), Path::new("."));
        assert_eq!(folder_of(Path::new("a/home")), Path::new("a"));
        assert_eq!(folder_of(Path::new("/home")), Path::new("/"));
    }

    #[test]
    fn a_lock_has_one_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = Lock::take(&path).unwrap();
        assert!(held.is_some());
        assert!(Lock::take(&path).unwrap().is_none());
        drop(held);
        assert!(Lock::take(&path).unwrap().is_some());
    }

    #[test]
    fn a_link_is_moved_in_one_step() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("current");
        point_link(&link, Path::new("1")).unwrap();
        point_link(&link, Path::new("2")).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("2"));
    }
}
