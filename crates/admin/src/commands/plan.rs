//! `freehold plan [DIR]`: what publishing the fleet would do. Nothing is signed, nothing is sent.

use std::path::PathBuf;

use clap::Args;
use node::report::{Failure, show};

use crate::commands::check::read_fleet;
use crate::home::Common;
use crate::planning;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold plan
  freehold plan ~/harbor/fleet --json

Per node what it gains and loses against what is published, then the same in a few words for all.")]
pub struct Plan {
    /// The fleet's folder [default: ./fleet if it is there, else here]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Plan {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not plan";
        let (folder, fleet) = read_fleet(common, self.dir.as_deref(), doing)?;
        let mut session = common.session(doing).await?;
        let prepared = session.plan_fleet(&fleet, planning::progress("checking admissions:")).await;
        let prepared = prepared.map_err(|why| planning::plan_failure(doing, &why))?;
        let git = planning::git_state(folder.root(), true, doing)?;
        show(common.json, &planning::as_facts(&session, &prepared), || {
            format!("{}\n{}", planning::in_words(&session, &prepared), planning::git_words(&git))
        });
        Ok(())
    }
}
