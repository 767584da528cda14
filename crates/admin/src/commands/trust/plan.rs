//! `freehold trust plan STEP`: what a turn of trust would do, and who would break by it. Nothing is signed.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use identity::bundle::Domain;
use identity::head::{TrustLine, TrustState};
use identity::id::{Digest, Fingerprint};
use identity::time::Seconds;
use identity::trust::{self, BadStep, TrustStep};
use operate::session::TrustError;
use operate::trust::adopted::bounded;
use operate::trust::dependents::look;
use operate::trust::dependents::{self, Break, DependentKind, Outcome, Scene, TrustVersion};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::table;

use super::domain::DomainWord;
use super::list::state_words;
use crate::home::{Common, During, failure};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold trust plan activate endpoint
  freehold trust plan retire endpoint 3
  freehold trust plan retire 3                where only one domain has a version 3 to retire
  freehold trust plan rollback identity --json

Names each node, gateway, certificate, service, user, invite, bundle file and image that would break, and why. A machine
that is off comes home by itself later, since the head is signed; until then it is cut off, and so it is named. `activate`
breaks nobody, for the former version stays trusted: there, those are named who have not taken the new one over.

Exit code: 0 if nobody is named, 3 if somebody is, the step cannot be taken, or no gateway tells who would break.")]
pub struct Plan {
    #[command(subcommand)]
    step: PlanStep,
}

#[derive(Debug, Subcommand)]
enum PlanStep {
    /// A new version is handed out beside the one in use
    Publish {
        /// Which roots: those of gateways, or those of members
        domain: DomainWord,
    },
    /// The staged version is the one to use
    Activate {
        /// Which roots: those of gateways, or those of members
        domain: DomainWord,
        /// How long the former version is trusted beside it
        #[arg(long, value_name = "SPAN", default_value = "7d")]
        grace: Seconds,
    },
    /// The last turn is taken back
    Rollback {
        /// Which roots: those of gateways, or those of members
        domain: DomainWord,
    },
    /// A version in grace is trusted no more
    Retire(VersionWords),
}

pub const SEE: &str = "see which there are: freehold trust list";

/// Which version is meant.
#[derive(Debug, Clone, Args)]
pub struct VersionWords {
    /// The domain, `endpoint` or `identity`, and the version; the version alone if only one domain has it
    #[arg(value_name = "DOMAIN|N", required = true, num_args = 1..=2)]
    words: Vec<String>,
}

impl VersionWords {
    pub fn find(&self, lines: &[TrustLine], doing: &str) -> Result<(Domain, u64), Failure> {
        use clap::ValueEnum as _;
        let number = |word: &str| {
            let bad = |_| {
                Failure::usage(doing, format!("`{word}` is not the number of a version"))
                    .hint("say both: endpoint N, or identity N")
            };
            word.parse::<u64>().map_err(bad)
        };
        let usage = |why: String| Err(Failure::usage(doing, why).hint("say both: endpoint N, or identity N"));
        match self.words.as_slice() {
            [domain, version] => match DomainWord::from_str(domain, false) {
                Ok(domain) => Ok((domain.into(), number(version)?)),
                Err(_) => usage(format!("`{domain}` is not a domain")),
            },
            [version] => {
                let version = number(version)?;
                let named = |in_grace: bool| {
                    let in_state = move |line: &&TrustLine| !in_grace || line.state == TrustState::Grace;
                    let named = lines.iter().filter(|line| line.version == version).filter(in_state);
                    named.map(|line| line.domain).collect::<Vec<_>>()
                };
                match (named(true).as_slice(), named(false).as_slice()) {
                    ([domain], _) | (_, [domain]) => Ok((*domain, version)),
                    (_, []) => Err(Failure::refused(doing, format!("there is no version {version}")).hint(SEE)),
                    (_, _) => usage(format!("both domains have a version {version}")),
                }
            }
            _ => usage("a domain and a version are needed".to_owned()),
        }
    }
}

/// The command that does it, with a word for each that would break by it.
fn command(step: TrustStep, domain: Domain, breaks: &[Break]) -> String {
    let (words, option) = match step {
        TrustStep::Publish { .. } => (format!("trust publish {}", domain.word()), Some("--without")),
        TrustStep::Activate { .. } => (format!("trust activate {}", domain.word()), Some("--anyway")),
        TrustStep::Rollback { .. } => (format!("trust rollback {}", domain.word()), None),
        TrustStep::Retire { version, early } => {
            let early = if early { " --early" } else { "" };
            (format!("trust retire {} {version}{early}", domain.word()), Some("--waive"))
        }
        TrustStep::Replace { .. } => (format!("rotate {} --compromised", domain.word()), None),
    };
    let named: BTreeSet<(&str, &str)> = breaks
        .iter()
        .filter_map(|it| match (step, it.kind) {
            // Here a gateway has a word of its own.
            (TrustStep::Activate { .. }, DependentKind::Gateway) => Some(("--without", it.name.rsplit('/').next()?)),
            _ => Some((option?, it.name.as_str())),
        })
        .collect();
    let all = named.iter().flat_map(|(option, name)| [" ", option, " ", name]);
    format!("freehold {words}{}", all.collect::<String>())
}

