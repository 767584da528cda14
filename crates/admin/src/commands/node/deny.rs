//! `freehold node deny`: a machine that waits is turned away.

use clap::Args;
use operate::node::waiting::{deny, pick};
use terminal::confirm::confirm;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::node::candidate::{Decided, in_words, unclear, warn};
use crate::home::{Common, During};
use crate::waiting::of_org;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold node deny web-1
  freehold node deny caribou ground phone camel leopard tennis pillow --yes

One signer's no stands: this claim is never let in. The machine can ask again with new keys.")]
pub struct Deny {
    /// The claim's words, a machine's name, or the beginning of the claim's digest
    #[arg(required = true, value_name = "CLAIM")]
    claim: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Deny {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let said = self.claim.join(" ");
        let doing = format!("could not deny `{said}`");
        let (mut session, keys) = common.signing_session(&doing).await?;
        let (waiting, odd) = operate::node::waiting::all(&mut session).await.during(&doing)?;
        warn(&odd);
        let (one, _) = pick(&waiting, &said).map_err(|why| unclear(&doing, &why))?;
        if !common.json {
            eprintln!("{}", in_words(&one));
        }
        let question = format!("Turn `{}` away?", one.claim.name);
        confirm(self.yes, &doing, &of_org(common, &session.known, &question))?;
        let decided = deny(&mut session, &keys, one.digest, one.invite.expires_at).await;
        decided.during(&doing)?;
        let told = Decided {
            name: one.claim.name.to_string(),
            about: one.digest.to_string(),
            words: Some(one.words.to_string()),
            verdict: "deny",
            approved_by: one.yes.iter().map(ToString::to_string).collect(),
            approvers: usize::from(one.invite.approvers),
            done: true,
            waits_for_signatures: false,
        };
        show(common.json, &told, || format!("turned `{}` away: this claim is never let in", told.name));
        Ok(())
    }
}
