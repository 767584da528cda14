//! Why a ledger's file cannot be used, and what a person can do about it.

use std::path::PathBuf;

use ground::file::FileError;

use crate::damage::Damage;

/// The version of the tables that this program writes.
pub const CURRENT: u32 = 8;

/// What the disk did not do.
#[derive(Debug, thiserror::Error)]
pub enum NoCopy {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("its path is not text")]
    OddPath,
}

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("the ledger cannot be read or written")]
    Sqlite(#[from] rusqlite::Error),
    #[error(
        "`{}` was written by a newer freehold: its tables are of version {found}, and this one knows up to {}. Nothing \
         was changed; upgrade freehold on this machine",
        path.display(),
        CURRENT
    )]
    Newer { path: PathBuf, found: u32 },
    #[error(
        "`{}` was written before the first release of freehold, and is not read any more: its tables are of version \
         {found}. Nothing was changed; found the org anew, and let the machines join it",
        path.display()
    )]
    Older { path: PathBuf, found: u32 },
    #[error("the ledger could not be copied to `{}`; nothing was changed", path.display())]
    NotCopied {
        path: PathBuf,
        #[source]
        why: NoCopy,
    },
    #[error("the ledger is damaged: {0}; `freehold audit --verify` says more")]
    Damaged(Damage),
}

impl From<Damage> for LedgerError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl LedgerError {
    pub fn is_full(&self) -> bool {
        // There was no room for the file that its readers and its writer share.
        const SHARED: i32 = rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
        let Self::Sqlite(why) = self else { return false };
        let code = why.sqlite_error().map(|why| why.extended_code);
        why.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) || code == Some(SHARED)
    }

    /// Nothing that is tried again would read it.
    pub fn is_beyond_repair(&self) -> bool {
        use rusqlite::ErrorCode as Code;
        match self {
            Self::Damaged(_) => true,
            Self::Sqlite(why) => {
                matches!(why.sqlite_error_code(), Some(Code::DatabaseCorrupt | Code::NotADatabase) | None)
            }
            Self::Newer { .. } | Self::Older { .. } | Self::NotCopied { .. } => false,
        }
    }

    /// What an operator can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        use rusqlite::ErrorCode as Code;
        let Self::Sqlite(why) = self else {
            return match self {
                Self::Newer { .. } | Self::Older { .. } | Self::NotCopied { .. } => None,
                Self::Sqlite(_) | Self::Damaged(_) => Some(DAMAGED),
            };
        };
        match why.sqlite_error_code() {
            Some(Code::DiskFull) => Some("make room on the disk of the gateway's folder, and run this again"),
            Some(Code::ReadOnly | Code::CannotOpen | Code::PermissionDenied) => {
                Some("the gateway's folder cannot be written: look at its disk and its owner")
            }
            Some(Code::DatabaseCorrupt | Code::NotADatabase) | None => Some(DAMAGED),
            Some(_) => None,
        }
    }
}

/// The cure for what nothing can make again.
pub const DAMAGED: &str =
    "keep the gateway's folder as it is, and put the newest good copy of it in its place; nothing was served from it";
