//! `freehold org list`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gateway::store::folder::GatewayFolder;
use identity::principal::OrgName;
use ledger::store::Ledger;
use operate::folder::OperatorFolder;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::table;

use crate::home::{Common, During};

#[derive(Debug, Subcommand)]
pub enum OrgCommand {
    /// List the orgs of this home
    List(List),
    /// Write the org's card: everything public that a new operator starts from
    Card(CardTo),
}

impl OrgCommand {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::List(List {}) => {
                list_all(common);
                Ok(())
            }
            Self::Card(card) => card.run(common),
        }
    }
}

#[derive(Debug, Args)]
pub struct List {}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold org card --out harbor.card

No secret is in it. Whoever gets it should hear the org's id from you in another way, too.")]
pub struct CardTo {
    /// Where to write it
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Serialize)]
struct CardTold {
    file: String,
    org: String,
    org_id: String,
}

impl CardTo {
    fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not write the org's card";
        let org = common.org(doing)?;
        let folder = OperatorFolder::at(&common.home(), &org);
        let known = folder.known().during(doing)?;
        let memory = folder.memory().during(doing)?;
        let card = operate::folder::card::Card::of(&known, memory.gateways);
        card.save(&self.out).during(doing)?;
        let (file, org_id) = (self.out.display().to_string(), known.org().to_string());
        let told = CardTold { file, org: org.to_string(), org_id };
        show(common.json, &told, || format!("wrote `{}`; the org's id is {}", told.file, told.org_id));
        Ok(())
    }
}

#[derive(Serialize)]
struct Listed {
    name: String,
    org_id: Option<String>,
    nodes: Option<usize>,
    operator: bool,
    gateway: bool,
    serving: bool,
}

fn list_all(common: &Common) {
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
