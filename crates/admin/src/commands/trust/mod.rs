//! `freehold trust`: the versions of the trusted roots, and each turn in their life. A file for each command.

pub mod list;
pub mod show;

use clap::{Subcommand, ValueEnum};
use identity::bundle::Domain;
use node::report::Failure;

use crate::home::Common;
use list::List;
use show::Show;

#[derive(Debug, Subcommand)]
pub enum TrustCommand {
    /// List the versions of the trusted roots, and how many nodes have each
    List(List),
    /// Show one version, with everything in it
    Show(Show),
}

impl TrustCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(common).await,
            Self::Show(show) => show.run(common).await,
        }
    }
}

/// The two domains, as they are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DomainWord {
    /// Who may be our HTTPS gateway
    Endpoint,
    /// Who may be a member
    Identity,
}

impl From<DomainWord> for Domain {
    fn from(word: DomainWord) -> Self {
        match word {
            DomainWord::Endpoint => Self::Endpoint,
            DomainWord::Identity => Self::Identity,
        }
    }
}

fn no_version(doing: &str, domain: Domain, version: u64) -> Failure {
    Failure::failed(doing, format!("there is no version {version} of `{}`", domain.word()))
        .hint("see which there are: freehold trust list")
}