/// A plan as data.
#[derive(Debug, Serialize)]
pub struct Planned {
    step: &'static str,
    domain: &'static str,
    trust_bundle_version: u64,
    /// The command that does it, with everything waived that would break.
    command: String,
    versions: Vec<VersionPlanned>,
    roots_going: Vec<Fingerprint>,
    breaks: Vec<BreakTold>,
    /// No gateway answers: these may break or not.
    not_known: Vec<String>,
}

#[derive(Debug, Serialize)]
struct VersionPlanned {
    trust_bundle_version: u64,
    now: Option<String>,
    then: String,
}

#[derive(Debug, Serialize)]
struct BreakTold {
    #[serde(flatten)]
    it: Break,
    cure: &'static str,
}

impl Plan {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not plan";
        let mut session = common.session(doing).await?;
        let domain = match &self.step {
            PlanStep::Publish { domain } | PlanStep::Rollback { domain } | PlanStep::Activate { domain, .. } => {
                (*domain).into()
            }
            PlanStep::Retire(words) => words.find(&session.lines(), doing)?.0,
        };
        let scene = look::scene(&mut session, domain).await.during(doing)?;
        let (step, brought) = self.step.taken(&scene, doing)?;
        let outcome = dependents::outcome(&scene, step, brought.as_ref());
        let outcome = outcome.during(doing)?;
        let planned = Planned::of(&scene, step, &outcome);
        show(common.json, &planned, || planned.in_words());
        match outcome.breaks.len() {
            0 if outcome.unknown.is_empty() => Ok(()),
            0 => {
                let why = "no gateway answers, and what machines said of themselves only a gateway knows";
                Err(Failure::refused("who would get through this step is not known", why)
                    .hint("start a gateway, and plan again: freehold serve; or name one: --gateway HOST:PORT"))
            }
            many => {
                let command = command(step, domain, &[]);
                let (what, why) = match step {
                    TrustStep::Activate { version, .. } => (
                        format!("not everybody has version {version} yet"),
                        format!("{many} must have it, or be named, before `{command}`"),
                    ),
                    _ => (
                        "not everybody would get through this step".to_owned(),
                        format!("{many} would break by `{command}`"),
                    ),
                };
                Err(Failure::refused(what, why).hint(cures(&outcome.breaks)))
            }
        }
    }
}

impl PlanStep {
    /// The step, and the version that it would bring.
    fn taken(&self, scene: &Scene, doing: &str) -> Result<(TrustStep, Option<TrustVersion>), Failure> {
        let (lines, domain) = (&scene.head.trust, scene.domain);
        let (bundle, next) = (Digest([0; 32]), trust::next_version(lines, domain));
        Ok(match self {
            // The root is drawn when it is done: nobody can depend on it now.
            Self::Publish { .. } => {
                let new = TrustVersion { version: next, roots: Vec::new(), issuers: BTreeMap::new() };
                (TrustStep::Publish { bundle }, Some(new))
            }
            Self::Activate { grace, .. } => {
                let staged = trust::staged(lines, domain).map(|line| line.version);
                let version = staged.ok_or_else(|| failure(doing, &TrustError::NothingStaged(domain.word())))?;
                (TrustStep::Activate { version, grace: *grace }, None)
            }
            Self::Rollback { .. } => {
                let (bad, former) = trust::reverted(lines, domain).during(doing)?;
                let former = scene.held.iter().find(|held| held.version == former.version);
                let new = former.map(|former| TrustVersion { version: next, ..former.clone() });
                (TrustStep::Rollback { bundle, reverts: bad.version, grace: Seconds(0) }, new)
            }
            Self::Retire(words) => {
                let (_, version) = words.find(lines, doing)?;
                let step = TrustStep::Retire { version, early: false };
                // What was promised is said, and the rest is planned all the same.
                let promised = trust::step(lines, domain, step, scene.now);
                let early = matches!(promised, Err(BadStep::InGrace { .. }));
                (TrustStep::Retire { version, early }, None)
            }
        })
    }
}

