//! `freehold node list | show | revoke | replace | waiting | approve | deny`: a file each.

pub mod user;
mod candidate;
mod waiting;
mod approve;
mod deny;
mod replace;
pub mod confirm;
pub mod suspend;
mod listed;
mod list;
mod show;
mod revoke;

use clap::Subcommand;
use terminal::failure::Failure;

use approve::Approve;
use deny::Deny;
use list::List;
use replace::Replace;
use revoke::Revoke;
use show::Show;

use crate::home::Common;

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List all nodes
    List(List),
    /// Show one node
    Show(Show),
    /// Revoke a node: its key never returns
    Revoke(Revoke),
    /// Revoke a node's key and let one machine join under its name again
    Replace(Replace),
    /// List machines that wait for an operator's yes
    Waiting(waiting::Waiting),
    /// Let a machine in that waits, or one stay whose invite or gateway was taken back
    Approve(Approve),
    /// Turn a machine away that waits
    Deny(Deny),
}

impl NodeCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(common).await,
            Self::Show(show) => show.run(common).await,
            Self::Revoke(revoke) => revoke.run(common).await,
            Self::Replace(replace) => replace.run(common).await,
            Self::Waiting(list) => list.run(common).await,
            Self::Approve(approve) => approve.run(common).await,
            Self::Deny(deny) => deny.run(common).await,
        }
    }
}
