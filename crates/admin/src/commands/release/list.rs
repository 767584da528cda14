//! `freehold release list`.

use clap::Args;
use operate::release;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::table;

use super::told::ReleaseTold;
use crate::home::{Common, During};

#[derive(Debug, Args)]
pub struct List {}

impl List {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the releases";
        let mut session = common.session(doing).await?;
        let releases = release::all(&mut session).await.during(doing)?;
        let named = session.head().release;
        let told: Vec<ReleaseTold> = releases
            .all
            .iter()
            .map(|(digest, release)| ReleaseTold::of(release, Some(*digest), Some(*digest) == named))
            .collect();
        show(common.json, &told, || {
            if told.is_empty() {
                return "no release yet: freehold release add FILE...".to_owned();
            }
            let row = |release: &ReleaseTold| {
                let agents: Vec<_> =
                    release.agents.iter().map(|it| format!("{}/{} {}", it.os, it.arch, it.version)).collect();
                let standing = if release.current { "in force" } else { "-" };
                vec![release.number.to_string(), standing.to_owned(), release.created_at.clone(), agents.join(", ")]
            };
            table(&["RELEASE", "STATE", "CREATED", "AGENTS"], &told.iter().map(row).collect::<Vec<_>>())
        });
        Ok(())
    }
}
