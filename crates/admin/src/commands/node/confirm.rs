//! `freehold confirm NODE`: one signer lets stay what a node has on trial.

use clap::Args;
use ground::clock;
use identity::principal::NodeName;
use operate::node::consent;
use operate::node::consent::consent;
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};
use crate::waiting::of_org;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold confirm web-1

For nodes whose fleet says `confirm: operator`. One signer is enough: what stays was signed by the threshold.")]
pub struct Confirm {
    /// The node's name
    name: NodeName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Confirmed {
    name: String,
    manifest: String,
    at: String,
}

impl Confirm {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not confirm `{}`", self.name);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let node = operate::node::find(&mut session, &self.name).await.during(&doing)?;
        let waits = consent::on_trial(&mut session, &node).await.during(&doing)?;
        if !common.json {
            eprintln!("`{}` has manifest {} on trial until {}", self.name, waits.manifest, waits.deadline);
            for wait in &waits.waits {
                eprintln!("  it waits for: {}", ground::plain::plain(wait));
            }
            if clock::now() >= waits.deadline {
                eprintln!("  its deadline is over: it may have gone back already");
            }
        }
        confirm(self.yes, &doing, &of_org(common, &session.known, "Let it stay?"))?;
        let at = consent(&mut session, &keys, &node, waits.manifest).await.during(&doing)?;
        let told = Confirmed { name: self.name.to_string(), manifest: waits.manifest.to_string(), at: at.to_string() };
        show(common.json, &told, || format!("confirmed: `{}` may stay what it is", told.name));
        Ok(())
    }
}
