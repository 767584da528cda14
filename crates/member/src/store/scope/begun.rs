//! A join that has begun: what the machine wants to be, and keys that were made before it knew of an org.

use std::collections::BTreeSet;
use std::path::Path;

use ground::file::{self, FileAccess};
use identity::key::{P256Key, PublicKey};
use identity::principal::host::HostName;
use identity::principal::label::Label;
use identity::principal::{Name, NodeName};
use serde::{Deserialize, Serialize};

use super::trust::TrustPaths;
use super::{Scope, ScopeError};

const OLD_KEY: &str = "old.key";

/// What a machine wants to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    pub name: NodeName,
    pub labels: BTreeSet<Label>,
    pub roles: BTreeSet<Name>,
    /// The full host name that it claims, where the invite asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostName>,
    /// The node key whose place it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<PublicKey>,
    /// Where other programs are to find the roots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<TrustPaths>,
}

impl Scope {
    /// What this machine said it wants to be; kept until it is, so that a second run says the same.
    pub fn wish(&self) -> Result<Option<Wish>, ScopeError> {
        self.read_json("wish.json")
    }

    pub fn save_wish(&self, wish: &Wish) -> Result<(), ScopeError> {
        self.write_json("wish.json", wish)
    }

    /// The key that this machine had before, until it is a member again.
    pub fn keep_old_key(&self, key: &P256Key) -> Result<(), ScopeError> {
        Ok(file::write(&self.path(OLD_KEY), key.to_pem().as_bytes(), FileAccess::Private)?)
    }

    pub fn old_key(&self) -> Result<P256Key, ScopeError> {
        self.read_key(OLD_KEY)
    }

    pub fn forget_old_key(&self) -> Result<(), ScopeError> {
        Ok(file::wipe(&self.path(OLD_KEY))?)
    }

    /// Where the keys of a request lie until the machine knows its org.
    pub fn requested(root: &Path) -> Self {
        Self { folder: root.join(".requested") }
    }

    /// Takes the keys of this root's request, if there is one and this scope has none.
    pub fn take_requested(&self) -> Result<(), ScopeError> {
        let Some(request) = self.folder.parent().map(Self::requested) else {
            return Ok(());
        };
        if self.path("node.key").exists() || !request.path("node.key").exists() {
            return Ok(());
        }
        self.finish_wiping()?;
        self.create()?;
        // The node key last: where it is, all is.
        for name in ["seal.key", "node.key"] {
            file::write(&self.path(name), &file::read_secret(&request.path(name))?, FileAccess::Private)?;
        }
        Ok(())
    }

    /// The request of this root is answered: its keys lie in the scope now.
    pub fn forget_requested(&self) -> Result<(), ScopeError> {
        let request = self.folder.parent().map(Self::requested).filter(|request| request.folder.exists());
        request.map_or(Ok(()), |request| request.wipe())
    }
}
