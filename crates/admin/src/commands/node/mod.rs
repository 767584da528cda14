//! `freehold node list | show | revoke`; `replace`, and `approve` with its like, have files of their own.

pub mod approve;
pub mod replace;
pub mod user;
pub mod confirm;
pub mod suspend;

use clap::{Args, Subcommand};
use ground::clock;
use identity::principal::NodeName;
use ledger::views::NodeView;
use operate::session::reports::Heard;
use operate::session::{Session, maps, reports};
use org::report::{Applied, Report};
use org::state::Standing;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::{or_dash, table};

use crate::commands::invite::reused;
use crate::commands::node::replace::{Replace, evidence};
use crate::commands::node::user::people_on;
use crate::home::{Common, During};
use crate::waiting::Consent;
use crate::watching::{Revoked, Wait};

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List all nodes
    List(List),
    /// Show one node
    Show(Show),
    /// Revoke a node: its key never returns
    Revoke(Revoke),
    /// Revoke a node's key and let one machine join under its name again
    Replace(Replace),
    /// List machines that wait for an operator's yes
    Waiting(approve::List),
    /// Let a machine in that waits, or one stay whose invite or gateway was taken back
    Approve(approve::Approve),
    /// Turn a machine away that waits
    Deny(approve::Deny),
}

impl NodeCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(common).await,
            Self::Show(show) => show.run(common).await,
            Self::Revoke(revoke) => revoke.run(common).await,
            Self::Replace(replace) => replace.run(common).await,
            Self::Waiting(list) => list.run(common).await,
            Self::Approve(approve) => approve.run(common).await,
            Self::Deny(deny) => deny.run(common).await,
        }
    }
}

#[derive(Debug, Args)]
pub struct List {}

impl List {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the nodes";
        let mut session = common.session(doing).await?;
        let nodes = operate::node::all(&mut session).await.during(doing)?;
        let mut reports = reports::reports_known(&mut session).await.during(doing)?;
        let with_report = |node: NodeView| Listed { report: reports.remove(&node.node_key.digest()), node };
        let nodes: Vec<Listed> = nodes.into_iter().map(with_report).collect();
        show(common.json, &nodes, || {
            let row = |listed: &Listed| {
                let node = &listed.node;
                vec![
                    node.name.to_string(),
                    state(node).to_owned(),
                    applied(listed).to_owned(),
                    or_dash(node.observed.last_seen.as_ref()),
                    or_dash(node.observed.svid_expires_at.as_ref()),
                    node.enrolled_at.to_string(),
                    remark(listed),
                ]
            };
            let rows: Vec<_> = nodes.iter().map(row).collect();
            table(&["NODE", "STATE", "MANIFEST", "LAST SEEN", "SVID UNTIL", "ENROLLED", ""], &rows)
        });
        Ok(())
    }
}

/// A node by this home's fold, what the gateway saw of it, and what it says of itself, by its own signature.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    node: NodeView,
    report: Option<Heard>,
}

/// Is it what was published for it?
fn applied(listed: &Listed) -> &'static str {
    let report = listed.report.as_ref().filter(|_| listed.node.state != Standing::Revoked);
    match report.map(|heard| &heard.report.applied) {
        None | Some(Applied::Nothing) => "-",
        Some(Applied::Settled { .. }) => "confirmed",
        Some(Applied::OnTrial { .. }) => "on trial",
        Some(Applied::RolledBack { .. }) => "ROLLED BACK",
    }
}

/// What a person should not overlook. A revoked key's alarm is history.
fn remark(listed: &Listed) -> String {
    let node = &listed.node;
    let refused = listed.report.as_ref().and_then(|heard| heard.report.refused.as_ref());
    let program = listed.report.as_ref().and_then(|heard| heard.report.programs.first());
    let suspended = node.suspensions.iter().find(|suspension| clock::now() < suspension.until);
    let alarmed = node.observed.alarm.is_some() && node.state != Standing::Revoked;
    match suspended {
        _ if alarmed || !node.observed.reused.is_empty() => format!("ALARM: see `freehold node show {}`", node.name),
        Some(suspension) => format!("suspended until {}", suspension.until),
        None if node.state == Standing::Waiting => format!("let it stay: freehold node approve {}", node.name),
        None => match (refused, program) {
            (Some(refused), _) => format!("refused at {}: {}", refused.at, refused.why),
            (None, Some(told)) => format!("program of {}, since {}: {}", told.principal, told.at, told.why),
            (None, None) if node.low => "low assurance".to_owned(),
            (None, None) => String::new(),
        },
    }
}

#[derive(Debug, Args)]
pub struct Show {
    /// The node's name
    name: NodeName,
}

impl Show {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not show the node `{}`", self.name);
        let mut session = common.session(&doing).await?;
        let node = operate::node::find(&mut session, &self.name).await.during(&doing)?;
        let mut reports = reports::reports_known(&mut session).await.during(&doing)?;
        let listed = Listed { report: reports.remove(&node.node_key.digest()), node };
        show(common.json, &listed, || in_words(&listed));
        Ok(())
    }
}

fn state(node: &NodeView) -> &'static str {
    match node.state {
        Standing::Revoked if node.left => "revoked (it left by itself)",
        Standing::Revoked => node.state.word(),
        _ if node.observed.alarm.is_some() => "suspended by the gateway",
        _ => node.state.word(),
    }
}

