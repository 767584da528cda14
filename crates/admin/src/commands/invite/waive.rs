//! `freehold invite approve`: a yes beforehand to machines of such names, whose proof holds.

use clap::Args;
use ground::clock;
use identity::principal::glob::NameGlob;
use identity::time::Seconds;
use operate::node::waiting::deny;
use operate::node::waive::{self, Waived, waive};
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use terminal::show::show;

use super::waivers::{listed, signers};
use crate::home::{Common, During};
use crate::waiting::{self, Left, leave, of_org};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold invite approve 'db-*'                 for an hour nobody need look at machines of these names
  freehold invite approve 'db-*' 'web-*' --ttl 1d
  freehold invite approve --join 3f5a            say yes to what another signer said, so that the two add up
  freehold invite approve --end 3f5a             end it before its time: one signer is enough

It waives the person alone: the machine must still prove an invite that allows the name. Whoever merely claims a host name
that fits a pattern is not let in by it.")]
pub struct Waive {
    /// Names that nobody need look at, `*` stands for anything
    #[arg(value_name = "GLOB", required_unless_present_any = ["join", "end"])]
    names: Vec<NameGlob>,
    /// How long it holds
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    ttl: Seconds,
    /// Sign the waiver of another signer: its id, or the beginning of it
    #[arg(long, value_name = "ID", conflicts_with_all = ["names", "ttl"])]
    join: Option<String>,
    /// End a waiver before its time: its id, or the beginning of it
    #[arg(long, value_name = "ID", conflicts_with_all = ["names", "ttl", "join"])]
    end: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Waive {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not approve beforehand";
        let (mut session, keys) = common.signing_session(doing).await?;
        if let Some(wanted) = &self.end {
            let shown = waive::find(&mut session, wanted).await.during(doing)?;
            let question = format!("End the waiver for {}?", listed(&shown.names));
            confirm(self.yes, doing, &of_org(common, &session.known, &question))?;
            // One signer's no is enough, and stands.
            let ended = deny(&mut session, &keys, shown.id, shown.until).await;
            ended.during(doing)?;
            show(common.json, &shown, || format!("the waiver for {} is over", listed(&shown.names)));
            return Ok(());
        }
        let known = match &self.join {
            Some(wanted) => Some(waive::find(&mut session, wanted).await.during(doing)?),
            None => None,
        };
        if !common.json {
            let names = known.as_ref().map_or(&self.names, |waived| &waived.names);
            let until = known.as_ref().map_or_else(|| clock::now() + self.ttl, |waived| waived.until);
            eprintln!("Until {until} nobody need look at machines named {} that prove an invite.", listed(names));
        }
        confirm(self.yes, doing, &of_org(common, &session.known, "Waive them?"))?;
        let told = if let Some(shown) = known {
            let waived = waive::join(&mut session, &keys, shown).await.during(doing)?;
            Told { waived, pending: Left::default() }
        } else {
            let made = waive(&mut session, &keys, &self.names, self.ttl).await.during(doing)?;
            let pending = leave(common, doing, &session.known, &made)?;
            Told { waived: made.what, pending }
        };
        show(common.json, &told, || in_words(&told));
        Ok(())
    }
}

/// A waiver counts for nothing until the threshold signed it.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    waived: Waived,
    #[serde(flatten)]
    pending: Left,
}

fn in_words(Told { waived, pending }: &Told) -> String {
    waiting::told(pending.waiting(), || {
        format!(
            "approved {} until {}, by {}\nIf an invite asks for more approvers, each adds a word: freehold invite approve \
             --join {}",
            listed(&waived.names),
            waived.until,
            signers(waived),
            waived.id
        )
    })
}
