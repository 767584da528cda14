//! `freehold org list | card`.

mod card;
pub mod list;

use clap::Subcommand;
use terminal::failure::Failure;

use card::CardTo;
use list::List;

use crate::home::Common;

#[derive(Debug, Subcommand)]
pub enum OrgCommand {
    /// List the orgs of this home
    List(List),
    /// Write the org's card: everything public that a new operator starts from
    Card(CardTo),
}

impl OrgCommand {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::List(List {}) => {
                list::list_all(common);
                Ok(())
            }
            Self::Card(card) => card.run(common),
        }
    }
}
