//! `freehold signer new`: a signer's key in this home, from the org's card.

use std::path::PathBuf;

use clap::Args;
use identity::principal::SignerName;
use operate::signer::home;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::signer::own::{Owner, known_here};
use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold org card --out harbor.card                       an operator, who gives you the file
  freehold signer new ben --card harbor.card                you; check the org id with that operator
  freehold signer add ben --key ed25519:...                 that operator, with the key that you were shown")]
pub struct New {
    /// The signer's name; it stands for this key for ever
    name: SignerName,
    /// The org's card, if this home does not know the org yet
    #[arg(long, value_name = "FILE")]
    card: Option<PathBuf>,
    /// Keep the key unencrypted
    #[arg(long, conflicts_with = "passphrase_file")]
    unprotected: bool,
}

#[derive(Serialize)]
struct Made {
    org: String,
    org_id: String,
    name: String,
    key: String,
}

impl New {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not make a key for `{}`", self.name);
        let (folder, known) = match &self.card {
            None => known_here(common, &doing)?,
            Some(path) => home::from_card(&common.home(), path).during(&doing)?,
        };
        let owner = Owner { common, unprotected: self.unprotected, doing: &doing };
        let key = owner.find_or_make_key(&folder, &known, &self.name)?;
        let told = Made {
            org: known.founding.record.name.to_string(),
            org_id: known.org().to_string(),
            name: self.name.to_string(),
            key: key.to_string(),
        };
        show(common.json, &told, || {
            format!(
                "org     {}\norg id  {}\nsigner  {}\nkey     {}\n\nCheck the org id with an operator whom you trust, who then runs:\n\n  freehold signer add {} --key {}\n",
                told.org, told.org_id, told.name, told.key, told.name, told.key
            )
        });
        Ok(())
    }
}
