//! `freehold node show`.

use clap::Args;
use ground::clock;
use identity::principal::NodeName;
use operate::session::reports;
use operate::session::reports::Heard;
use org::report::{Applied, Report};
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::or_dash;

use crate::commands::invite::show::reused;
use crate::commands::node::listed::{Listed, state};
use crate::commands::node::replace::evidence;
use crate::home::{Common, During};

#[derive(Debug, Args)]
pub struct Show {
    /// The node's name
    name: NodeName,
}

impl Show {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not show the node `{}`", self.name);
        let mut session = common.session(&doing).await?;
        let node = operate::node::find(&mut session, &self.name).await.during(&doing)?;
        let mut reports = reports::reports_known(&mut session).await.during(&doing)?;
        let listed = Listed::of(node, &mut reports, &session);
        show(common.json, &listed, || in_words(&listed));
        Ok(())
    }
}

/// What the node says of itself.
fn reported(heard: &Heard) -> Vec<String> {
    let Report { head, agent, applied, refused, left, beside, programs, .. } = &heard.report;
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
    lines.extend(beside.iter().map(|at| {
        format!(
            "found      a gateway at {at}, which is no address of the gateway any more: where it is now, nobody answers"
        )
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
    let says = listed.according_to.as_ref().map_or_else(String::new, |gateway| format!(", says `{gateway}`"));
    let mut lines = vec![
        format!("node       {}", node.name),
        format!("id         {}", node.spiffe_id),
        format!("state      {state}"),
        format!("invite     {}", node.invite.map_or("none: admitted by the signers".to_owned(), |id| id.to_string())),
        format!("assurance  {}", if node.low { "LOW: it showed a host name and an address" } else { "proven" }),
        format!("enrolled   {} by the gateway `{}`", node.enrolled_at, node.admitted_by),
        match node.observed.online_since {
            Some(since) => format!("online     since {since}{says}"),
            None => format!("offline    last seen {}{says}", or_dash(node.observed.last_seen.as_ref())),
        },
        format!(
            "svid       until {}, serial {}{says}",
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
        lines.push(format!("ALARM      {alarm}{says}"));
        lines.extend(evidence(&node.name, node.observed.conflict.as_ref()));
    }
    lines.join("\n")
}
