//! `freehold signer replace`: a new key in the place of a signer's.

use clap::Args;
use identity::principal::SignerName;
use operate::signer::Change;
use terminal::failure::Failure;

use super::{Source, Terms, change};
use crate::home::Common;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold signer replace ann ann-2025                      a new key in this home, in place of ann's
  freehold signer replace ann ben --key ed25519:...

A name stands for one key for ever, so the new key has a name of its own. Invites that only the old key signed
end, unless they are carried over: freehold sign --over.")]
pub struct Replace {
    /// The signer who goes
    old: SignerName,
    /// The name of the new key
    name: SignerName,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    terms: Terms,
}

impl Replace {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not replace the signer `{}`", self.old);
        let key = self.source.key(common, &self.name, &doing)?;
        change(common, &doing, &Change::Replace { old: self.old, name: self.name, key }, &self.terms).await
    }
}
