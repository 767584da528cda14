//! Where a user's agent listens: a folder that is that user's alone.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ground::file::{self, FileError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPlace {
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum NoPlace {
    #[error("there is no place for the agent: neither XDG_RUNTIME_DIR nor HOME names a folder")]
    Nowhere,
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot look at the agent's folder `{}`", path.display())]
    Unseen {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the agent's folder `{}` belongs to another user", path.display())]
    NotOurs { path: PathBuf },
    #[error("others can enter the agent's folder `{}` (mode {mode:o}); make it private: chmod 700", path.display())]
    NotPrivate { path: PathBuf, mode: u32 },
}

impl AgentPlace {
    /// `$XDG_RUNTIME_DIR/freehold`, or without such a folder `~/.freehold/.agent`. One for all orgs of this user.
    pub fn of_user() -> Result<Self, NoPlace> {
        let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let runtime = named("XDG_RUNTIME_DIR").filter(|path| path.is_dir()).map(|path| path.join("freehold"));
        let folder = runtime.or_else(|| named("HOME").map(|path| path.join(".freehold").join(".agent")));
        folder.map(|folder| Self { folder }).ok_or(NoPlace::Nowhere)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("agent.sock")
    }

    /// Held by the running agent.
    pub fn lock(&self) -> PathBuf {
        self.folder.join("agent.lock")
    }

    pub fn make(&self) -> Result<(), NoPlace> {
        file::make_private_folder(&self.folder)?;
        self.check()
    }

    /// Nobody else may have put something there.
    pub fn check(&self) -> Result<(), NoPlace> {
        let path = self.folder.clone();
        let meta = match std::fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(source) => return Err(NoPlace::Unseen { path, source }),
        };
        if meta.uid() != rustix::process::geteuid().as_raw() || !meta.is_dir() {
            return Err(NoPlace::NotOurs { path });
        }
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o077 != 0 { Err(NoPlace::NotPrivate { path, mode }) } else { Ok(()) }
    }
}
