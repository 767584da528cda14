//! `freehold-node sync`: takes what is published at once, and stays until it is settled or went back.

use std::time::Duration;

use clap::Args;
use identity::id::Digest;
use identity::time::Seconds;
use member::agent::errand::{AgentHandle, Errand, ErrandAnswer};
use member::agent::socket::Remote;
use member::agent::status::NodeStatus;
use member::agent::{AgentError, AgentOptions, Ready};
use member::apply::preview::Preview;
use member::apply::trial::Outcome;
use member::apply::view::RolledBack;
use member::ask::source::Source;
use member::ask::weigh::weigh;
use member::store::scope::Scope;
use org::report::{Refused, plain};
use serde::Serialize;
use terminal::failure::{During, Exit, Failure};
use terminal::show::show;
use tokio::sync::watch;

use crate::commands::countdown::Countdown;
use crate::commands::roots::ScopeOptions;
use crate::commands::run::stop_signal;
use crate::commands::status::short;
use crate::program::Program;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node sync                          take what is published, wait until it is confirmed or went back
  freehold-node sync --dry-run                show what would change here
  freehold-node sync --now                    try again what went back
  freehold-node sync --commit-timeout 20m     try it, and take 20 minutes before it goes back
  freehold-node sync --from /media/stick      take it from what `freehold publish --to DIR` wrote
  freehold-node sync --from http://10.0.0.5/tree

Asks the agent if one runs here, else does it itself. Exit code: 0 settled, 1 no gateway was reached, 3 what was
offered is refused, 4 it went back.")]
pub struct Sync {
    /// Show what would change; only signer sets and the head are taken, which are never on trial
    #[arg(long)]
    dry_run: bool,
    /// Try also what went back before
    #[arg(long)]
    now: bool,
    /// After this time it goes back unless confirmed, whatever the manifest says; implies --now
    #[arg(long, value_name = "SPAN")]
    commit_timeout: Option<Seconds>,
    /// Read a static tree instead of asking a gateway: a folder, or http://HOST:PORT/PATH
    #[arg(long, value_name = "DIR|URL")]
    from: Option<Source>,
}

