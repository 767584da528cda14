//! For whom a backup is encrypted, and what opens one: a passphrase, or keys of age.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use ground::age::keys::{self, BadKeyFile, Recipient};
use ground::age::wrap::{NotUnwrapped, Opens};
use ground::archive::{self, ArchiveError, To, With};
use ground::file::FileError;
use ground::passphrase::{NoPassphrase, Passphrase};
use operate::backup::BackupError;
use operate::backup::read::Backup;
use terminal::again::{patiently, wrong_passphrase};
use terminal::failure::{Exit, Failure};

use crate::secrets::{tell_if_weak, without_passphrase};

/// The passphrase of the backup, which is not the one of the keys.
#[derive(Debug, Args)]
struct BackupPassphrase {
    /// Read the backup's passphrase from a file instead of asking
    #[arg(long, value_name = "FILE", env = "FREEHOLD_BACKUP_PASSPHRASE_FILE")]
    backup_passphrase_file: Option<PathBuf>,
}

impl BackupPassphrase {
    fn get(
        &self,
        doing: &str,
        ask: impl FnOnce(&str) -> Result<Passphrase, NoPassphrase>,
    ) -> Result<Passphrase, Failure> {
        let given = match &self.backup_passphrase_file {
            Some(path) => Passphrase::from_file(path),
            None => ask("passphrase of the backup (not the one of the keys)"),
        };
        given.map_err(|why| {
            let otherwise = "give it with --backup-passphrase-file FILE, or run this at a terminal";
            Failure::new(doing, &why).hint(without_passphrase(&why, otherwise))
        })
    }
}

#[derive(Debug, Args)]
pub(super) struct SealingOptions {
    /// Encrypt to a recipient of age (`age-keygen` makes them) instead of asking for a passphrase; may be given again
    // Read here and not by the reader of the command line, which would repeat a secret that was meant for another place.
    #[arg(long, value_name = "RECIPIENT")]
    to: Vec<String>,
    /// Encrypt to every recipient in a file, one on each line; may be given again
    #[arg(long, value_name = "FILE")]
    to_file: Vec<PathBuf>,
    #[command(flatten)]
    passphrase: BackupPassphrase,
}

impl SealingOptions {
    pub(super) fn get(&self, quiet: bool, doing: &str) -> Result<To, Failure> {
        if self.to.is_empty() && self.to_file.is_empty() {
            let chosen = self.passphrase.get(doing, Passphrase::ask_new)?;
            tell_if_weak(quiet, &chosen);
            return Ok(To::Passphrase(chosen));
        }
        let given = self.to.iter().map(|text| text.parse()).collect::<Result<Vec<Recipient>, _>>();
        let mut all = given.map_err(|why| Failure::new(doing, &why).exit(Exit::Usage))?;
        for path in &self.to_file {
            all.extend(keys::recipients(path).map_err(|why| key_failure(doing, path, &why))?);
        }
        all.sort_unstable();
        all.dedup();
        Ok(To::Recipients(all))
    }
}

#[derive(Debug, Args)]
pub(super) struct Opening {
    /// The file with your identity of age, if the backup is encrypted to recipients; may be given again
    #[arg(long, value_name = "FILE")]
    identity: Vec<PathBuf>,
    #[command(flatten)]
    passphrase: BackupPassphrase,
}

enum Unopened {
    Told(Failure),
    Backup(BackupError),
}

impl From<Failure> for Unopened {
    fn from(failure: Failure) -> Self {
        Self::Told(failure)
    }
}

impl Opening {
    /// Opens it; a passphrase that was typed wrong may be typed again.
    pub(super) fn open(
        &self,
        doing: &str,
        backup: &Path,
        told: impl Fn(&BackupError) -> Failure,
    ) -> Result<Backup, Failure> {
        let wrong = |why: &Unopened| {
            let unwrapped =
                |source: &ArchiveError| matches!(source, ArchiveError::NotUnwrapped(NotUnwrapped::WrongPassphrase));
            wrong_passphrase(matches!(why, Unopened::Backup(BackupError::Archive { source, .. }) if unwrapped(source)))
        };
        let opened = patiently(self.passphrase.backup_passphrase_file.is_none(), wrong, || {
            let with = self.get(doing, backup)?;
            Backup::open(backup, &with).map_err(Unopened::Backup)
        });
        opened.map_err(|why| match why {
            Unopened::Told(failure) => failure,
            Unopened::Backup(why) => told(&why),
        })
    }

    /// Looks at the file first, before anybody types a passphrase in vain.
    fn get(&self, doing: &str, backup: &Path) -> Result<With, Failure> {
        let file = File::open(backup)
            .map_err(|why| Failure::failed(doing, format!("cannot read it: {why}")).hint("is that the file's name?"))?;
        let opens = archive::opens(file).map_err(|source| {
            let why = BackupError::Archive { path: backup.to_owned(), source };
            Failure::new(doing, &why).hint(super::report::ANOTHER)
        })?;
        match (opens, self.identity.is_empty()) {
            (Opens::Passphrase, true) => self.passphrase.get(doing, Passphrase::ask).map(With::Passphrase),
            (Opens::Passphrase, false) => {
                let why = "it is encrypted with a passphrase, and no identity opens it";
                Err(Failure::usage(doing, why).hint("leave out --identity"))
            }
            (Opens::Identity, true) => {
                let why = "it is encrypted to recipients, and no passphrase opens it";
                Err(Failure::usage(doing, why).hint("name the file that `age-keygen` wrote: --identity FILE"))
            }
            (Opens::Identity, false) => {
                let mut all = Vec::new();
                for path in &self.identity {
                    all.extend(keys::identities(path).map_err(|why| key_failure(doing, path, &why))?);
                }
                Ok(With::Identities(all))
            }
        }
    }
}

fn key_failure(doing: &str, path: &Path, why: &BadKeyFile) -> Failure {
    let failure = match why {
        // It names the file itself.
        BadKeyFile::File(_) => Failure::new(doing, why),
        _ => Failure::new(format!("{doing}: the keys in `{}` cannot be used", path.display()), why),
    };
    match why {
        BadKeyFile::File(FileError::NotPrivate { path, .. }) => failure.hint(format!("chmod 600 {}", path.display())),
        _ => failure,
    }
    .exit(Exit::Usage)
}
