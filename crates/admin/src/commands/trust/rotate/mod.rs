//! `freehold rotate DOMAIN`: a new root from the first step to the last. Where it stands, the head says.

mod wait;
mod spares;
mod stolen;

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::Args;
use ground::clock;
use identity::bundle::{Endpoint, Identity, InDomain};
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use operate::audit;
use operate::key::SignerKeys;
use operate::session::Session;
use operate::trust::adopted;
use operate::trust::dependents;
use operate::trust::dependents::look;
use operate::trust::issuers;
use operate::trust::retire::RetireWish;
use operate::trust::rotate::{self, Beginning, Course, NextStep};
use operate::trust::stage::{Stage, finished, stage};
use operate::trust::step;
use operate::trust::step::LeftBehind;
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::{Exit, Failure};
use terminal::show::show;

use crate::commands::trust::domain::{DomainWord, TurnTold};
use crate::commands::trust::rollback;
use crate::home::{Common, During};
use crate::rooting::next_root;
use crate::waiting::{Left, Waiting, leave};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold rotate endpoint                        begin, or go on where it stands
  freehold rotate identity --grace 30d --wait 1h
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
#[derive(Debug, Default, Serialize)]
pub struct Rotated {
    domain: &'static str,
    /// What this run did: `publish`, `activate`, `retire`, `rollback`, `replace`.
    done: Vec<&'static str>,
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

/// Whether there is more to do now.
enum Then {
    GoOn,
    Rest,
    /// Exit code 5.
    Wait(String),
}

/// One run of the command.
struct Run<'a> {
    wish: Rotate,
    common: &'a Common,
    session: Session,
    keys: SignerKeys,
    doing: String,
    told: Rotated,
}

impl Rotate {
    fn left_behind(&self) -> BTreeSet<NodeName> {
        self.anyway.iter().cloned().collect()
    }

    /// The command that goes on as this one would have.
    fn go_on(&self) -> String {
        let grace = if self.grace == GRACE { String::new() } else { format!(" --grace {}", self.grace) };
        let anyway: String = self.anyway.iter().flat_map(|name| [" --anyway ", name.as_str()]).collect();
        format!("freehold rotate {} --continue{grace}{anyway}", self.domain.word())
    }

    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not rotate the `{}` root", self.domain.word());
        let (session, keys) = common.signing_session(&doing).await?;
        let told = Rotated { domain: self.domain.word(), ..Rotated::default() };
        let mut run = Run { wish: self, common, session, keys, doing, told };
        match run.wish.domain {
            DomainWord::Endpoint => Box::pin(run.all::<Endpoint>()).await,
            DomainWord::Identity => Box::pin(run.all::<Identity>()).await,
        }
    }
}

