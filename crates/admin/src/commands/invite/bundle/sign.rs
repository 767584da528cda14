//! `freehold bundle sign`: the request that a machine made itself.

use std::path::PathBuf;

use clap::Args;
use ground::file;
use identity::principal::NodeName;
use operate::invite::bundle;
use operate::invite::kinds::InviteChoice;
use org::invite::carried::JoinRequest;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use terminal::show::show;

use super::{Bounds, make};
use crate::commands::invite::terms::check_free;
use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold-node csr --name web-1 --out web-1.request          on the machine: its keys stay there
  freehold bundle sign web-1.request --out web-1.bundle       here
  freehold-node join --bundle web-1.bundle                    on the machine

Compare the node key with what the machine printed. The bundle holds no secret: it is of use to that machine alone.")]
pub struct SignRequest {
    /// The machine's request
    request: PathBuf,
    /// Where to write the bundle
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The name that the machine takes, if not the one that it asks for
    #[arg(long)]
    name: Option<NodeName>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    bounds: Bounds,
}

impl SignRequest {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not sign `{}`", self.request.display());
        check_free(&self.out, &doing)?;
        let bytes = file::read(&self.request).during(&doing)?;
        let request = bundle::open_request(&bytes).map_err(|why| {
            let hint = "have the machine make it again: freehold-node csr";
            Failure::refused(&doing, why.to_string()).hint(hint)
        })?;
        let name = self.name.unwrap_or_else(|| request.name.clone());
        if !common.json {
            eprintln!("{}", ground::plain::plain(&in_words(&request, &name)));
        }
        confirm(self.yes, &doing, &format!("Let `{name}` into `{}`?", common.org(&doing)?))?;
        let wish = self.bounds.wish(&name, InviteChoice::Machine(request.node_key), &doing)?;
        let told = make(common, &name, &wish, &self.out, None, &doing).await?;
        show(common.json, &told, || told.in_words());
        Ok(())
    }
}

fn in_words(request: &JoinRequest, name: &NodeName) -> String {
    let other = if request.name == *name { String::new() } else { format!(" (it asked for `{}`)", request.name) };
    format!(
        "a machine that calls itself `{}` asks to be let in as `{name}`{other}\n  node key  {}\n  made at   {}\n\
         Does the machine show this node key? Whoever holds it gets in, and nobody else.",
        // Whoever wrote it could have written lines of its own.
        request.hostname.escape_debug(),
        request.node_key.digest(),
        request.made_at
    )
}
