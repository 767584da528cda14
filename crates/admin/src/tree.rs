//! A folder of files that is whole or absent, put in the place of an older one in one step.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ground::file::{self, FileError};
use rustix::fs::{CWD, RenameFlags, renameat_with};

#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("`{}` holds something else, which would be lost", .0.display())]
    NotOurs(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot put `{}` in place", path.display())]
    Place {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Writes all files beside the folder, then swaps. What is there must be empty, or `ours`.
pub fn replace(
    folder: &Path,
    files: &BTreeMap<String, Vec<u8>>,
    ours: impl FnOnce(&Path) -> bool,
) -> Result<(), TreeError> {
    let failed = |source: io::Error| TreeError::Place { path: folder.to_owned(), source };
    let there = match fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_some() && !ours(folder) {
                return Err(TreeError::NotOurs(folder.to_owned()));
            }
            true
        }
        Err(why) if why.kind() == ErrorKind::NotFound => false,
        Err(why) => return Err(failed(why)),
    };
    let name = folder.file_name().ok_or_else(|| failed(ErrorKind::InvalidInput.into()))?.to_string_lossy();
    sweep(folder, &name);
    let draft = folder.with_file_name(format!(".{name}.{}.draft", std::process::id()));
    let placed = write(&draft, files).and_then(|()| {
        let flags = if there { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        Ok(renameat_with(CWD, &draft, CWD, folder, flags)?)
    });
    // What was there before, or what could not be put there.
    file::remove_folder(&draft)?;
    placed.map_err(failed)
}

/// One sync for all: the draft is nothing to anybody until it is in place.
fn write(draft: &Path, files: &BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    fs::create_dir(draft)?;
    for (path, bytes) in files {
        let path = draft.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, bytes)?;
    }
    Ok(rustix::fs::syncfs(fs::File::open(draft)?)?)
}

/// Drafts of processes that were killed over them.
fn sweep(folder: &Path, name: &str) {
    let beside = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in fs::read_dir(beside).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let left_by =
            || found.to_str()?.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".draft");
        let pid = left_by().and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> BTreeMap<String, Vec<u8>> {
        BTreeMap::from([("a".to_owned(), text.into()), ("sub/b".to_owned(), text.into())])
    }

    #[test]
    fn a_folder_is_made_replaced_whole_and_never_taken_from_others() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("out");
        replace(&folder, &files("one"), |_| false).unwrap();
        assert!(matches!(replace(&folder, &files("two"), |_| false), Err(TreeError::NotOurs(_))));
        assert_eq!(fs::read(folder.join("sub/b")).unwrap(), b"one");
        fs::write(folder.join("old"), b"").unwrap();
        replace(&folder, &files("two"), |_| true).unwrap();
        assert_eq!(fs::read(folder.join("sub/b")).unwrap(), b"two");
        assert!(!folder.join("old").exists());
        let killed = place.path().join(format!(".out.{}.draft", u32::MAX));
        fs::create_dir(&killed).unwrap();
        replace(&folder, &files("two"), |_| true).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "a draft is left");
        let empty = place.path().join("empty");
        fs::create_dir(&empty).unwrap();
        replace(&empty, &files("one"), |_| false).unwrap();
        assert!(empty.join("a").exists());
    }
}
