//! Brings an org back from a backup: all of it or nothing, and never over one that is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ground::clock;
use ground::file::{self, FileError, Lock};
use identity::principal::OrgName;
use ledger::error::LedgerError;
use ledger::marks::RestoredFrom;
use ledger::store::Ledger;
use operate::backup::read::{Backup, Sink};
use operate::backup::{BackupContents, BackupError};
use operate::folder::{FolderError, LastBackup, OperatorFolder};

use crate::backup::check::{self, CheckError, CheckReport};
use crate::backup::scratch;

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("there already is an org `{org}` in `{}`: nothing is ever written over it", home.display())]
    Exists { org: OrgName, home: PathBuf },
    #[error("another `freehold found` or `freehold backup restore` is running in this home")]
    Busy,
    #[error("the backup does not hold the {0}'s half")]
    NotIn(Half),
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("the restored ledger could not be marked")]
    Ledger(#[from] LedgerError),
}

/// One half of an org's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Half {
    Operator,
    Gateway,
}

impl std::fmt::Display for Half {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

impl Half {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Gateway => "gateway",
        }
    }
}

/// Restores. What is checked first is the whole file, whichever half is wanted.
pub fn restore(
    mut opened: Backup,
    backup: &Path,
    home: &Path,
    only: Option<Half>,
) -> Result<(CheckReport, PathBuf), RestoreError> {
    // Opened once: what is put in its place is what was checked.
    let contents = opened.contents.clone();
    if let Some(half) = only.filter(|half| !contents.has(half.word())) {
        return Err(RestoreError::NotIn(half));
    }
    file::make_private_folder(home)?;
    // Founding holds the same lock: two orgs of one name never come into being at once.
    let _lock = Lock::take(&home.join(".founding.lock"))?.ok_or(RestoreError::Busy)?;
    let place = home.join(contents.org.as_str());
    if place.symlink_metadata().is_ok() {
        return Err(RestoreError::Exists { org: contents.org, home: home.to_owned() });
    }
    let report = check::check(&mut opened, backup, home.join(format!(".checking-{}", contents.org)))?;
    let draft = home.join(format!(".restoring-{}", contents.org));
    // Left over from a run that was interrupted; the lock says that nobody is at it.
    scratch::wipe_folder(&draft)?;
    let put = put(&mut opened, &draft, only).and_then(|()| {
        settle(backup, &draft, &contents)?;
        sync_folders(&draft)?;
        Ok(file::rename(&draft, &place)?)
    });
    put.inspect_err(|_| {
        let _ = scratch::wipe_folder(&draft);
    })?;
    Ok((report, place))
}

/// Every file and link at its place in the draft.
fn put(backup: &mut Backup, draft: &Path, only: Option<Half>) -> Result<(), RestoreError> {
    file::make_private_folder(draft)?;
    let wanted = |first: &str| only.is_none_or(|half| half.word() == first);
    backup.unpack(|item| {
        if wanted(item.path.first()) { Sink::File(draft.join(item.path.as_str())) } else { Sink::Nowhere }
    })?;
    for link in backup.contents.links.iter().filter(|link| wanted(link.path.first())) {
        let path = draft.join(link.path.as_str());
        if let Some(folder) = path.parent() {
            file::make_private_folder(folder)?;
        }
        file::point_link(&path, Path::new(link.target.as_str()))?;
    }
    Ok(())
}

/// The gateway waits until it may begin another chain: it has forgotten what came after the backup. The operator has a backup.
fn settle(backup: &Path, draft: &Path, contents: &BackupContents) -> Result<(), RestoreError> {
    let (made_at, restored_at) = (contents.made_at, clock::now());
    let place = std::path::absolute(backup).unwrap_or_else(|_| backup.to_owned()).display().to_string();
    let ledger = draft.join("gateway/ledger.db");
    if ledger.exists() {
        let (ledger, _) = Ledger::open(&ledger)?;
        ledger.mark_restored(&RestoredFrom { backup: place.clone(), made_at, restored_at })?;
    }
    let operator = OperatorFolder { folder: draft.join("operator") };
    if operator.folder.is_dir() {
        operator.save_last_backup(&LastBackup { schema: 1, made_at, place })?;
    }
    Ok(())
}

/// Every folder, the deepest first, so that no name is lost with the power.
fn sync_folders(draft: &Path) -> Result<(), RestoreError> {
    let mut folders = BTreeSet::from([draft.to_owned()]);
    let mut waiting = vec![draft.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.insert(entry.path());
                waiting.push(entry.path());
            }
        }
    }
    Ok(folders.iter().rev().try_for_each(|folder| file::sync_folder(folder))?)
}
