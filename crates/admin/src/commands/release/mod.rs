//! `freehold release add | list | show | prune`: the agents that machines install and run.

mod told;
mod add;
mod list;
mod show;
mod prune;

use clap::Subcommand;
use terminal::failure::Failure;

use add::Add;
use list::List;
use prune::Prune;
use show::Show;

use crate::home::Common;

#[derive(Debug, Subcommand)]
pub enum ReleaseCommand {
    /// Add agents to the release: programs `freehold-node`, one for each platform
    Add(Add),
    /// List the releases
    List(List),
    /// Show a release and the agents in it
    Show(Show),
    /// Remove files from the gateway that neither the release nor an invite names
    Prune(Prune),
}

impl ReleaseCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Add(add) => add.run(common).await,
            Self::List(list) => list.run(common).await,
            Self::Show(show) => show.run(common).await,
            Self::Prune(prune) => prune.run(common).await,
        }
    }
}
