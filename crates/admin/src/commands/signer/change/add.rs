//! `freehold signer add`.

use clap::Args;
use identity::principal::SignerName;
use operate::signer::Change;
use terminal::failure::Failure;

use super::{Source, Terms, change};
use crate::home::Common;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold signer add ben --key ed25519:...                 ben made his key with `freehold signer new`
  freehold signer add ben --key ed25519:... --threshold 2   from then on two must agree
  freehold signer add spare                                 a second key in this home
  freehold signer add ann-token --pkcs11 'pkcs11:token=ann;object=freehold?module-path=/usr/lib/softhsm/libsofthsm2.so'

The signers of now sign the new set, and enough of the new ones sign its first head: whoever is added shows that the
key is really there.")]
pub struct Add {
    /// The new signer's name; it stands for this key for ever
    name: SignerName,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    terms: Terms,
}

impl Add {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not add the signer `{}`", self.name);
        let key = self.source.key(common, &self.name, &doing)?;
        change(common, &doing, &Change::Add { name: self.name, key }, &self.terms).await
    }
}
