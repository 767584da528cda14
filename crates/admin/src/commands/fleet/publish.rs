//! `freehold publish`: plan, ask, hand in, sign, send, watch.

use std::path::{Path, PathBuf};

use clap::Args;
use ground::clock;
use identity::head::Head;
use identity::time::{Seconds, Timestamp};
use operate::publish::plan::{PlanError, Prepared};
use operate::publish::run::{self, FleetWish, Publication, Publisher};
use operate::publish::watch::Watch;
use operate::publish::watch::follow::Fates;
use operate::replica::roll::Roll;
use operate::session::{OperateError, Session};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::fleet::check::read_fleet;
use crate::commands::fleet::plan::Plan;
use crate::home::{Common, During, failure};
use crate::planning;
use crate::tree;
use crate::waiting::{self, Consent, Left, Waiting, leave, leave_more};
use crate::watching::{self, NodeTold};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold publish                        shows the plan, asks, publishes ./fleet, and watches
  freehold publish --dry-run              only the plan: nothing is signed
  freehold publish --yes --wait 2m        for scripts: ends after two minutes at the latest
  freehold publish --dirty --no-wait
  freehold publish --to /srv/www/harbor   and writes files for any web server, bucket or USB stick

Ends with 0 only if no node rolled back or refused; with 4 if one did. A node that is offline gets it when it is back.
Where several operators must agree, it leaves a file for the others, and `freehold send` makes it so.
If there are several orgs here, it goes to the one that the fleet names, and with --org to that one or to none.")]
pub struct Publish {
    /// The fleet's folder [default: ./fleet if it is there, else here]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Publish although there are changes that are not committed
    #[arg(long)]
    dirty: bool,
    /// Write a static tree, too, from which nodes can sync without a gateway; if nothing changed, only that
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Only say what it would do, as `freehold plan` does
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    how: PublishOptions,
}

/// How whatever goes to all nodes is asked for and watched.
#[derive(Debug, Args)]
pub struct PublishOptions {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Do not watch how it fares
    #[arg(long, conflicts_with = "wait")]
    pub no_wait: bool,
    /// Watch no longer than this [default: until every node that is connected has settled]
    #[arg(long, value_name = "SPAN")]
    pub wait: Option<Seconds>,
}

impl Publish {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not publish the fleet";
        if self.dry_run {
            return Plan::of(self.dir).run(common).await;
        }
        let (folder, fleet) = read_fleet(common, self.dir.as_deref(), doing)?;
        let common = &common.about(&fleet.org.name);
        let git = planning::git_state(folder.root(), self.dirty, doing)?;
        let (mut session, keys) = common.signing_session(doing).await?;
        let git_words = planning::git_words(&git);
        let wish = FleetWish { fleet: &fleet, from: git.fleet, only_if_changed: self.to.is_some() };
        let consent = Consent { common, doing, yes: self.how.yes, question: "Publish it?" };
        let made = run::publish(&mut session, &keys, wish, &mut Person::new(consent, git_words)).await;
        let (made, to) = match (made.map_err(|why| why.told(doing))?, self.to) {
            (Some(made), to) => (made, to),
            (None, to) => return write_tree(common, &mut session, &to.unwrap_or_default()).await,
        };
        let pending = leave(common, doing, &session.known, &made.head)?;
        let opened = made.open_patterns(&mut session, &keys).await;
        let opened = opened.during("it is published, but its patterns are not open")?;
        let patterns = leave_more(common, doing, &session.known, &opened)?;
        if let Some(to) = to.filter(|_| pending.waiting().is_none()) {
            // Before it is watched: nodes that read the tree are not.
            store_tree(&mut session, &to).await?;
        }
        finish(common, &mut session, Ended { doing, made, pending, patterns, how: self.how }).await
    }
}

/// The person for whom it is published.
pub struct Person<'a> {
    consent: Consent<'a>,
    /// What is said below the plan.
    after: String,
    handed_in: Box<dyn FnMut(usize, usize) + Send>,
}

impl<'a> Person<'a> {
    pub fn new(consent: Consent<'a>, after: String) -> Self {
        Self { consent, after, handed_in: Box::new(planning::progress("handing in:")) }
    }
}

impl Publisher for Person<'_> {
    type Stop = NotPublished;

    fn planned(&mut self, session: &Session, prepared: &Prepared, back_to: Option<&Head>) {
        if self.consent.common.json {
            return;
        }
        if let Some(to) = back_to {
            let commit = to.fleet.as_ref().and_then(|fleet| fleet.commit.as_ref());
            let commit = commit.map(|commit| format!(", commit {commit}")).unwrap_or_default();
            eprintln!("back to what head {} said, of {}{commit}", to.version, to.issued_at);
        }
        eprintln!("{}", planning::in_words(session, prepared));
        if !self.after.is_empty() {
            eprintln!("{}", self.after);
        }
    }

    async fn agree(
        &mut self,
        session: &mut Session,
        draft: impl FnOnce(&Session, Timestamp) -> Result<Roll, OperateError>,
    ) -> Result<(), NotPublished> {
        Ok(self.consent.ask(session, draft).await?)
    }

    fn handed_in(&mut self, done: usize, all: usize) {
        (self.handed_in)(done, all);
    }
}

