//! `freehold token show | generate`: which key a hardware token holds, or a new one on it.

use clap::{Args, Subcommand};
use ground::passphrase::Passphrase;
use identity::key::PublicKey;
use operate::key::token;
use operate::key::token::uri::TokenUri;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Show the key that a token holds, and check that it signs
    Show(Named),
    /// Make a key on a token; it cannot leave it
    Generate(Named),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold token show 'pkcs11:token=harbor;object=ann?module-path=/usr/lib/softhsm/libsofthsm2.so'
  freehold token generate 'pkcs11:serial=00123;object=freehold?module-path=/usr/lib/libykcs11.so'

The URI is that of RFC 7512: token, serial, manufacturer, model, object and id say which key,
module-path names the vendor's module, and pin-source=file:/path a private file with the PIN.
Without pin-source you are asked.")]
pub struct Named {
    /// Which key on which token
    uri: TokenUri,
}

#[derive(Serialize)]
struct Told {
    uri: String,
    key: String,
    generated: bool,
}

impl TokenCommand {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let (doing, uri, made) = match &self {
            Self::Show(Named { uri }) => ("could not look at the token", uri, token::describe(uri, Passphrase::ask)),
            Self::Generate(Named { uri }) => {
                ("could not make a key on the token", uri, token::generate(uri, Passphrase::ask))
            }
        };
        let key: PublicKey = made.during(doing)?;
        let told = Told { uri: uri.to_string(), key: key.to_string(), generated: matches!(self, Self::Generate(_)) };
        show(common.json, &told, || told.key.clone());
        Ok(())
    }
}
