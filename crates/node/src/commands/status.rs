//! `freehold-node status`: from the running agent, or from disk.

use clap::Args;
use identity::id::Digest;
use member::agent::lasting::Lasting;
use member::agent::status::{NodeStatus, WaitingStatus};
use member::apply::view::ApplyView;
use org::report::DomainTold;
use serde::Serialize;
use terminal::failure::{During, Failure};
use terminal::show::show;

use crate::commands::join::in_words as told;
use crate::commands::roots::{ScopeOptions, unjoined};
use crate::commands::tunnel::streams;
use crate::program::Program;

#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    status: NodeStatus,
    /// How long it lasts without a gateway; absent if it is revoked.
    survival: Option<Lasting>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node status
  freehold-node status --json | jq .svid_expires_at
  freehold-node status --json | jq .survival         how long it lasts without a gateway, and what limits that")]
pub struct Status {}

impl Status {
    pub fn run(&self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "could not tell the status";
        let scope = common.scope(doing)?;
        if scope.node().during(doing)?.is_none()
            && let Some((waiting, _)) = scope.waiting().during(doing)?
        {
            show(common.json, &WaitingStatus::of(&waiting), || format!("state     waiting\n{}", told(&waiting)));
            return Ok(());
        }
        let status = match NodeStatus::from_agent(&scope) {
            Some(status) => status,
            None if scope.node().during(doing)?.is_none() => return Err(unjoined(doing, common.program(&scope))),
            None => NodeStatus::from_disk(&scope).during(doing)?,
        };
        let told = Told { status, survival: Lasting::from_disk(&scope).during(doing)? };
        show(common.json, &told, || in_words(&told, common.program(&scope), &common.start(&scope)));
        Ok(())
    }
}

/// What the node should be, and how far that is.
fn applied(view: &ApplyView) -> Vec<String> {
    let mut lines = Vec::new();
    match (&view.trial, view.confirmed) {
        (Some(trial), _) => {
            let left = trial.deadline.since(ground::clock::now());
            lines.push(format!("manifest  {} ON TRIAL, goes back in {left} unless confirmed", short(trial.digest)));
            lines.extend(trial.waits_for.iter().map(|wait| format!("          waits for {wait}")));
        }
        (None, Some(confirmed)) => lines.push(format!("manifest  {} confirmed", short(confirmed))),
        (None, None) => lines.push("manifest  none published for this node yet".to_owned()),
    }
    if let Some(back) = &view.rolled_back {
        lines.push(format!("went back {} at {}: {}", short(back.digest), back.at, back.why));
    }
    lines.extend(view.problem.iter().map(|problem| format!("problem   {problem}")));
    lines
}

/// Which versions of a domain it goes by.
fn roots(domain: &str, told: &DomainTold) -> String {
    let versions: Vec<_> = told.versions.iter().map(ToString::to_string).collect();
    let trial = told.trial.map(|version| format!(", {version} ON TRIAL")).unwrap_or_default();
    let refused = told.refused.as_ref().map(|it| format!(", went back at {}: {}", it.at, it.why));
    format!("{domain}  roots of version {}{trial}{}", versions.join(", "), refused.unwrap_or_default())
}

/// What the programs of users and services have.
fn programs(status: &NodeStatus) -> Vec<String> {
    let mut lines = Vec::new();
    for view in &status.programs {
        let dns = if view.dns.is_empty() { String::new() } else { format!(", as {}", view.dns.join(", ")) };
        let told = view.told_at.map(|at| format!(", told at {at}")).unwrap_or_default();
        lines.push(format!("program   {}: until {}{dns}{told}", view.principal, view.expires_at));
        lines.push(format!("          reads {}", view.folder.display()));
        lines.extend(view.problem.iter().map(|told| format!("          PROBLEM since {}: {}", told.at, told.why)));
    }
    lines
}

pub(crate) fn short(digest: Digest) -> String {
    digest.to_string().chars().take(12).collect()
}

fn in_words(told: &Told, program: Program, start: &str) -> String {
    let status = &told.status;
    let gateways: Vec<_> = status.gateways.iter().map(ToString::to_string).collect();
    let mut lines = vec![
        format!("org       {} ({})", status.org, status.org_id),
        format!("name      {}", status.name),
        format!("id        {}", status.spiffe_id),
        format!("state     {}", status.state),
        format!("svid      {}", status.svid_expires_at.map_or("none".to_owned(), |at| format!("good until {at}"))),
        format!("head      {}", status.head),
        format!("gateways  {}", gateways.join(", ")),
    ];
    match (status.running, status.last_check_in) {
        (true, Some(at)) => lines.push(format!("agent     running, checked in at {at}")),
        (true, None) => lines.push("agent     running, has not checked in yet".to_owned()),
        (false, _) if status.state == "revoked" => {
            lines.push(format!("agent     not running; operators revoked this machine; {}", program.replaced()));
        }
        (false, _) => lines.push(format!("agent     not running; {start}")),
    }
    lines.extend(status.suspended.iter().map(|stop| {
        let reason = if stop.reason.is_empty() { String::new() } else { format!(": {:?}", stop.reason) };
        format!("suspended by `{}` until {}; it ends by itself{reason}", stop.by, stop.until)
    }));
    lines.extend(told.survival.iter().flat_map(Lasting::in_words));
    lines.extend(status.trust.iter().flat_map(|told| {
        [("endpoint", &told.endpoint), ("identity", &told.identity)].map(|(domain, told)| roots(domain, told))
    }));
    lines.extend(applied(&status.applied));
    lines.extend(programs(status));
    lines.extend(streams::in_words(&status.tunnel));
    lines.extend(status.refused.iter().map(|refused| format!("refused   at {}: {}", refused.at, refused.why)));
    if let Some(problem) = &status.problem {
        lines.push(format!("problem   {problem}"));
    }
    lines.join("\n")
}