/// Why nothing is published.
pub enum NotPublished {
    Plan(PlanError),
    Told(Failure),
}

impl NotPublished {
    pub fn told(self, doing: &str) -> Failure {
        match self {
            Self::Plan(why) => failure(doing, &why),
            Self::Told(failure) => failure,
        }
    }
}

impl From<PlanError> for NotPublished {
    fn from(why: PlanError) -> Self {
        Self::Plan(why)
    }
}

impl From<Failure> for NotPublished {
    fn from(failure: Failure) -> Self {
        Self::Told(failure)
    }
}

#[derive(Serialize)]
struct TreeTold {
    tree: String,
    head: u64,
    published: bool,
}

/// The head in force, as files: nothing is signed.
async fn write_tree(common: &Common, session: &mut Session, to: &Path) -> Result<(), Failure> {
    store_tree(session, to).await?;
    let head = session.known.head.head.version;
    let told = TreeTold { tree: to.display().to_string(), head, published: false };
    show(common.json, &told, || {
        format!(
            "nothing to publish; wrote head {head} to `{}`\nif it should be fresh for longer: freehold refresh",
            told.tree
        )
    });
    Ok(())
}

async fn store_tree(session: &mut Session, to: &Path) -> Result<(), Failure> {
    let doing = format!("could not write the tree to `{}`", to.display());
    let contents = operate::publish::tree::tree(session, clock::now(), planning::progress("sealing:")).await;
    let contents = contents.during(&doing)?;
    let files = wire::tree::files(&session.known, &contents).map_err(|why| Failure::new(&doing, &why))?;
    let ours = |folder: &Path| {
        let index = ground::file::read(&folder.join(wire::tree::INDEX)).ok();
        index.is_some_and(|bytes| serde_json::from_slice::<wire::tree::TreeIndex>(&bytes).is_ok())
    };
    tree::replace(to, &files, ours).map_err(|why| {
        Failure::new(&doing, &why).hint("name a folder that is not there yet, is empty, or was made by this command")
    })
}

/// What was made, before it is watched.
pub struct Ended<'a> {
    pub doing: &'a str,
    pub made: Publication,
    pub pending: Left,
    /// Patterns that other operators must sign, too.
    pub patterns: Vec<Waiting>,
    pub how: PublishOptions,
}

#[derive(Serialize)]
struct Told {
    head: u64,
    published: bool,
    root: String,
    commit: Option<String>,
    tree: Option<String>,
    dirty: bool,
    reverts: Option<u64>,
    fresh_until: String,
    summary: Vec<String>,
    /// What makes machines last less long without a gateway.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<operate::publish::shortening::Warning>,
    /// What each node has made of it; empty if nobody watched.
    nodes: Vec<NodeTold>,
    #[serde(flatten)]
    pending: Left,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pending_patterns: Vec<Waiting>,
}

/// Watches if there is something to watch, prints, and ends as it went.
pub async fn finish(common: &Common, session: &mut Session, outcome: Ended<'_>) -> Result<(), Failure> {
    let Ended { doing, made: Publication { head, prepared }, pending, patterns, how } = outcome;
    let head = head.what;
    let served = session.is_served();
    let watched = pending.waiting().is_none() && !how.no_wait && served;
    let mut fates = Fates::new();
    if watched {
        if !common.json {
            eprintln!("head {} is published; nodes take it in:", head.version);
        }
        let (since, offered) = (head.issued_at.min(clock::now()), &prepared.compiled);
        let mut watch = Watch::new(head.version, since, &offered.leaves, &offered.manifests, prepared.last_seen());
        let seen = watching::watch(session, &mut watch, how.wait, common.json).await;
        fates = seen.during("it is published, but could not be watched")?;
    }
    let fleet = head.fleet.as_ref();
    let text = |hash: Option<&identity::head::GitHash>| hash.map(ToString::to_string);
    let told = Told {
        head: head.version,
        published: pending.waiting().is_none(),
        root: prepared.compiled.root.to_string(),
        commit: text(fleet.and_then(|fleet| fleet.commit.as_ref())),
        tree: text(fleet.and_then(|fleet| fleet.tree.as_ref())),
        dirty: fleet.is_some_and(|fleet| fleet.dirty),
        reverts: head.reverts,
        fresh_until: head.fresh_until.to_string(),
        summary: prepared.plan.summary.clone(),
        warnings: prepared.warnings.clone(),
        nodes: NodeTold::all(&fates),
        pending,
        pending_patterns: patterns,
    };
    show(common.json, &told, || {
        let more: Vec<_> = told.pending_patterns.iter().map(Waiting::in_words).collect();
        more.iter().fold(String::new(), |all, words| all + "\n" + words)
            + &waiting::told(told.pending.waiting(), || {
                let how = match (watched, served) {
                    (true, _) => watching::counts(&fates),
                    (false, true) => "not watched; see what nodes make of it: freehold node list".to_owned(),
                    (false, false) => "no gateway serves: nodes get it when one does: freehold serve".to_owned(),
                };
                format!("published head {}, fresh until {}\n{how}", told.head, told.fresh_until)
            })
    });
    watching::ended_well(doing, told.head, &fates)
}
