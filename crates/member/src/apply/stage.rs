//! What was verified, on a shelf: a folder per manifest, and one link that says which of them counts.
//!
//! ```text
//! SCOPE/state/trial.json                            where the node stands (record.rs)
//! SCOPE/state/manifests/DIGEST/manifest.json        the bytes that the head names
//! SCOPE/state/manifests/DIGEST/files/NAME           what it delivers
//! SCOPE/state/current -> manifests/DIGEST           what others read through
//! ```
//! A folder gets its name when all in it is on the disk, so a name means a whole folder.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ground::file::{self, FileAccess, FileError};
use identity::id::Digest;
use manifest::stored::{BadManifest, Delivered, Manifest};

const SHELF: &str = "manifests";
const LINK: &str = "current";
const MANIFEST: &str = "manifest.json";
const FILES: &str = "files";
/// What is being put on the shelf. No digest begins like this.
const DRAFT: &str = ".draft-";

/// Under the scope's folder.
pub const FOLDER: &str = "state";

#[derive(Debug, thiserror::Error)]
pub enum StageError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is not a folder of this program; nothing is written through it: move it away", .0.display())]
    Odd(PathBuf),
    #[error("`{}` does not hold what it was named for", path.display())]
    Damaged {
        path: PathBuf,
        #[source]
        source: BadManifest,
    },
}

/// A manifest, and the bytes that the head names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub manifest: Manifest,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone)]
pub struct Shelf {
    pub folder: PathBuf,
}

impl Shelf {
    /// Under the scope's folder.
    pub fn open(folder: PathBuf) -> Result<Self, StageError> {
        let shelf = Self { folder };
        for path in [shelf.folder.clone(), shelf.folder.join(SHELF)] {
            if !is_folder(&path) {
                if fs::symlink_metadata(&path).is_ok() {
                    return Err(StageError::Odd(path));
                }
                file::make_private_folder(&path)?;
            }
        }
        Ok(shelf)
    }

    fn place(&self, digest: Digest) -> PathBuf {
        self.folder.join(SHELF).join(digest.to_string())
    }

    /// Where the files of a manifest lie, whether it counts or not.
    pub fn files(&self, digest: Digest) -> PathBuf {
        self.place(digest).join(FILES)
    }

    /// Puts a manifest with all that it delivers on the shelf. Whatever fails, nothing was there before the end.
    pub fn put(&self, manifest: &Manifest, bytes: &[u8], digest: Digest) -> Result<(), StageError> {
        if self.get(digest).is_ok_and(|kept| self.is_whole(&kept.manifest, digest)) {
            return Ok(());
        }
        let draft = self.folder.join(SHELF).join(format!("{DRAFT}{digest}"));
        remove(&draft)?;
        let written = write_all(&draft, manifest, bytes).and_then(|()| {
            remove(&self.place(digest))?;
            file::rename(&draft, &self.place(digest))
        });
        if written.is_err() {
            let _ = remove(&draft);
        }
        Ok(written?)
    }

    /// Reads a manifest back: the very bytes that were put there, or none.
    pub fn get(&self, digest: Digest) -> Result<Kept, StageError> {
        let place = self.place(digest);
        if !is_folder(&place) {
            return Err(StageError::Odd(place));
        }
        let path = place.join(MANIFEST);
        let bytes = file::read(&path)?;
        match Manifest::read(&bytes, digest) {
            Ok(manifest) => Ok(Kept { manifest, bytes }),
            Err(source) => Err(StageError::Damaged { path, source }),
        }
    }

    /// Are its files what the manifest says?
    pub fn is_whole(&self, manifest: &Manifest, digest: Digest) -> bool {
        let files = self.files(digest);
        is_folder(&files)
            && manifest.runs.files.iter().all(|(name, wanted)| is_file(&files.join(name.as_str()), wanted))
    }

    /// What the link says.
    pub fn pointed(&self) -> Option<Digest> {
        let target = fs::read_link(self.folder.join(LINK)).ok()?;
        let name = target.strip_prefix(SHELF).ok()?;
        name.to_str()?.parse().ok()
    }

    /// The one switch.
    pub fn point(&self, to: Option<Digest>) -> Result<(), FileError> {
        let link = self.folder.join(LINK);
        if let Some(digest) = to {
            return file::point_link(&link, &Path::new(SHELF).join(digest.to_string()));
        }
        remove(&link)?;
        file::sync_folder(&self.folder)
    }

    /// Leaves only what is kept.
    pub fn sweep(&self, kept: &[Digest]) {
        for entry in fs::read_dir(self.folder.join(SHELF)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let digest = name.to_str().and_then(|name| name.parse::<Digest>().ok());
            if digest.is_none_or(|digest| !kept.contains(&digest)) {
                let _ = remove(&entry.path());
            }
        }
    }
}

fn write_all(draft: &Path, manifest: &Manifest, bytes: &[u8]) -> Result<(), FileError> {
    file::make_private_folder(draft)?;
    let files = draft.join(FILES);
    file::make_private_folder(&files)?;
    for (name, delivered) in &manifest.runs.files {
        let path = files.join(name.as_str());
        // One after the other, so that each is on the disk in the one above it.
        let above = path.strip_prefix(&files).ok().and_then(Path::parent).unwrap_or(Path::new(""));
        let mut folder = files.clone();
        for part in above {
            folder.push(part);
            file::make_private_folder(&folder)?;
        }
        let access = if delivered.executable { FileAccess::Program } else { FileAccess::Private };
        file::write(&path, &delivered.content.0, access)?;
    }
    file::write(&draft.join(MANIFEST), bytes, FileAccess::Private)
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}

fn is_file(path: &Path, wanted: &Delivered) -> bool {
    let mode = if wanted.executable { 0o700 } else { 0o600 };
    let plain = |meta: fs::Metadata| meta.is_file() && meta.permissions().mode() & 0o777 == mode;
    fs::symlink_metadata(path).is_ok_and(plain) && file::read(path).is_ok_and(|found| found == wanted.content.0)
}

/// A link is removed, never what it points at.
fn remove(path: &Path) -> Result<(), FileError> {
    if is_folder(path) {
        return file::remove_folder(path);
    }
    match fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(FileError::Io { doing: "remove", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
