//! A folder for a moment, for this user alone; what was in it is wiped.

use std::path::{Path, PathBuf};

use ground::file::{self, FileError};

#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Takes the place of what an interrupted run left; the caller holds a lock that says that nobody is at it.
    pub fn at(path: PathBuf) -> Result<Self, FileError> {
        wipe_folder(&path)?;
        file::make_private_folder(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(why) = wipe_folder(&self.0) {
            tracing::warn!(folder = %self.0.display(), %why, "could not remove it; remove it by hand");
        }
    }
}

/// Overwrites the files of a folder and removes it.
pub fn wipe_folder(path: &Path) -> Result<(), FileError> {
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => wipe_folder(&entry.path())?,
            Ok(kind) if kind.is_file() => file::wipe(&entry.path())?,
            _ => {}
        }
    }
    file::remove_folder(path)
}
