//! Makes a backup, also while the gateway serves.

use std::path::{Path, PathBuf};

use gateway::store::folder::GatewayFolder;
use ground::archive::To;
use ground::clock;
use ground::file::{FileError, Lock};
use identity::id::OrgId;
use identity::key::Sign as _;
use identity::principal::OrgName;
use ledger::error::LedgerError;
use ledger::store::Ledger;
use member::store::scope::ScopeError;
use operate::backup::{BackupContents, BackupError, BackupOrigin, Gathered, gather};
use operate::folder::{FolderError, LastBackup, OperatorFolder};

use crate::backup::scratch::Scratch;

#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error("another `freehold backup create` is at work for this org")]
    Busy,
    #[error("the gateway's keys changed again and again while its ledger was copied")]
    Restless,
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Renewals take moments and are hours apart.
const TRIES: usize = 20;

/// Writes the backup of an org and remembers that there is one.
pub fn make(home: &Path, org: &OrgName, to: &Path, for_whom: &To) -> Result<BackupContents, MakeError> {
    let _lock = Lock::take(&home.join(format!(".backup-{org}.lock")))?.ok_or(MakeError::Busy)?;
    let scratch = Scratch::at(home.join(format!(".backup-{org}")))?;
    let folder = home.join(org.as_str());
    let (operator, gateway) = (OperatorFolder::at(home, org), GatewayFolder::at(home, org));
    let mut made: Option<Gathered> = None;
    // The operator's half first: what this operator remembers of the ledger must be in the copy of the ledger.
    if operator.folder.is_dir() {
        let _files = operator.lock_files()?;
        made = Some(gather(&folder, "operator")?);
    }
    if gateway.folder.is_dir() && !was_removed(&operator, &gateway)? {
        let half = gather_gateway(&folder, &gateway, &scratch.path().join("ledger.db"))?;
        match &mut made {
            Some(made) => made.append(half),
            None => made = Some(half),
        }
    }
    let Some(gathered) = made else {
        return Err(FolderError::Missing { path: operator.folder }.into());
    };
    let made_at = clock::now();
    let contents = gathered.write(
        to,
        BackupOrigin { org: org.clone(), org_id: id_of(&operator, &gateway)?, at: made_at },
        for_whom,
    )?;
    if operator.folder.is_dir() {
        let place = std::path::absolute(to).unwrap_or_else(|_| to.to_owned()).display().to_string();
        operator.save_last_backup(&LastBackup { schema: 1, made_at, place })?;
    }
    Ok(contents)
}

/// The operators removed this machine's gateway: its ledger fell behind that day, and nobody will serve from it again.
pub fn was_removed(operator: &OperatorFolder, gateway: &GatewayFolder) -> Result<bool, MakeError> {
    if !operator.folder.is_dir() || !gateway.folder.is_dir() {
        return Ok(false);
    }
    let (head, node) = (operator.known()?.head.head, gateway.about()?.node);
    let mandated = head.mandates.iter().any(|mandate| mandate.gateway == node);
    Ok(!mandated && head.revocations.voices.contains(&gateway.voice()?.public()))
}

fn id_of(operator: &OperatorFolder, gateway: &GatewayFolder) -> Result<OrgId, MakeError> {
    if operator.folder.is_dir() { Ok(operator.known()?.org()) } else { Ok(gateway.about()?.org_id) }
}

/// The gateway's own machine renews too: its keys and the log of what was issued to it must be of one moment.
fn gather_gateway(folder: &Path, gateway: &GatewayFolder, copy: &PathBuf) -> Result<Gathered, MakeError> {
    for _ in 0..TRIES {
        let mut before = gather(folder, "gateway")?;
        let _ = std::fs::remove_file(copy);
        Ledger::snapshot(&gateway.path("ledger.db"), copy)?;
        let after = gather(folder, "gateway")?;
        if before.keys().eq(after.keys()) {
            before.add_ledger(copy)?;
            return Ok(before);
        }
    }
    Err(MakeError::Restless)
}
