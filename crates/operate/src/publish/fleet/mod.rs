//! The fleet's folder on disk: which files are read as the fleet, what may be delivered from it, and a first example.

pub mod git;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ground::file::{self, FileAccess, FileError};
use manifest::example::Setting;
use manifest::fleet::Fleet;
use manifest::source::{self, Complaint, KnownOrg, MAX_BYTES, MAX_DELIVERED, MAX_FILE_BYTES, SourceFile};
use manifest::stored::FileName;

/// Everything that is looked at in the folder, files and folders alike.
const MAX_ENTRIES: usize = 20_000;
const MAX_DEPTH: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error("there is no folder `{}`", .0.display())]
    NoFolder(PathBuf),
    #[error("there is no fleet here: no folder `fleet`, and no file that ends with .yaml, .yml or .json")]
    NotHere,
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A pipe would keep its reader waiting; whoever named it so meant a file.
    #[error("`{}` is named like a file of the fleet, and is none", .0.display())]
    NotAFile(PathBuf),
    #[error("`{}` leads out of the fleet's folder", .0.display())]
    LeadsOut(PathBuf),
    #[error("the name of `{}` is not UTF-8", .0.display())]
    OddName(PathBuf),
    #[error("`{}` holds more than a fleet: over {MAX_ENTRIES} files, or folders {MAX_DEPTH} deep", .0.display())]
    TooMany(PathBuf),
    #[error("the files under `{}` have more than {} MiB together", .0.display(), MAX_BYTES >> 20)]
    TooLarge(PathBuf),
    #[error("there is a fleet already: `{}`", .0.display())]
    AlreadyThere(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
}

/// What came of reading: the fleet with warnings, or everything that is wrong.
pub type Read = Result<(Fleet, Vec<Complaint>), Vec<Complaint>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetFolder {
    /// As it really is: without links.
    root: PathBuf,
}

impl FleetFolder {
    /// The folder that was named; else `./fleet` if there is one, else this folder.
    pub fn find(named: Option<&Path>) -> Result<Self, FleetError> {
        let usual = Path::new("fleet");
        // Whoever is in a wrong folder wants to hear that, not what is wrong with everything below it.
        if named.is_none() && !usual.is_dir() && !has_sources(Path::new(".")) {
            return Err(FleetError::NotHere);
        }
        let path = named.unwrap_or_else(|| if usual.is_dir() { usual } else { Path::new(".") });
        let root = path.canonicalize().map_err(|_| FleetError::NoFolder(path.to_owned()))?;
        if root.is_dir() { Ok(Self { root }) } else { Err(FleetError::NoFolder(path.to_owned())) }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads the whole fleet. If orgs are known here, it must be of one of them.
    pub fn read(&self, known: &[KnownOrg]) -> Result<Read, FleetError> {
        let files = self.sources()?;
        let attached = |path: &FileName| self.attached(path).map_err(|why| in_words(&why));
        Ok(source::read(&files, &attached, known))
    }

    /// The files that are the fleet, in the order of their names. What begins with a dot is not looked at, nor is
    /// `files/`; links to folders are not followed. What is named like a file of the fleet must be one.
    pub fn sources(&self) -> Result<Vec<SourceFile>, FleetError> {
        let mut found = Vec::new();
        let (mut entries, mut bytes) = (0, 0);
        let mut folders = vec![(String::new(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            let path = self.root.join(&folder);
            for entry in fs::read_dir(&path).map_err(unreadable(&path))? {
                let entry = entry.map_err(unreadable(&path))?;
                entries += 1;
                if entries > MAX_ENTRIES || depth > MAX_DEPTH {
                    return Err(FleetError::TooMany(self.root.clone()));
                }
                let Some(name) = within(&folder, &entry)? else { continue };
                let kind = entry.file_type().map_err(unreadable(&entry.path()))?;
                if kind.is_dir() {
                    folders.push((name, depth + 1));
                } else if source::is_source(&name) {
                    let content =
                        self.content(&name, MAX_FILE_BYTES)?.ok_or_else(|| FleetError::NotAFile(entry.path()))?;
                    bytes += content.len();
                    if bytes > MAX_BYTES {
                        return Err(FleetError::TooLarge(self.root.clone()));
                    }
                    found.push(SourceFile { path: name, bytes: content });
                }
            }
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    fn attached(&self, path: &FileName) -> Result<Vec<u8>, FleetError> {
        let content = self.content(path.as_str(), MAX_DELIVERED)?;
        let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a file");
        content.ok_or_else(|| FleetError::Unreadable { path: PathBuf::from(path.as_str()), source: no_file() })
    }

    /// A file within the folder, by a link if need be: one byte more than the bound if it is larger. Nothing: it is a
    /// folder, a pipe or a device.
    fn content(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, FleetError> {
        let named = PathBuf::from(name);
        let path = self.root.join(name).canonicalize().map_err(unreadable(&named))?;
        if !path.starts_with(&self.root) {
            return Err(FleetError::LeadsOut(named));
        }
        if !fs::metadata(&path).map_err(unreadable(&named))?.is_file() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let file = File::open(&path).map_err(unreadable(&named))?;
        file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(unreadable(&named))?;
        Ok(Some(bytes))
    }
}

/// Does the folder itself, not one below it, hold something that a fleet is made of?
fn has_sources(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_str().is_some_and(source::is_source))
}

/// Writes the example into a folder in which there is no fleet; the names of what was written.
pub fn init(folder: &Path, setting: &Setting) -> Result<Vec<String>, FleetError> {
    fs::create_dir_all(folder).map_err(unreadable(folder))?;
    let there = FleetFolder::find(Some(folder))?.sources()?;
    if let Some(file) = there.first() {
        return Err(FleetError::AlreadyThere(folder.join(&file.path)));
    }
    let files = setting.files();
    let taken = files.iter().map(|file| folder.join(&file.path)).find(|path| path.symlink_metadata().is_ok());
    if let Some(path) = taken {
        return Err(FleetError::AlreadyThere(path));
    }
    for file in &files {
        let path = folder.join(&file.path);
        let below = path.parent().unwrap_or(folder);
        fs::create_dir_all(below).map_err(unreadable(below))?;
        file::write(&path, &file.bytes, FileAccess::Readable)?;
    }
    Ok(files.into_iter().map(|file| file.path).collect())
}

/// The path from the fleet's folder on; nothing for what is not looked at.
fn within(folder: &str, entry: &fs::DirEntry) -> Result<Option<String>, FleetError> {
    let name = entry.file_name();
    let lossy = name.to_string_lossy();
    let path = if folder.is_empty() { lossy.clone().into_owned() } else { format!("{folder}/{lossy}") };
    if lossy.starts_with('.') || path == "files" {
        return Ok(None);
    }
    match name.to_str() {
        Some(_) => Ok(Some(path)),
        None if source::is_source(&path) => Err(FleetError::OddName(entry.path())),
        None => Ok(None),
    }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> FleetError {
    let path = path.to_owned();
    move |source| FleetError::Unreadable { path, source }
}

/// Why, without the path, which the complaint names.
fn in_words(why: &FleetError) -> String {
    match why {
        FleetError::Unreadable { source, .. } => match source.kind() {
            io::ErrorKind::NotFound => "it is not there".to_owned(),
            _ => source.to_string(),
        },
        FleetError::LeadsOut(_) => "it leads out of the fleet's folder".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
