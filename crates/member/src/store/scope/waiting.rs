//! A join that waits for a person: the code, so that any later run goes on with it, and the words to be compared.

use std::path::PathBuf;

use ground::file::{self, FileAccess};
use identity::id::{Digest, OrgId};
use identity::principal::{Address, NodeName, OrgName};
use identity::time::Timestamp;
use org::invite::code::{BadCode, InviteCode};
use org::invite::words::Words;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use crate::store::scope::{Scope, ScopeError, Unsound};

/// What is known of a machine that waits, without the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    pub org: OrgName,
    pub org_id: OrgId,
    pub name: NodeName,
    /// Digest of the claim that this machine signed.
    pub claim: Digest,
    pub words: Words,
    pub since: Timestamp,
    pub gateways: Vec<Address>,
}

/// As it lies on disk, beside the keys and as private as they are. Wiped when the node is a member.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitingFile {
    schema: u32,
    waiting: Waiting,
    code: String,
}

impl Drop for WaitingFile {
    fn drop(&mut self) {
        self.code.zeroize();
    }
}

impl Scope {
    fn waiting_file(&self) -> PathBuf {
        self.path("waiting.key")
    }

    /// Does a join of this scope wait for a person?
    pub fn waiting(&self) -> Result<Option<(Waiting, InviteCode)>, ScopeError> {
        let path = self.waiting_file();
        if !path.exists() {
            return Ok(None);
        }
        let damaged = |why| ScopeError::Damaged { path: path.clone(), why };
        let bytes = file::read_secret(&path)?;
        let read: WaitingFile = serde_json::from_slice(&bytes).map_err(|why| damaged(why.into()))?;
        if read.schema != 1 {
            return Err(damaged(Unsound::Newer));
        }
        let code = read.code.parse().map_err(|why: BadCode| damaged(why.into()))?;
        Ok(Some((read.waiting.clone(), code)))
    }

    pub fn save_waiting(&self, waiting: &Waiting, code: &InviteCode) -> Result<(), ScopeError> {
        let path = self.waiting_file();
        let file = WaitingFile { schema: 1, waiting: waiting.clone(), code: code.encode().to_string() };
        let json = serde_json::to_vec_pretty(&file).map(Zeroizing::new);
        let json = json.map_err(|why| ScopeError::Damaged { path: path.clone(), why: why.into() })?;
        Ok(file::write(&path, &json, FileAccess::Private)?)
    }

    /// It waits no longer.
    pub fn forget_waiting(&self) -> Result<(), ScopeError> {
        let path = self.waiting_file();
        if path.exists() { Ok(file::wipe(&path)?) } else { Ok(()) }
    }
}
