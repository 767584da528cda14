//! `freehold signer hand-over`: a signer's key moves to a home of its own.

use std::path::PathBuf;

use clap::Args;
use identity::principal::SignerName;
use operate::signer::home;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::signer::own::known_here;
use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold found harbor --signers 2-of-3
  freehold signer hand-over ann-2 --to /media/ben/.freehold       then: freehold --home /media/ben/.freehold sign FILE

The key file is moved, not copied: this home cannot sign as that signer any more. Its passphrase stays the same.")]
pub struct HandOver {
    /// The signer whose key goes
    name: SignerName,
    /// The home that it goes to
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

#[derive(Serialize)]
struct HandedOver {
    name: String,
    home: String,
}

impl HandOver {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not hand over the key of `{}`", self.name);
        let (folder, known) = known_here(common, &doing)?;
        home::hand_over(&folder, &known, &self.name, &self.to).during(&doing)?;
        let told = HandedOver { name: self.name.to_string(), home: self.to.display().to_string() };
        show(common.json, &told, || {
            format!("the key of `{}` is in `{}` now, and no longer here", told.name, told.home)
        });
        Ok(())
    }
}
