//! `freehold gateway add | list | address | renew | move | reopen | remove`: which machines are gateways.

mod address;
pub mod mandate;
pub mod refresh;
mod reopen;
mod renew;
mod add;
mod list;
mod first;
mod remove;

use clap::Subcommand;
use terminal::failure::Failure;

use add::Add;
use address::AddressCommand;
use first::Move;
use list::List;
use remove::Remove;
use renew::Renew;
use reopen::Reopen;

use crate::home::Common;

#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Make a machine a gateway: it made its keys itself, and asks
    Add(Add),
    /// List the gateways, where they are, and how far each is
    List(List),
    /// List, add and remove addresses at which machines find a gateway
    #[command(subcommand)]
    Address(AddressCommand),
    /// Let a gateway's mandate last longer, and certify its keys under roots that came since
    Renew(Renew),
    /// Have a gateway come before the others: nodes, invites and this tool go there
    Move(Move),
    /// Have a gateway begin another chain: what it lacks nobody can bring, or its chain forks
    Reopen(Reopen),
    /// Take a gateway's mandate away; nodes come back at another
    Remove(Remove),
}

impl GatewayCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Add(add) => add.run(common).await,
            Self::List(list) => list.run(common).await,
            Self::Address(address) => Box::pin(address.run(common)).await,
            Self::Renew(renew) => renew.run(common).await,
            Self::Move(to) => to.run(common).await,
            Self::Reopen(reopen) => Box::pin(reopen.run(common)).await,
            Self::Remove(remove) => remove.run(common).await,
        }
    }
}
