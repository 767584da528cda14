//! `freehold sign FILE`: says what it would do, then adds this operator's signature.

use std::path::{Path, PathBuf};

use clap::Args;
use ground::clock;
use operate::folder::OperatorFolder;
use operate::pending::{BadPending, Pending};
use operate::replica::roll::{Roll, names};
use operate::session::timely;
use operate::signer::describe;
use operate::signer::weigh::{Weighed, weigh};
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::signer::over;
use crate::home::{Common, During, failure};
use crate::waiting::{NeedTold, of_org};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold sign harbor-invite-5f0c2a91.pending          shows what it is, asks, signs
  freehold sign --show harbor-head-77ab01cd.pending     only shows it
  freehold sign --over                                  after `freehold signer ...`: invites that were made before go on

What is shown is read from the bytes that are signed, never from what somebody wrote beside them. Whom a head lists is held
against this home's own copy of the ledger; where that says otherwise, or cannot tell, nothing is signed. Nothing is sent; no
gateway is asked: `freehold node list` brings the copy up to date.")]
pub struct SignPending {
    /// What waits for signatures
    #[arg(required_unless_present = "over")]
    file: Option<PathBuf>,
    /// Sign anew what ended when the signers changed: invites and waivers that are still open
    #[arg(long, conflicts_with_all = ["file", "show", "anyway"])]
    over: bool,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
struct How {
    /// Only show what it is
    #[arg(long)]
    show: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Sign although this home's copy of the ledger says otherwise, or cannot tell
    #[arg(long)]
    anyway: bool,
}

#[derive(Serialize)]
struct Told {
    file: String,
    does: Vec<String>,
    #[serde(flatten)]
    roll: Roll,
    /// Who is meant to be something else than now.
    remade: Vec<String>,
    /// Where it says otherwise than this home's copy of the ledger.
    contradicts: Vec<String>,
    /// Why it was not held against that copy, if it was not.
    not_compared: Option<String>,
    signed_now: Vec<String>,
    needs: Vec<NeedTold>,
    complete: bool,
    waits_for_signatures: bool,
}

impl SignPending {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match &self.file {
            Some(file) => self.sign(common, file),
            None => Box::pin(over::run(common, self.how.yes)).await,
        }
    }

    fn sign(&self, common: &Common, file: &Path) -> Result<(), Failure> {
        let doing = format!("could not sign `{}`", file.display());
        let failed = |why: BadPending| {
            let hint = match &why {
                BadPending::Head(_) | BadPending::Signers(_) => {
                    "things moved on since it was made, or this home has not heard of them: freehold node list; then ask for a new one"
                }
                BadPending::OtherOrg(_) => "say which org: --org NAME, or where it is: --home DIR",
                BadPending::File(_) => "is that the file's name?",
                _ => "ask whoever made it for a new copy",
            };
            failure(&doing, &why).hint(hint)
        };
        let mut pending = Pending::read(file).map_err(failed)?;
        let org = common.org(&doing)?;
        let folder = OperatorFolder::at(&common.home(), &org);
        let known = folder.known().during(&doing)?;
        let quorums = pending.quorums(&known).map_err(failed)?;
        let does = describe::in_words(&known, &pending.handed).map_err(|why| failed(why.into()))?;
        let weighed = weigh(&folder, &known, &pending).map_err(failed)?;
        let mut signed_now = Vec::new();
        tell(common, &pending, &does, &weighed);
        if !self.how.show {
            check(&doing, &weighed, self.how.anyway)?;
            if !common.trust_clock {
                timely::check_dates(known.org(), &pending.handed, clock::now()).during(&doing)?;
            }
            confirm(self.how.yes, &doing, &of_org(common, &known, "Sign it?"))?;
            let keys = common.keys_for(&folder, &quorums, &doing)?;
            let fresh = pending.sign(&known, &keys).map_err(failed)?;
            signed_now = fresh.iter().map(ToString::to_string).collect();
            if fresh.is_empty() {
                let why = "everybody whose key is here has signed it already, or is not among those who must";
                return Err(Failure::refused(&doing, why).hint("see who is missing: freehold sign --show FILE"));
            }
            pending.save(file).map_err(failed)?;
        }
        let needs = pending.needs(&known).map_err(failed)?;
        let complete = needs.iter().all(operate::pending::Need::is_met);
        if !complete && !self.how.show {
            common.unfinished.note();
        }
        let needs: Vec<NeedTold> = needs.iter().map(NeedTold::from).collect();
        let Weighed { roll, remade, contradictions, unseen: not_compared } = weighed;
        let remade = remade.iter().map(ToString::to_string).collect();
        let contradicts = contradictions.iter().map(ToString::to_string).collect();
        let file = file.display().to_string();
        let told = Told {
            file,
            does,
            roll,
            remade,
            contradicts,
            not_compared,
            signed_now,
            needs,
            complete,
            waits_for_signatures: !complete,
        };
        show(common.json, &told, || in_words(&told));
        Ok(())
    }
}

fn tell(common: &Common, pending: &Pending, does: &[String], weighed: &Weighed) {
    if common.json {
        return;
    }
    eprintln!("`{}`, made at {}:", pending.org, pending.made_at);
    for line in does.iter().chain(&weighed.roll.in_words()) {
        eprintln!("  {line}");
    }
    if !weighed.remade.is_empty() {
        eprintln!("  means to be something else than now: {}", names(&weighed.remade));
    }
    for contradiction in &weighed.contradictions {
        eprintln!("  NOT AS THIS HOME KNOWS IT: {contradiction}");
    }
    if let Some(why) = &weighed.unseen {
        eprintln!("  NOT COMPARED with what this home knows: {why}");
    }
}

/// A home signs only what its own fold says, unless a person says otherwise.
fn check(doing: &str, weighed: &Weighed, anyway: bool) -> Result<(), Failure> {
    if anyway {
        return Ok(());
    }
    if let [first, rest @ ..] = weighed.contradictions.as_slice() {
        let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
        return Err(Failure::refused(doing, format!("{first}{more}")).hint(
            "this home may not have heard of it yet: freehold node list, then sign again; if it still says so, ask \
             whoever made it; if you looked and it is right: --anyway",
        ));
    }
    if let Some(why) = &weighed.unseen {
        return Err(Failure::refused(doing, format!("this home cannot tell whether it is right: {why}")).hint(
            "bring its copy of the ledger up to date: freehold node list, then sign again; if it still cannot tell, ask \
             whoever made it; if you looked in another way and it is right: --anyway",
        ));
    }
    Ok(())
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