/// What the node says of itself.
fn reported(heard: &Heard) -> Vec<String> {
    let Report { head, agent, applied, refused, left, programs, .. } = &heard.report;
    let mut lines = vec![format!("reports    head {}, freehold-node {agent}, at {}", head.version, heard.received_at)];
    match applied {
        Applied::Nothing => {}
        Applied::Settled { manifest } => lines.push(format!("manifest   {manifest} confirmed")),
        Applied::OnTrial { manifest, deadline, waits, .. } => {
            lines.push(format!("manifest   {manifest} on trial until {deadline}; waits for {}", waits.join("; ")));
        }
        Applied::RolledBack { manifest, at, why, .. } => {
            lines.push(format!("manifest   {manifest} ROLLED BACK at {at}: {why}"));
        }
    }
    lines.extend(left.iter().map(|left| {
        format!("left       head {} ({}), which the one that it followed then does not name", left.version, left.digest)
    }));
    lines.extend(refused.iter().map(|refused| format!("refused    at {}: {}", refused.at, refused.why)));
    let told = programs.iter();
    lines.extend(told.map(|told| format!("program    of {}, since {}: {}", told.principal, told.at, told.why)));
    lines
}

fn in_words(listed: &Listed) -> String {
    let node = &listed.node;
    let list = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(" ") };
    let state = state(node);
    let mut lines = vec![
        format!("node       {}", node.name),
        format!("id         {}", node.spiffe_id),
        format!("state      {state}"),
        format!("invite     {}", node.invite.map_or("none: admitted by the signers".to_owned(), |id| id.to_string())),
        format!("assurance  {}", if node.low { "LOW: it showed a host name and an address" } else { "proven" }),
        format!("enrolled   {} by the gateway `{}`", node.enrolled_at, node.admitted_by),
        format!("last seen  {}", or_dash(node.observed.last_seen.as_ref())),
        format!(
            "svid       until {}, serial {}",
            or_dash(node.observed.svid_expires_at.as_ref()),
            or_dash(node.observed.svid_serial.as_ref())
        ),
        format!("node key   {}", node.node_key),
        format!("admission  {}", node.admission),
        format!("labels     {}", list(node.labels.iter().map(ToString::to_string).collect())),
        format!("roles      {}", list(node.roles.iter().map(ToString::to_string).collect())),
    ];
    if let Some(why) = &node.waits {
        lines.insert(3, format!("waits      {why}; let it stay: freehold node approve {}", node.name));
    }
    lines.extend(listed.report.iter().flat_map(reported));
    for suspension in &node.suspensions {
        let over = if clock::now() < suspension.until { "" } else { " (over)" };
        let (by, until) = (&suspension.by, suspension.until);
        lines.push(format!("suspended  until {until}, by {by}{over}: {:?}", suspension.reason));
    }
    lines.extend(node.observed.reused.iter().map(reused));
    if let Some(alarm) = &node.observed.alarm {
        lines.push(format!("ALARM      {alarm}"));
        lines.extend(evidence(&node.name, node.observed.conflict.as_ref()));
    }
    lines.join("\n")
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold node revoke web-1
  freehold node revoke web-1 --yes --wait 1m        until every other node has confirmed it

The users who are at home there are not revoked: freehold user revoke NAME.")]
pub struct Revoke {
    /// The node's name
    name: NodeName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    wait: Wait,
}

#[derive(Serialize)]
struct RevokedTold {
    name: String,
    #[serde(flatten)]
    revoked: Revoked,
}

impl Revoke {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not revoke `{}`", self.name);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let node = operate::node::find(&mut session, &self.name).await.during(&doing)?;
        operate::node::check_revocable(session.head(), &node)
            .map_err(|why| Failure::refused(&doing, why.to_string()))?;
        if !common.json {
            eprintln!(
                "{} ({}, last seen {})",
                node.spiffe_id,
                node.state.word(),
                or_dash(node.observed.last_seen.as_ref())
            );
            eprintln!(
                "  cut at once: its SVID (until {}), its open connections to the gateway",
                or_dash(node.observed.svid_expires_at.as_ref())
            );
            eprintln!("  it cannot be undone: this node key never returns. The machine can join again as a new one,");
            eprintln!("  and the name `{}` becomes free.", node.name);
            // What cannot be read here keeps nobody from revoking.
            let published = maps::published(&mut session).await.ok().flatten();
            for person in published.iter().flat_map(|published| people_on(published, &node.name)) {
                eprintln!("  {person}");
            }
        }
        let question = format!("Revoke the machine `{}`?", node.name);
        let consent = Consent { common, doing: &doing, yes: self.yes, question: &question };
        let draft = |session: &Session, now| Ok(operate::node::draft_revocation(session, &node, now)?.roll);
        let sign = async |session: &mut Session| operate::node::revoke(session, &keys, &node).await;
        let (head, pending) = consent.sign(&mut session, draft, sign).await?;
        let revoked = Revoked::look(&mut session, head.version, pending, &self.wait).await?;
        let result = RevokedTold { name: node.name.to_string(), revoked };
        show(common.json, &result, || result.revoked.in_words(&format!("`{}`", node.name)));
        Ok(())
    }
}