impl Planned {
    pub fn of(scene: &Scene, step: TrustStep, outcome: &Outcome) -> Self {
        let (before, domain) = (&scene.head.trust, scene.domain);
        let (word, version) = match step {
            TrustStep::Publish { .. } => ("publish", trust::next_version(before, domain)),
            TrustStep::Activate { version, .. } => ("activate", version),
            TrustStep::Rollback { .. } => ("rollback", trust::next_version(before, domain)),
            TrustStep::Retire { version, .. } => ("retire", version),
            TrustStep::Replace { .. } => ("replace", trust::next_version(before, domain)),
        };
        let was = |line: &TrustLine| before.iter().find(|it| it.domain == domain && it.version == line.version);
        let planned = |line: TrustLine| VersionPlanned {
            trust_bundle_version: line.version,
            now: was(&line).map(|line| state_words(line, scene.now)),
            then: state_words(&line, scene.now),
        };
        Self {
            step: word,
            domain: domain.word(),
            trust_bundle_version: version,
            command: command(step, domain, &outcome.breaks),
            versions: trust::of(&outcome.lines, domain).into_iter().map(planned).collect(),
            roots_going: outcome.going.clone(),
            breaks: outcome.breaks.iter().map(|it| BreakTold { it: it.clone(), cure: it.kind.cure() }).collect(),
            not_known: outcome.unknown.iter().map(Break::in_words).collect(),
        }
    }

    pub fn in_words(&self) -> String {
        let row = |it: &VersionPlanned| {
            let now = it.now.clone().unwrap_or_else(|| "-".to_owned());
            vec![it.trust_bundle_version.to_string(), now, it.then.clone()]
        };
        let rows: Vec<_> = self.versions.iter().map(row).collect();
        let mut parts = vec![
            match self.step {
                "replace" => format!("replace all by version {} of `{}`", self.trust_bundle_version, self.domain),
                step => format!("{step} version {} of `{}`", self.trust_bundle_version, self.domain),
            },
            table(&["VERSION", "NOW", "THEN"], &rows),
        ];
        if !self.roots_going.is_empty() {
            let roots: Vec<_> = self.roots_going.iter().map(|root| format!("  {root}")).collect();
            parts.push(format!("trusted no more:\n{}", roots.join("\n")));
        }
        parts.push(self.broken());
        // A root that was stolen is replaced by the very command that shows this.
        if self.step != "replace" {
            parts.push(format!("do it: {}", self.command));
        }
        parts.join("\n\n")
    }

    fn named(&self) -> String {
        let row = |told: &BreakTold| vec![told.it.kind.word().to_owned(), told.it.name.clone(), told.it.why.clone()];
        table(&["KIND", "NAME", "WHY"], &self.breaks.iter().map(row).collect::<Vec<_>>())
    }

    /// Who would break, and why.
    pub fn broken(&self) -> String {
        let activates = self.step == "activate";
        if !self.not_known.is_empty() {
            let lines = bounded(&self.not_known).into_iter().map(|line| format!("  {line}"));
            let lines = lines.collect::<Vec<_>>().join("\n");
            let known = if self.breaks.is_empty() {
                String::new()
            } else {
                format!("{} would break:\n{}\n\n", self.breaks.len(), self.named())
            };
            return format!("{known}whether these would break is not known:\n{lines}");
        }
        if self.breaks.is_empty() {
            return if activates { "everybody has it" } else { "nobody would break" }.to_owned();
        }
        let (many, rows) = (self.breaks.len(), self.named());
        if !activates {
            return format!("{many} would break:\n{rows}");
        }
        let former = self.versions.iter().rev().find(|it| it.then.starts_with(TrustState::Grace.word()));
        let former =
            former.map_or_else(|| "the former one".to_owned(), |it| format!("version {}", it.trust_bundle_version));
        format!(
            "{many} {} not taken version {} over:\n{rows}\n\nNobody is cut off by this step: they go on by {former}, \
             which stays trusted until it is retired, and take the new one over when they are back. Retiring {former} \
             waits for them.",
            if many == 1 { "has" } else { "have" },
            self.trust_bundle_version
        )
    }
}

/// What to do about each kind.
pub fn cures<'a>(breaks: impl IntoIterator<Item = &'a Break>) -> String {
    let kinds: BTreeSet<DependentKind> = breaks.into_iter().map(|it| it.kind).collect();
    let cures: Vec<_> = kinds.iter().map(|kind| format!("{}: {}", kind.word(), kind.cure())).collect();
    cures.join("\n      ")
}