const DOING: &str = "could not sync";
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The last word to the gateway is not waited for longer than this.
const GOODBYE: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Synced {
    /// `settled`, `went_back`, or `nothing`: nothing is published for this node.
    outcome: &'static str,
    head: u64,
    manifest: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rolled_back: Option<RolledBack>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The agent that does it: one that runs beside this process, or in it.
enum Hand {
    There(Remote),
    Here(AgentHandle),
}

impl Hand {
    async fn status(&self) -> Option<NodeStatus> {
        match self {
            Self::There(remote) => remote.status().await,
            Self::Here(handle) => Some(handle.status()),
        }
    }

    async fn send(&self, errand: Errand) -> Option<ErrandAnswer> {
        match self {
            Self::There(remote) => remote.send(errand).await,
            Self::Here(handle) => handle.send(errand).await,
        }
    }
}

/// An agent that has just begun has hold of the scope a moment before it answers, and one that ends a moment longer.
async fn find_agent(scope: &Scope) -> Result<Option<Remote>, Failure> {
    for _ in 0..50 {
        if let Some(remote) = Remote::find(scope).await {
            return Ok(Some(remote));
        }
        // Let go at once: whoever goes on takes it again.
        if scope.lock().during(DOING)?.is_some() {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(None)
}

impl Sync {
    pub async fn run(mut self, common: &ScopeOptions) -> Result<(), Failure> {
        let scope = common.scope(DOING)?;
        let typed = Typed { program: common.program(&scope), agent: common.agent(&scope) };
        let program = typed.program;
        self.from = self.from.map(Source::absolute).transpose().during(DOING)?;
        if let Some(remote) = find_agent(&scope).await? {
            return self.ask(common, &typed, &Hand::There(remote)).await;
        }
        if self.dry_run {
            return self.weigh(common, &scope).await;
        }
        let mut stop = stop_signal().during(DOING)?;
        let (_go_on, never) = watch::channel(false);
        let ready = Ready::prepare(scope, AgentOptions { from: self.from.clone(), ..AgentOptions::default() })
            .map_err(|why| ended(&why, program))?;
        let hand = Hand::Here(ready.handle());
        let stopped = tokio::select! {
            done = self.ask(common, &typed, &hand) => return done,
            ran = ready.run(never) => return Err(ran.map_or_else(|why| ended(&why, program), |()| gone(&typed))),
            stopped = stop.wait_for(|stop| *stop) => stopped.is_ok(),
        };
        let on_trial = stopped && hand.status().await.is_some_and(|status| status.applied.trial.is_some());
        let failure = Failure::failed(DOING, "it was interrupted");
        Err(if on_trial { failure.hint(still_on_trial(&typed)) } else { failure })
    }

    fn errand(&self) -> Errand {
        Errand { now: self.now, within: self.commit_timeout, dry_run: self.dry_run, from: self.from.clone() }
    }

    /// Nobody has hold of the scope, so it is looked at from outside.
    async fn weigh(&self, common: &ScopeOptions, scope: &Scope) -> Result<(), Failure> {
        let lock = scope.lock().during(DOING)?;
        let _lock = lock.ok_or_else(|| ended(&AgentError::AlreadyRunning, common.program(scope)))?;
        let preview = weigh(scope, self.from.as_ref(), self.errand().urge()).await.during(DOING)?;
        tell_preview(common, &preview);
        Ok(())
    }

    async fn ask(&self, common: &ScopeOptions, typed: &Typed, hand: &Hand) -> Result<(), Failure> {
        let answer = hand.send(self.errand()).await.ok_or_else(|| gone(typed))?;
        if let Some(preview) = &answer.preview {
            tell_preview(common, preview);
            return Ok(());
        }
        let ErrandAnswer { mut status, failed, .. } = answer;
        let refused =
            status.refused.as_ref().filter(|refused| failed.as_ref().is_none_or(|why| plain(why) == refused.why));
        if let Some(refused) = refused.filter(|_| status.applied.trial.is_none() || failed.is_some()) {
            let failure = Failure::refused("what was offered is refused; this node stays what it is", &refused.why);
            return Err(failure.hint("operators see it in the watch of freehold publish"));
        }
        if let Some(why) = failed.as_ref().filter(|_| status.applied.trial.is_none() || self.dry_run) {
            return Err(
                Failure::failed(DOING, why).hint(format!("what is wrong here: {}", typed.program.command("doctor")))
            );
        }
        if self.from.is_some() && status.applied.trial.as_ref().is_some_and(|trial| trial.needs_gateway) {
            eprintln!("{TREE_ALONE}");
        }
        let mut countdown = Countdown::default();
        while let Some(trial) = &status.applied.trial {
            countdown.show(trial);
            tokio::time::sleep(LOOK_EVERY).await;
            status = hand.status().await.ok_or_else(|| gone(typed))?;
        }
        drop(countdown);
        let mut told = false;
        while let Some(domain) = roots_on_trial(&status) {
            if !std::mem::replace(&mut told, true) {
                eprintln!("new `{domain}` roots are on trial: a gateway has to be reached under them, or they go back");
            }
            tokio::time::sleep(LOOK_EVERY).await;
            status = hand.status().await.ok_or_else(|| gone(typed))?;
        }
        if let Hand::Here(handle) = hand
            && failed.is_none()
        {
            // The operators want to know how it went, and nobody stays to tell them.
            let _ = tokio::time::timeout(GOODBYE, handle.send(Errand::default())).await;
        }
        finish(common, typed.program, status)
    }
}

const TREE_ALONE: &str = "a tree alone cannot confirm this: the node has to reach a gateway under the new state, or it \
                          goes back (the fleet says otherwise with `apply: {confirm: offline}`)";

/// What a person types next.
struct Typed {
    program: Program,
    /// To start the agent.
    agent: String,
}

fn still_on_trial(Typed { program, agent }: &Typed) -> String {
    format!(
        "something is on trial here, and nothing takes it back while no agent runs: {agent}, or {} again",
        program.command("sync")
    )
}

fn gone(Typed { program, agent }: &Typed) -> Failure {
    let status = program.command("status");
    Failure::failed(DOING, "the agent ended, or is of an older version that cannot be asked")
        .hint(format!("how things stand: {status}; start the agent again: {agent}"))
}

fn ended(why: &AgentError, program: Program) -> Failure {
    let failure = Failure::new(DOING, why);
    match why {
        AgentError::AlreadyRunning => {
            let status = program.command("status");
            failure.hint(format!("something else has hold of this scope and does not answer: {status}"))
        }
        AgentError::Revoked => failure.exit(Exit::Refused),
        _ => failure,
    }
}

/// The domain whose roots are on trial.
fn roots_on_trial(status: &NodeStatus) -> Option<&'static str> {
    let trust = status.trust.as_ref()?;
    let domains = [("endpoint", &trust.endpoint), ("identity", &trust.identity)];
    domains.into_iter().find(|(_, told)| told.trial.is_some()).map(|(domain, _)| domain)
}

/// Roots that went back, and why.
fn roots_gone_back(status: &NodeStatus) -> Option<(&'static str, &Refused)> {
    let trust = status.trust.as_ref()?;
    let domains = [("endpoint", &trust.endpoint), ("identity", &trust.identity)];
    domains.into_iter().find_map(|(domain, told)| Some((domain, told.refused.as_ref()?)))
}

fn finish(common: &ScopeOptions, program: Program, status: NodeStatus) -> Result<(), Failure> {
    let hint = format!("try it again: {}, with more time: --commit-timeout 20m", program.command("sync --now"));
    let roots = roots_gone_back(&status).map(|(domain, refused)| {
        let doing = format!("went back from new `{domain}` roots at {}", refused.at);
        Failure::failed(doing, refused.why.clone()).exit(Exit::TakenBack).hint(hint.clone())
    });
    let applied = status.applied;
    let outcome = match (&applied.rolled_back, applied.confirmed) {
        (Some(_), _) => "went_back",
        (None, Some(_)) => "settled",
        (None, None) => "nothing",
    };
    let synced = Synced {
        outcome,
        head: status.head,
        manifest: applied.confirmed,
        rolled_back: applied.rolled_back,
        problem: applied.problem.or(status.problem),
    };
    show(common.json, &synced, || in_words(&synced));
    match synced.rolled_back {
        None => roots.map_or(Ok(()), Err),
        Some(back) => {
            let doing = format!("went back from {} at {}", short(back.digest), back.at);
            Err(Failure::failed(doing, back.why).exit(Exit::TakenBack).hint(hint))
        }
    }
}

fn in_words(synced: &Synced) -> String {
    let head = synced.head;
    let is = match (&synced.rolled_back, synced.manifest) {
        (Some(_), Some(manifest)) => {
            format!("head {head}: this node is what it was before, manifest {}", short(manifest))
        }
        (Some(_), None) => format!("head {head}: this node is what it was before"),
        (None, Some(manifest)) => format!("head {head}: settled, manifest {} is confirmed", short(manifest)),
        (None, None) => format!("head {head}: nothing is published for this node"),
    };
    [is].into_iter().chain(synced.problem.iter().map(|why| format!("problem: {why}"))).collect::<Vec<_>>().join("\n")
}

fn tell_preview(common: &ScopeOptions, preview: &Preview) {
    show(common.json, preview, || {
        let manifest = preview.manifest.map(short).unwrap_or_default();
        let would = match (preview.outcome, &preview.trial) {
            _ if preview.manifest.is_none() => "nothing is published for this node; it stays what it is".to_owned(),
            (_, Some(trial)) => {
                let by = serde_json::to_value(trial.confirm).ok();
                let by = by.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
                format!("manifest {manifest} would be on trial, for {} at most (confirm: {by})", trial.within)
            }
            (Outcome::Swapped, None) => format!("manifest {manifest} would be swapped in place: no trial"),
            (Outcome::Withdrawn, None) => format!("what is on trial would be withdrawn for manifest {manifest}"),
            (Outcome::NotAgain, None) => format!("manifest {manifest} went back before; only --now tries it again"),
            (Outcome::Guarded, None) => {
                format!("manifest {manifest} runs what went back before: of it only the access would count")
            }
            _ => format!("manifest {manifest} is obeyed already"),
        };
        let mut lines = vec![would];
        lines.extend(preview.changes.iter().map(|change| format!("  {change}")));
        lines.push(format!(
            "signer sets, mandates and revocations are never on trial: those of head {} are in force here now",
            preview.head
        ));
        lines.join("\n")
    });
}
