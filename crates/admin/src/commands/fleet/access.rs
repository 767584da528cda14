//! `freehold access`: may she, and why; from the fleet in the folder alone.

use std::path::PathBuf;

use clap::Args;
use identity::principal::Name;
use manifest::access::{AccessAnswer, BadAccessQuestion, Who, matrix, may};
use serde::Serialize;
use terminal::failure::{Exit, Failure};
use terminal::show::show;

use crate::commands::fleet::check::read_fleet;
use crate::home::Common;

#[derive(Debug, Args)]
#[command(
    override_usage = "freehold access [OPTIONS] WHO WHAT [DIR]\n       freehold access [OPTIONS] --matrix [DIR]",
    after_help = "Examples:
  freehold access alice wiki             may she, from any of her nodes, and why
  freehold access alice@laptop wiki      from that one
  freehold access node/web-7 wiki        a machine that need not be declared
  freehold access class/web wiki         every machine of a class
  freehold access --matrix               everybody and everything

DIR is the fleet's folder: ./fleet if it is there, else this one. It needs no gateway and no passphrase, and does not know
who is revoked. Exit code 0 for yes, 3 for no."
)]
pub struct Access {
    /// A user, service, node or class: NAME, NAME@NODE or KIND/NAME
    #[arg(required_unless_present = "matrix")]
    who: Option<String>,
    /// The service
    #[arg(required_unless_present = "matrix")]
    what: Option<Name>,
    /// The fleet's folder
    dir: Option<PathBuf>,
    /// Show who may call what, everybody and everything
    #[arg(long)]
    matrix: bool,
}

/// An answer, and its reasons as a person reads them.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    answer: &'a AccessAnswer,
    words: Vec<String>,
}

impl Access {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not say who may call what";
        match (self.who, self.what) {
            (Some(who), Some(what)) if !self.matrix => {
                let (_, fleet) = read_fleet(common, self.dir.as_deref(), doing)?;
                let asked = who.parse::<Who>().and_then(|who| may(&fleet, &who, &what));
                answer(common, &asked.map_err(|why| bad_question(doing, &why))?)
            }
            (dir, None) if self.matrix => {
                let (_, fleet) = read_fleet(common, dir.map(PathBuf::from).as_deref(), doing)?;
                let all = matrix(&fleet);
                show(common.json, &all, || all.to_string());
                Ok(())
            }
            _ => Err(Failure::usage(doing, "--matrix is about everybody: it takes the fleet's folder and no names")
                .hint("freehold access WHO WHAT, or freehold access --matrix [DIR]")),
        }
    }
}

fn answer(common: &Common, answer: &AccessAnswer) -> Result<(), Failure> {
    let words: Vec<String> = answer.why.iter().map(ToString::to_string).collect();
    let at = answer.at.as_ref().map(|at| format!(" from `{at}`")).unwrap_or_default();
    let (yes, may) = if answer.allowed { ("yes", "may") } else { ("no", "may not") };
    let said = format!("{} {may} call `{}`{at}", answer.who, answer.what);
    let why = words.join("\n  ");
    let reason = words.last().cloned().unwrap_or_default();
    show(common.json, &Told { answer, words }, || format!("{yes}: {said}\n  {why}"));
    if answer.allowed { Ok(()) } else { Err(Failure::refused(said, reason)) }
}

fn bad_question(doing: &str, why: &BadAccessQuestion) -> Failure {
    let hint = match why {
        BadAccessQuestion::NotWho(_) => "for example: freehold access alice@laptop wiki",
        BadAccessQuestion::NoSuch(_) => "see all names: freehold access --matrix; ask about any machine: node/NAME",
        BadAccessQuestion::OtherOrg { .. } => "name the fleet of that org: freehold access WHO WHAT DIR",
        BadAccessQuestion::NoService(_) => "see all services: freehold access --matrix",
    };
    Failure::new(doing, why).hint(hint).exit(Exit::Usage)
}
