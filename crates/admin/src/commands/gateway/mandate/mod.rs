//! `freehold mandate list | change`: what gateways may do.

mod list;
mod change;

use clap::Subcommand;
use terminal::failure::Failure;

use change::ChangeMandate;
use list::List;

use crate::home::Common;

#[derive(Debug, Subcommand)]
pub enum MandateCommand {
    /// List what each gateway may do
    List(List),
    /// Change what a gateway may do
    Change(ChangeMandate),
}

impl MandateCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(common).await,
            Self::Change(change) => change.run(common).await,
        }
    }
}