impl Run<'_> {
    async fn all<T: InDomain>(&mut self) -> Result<(), Failure> {
        let then = if self.wish.way.back {
            self.back::<T>().await?
        } else if self.wish.way.compromised {
            stolen::replace::<T>(self).await?
        } else {
            self.check_names().await?;
            loop {
                match self.step::<T>().await? {
                    Then::GoOn => {}
                    then => break then,
                }
            }
        };
        self.end::<T>(then)
    }

    /// Before anybody is waited for: whoever is not to be must be somebody.
    async fn check_names(&mut self) -> Result<(), Failure> {
        let anyway = self.wish.left_behind();
        if anyway.is_empty() {
            return Ok(());
        }
        let stances = adopted::stances(&mut self.session).await.during(&self.doing)?;
        stances.check_names(&anyway).during(&self.doing)
    }

    /// The next step from wherever the head stands.
    async fn step<T: InDomain>(&mut self) -> Result<Then, Failure> {
        let course = Course { goes_on: self.wish.way.goes_on, moved: !self.told.done.is_empty() };
        match rotate::next(stage(&self.session.lines(), T::DOMAIN), course, clock::now()) {
            NextStep::Done { active } => {
                self.say(&format!("version {active} is in use, and nothing else is trusted: the rotation is done"));
                Ok(Then::Rest)
            }
            NextStep::NothingUnderWay => Err(Failure::refused(&self.doing, "nothing is under way").hint(format!(
                "begin: freehold rotate {}; if a step waits for signatures, deliver it first: freehold send FILE",
                T::DOMAIN.word()
            ))),
            NextStep::Publish { active } => {
                self.begin::<T>(active).await?;
                self.publish::<T>(active).await
            }
            NextStep::Activate { version, active } => self.activate::<T>(version, active).await,
            NextStep::Rest { active, version, until } => {
                self.say(&format!("version {active} is in use; version {version} is trusted beside it until {until}"));
                Ok(Then::Rest)
            }
            NextStep::Retire { version } => self.retire::<T>(version).await,
        }
    }

    /// Nobody begins another rotation by a slip.
    async fn begin<T: InDomain>(&mut self, active: u64) -> Result<(), Failure> {
        let lines = audit::lines(&mut self.session, Some(T::DOMAIN.word())).await;
        let lines = lines.during(&self.doing)?;
        let last = |at: Timestamp| format!("the last rotation finished at {at} with version {active}");
        match rotate::beginning(finished(&lines), self.wish.yes, clock::now()) {
            Beginning::First => Ok(()),
            Beginning::Another(at) => {
                self.say(&format!("{}; this begins another", last(at)));
                Ok(())
            }
            Beginning::Unsure(at) if !std::io::stdin().is_terminal() => {
                let word = T::DOMAIN.word();
                Err(Failure::refused(&self.doing, format!("{}, and this would begin another", last(at)))
                    .hint(format!("nothing is left to do; if you mean it: freehold rotate {word} --yes")))
            }
            Beginning::Unsure(at) => confirm(false, &self.doing, &format!("{}. Begin another?", last(at))),
        }
    }

    async fn publish<T: InDomain>(&mut self, active: u64) -> Result<Then, Failure> {
        self.say(&format!("version {active} is in use; a new root is to be handed out beside it"));
        let roots = self.wish.roots.clone();
        let without: BTreeSet<NodeName> = self.wish.without.iter().cloned().collect();
        let left_out = issuers::check_without(&mut self.session, &without, T::DOMAIN).await;
        left_out.during(&self.doing)?;
        let root = next_root::<T>(self.common, &mut self.session, roots, &self.doing).await?;
        let made = step::publish(&mut self.session, &self.keys, &root, &without).await;
        let made = made.during(&self.doing)?;
        Ok(self.done("publish", TurnTold::of(self.common, &self.session.known, &made, &self.doing)?.pending))
    }

    async fn activate<T: InDomain>(&mut self, version: u64, active: Option<u64>) -> Result<Then, Failure> {
        let beside = active.map(|active| format!(" beside version {active}, which is in use")).unwrap_or_default();
        let waiting = if self.waits() { "; waiting until every node has it" } else { "" };
        self.say(&format!("version {version} is handed out{beside}{waiting}"));
        let missing = wait::adopted::<T>(self, version).await?;
        if !missing.is_empty() {
            self.told.missing = missing;
            return Ok(Then::Wait(format!("not every node has version {version} yet")));
        }
        let missing = wait::reissued::<T>(self, version).await?;
        if !missing.is_empty() {
            self.told.missing = missing;
            return Ok(Then::Wait(format!("not every certificate leads to the root of version {version} yet")));
        }
        let anyway = self.wish.left_behind();
        let without: BTreeSet<NodeName> = self.wish.without.iter().cloned().collect();
        let made = step::activate::<T>(
            &mut self.session,
            &self.keys,
            self.wish.grace,
            LeftBehind { nodes: &anyway, gateways: &without },
        )
        .await;
        let made = made.during(&self.doing)?;
        Ok(self.done("activate", TurnTold::of(self.common, &self.session.known, &made, &self.doing)?.pending))
    }

    /// The promised time is over: gone, if nobody would break by it.
    async fn retire<T: InDomain>(&mut self, version: u64) -> Result<Then, Failure> {
        let wish = RetireWish { domain: T::DOMAIN, version, early: false, waived: Vec::new() };
        let scene = look::scene(&mut self.session, T::DOMAIN).await.during(&self.doing)?;
        let outcome = dependents::outcome(&scene, wish.step(), None);
        let outcome = outcome.during(&self.doing)?;
        if !outcome.breaks.is_empty() {
            self.told.missing = outcome.breaks.iter().map(|it| format!("{}: {}", it.in_words(), it.why)).collect();
            return Ok(Then::Wait(format!("somebody would break if version {version} were trusted no more")));
        }
        self.say(&format!("the grace of version {version} is over, and nobody would break without it"));
        let made = operate::trust::retire::retire(&mut self.session, &self.keys, &wish).await.during(&self.doing)?;
        let pending = leave(self.common, &self.doing, &self.session.known, &made)?;
        Ok(self.done("retire", pending))
    }

    async fn back<T: InDomain>(&mut self) -> Result<Then, Failure> {
        let made = step::roll_back::<T>(&mut self.session, &self.keys, self.wish.grace).await;
        let made = made.during(&self.doing)?;
        let told = TurnTold::of(self.common, &self.session.known, &made, &self.doing)?;
        if told.pending.waiting().is_none() {
            self.say(&rollback::in_words(&told));
        }
        self.done("rollback", told.pending);
        Ok(Then::Rest)
    }

    /// A step was made, or waits for the others' signatures.
    fn done(&mut self, step: &'static str, pending: Left) -> Then {
        if pending.waiting().is_some() {
            self.told.pending = pending;
            return Then::Rest;
        }
        self.told.done.push(step);
        Then::GoOn
    }

    /// Whether nodes are waited for, and can hear of it.
    fn waits(&self) -> bool {
        self.is_served() && !self.wish.no_wait && self.wish.wait.0 > 0
    }

    fn is_served(&self) -> bool {
        self.session.is_served()
    }

    fn say(&self, words: &str) {
        if !self.common.json {
            eprintln!("{}", ground::plain::plain(words));
        }
    }

    /// Tells where it stands, and what comes next.
    fn end<T: InDomain>(&mut self, then: Then) -> Result<(), Failure> {
        let word = T::DOMAIN.word();
        let (stands, version, until, next) = match stage(&self.session.lines(), T::DOMAIN) {
            Stage::Settled { active } => ("settled", active, None, None),
            Stage::Staged { version, .. } => ("staged", version, None, Some(self.wish.go_on())),
            Stage::Leaving { active, until, .. } => {
                let after = if clock::now() < until { format!("after {until}: ") } else { String::new() };
                ("grace", active, Some(until), Some(format!("{after}freehold rotate {word} --continue")))
            }
        };
        (self.told.stands, self.told.trust_bundle_version) = (stands, version);
        (self.told.grace_until, self.told.next) = (until, next);
        if self.told.pending.waiting().is_some() {
            let forward = !self.wish.way.back && !self.wish.way.compromised;
            self.told.next = forward.then(|| format!("when it is delivered: {}", self.wish.go_on()));
        }
        show(self.common.json, &self.told, || self.told.in_words());
        let why = match then {
            Then::GoOn | Then::Rest => return Ok(()),
            Then::Wait(why) => why,
        };
        let why = format!("{why}:\n    {}", self.told.missing.join("\n    "));
        let hint = if self.wish.way.compromised {
            "they come back by themselves: freehold trust list".to_owned()
        } else if let Stage::Leaving { version, .. } = stage(&self.session.known.head.head.trust, T::DOMAIN) {
            format!(
                "nothing is lost, both versions stay trusted: remove the cause and run it again; or let each break by its \
                 name, with the command that this prints: freehold trust plan retire {word} {version}"
            )
        } else {
            format!(
                "nothing is lost: go on when they are there: {}; go on without a node: add --anyway NAME; or take it back: \
                 freehold rotate {word} --back",
                self.wish.go_on()
            )
        };
        Err(Failure::failed("the rotation is not finished", why).exit(Exit::Waiting).hint(hint))
    }
}

impl Rotated {
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
