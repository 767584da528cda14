//! `freehold-node status`: from the running agent, or from disk.

use clap::Args;

use crate::agent::status::Status as NodeStatus;
use crate::commands::roots::Common;
use crate::report::{Failure, show};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node status
  freehold-node status --json | jq .svid_expires_at")]
pub struct Status {}

impl Status {
    pub fn run(&self, common: &Common) -> Result<(), Failure> {
        let doing = "could not tell the status";
        let scope = common.scope(doing)?;
        let status = match NodeStatus::from_agent(&scope) {
            Some(status) => status,
            None => NodeStatus::from_disk(&scope).map_err(|why| Failure::new(doing, &why))?,
        };
        show(common.json, &status, || in_words(&status));
        Ok(())
    }
}

fn in_words(status: &NodeStatus) -> String {
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
        (false, _) => lines.push("agent     not running; start it: freehold-node run".to_owned()),
    }
    if let Some(problem) = &status.problem {
        lines.push(format!("problem   {problem}"));
    }
    lines.join("\n")
}
