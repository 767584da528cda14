//! `freehold trust`: the versions of the trusted roots, and each turn in their life. A file for each command.

pub mod domain;
pub mod list;
pub mod show;
pub mod publish;
pub mod activate;
pub mod rollback;
pub mod plan;
pub mod retire;
pub mod rotate;

use activate::Activate;
use clap::Subcommand;
use identity::bundle::Domain;
use list::List;
use plan::Plan;
use publish::Publish;
use retire::Retire;
use rollback::Rollback;
use show::Show;
use terminal::failure::Failure;

use crate::home::Common;

#[derive(Debug, Subcommand)]
pub enum TrustCommand {
    /// List the versions of the trusted roots, and how many nodes have each
    List(List),
    /// Show one version, with everything in it
    Show(Show),
    /// Say what a step would do, and who would break by it
    Plan(Plan),
    /// Hand out a new version of the roots beside the one in use
    Publish(Publish),
    /// Turn to the version that was handed out
    Activate(Activate),
    /// Take the last turn back
    Rollback(Rollback),
    /// Trust a version no more, if nobody breaks by it
    Retire(Retire),
}

impl TrustCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(common).await,
            Self::Show(show) => show.run(common).await,
            Self::Plan(plan) => Box::pin(plan.run(common)).await,
            Self::Publish(publish) => Box::pin(publish.run(common)).await,
            Self::Activate(activate) => Box::pin(activate.run(common)).await,
            Self::Rollback(rollback) => Box::pin(rollback.run(common)).await,
            Self::Retire(retire) => Box::pin(retire.run(common)).await,
        }
    }
}

fn no_version(doing: &str, domain: Domain, version: u64) -> Failure {
    Failure::refused(doing, format!("there is no version {version} of `{}`", domain.word())).hint(plan::SEE)
}
