//! `freehold trust`: the versions of the trusted roots, and each turn in their life. A file for each command.

pub mod list;

use clap::Subcommand;
use node::report::Failure;

use crate::home::Common;
use list::List;

#[derive(Debug, Subcommand)]
pub enum TrustCommand {
    /// List the versions of the trusted roots, and how many nodes have each
    List(List),
}

impl TrustCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(common).await,
        }
    }
}
