//! `freehold invite create | list | show | revoke | approve | waivers`: a file each.

mod terms;
mod seen;
mod create;
mod list;
pub mod show;
mod revoke;
mod waivers;
mod waive;
pub mod bundle;
pub mod landing;

use clap::Subcommand;
use terminal::failure::Failure;

use create::Create;
use list::List;
use revoke::Revoke;
use show::Show;
use waive::Waive;
use waivers::Waivers;

use crate::home::Common;

#[derive(Debug, Subcommand)]
pub enum InviteCommand {
    /// Make an invite, and the line to run on the machine that joins
    Create(Create),
    /// List all invites
    List(List),
    /// Show one invite, and who joined with it
    Show(Show),
    /// Revoke an invite; machines that joined with it stay
    Revoke(Revoke),
    /// Say yes beforehand to machines of such names, whose proof holds
    Approve(Waive),
    /// List what was approved beforehand
    Waivers(Waivers),
}

impl InviteCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(common).await,
            Self::List(list) => list.run(common).await,
            Self::Show(show) => show.run(common).await,
            Self::Revoke(revoke) => revoke.run(common).await,
            Self::Approve(approve) => approve.run(common).await,
            Self::Waivers(waivers) => waivers.run(common).await,
        }
    }
}
