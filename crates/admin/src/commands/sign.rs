//! `freehold sign FILE`: says what it would do, then adds this operator's signature.

use std::path::PathBuf;

use clap::Args;
use ground::clock;
use node::report::{Failure, show};
use operate::describe;
use operate::folder::OperatorFolder;
use operate::pending::{BadPending, Pending};
use operate::timely;
use serde::Serialize;

use crate::home::{Common, failure};
use crate::waiting::NeedTold;
use crate::words::confirm;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold sign harbor-invite-5f0c2a91.pending          shows what it is, asks, signs
  freehold sign --show harbor-head-77ab01cd.pending     only shows it

What is shown is read from the bytes that are signed, never from what somebody wrote beside them. Nothing is sent;
no gateway is asked.")]
pub struct Sign {
    /// What waits for signatures
    file: PathBuf,
    /// Only show what it is
    #[arg(long)]
    show: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Told {
    file: String,
    does: Vec<String>,
    signed_now: Vec<String>,
    needs: Vec<NeedTold>,
    complete: bool,
}

impl Sign {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not sign `{}`", self.file.display());
        let failed = |why: BadPending| {
            let hint = match &why {
                BadPending::Head(_) | BadPending::Signers(_) => {
                    "things moved on since it was made, or this home has not heard of them: freehold node list; then ask for a new one"
                }
                BadPending::OtherOrg(_) => "say which org: --org NAME, or where it is: --home DIR",
                BadPending::File(_) => "is that the file's name?",
                _ => "ask whoever made it for a new copy",
            };
            failure(&doing, &why.into()).hint(hint)
        };
        let mut pending = Pending::read(&self.file).map_err(failed)?;
        let org = common.org(&doing)?;
        let folder = OperatorFolder::at(&common.home(), &org);
        let known = folder.known().map_err(|why| Failure::new(&doing, &why))?;
        let quorums = pending.quorums(&known).map_err(failed)?;
        let does = describe::in_words(&known, &pending.handed).map_err(|why| failed(why.into()))?;
        let mut signed_now = Vec::new();
        if !common.json || self.show {
            tell(common, &pending, &does);
        }
        if !self.show {
            if !common.trust_clock {
                timely::check_dates(known.org(), &pending.handed, clock::now())
                    .map_err(|why| failure(&doing, &why.into()))?;
            }
            confirm(self.yes, &doing, "Sign it?")?;
            let keys = common.keys_for(&folder, &quorums, &doing)?;
            let fresh = pending.sign(&known, &keys).map_err(failed)?;
            signed_now = fresh.iter().map(ToString::to_string).collect();
            if fresh.is_empty() {
                let why = "everybody whose key is here has signed it already, or is not among those who must";
                return Err(Failure::refused(&doing, why).hint("see who is missing: freehold sign --show FILE"));
            }
            pending.save(&self.file).map_err(failed)?;
        }
        let needs = pending.needs(&known).map_err(failed)?;
        let complete = needs.iter().all(operate::pending::Need::is_met);
        let needs: Vec<NeedTold> = needs.iter().map(NeedTold::from).collect();
        let told = Told { file: self.file.display().to_string(), does, signed_now, needs, complete };
        show(common.json, &told, || in_words(&told));
        Ok(())
    }
}

fn tell(common: &Common, pending: &Pending, does: &[String]) {
    if common.json {
        return;
    }
    eprintln!("`{}`, made at {}:", pending.org, pending.made_at);
    for line in does {
        eprintln!("  {line}");
    }
}

fn in_words(told: &Told) -> String {
    let mut lines: Vec<String> = told.signed_now.iter().map(|name| format!("signed as `{name}`")).collect();
    lines.extend(told.needs.iter().map(NeedTold::in_words));
    lines.push(if told.complete {
        format!("complete; deliver it: freehold send {}", told.file)
    } else {
        "others must sign it, too".to_owned()
    });
    lines.join("\n")
}
