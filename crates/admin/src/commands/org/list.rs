//! `freehold org list`: the orgs of this home.

use std::path::Path;

use clap::Args;
use gateway::store::folder::GatewayFolder;
use identity::principal::OrgName;
use ledger::store::Ledger;
use operate::folder::OperatorFolder;
use serde::Serialize;
use terminal::show::show;
use terminal::table::table;

use crate::home::Common;

#[derive(Debug, Args)]
pub struct List {}

#[derive(Serialize)]
struct Listed {
    name: String,
    org_id: Option<String>,
    nodes: Option<usize>,
    operator: bool,
    gateway: bool,
    serving: bool,
}

pub fn list_all(common: &Common) {
    let home = common.home();
    let listed: Vec<Listed> = common.orgs().iter().map(|org| list(&home, org)).collect();
    show(common.json, &listed, || {
        if listed.is_empty() {
            return format!("no org in `{}`; found one: freehold found NAME", home.display());
        }
        let dash = || "-".to_owned();
        let row = |org: &Listed| {
            let roles = [(org.operator, "operator"), (org.gateway, "gateway"), (org.serving, "serving")];
            let roles: Vec<_> = roles.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
            vec![
                org.name.clone(),
                org.nodes.map_or_else(dash, |nodes| nodes.to_string()),
                roles.join(" "),
                org.org_id.clone().unwrap_or_else(dash),
            ]
        };
        table(&["ORG", "NODES", "HERE", "ORG ID"], &listed.iter().map(row).collect::<Vec<_>>())
    });
}

fn list(home: &Path, org: &OrgName) -> Listed {
    let (operator, gateway) = (OperatorFolder::at(home, org), GatewayFolder::at(home, org));
    let known = operator.known().ok().map(|known| known.org().to_string());
    Listed {
        name: org.to_string(),
        org_id: known.or_else(|| gateway.about().ok().map(|about| about.org_id.to_string())),
        nodes: nodes(home, org),
        operator: operator.folder.is_dir(),
        gateway: gateway.folder.is_dir(),
        serving: matches!(gateway.lock(), Ok(None)) && gateway.serving().is_ok_and(|serving| serving.is_some()),
    }
}

/// Counted from the ledger file; reading beside a running gateway is harmless.
fn nodes(home: &Path, org: &OrgName) -> Option<usize> {
    let path = GatewayFolder::at(home, org).path("ledger.db");
    let state = Ledger::glance(&path).ok()?;
    let live = state.members.values().filter(|member| state.standing(member) != org::state::Standing::Revoked);
    Some(live.count())
}

pub fn count_nodes(home: &Path, org: &OrgName) -> String {
    match nodes(home, org) {
        Some(1) => "1 node".to_owned(),
        Some(count) => format!("{count} nodes"),
        None => "nodes unknown: its ledger is elsewhere".to_owned(),
    }
}
