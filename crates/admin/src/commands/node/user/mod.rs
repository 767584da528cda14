//! `freehold user add | list | revoke`: a person, apart from the machines that she uses.

mod add;
mod list;
mod revoke;

use clap::Subcommand;
use identity::principal::{Name, NodeName};
use operate::replica::published::PublishedMap;
use terminal::failure::Failure;

use add::Add;
use list::List;
use revoke::Revoke;

use crate::home::Common;

#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Print what to add to the fleet for a user, and invite her machine
    Add(Add),
    /// List all users, and where each is at home
    List(List),
    /// Revoke a user wherever she is; her machines stay members
    Revoke(Revoke),
}

impl UserCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Add(add) => add.run(common).await,
            Self::List(list) => list.run(common).await,
            Self::Revoke(revoke) => revoke.run(common).await,
        }
    }
}

/// Who else a node speaks for, and where each of them is, too.
pub fn people_on(published: &PublishedMap, node: &NodeName) -> Vec<String> {
    let words = |user: &Name| {
        let homes = published.homes_of(user);
        let elsewhere: Vec<_> = homes.into_iter().filter(|home| *home != format!("`{node}`")).collect();
        match elsewhere.as_slice() {
            [] => format!("`{user}` is at home there alone, and is not revoked: freehold user revoke {user}"),
            homes => format!("`{user}` is not revoked, and stays on {}", homes.join(", ")),
        }
    };
    published.users_at(node).iter().map(words).collect()
}
