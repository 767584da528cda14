//! `freehold suspend NODE`: one signer alone stops a node for a day.

use clap::Args;
use identity::principal::NodeName;
use identity::time::Seconds;
use operate::node::suspend::suspend;
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};
use crate::waiting::of_org;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold suspend web-1 --reason 'odd traffic at night'
  freehold suspend web-1 --for 2h --yes

One signer is enough, also where several must agree. It ends by itself, and the same signer cannot repeat it for that
machine: whoever needs longer needs the others (freehold node revoke).")]
pub struct Suspend {
    /// The node's name
    name: NodeName,
    /// For how long
    #[arg(long = "for", value_name = "SPAN", default_value = "24h")]
    span: Seconds,
    /// Why, for the others
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Suspended {
    name: String,
    until: String,
}

impl Suspend {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not suspend `{}`", self.name);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let node = operate::node::find(&mut session, &self.name).await.during(&doing)?;
        if !common.json {
            eprintln!(
                "{}: its open connections are cut, and it gets no certificate, for {}.",
                node.spiffe_id, self.span
            );
            eprintln!("  You can do this once for this machine. It ends by itself.");
        }
        let question = format!("Suspend the machine `{}` for {}?", node.name, self.span);
        confirm(self.yes, &doing, &of_org(common, &session.known, &question))?;
        let until = suspend(&mut session, &keys, &node, self.span, &self.reason).await;
        let until = until.during(&doing)?;
        let told = Suspended { name: node.name.to_string(), until: until.to_string() };
        show(common.json, &told, || format!("suspended `{}` until {}", told.name, told.until));
        Ok(())
    }
}
