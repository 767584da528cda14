//! `freehold bundle issue`: an encrypted file with which one machine joins, once.

use std::path::PathBuf;

use clap::Args;
use ground::passphrase::Passphrase;
use identity::principal::NodeName;
use operate::invite::bundle;
use operate::invite::kinds::InviteChoice;
use terminal::failure::Failure;
use terminal::show::show;

use super::{Bounds, Told, make};
use crate::commands::invite::terms::check_free;
use crate::home::{Common, During};
use crate::secrets::tell_if_weak;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold bundle issue web-1                                  draws a passphrase, and prints it once
  freehold bundle issue web-1 --out /media/usb/web-1.bundle --bundle-passphrase-file FILE
  freehold-node join --bundle web-1.bundle                     on the machine

Send the file and the passphrase by different ways. Inside is a key that is good once, to endorse a key that the machine
makes itself. If another machine shows it later it is refused, and `freehold invite show` and `freehold node list` say so.")]
pub struct Issue {
    /// The name that the machine takes
    name: NodeName,
    /// Where to write the bundle [default: NAME.bundle here]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The bundle's passphrase, as the first line of a file [default: one is drawn and printed]
    #[arg(long, value_name = "FILE")]
    bundle_passphrase_file: Option<PathBuf>,
    /// Ask for the bundle's passphrase instead of drawing one
    #[arg(long, conflicts_with = "bundle_passphrase_file")]
    ask: bool,
    #[command(flatten)]
    bounds: Bounds,
}

impl Issue {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not issue a bundle for `{}`", self.name);
        let out = self.out.unwrap_or_else(|| PathBuf::from(format!("{}.bundle", self.name)));
        check_free(&out, &doing)?;
        let drawn = match (&self.bundle_passphrase_file, self.ask) {
            (None, false) => Some(bundle::draw_passphrase().during(&doing)?),
            _ => None,
        };
        let passphrase = match (&drawn, &self.bundle_passphrase_file) {
            (Some(drawn), _) => Passphrase::new(drawn.to_string()),
            (None, Some(path)) => Passphrase::from_file(path).during(&doing)?,
            (None, None) => Passphrase::ask_new("passphrase for the bundle").during(&doing)?,
        };
        tell_if_weak(common.json, &passphrase);
        let wish = self.bounds.wish(&self.name, InviteChoice::Bundle, &doing)?;
        let told = make(common, &self.name, &wish, &out, Some(&passphrase), &doing).await?;
        let told = Told { passphrase: drawn.map(|drawn| drawn.to_string()), ..told };
        show(common.json, &told, || told.in_words());
        Ok(())
    }
}
