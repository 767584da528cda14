//! `freehold rotate DOMAIN`: a new root from the first step to the last. Where it stands, the head says.

mod bar;
mod person;

use std::path::PathBuf;

use clap::Args;
use ground::clock;
use identity::bundle::{Endpoint, Identity, InDomain};
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use operate::trust::lifetimes::Lifetimes;
use operate::trust::rotate::replace::replace;
use operate::trust::rotate::run::{Lack, Lacking, RotateWish, Step, go_back, rotate};
use operate::trust::stage::{Stage, stage};
use serde::Serialize;
use terminal::failure::{Exit, Failure};
use terminal::show::show;

use self::person::Person;
use crate::commands::trust::domain::DomainWord;
use crate::home::Common;
use crate::root_keys::LifetimeArgs;
use crate::waiting::{Left, Waiting, leave};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold rotate endpoint                        begin, or go on where it stands
  freehold rotate identity --grace 30d --wait 1h
  freehold rotate identity --root-lifetime 10y --issuer-lifetime 1y
  freehold rotate endpoint --anyway old-nas       do not wait for this node
  freehold rotate endpoint --back                 take the last step back
  freehold rotate identity --compromised          the root was stolen: no grace

New root, hand it out, wait until every node has it, turn to it, keep the old one for the grace, retire it. It can be
interrupted anywhere: run again, it goes on. If nodes are missing when the wait is over it ends with 5 and names them.
When the grace is over, run it once more: it retires the old root, unless somebody would break by that. Run yet again it begins
another one, and asks first if the last is not a day old (--yes does not ask).

Exit code: 0 as far as it can be now, 3 refused, 5 it waits for nodes.")]
pub struct Rotate {
    /// Which roots: those of gateways, or those of members
    domain: DomainWord,
    /// How long the old root is trusted beside the new one
    #[arg(long, value_name = "SPAN", default_value_t = GRACE)]
    grace: Seconds,
    /// Wait this long for the nodes
    #[arg(long, value_name = "SPAN", default_value = "10m")]
    wait: Seconds,
    /// Do not wait for the nodes
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    #[command(flatten)]
    lifetimes: LifetimeArgs,
    #[command(flatten)]
    way: Way,
    /// For --compromised without a terminal: the org's name
    #[arg(long, value_name = "ORG", requires = "compromised")]
    confirm: Option<String>,
    /// A node that is left behind until it comes back; may be repeated
    #[arg(long, value_name = "NODE")]
    anyway: Vec<NodeName>,
    /// A gateway that is left out: its issuing keys are not known, or, with --compromised, may be stolen, too; may be repeated
    #[arg(long, value_name = "NAME")]
    without: Vec<NodeName>,
    /// Where the root keys are [default: the operator's folder]
    #[arg(long, value_name = "DIR")]
    roots: Option<PathBuf>,
    /// Do not ask: begin also if the last rotation finished within a day
    #[arg(long)]
    yes: bool,
}

/// How long the old root is trusted if nothing is said.
const GRACE: Seconds = Seconds::DAY.times(7);

/// Forward by default.
#[derive(Debug, Args)]
struct Way {
    /// Only go on with what is under way; begin nothing
    #[arg(long = "continue")]
    goes_on: bool,
    /// Take the last step back
    #[arg(long, conflicts_with_all = ["goes_on", "compromised"])]
    back: bool,
    /// The root was stolen: put a new one in its place at once
    #[arg(long, conflicts_with = "goes_on")]
    compromised: bool,
}

/// Where the rotation stands when the command ends.
#[derive(Debug, Serialize)]
struct Told {
    domain: &'static str,
    /// What this run did.
    done: Vec<Step>,
    /// `settled`, `staged` or `grace`.
    stands: &'static str,
    trust_bundle_version: u64,
    /// Until when the old version is trusted.
    grace_until: Option<Timestamp>,
    /// Who is waited for, and why.
    missing: Vec<String>,
    /// What comes next, as a command.
    next: Option<String>,
    #[serde(flatten)]
    pending: Left,
}

impl Rotate {
    /// The command that goes on as this one would have.
    fn go_on(&self) -> String {
        let grace = if self.grace == GRACE { String::new() } else { format!(" --grace {}", self.grace) };
        let anyway: String = self.anyway.iter().flat_map(|name| [" --anyway ", name.as_str()]).collect();
        format!("freehold rotate {} --continue{grace}{}{anyway}", self.domain.word(), self.lifetimes.again())
    }

