//! `freehold node list`.

use clap::Args;
use ground::clock;
use ledger::views::NodeView;
use operate::session::reports;
use org::report::Applied;
use org::state::Standing;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::{or_dash, table};

use crate::commands::node::listed::{Listed, state};
use crate::home::{Common, During};

#[derive(Debug, Args)]
pub struct List {}

impl List {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the nodes";
        let mut session = common.session(doing).await?;
        let nodes = operate::node::all(&mut session).await.during(doing)?;
        let reports = &mut reports::reports_known(&mut session).await.during(doing)?;
        let nodes: Vec<Listed> = nodes.into_iter().map(|node| Listed::of(node, reports, &session)).collect();
        show(common.json, &nodes, || {
            let row = |listed: &Listed| {
                let node = &listed.node;
                vec![
                    node.name.to_string(),
                    state(node).to_owned(),
                    applied(listed).to_owned(),
                    online(node),
                    or_dash(node.observed.svid_expires_at.as_ref()),
                    node.enrolled_at.to_string(),
                    remark(listed),
                ]
            };
            let rows: Vec<_> = nodes.iter().map(row).collect();
            let [seen, until] = match session.according_to() {
                Some(_) => ["ONLINE*", "SVID UNTIL*"],
                None => ["ONLINE", "SVID UNTIL"],
            };
            let told = table(&["NODE", "STATE", "MANIFEST", seen, until, "ENROLLED", ""], &rows);
            let says = session.according_to().map(|gateway| format!("\n* says the gateway `{gateway}`"));
            told + &says.unwrap_or_default()
        });
        Ok(())
    }
}

/// Since when it is connected, or when it last was.
fn online(node: &NodeView) -> String {
    match (node.observed.online_since, node.observed.last_seen) {
        (Some(since), _) => format!("since {since}"),
        (None, Some(last)) => format!("no, last {last}"),
        (None, None) => "-".to_owned(),
    }
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
