//! `freehold backup`: everything that is needed to start again on an empty machine, in one encrypted file.

mod report;
mod keys;
mod create;
mod verify;
mod restore;

use clap::Subcommand;
use terminal::failure::Failure;

use create::Create;
use restore::Restore;
use verify::Verify;

use crate::home::Common;

#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Write everything of the org that is in this home to one encrypted file
    Create(Create),
    /// Read a backup, check all of it, and say what it would bring back
    Verify(Verify),
    /// Bring an org back into a home that does not have it
    Restore(Restore),
}

impl BackupCommand {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(common),
            Self::Verify(verify) => verify.run(common),
            Self::Restore(restore) => restore.run(common),
        }
    }
}