    fn wish(&self, lives: Lifetimes) -> RotateWish {
        RotateWish {
            goes_on: self.way.goes_on,
            sure: self.yes,
            grace: self.grace,
            issuer_life: lives.issuer,
            wait: if self.no_wait { Seconds(0) } else { self.wait },
            left_behind: self.anyway.iter().cloned().collect(),
            without: self.without.iter().cloned().collect(),
        }
    }

    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self.domain {
            DomainWord::Endpoint => Box::pin(self.run_in::<Endpoint>(common)).await,
            DomainWord::Identity => Box::pin(self.run_in::<Identity>(common)).await,
        }
    }

    async fn run_in<T: InDomain>(&self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not rotate the `{}` root", self.domain.word());
        let lives = self.lifetimes.lives(&doing)?;
        let wish = self.wish(lives);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let mut person = Person::new(self, lives, common, &keys, &doing);
        let rotated = if self.way.back {
            go_back::<T, _>(&mut session, &keys, &wish, &mut person).await
        } else if self.way.compromised {
            replace::<T, _>(&mut session, &keys, &wish, &mut person).await
        } else {
            rotate::<T, _>(&mut session, &keys, &wish, &mut person).await
        };
        drop(person);
        let rotated = rotated.map_err(|why| why.told(&doing))?;
        let pending = match &rotated.left {
            Some(made) => leave(common, &doing, &session.known, made)?,
            None => Left::default(),
        };
        let stage = stage(&session.lines(), T::DOMAIN);
        let missing = rotated.lacking.as_ref().map(|it| it.missing.clone()).unwrap_or_default();
        let mut told = Told { done: rotated.done, missing, pending, ..self.stands(stage) };
        if told.pending.waiting().is_some() {
            let forward = !self.way.back && !self.way.compromised;
            told.next = forward.then(|| format!("when it is delivered: {}", self.go_on()));
        }
        show(common.json, &told, || told.in_words());
        match rotated.lacking {
            Some(lacking) => Err(self.not_finished(&lacking)),
            None => Ok(()),
        }
    }

    /// Where it stands, and what comes next.
    fn stands(&self, stage: Stage) -> Told {
        let domain = self.domain.word();
        let (stands, trust_bundle_version, grace_until, next) = match stage {
            Stage::Settled { active } => ("settled", active, None, None),
            Stage::Staged { version, .. } => ("staged", version, None, Some(self.go_on())),
            Stage::Leaving { active, until, .. } => {
                let after = if clock::now() < until { format!("after {until}: ") } else { String::new() };
                ("grace", active, Some(until), Some(format!("{after}freehold rotate {domain} --continue")))
            }
        };
        let (done, missing, pending) = (Vec::new(), Vec::new(), Left::default());
        Told { domain, done, stands, trust_bundle_version, grace_until, missing, next, pending }
    }

    fn not_finished(&self, Lacking { what, missing }: &Lacking) -> Failure {
        let word = self.domain.word();
        let hint = match what {
            Lack::Return { .. } => "they come back by themselves: freehold trust list".to_owned(),
            Lack::Retirement { version } => format!(
                "nothing is lost, both versions stay trusted: remove the cause and run it again; or let each break by its \
                 name, with the command that this prints: freehold trust plan retire {word} {version}"
            ),
            Lack::Adoption { .. } | Lack::Reissue { .. } => format!(
                "nothing is lost: go on when they are there: {}; go on without a node: add --anyway NAME; or take it back: \
                 freehold rotate {word} --back",
                self.go_on()
            ),
        };
        let why = format!("{what}:\n    {}", missing.join("\n    "));
        Failure::failed("the rotation is not finished", why).exit(Exit::Waiting).hint(hint)
    }
}

impl Told {
    fn in_words(&self) -> String {
        let now = match self.stands {
            _ if self.pending.waiting().is_some() => self.pending.waiting().map(Waiting::in_words).unwrap_or_default(),
            "staged" => format!("version {} of `{}` is handed out", self.trust_bundle_version, self.domain),
            _ => format!("version {} of `{}` is in use", self.trust_bundle_version, self.domain),
        };
        match &self.next {
            Some(next) => format!("{now}\nnext: {next}"),
            None => now,
        }
    }
}
