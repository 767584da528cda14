//! A release as the commands tell of it.

use identity::id::Digest;
use org::release::{Agent, Release};
use serde::Serialize;
use terminal::table::table;

#[derive(Serialize)]
pub struct ReleaseTold {
    pub number: u64,
    pub created_at: String,
    pub digest: Option<Digest>,
    pub current: bool,
    pub list: Digest,
    pub agents: Vec<Agent>,
}

impl ReleaseTold {
    pub fn of(release: &Release, digest: Option<Digest>, current: bool) -> Self {
        Self {
            number: release.number,
            created_at: release.created_at.to_string(),
            digest,
            current,
            list: release.list,
            agents: release.agents.clone(),
        }
    }

    pub fn in_words(&self) -> String {
        let row = |agent: &Agent| {
            let Agent { os, arch, version, size, sha256 } = agent;
            vec![os.to_string(), arch.to_string(), version.to_string(), size.to_string(), sha256.to_string()]
        };
        let rows: Vec<_> = self.agents.iter().map(row).collect();
        let standing = if self.current { ", in force" } else { "" };
        let agents = table(&["SYSTEM", "ARCH", "VERSION", "BYTES", "SHA-256"], &rows);
        format!("release {} of {}{standing}\n\n{agents}", self.number, self.created_at)
    }
}
