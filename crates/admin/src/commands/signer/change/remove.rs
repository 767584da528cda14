//! `freehold signer remove`; the last one stays.

use clap::Args;
use identity::principal::SignerName;
use operate::signer::Change;
use terminal::failure::Failure;

use super::{Terms, change};
use crate::home::Common;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold signer remove ben --threshold 1")]
pub struct Remove {
    /// The signer who goes
    name: SignerName,
    #[command(flatten)]
    terms: Terms,
}

impl Remove {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not remove the signer `{}`", self.name);
        change(common, &doing, &Change::Remove { name: self.name }, &self.terms).await
    }
}
